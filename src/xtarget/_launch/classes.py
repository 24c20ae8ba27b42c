"""Classes of calls: what was bound for one call serves others that differ in sizes only.

A plan is run once, on symbolic sizes (`_values.symbols`). It leaves guards, expressions, and loaded
functions. For other sizes of the same class the guards are checked and the expressions computed;
then the call is bound. Only sizes for which no entry's guards hold are planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from .._arrays import read_in_place
from .._compile.functions import function
from .._compile.residency import FunctionKey
from .._values.programs import Program
from .._values.symbols import Tracer
from .._values.value_classes import value_class
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device, Stream, Value
from .call import BoundCall
from .forms import Form, LoadedLaunch, sized
from .outs import Outs
from .passing import Chained, Passing, passing_of

__all__ = [
    "CallClass",
    "Classes",
    "Late",
    "Layouts",
    "Unloaded",
    "layouts_of",
    "lift",
]

#: Entries of a class. A plan that asks for numbers needs one for each of them, so that a class that
#: is full without having served anything is given up: its calls are planned one by one.
_MOST_ENTRIES = 32
_MOST_CLASSES = 2048
_PLAIN = {int}

_Shape = tuple[int, ...]


@value_class(frozen=True, slots=True)
class Layouts:
    """The arrays of a call, apart from what is the same for all calls of the class.

    Attributes:
        key: of the class.
        shapes: of the arrays in their order, that of `out` last.
        strides: in elements; None: the array is contiguous.
        sizes: all numbers of both, in one row.
    """

    key: Hashable
    shapes: tuple[_Shape, ...]
    strides: tuple[_Shape | None, ...]
    sizes: tuple[int, ...]


def layouts_of(known: Sequence[Hashable], arrays: Sequence[Any], more: Hashable) -> Layouts | None:
    """The layouts of a call; None: one of its arrays' libraries cannot tell numbers.

    Args:
        known: the call's key: kernel, device, and what was described of each of `arrays`.
        arrays: the arguments, numbers too, and `out` (also `Outs`) if there is one.
        more: what else the class depends on.
    """
    key: list[Hashable] = [*known[:2], more]
    shapes: list[_Shape] = []
    strides: list[_Shape | None] = []
    sizes: list[int] = []
    for array, part in _one_by_one(arrays, known[2:]):
        kind = read_in_place(type(array))
        if kind is None:  # a number
            key.append(part)
            continue
        found = kind.layout(part)
        if found is None:
            return None
        rest, shape, steps = found
        if steps is not None and ArrayType("uint8", shape, steps).contiguous:
            steps = None  # also where the stride of a dimension of length 1 is another one
        key.append((type(array), rest, len(shape), steps is None))
        shapes.append(shape)
        strides.append(steps)
        sizes += shape
        if steps is not None:
            sizes += steps
    if not set(map(type, sizes)) <= _PLAIN:  # a tracer's: torch.jit.trace gives tensors
        return None
    key += known[2 + len(arrays) :]
    return Layouts(tuple(key), tuple(shapes), tuple(strides), tuple(sizes))


def _one_by_one(arrays: Sequence[Any], parts: Sequence[Hashable]) -> Iterator[tuple[Any, Hashable]]:
    """Each array with what was described of it, those for several outputs too."""
    for array, part in zip(arrays, parts, strict=False):
        if type(array) is Outs:
            described: Any = part
            yield from ((one, own) for one, (_, own) in zip(array, described, strict=True))
        else:
            yield array, part


def lift(tracer: Tracer, name: str, type_: ArrayType, contiguous: bool) -> ArrayType:
    """A layout whose sizes and strides are symbols, in the order of `Layouts.sizes`."""
    shape = tuple(
        tracer.symbol(f"{name}.shape[{axis}]", length, least=0)
        for axis, length in enumerate(type_.shape)
    )
    if contiguous:
        return replace(type_, shape=shape, strides=contiguous_strides(shape))
    strides = tuple(
        tracer.symbol(f"{name}.strides[{axis}]", step) for axis, step in enumerate(type_.strides)
    )
    return replace(type_, shape=shape, strides=strides)


@value_class(frozen=True, slots=True)
class Unloaded:
    """The launches of a class, without its functions."""

    device: Device
    form: Form
    passing: Passing | Chained | None
    _keys: list[FunctionKey] = field(default_factory=list, compare=False, repr=False)

    def launches(self) -> tuple[LoadedLaunch, ...]:
        """The launches, with their functions loaded.

        Raises:
            XTargetError: they cannot be.
        """
        if not self._keys:  # a hash of a request takes long
            name = self.device.info.name
            self._keys[:] = [FunctionKey(name, launch.request) for launch in self.form.launches]
        return tuple(
            [
                replace(launch, function=function(self.device, launch.request, key))
                for launch, key in zip(self.form.launches, self._keys, strict=True)
            ]
        )


class Late:
    """The launcher of the calls of a class, prepared when it is needed: the core does without."""

    def __init__(self, unloaded: Unloaded, launches: tuple[LoadedLaunch, ...]) -> None:
        self._unloaded, self._launches = unloaded, launches
        self._start: Any = None

    def __call__(self, numbers: Any, values: Sequence[Value], stream: Stream) -> None:
        self._prepared()(numbers, values, stream)

    def rest(self, first: int, numbers: Any, values: Sequence[Value], stream: Stream) -> None:
        """As `SizedChain.rest`."""
        self._prepared().rest(first, numbers, values, stream)

    def _prepared(self) -> Any:
        if self._start is None:
            assert self._unloaded.passing is not None
            self._start = self._unloaded.passing.again(self._launches).start
        return self._start


class CallClass:
    """One set of guards, with what serves all calls for which they hold.

    Attributes:
        call: the call that it was made for.
        unloaded: what it launches, without its functions.
        guards: the conditions, as text.
        served: calls that it has served.
    """

    def __init__(self, call: BoundCall, form: Form, tracer: Tracer, numbers: Any, types: Any):
        self.call, self.guards = call.unloaded(), tracer.guards()
        self.served = 0
        self._program: Program = tracer.compile(numbers)
        self._types = types
        self._tracer: Tracer | None = tracer
        self._types_program: Program | None = None
        passing = passing_of(self.call, form, tracer, numbers)
        #: What launches; None: it was unloaded.
        self._loaded: tuple[Form, Passing | Chained | None] | None = (form, passing)
        bare = tuple(replace(launch, function=None) for launch in form.launches)
        self.unloaded = Unloaded(
            self.call.device, replace(form, launches=bare), passing and passing.unloaded()
        )

    @property
    def loaded(self) -> bool:
        """Whether it holds functions."""
        return self._loaded is not None

    def unload(self, functions: Collection[int]) -> None:
        """Let go of functions, which the next call loads again.

        Args:
            functions: the `id` of each.
        """
        loaded = self._loaded
        if loaded and any(id(launch.function) in functions for launch in loaded[0].launches):
            self._loaded = None

    def _load_again(self) -> tuple[Form, Passing | Chained | None]:
        """Raises XTargetError: the functions cannot be loaded."""
        form, launches = self.unloaded.form, self.unloaded.launches()
        passing = self.unloaded.passing
        if passing is not None:
            passing = passing.again(launches)
        self._loaded = loaded = replace(form, launches=launches), passing
        return loaded

    def passing(self, sizes: tuple[int, ...]) -> Passing | Chained | None:
        """The launcher for calls of these sizes; None: they take more than that, or are of another
        class."""
        _, passing = self._loaded or self._load_again()
        return passing if passing is not None and passing.program(sizes) is not None else None

    @property
    def tracer(self) -> Tracer | None:
        """The tracer, which knows the guards that fail for other sizes."""
        return self._tracer

    def at(self, sizes: tuple[int, ...], *, once: bool = False) -> BoundCall | None:
        """The call for other sizes; None: it is of another class.

        Args:
            once: it is not going to come again soon.
        """
        form, passing = self._loaded or self._load_again()
        if once and passing is not None:
            numbers = passing.program(sizes)
            if numbers is None:
                return None
            self.served += 1
            return passing.at(numbers, partial(self._types_at, sizes))
        numbers = self._program(sizes)
        if numbers is None:
            return None
        self.served += 1
        return self.call.resized(sized(form, numbers, partial(self._types_at, sizes)))

    def _types_at(self, sizes: tuple[int, ...]) -> Any:
        program = self._types_program
        if program is None:
            assert self._tracer is not None
            program = self._types_program = self._tracer.compile(self._types)
        return program(sizes)


class Classes:
    """The classes of a process's calls."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, list[CallClass]] = {}
        self._given_up: set[Hashable] = set()

    def find(self, layouts: Layouts, *, once: bool = False) -> BoundCall | None:
        """The call that one of the class's entries gives for these sizes."""
        for entry in self._entries.get(layouts.key, ()):
            if not entry.call.checks or all(holds() for holds in entry.call.checks):
                found = entry.at(layouts.sizes, once=once)
                if found is not None:
                    return found
        return None

    def passing(self, layouts: Layouts) -> tuple[Passing | Chained, Unloaded] | None:
        """The launcher for these calls, for a caller that launches by itself from now on, and what
        it is made of when its functions were unloaded."""
        for entry in self._entries.get(layouts.key, ()):
            if all(holds() for holds in entry.call.checks):
                found = entry.passing(layouts.sizes)
                if found is not None:
                    entry.served += 1
                    return found, entry.unloaded
        return None

    def tracers(self, layouts: Layouts | None) -> list[Tracer]:
        """The guards of the class's entries."""
        entries = [] if layouts is None else self._entries.get(layouts.key, [])
        return [entry.tracer for entry in entries if entry.tracer is not None]

    def wanted(self, layouts: Layouts) -> bool:
        """Whether it is worth tracing a plan for these."""
        return layouts.key not in self._given_up

    def add(self, layouts: Layouts, entry: CallClass) -> None:
        if layouts.key not in self._entries and len(self._entries) >= _MOST_CLASSES:
            for oldest in list(self._entries)[: _MOST_CLASSES // 2]:
                self._entries.pop(oldest, None)
            self._given_up.clear()
        entries = self._entries.get(layouts.key, [])
        if len(entries) >= _MOST_ENTRIES:
            if not any(one.served for one in entries):
                self._given_up.add(layouts.key)
                self._entries.pop(layouts.key, None)
                return
            entries = sorted(entries, key=lambda one: -one.served)[: _MOST_ENTRIES // 2]
        # who looks meanwhile has a list that does not change
        self._entries[layouts.key] = [entry, *entries]

    def unload(self, functions: Collection[int]) -> None:
        """Let go of functions (`CallClass.unload`)."""
        for entries in list(self._entries.values()):
            for entry in entries:
                if entry.loaded:
                    entry.unload(functions)

    def drop(self, unwanted: Callable[[CallClass], bool]) -> None:
        """Forget entries."""
        for key, entries in list(self._entries.items()):
            left = [entry for entry in entries if not unwanted(entry)]
            if len(left) != len(entries):
                self._entries[key] = left

    def entries(self) -> list[CallClass]:
        return [entry for entries in list(self._entries.values()) for entry in entries]
