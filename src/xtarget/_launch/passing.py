"""Calls of a class that are bound for one time: launched with the numbers that its program gives.

Preparing a launch for a grid of its own costs more than starting it; that is for calls that come
again. `Passing` is a call that is nothing but one launch; `Chained` takes more launches, memory
between them, and values in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .._values.programs import IntegerProgram, Program
from .._values.symbols import SymInt, Tracer
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets._objects.scalars import NEAREST
from ..targets.base import Function, Stream, Value
from ..targets.optional import GridLaunch, PreparesGrids
from .call import BoundCall
from .forms import Form, LoadedLaunch, overlaps_of
from .sized import BoundLaunch
from .staging import side_by_side
from .updates import limits_of

__all__ = ["Chained", "Passing", "passing_of"]


def passing_of(
    call: BoundCall, form: Form, tracer: Tracer, numbers: Any
) -> Passing | Chained | None:
    """The launcher for calls of a class; None for calls that take more than that.

    Args:
        numbers: as `sized` takes them, with symbols.
    """
    if not call.launches_only or any(
        not isinstance(launch.function, PreparesGrids) or launch.loaded.artifact.cooperative
        for launch in form.launches
    ):
        return None
    kind = Passing if call.plain else Chained  # `plain`: nothing is filled
    return kind.of(call, form, tracer, numbers)


def _started(loaded: LoadedLaunch, fixed: Sequence[Value | None]) -> GridLaunch:
    function = loaded.loaded
    assert isinstance(function, PreparesGrids)
    return function.prepare_grids(fixed)


def _limits(call: BoundCall, form: Form, spans: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
    """The arrays written in place, each with one that it must not overlap: `Limits` of each
    pair."""
    updates = [index for index, _ in call.updated]
    return tuple(limits_of(updates, dict(zip(form.spans, spans, strict=True))))


def _types(dtypes: Sequence[str], layouts: Sequence[Any]) -> tuple[ArrayType, ...]:
    return tuple([ArrayType(dtype, *layout) for dtype, layout in zip(dtypes, layouts, strict=True)])


@value_class(frozen=True, slots=True)
class Passing:
    """Calls that are nothing but one launch.

    Attributes:
        call: one of them.
        dtypes: of the results.
        order: of the launch's values that are none of the sizes: their places in the call's.
        fixed: the launch's parameters; None: it is given at each launch.
        places: for each of those, its place in the call's values followed by the sizes.
        leading: that is their order.
        halves: `LoadedLaunch.halves`.
        start: launches; None where the function is not loaded.
        spans: the places whose spans are given.
        steps: gives the results' layouts, the grid, the sizes, the limits of overlaps, those of
            what is written in place (`updates.limits_of`), and the spans.
        program: the same in Python.
    """

    call: BoundCall
    dtypes: tuple[str, ...]
    order: tuple[int, ...]
    fixed: Sequence[Value | None]
    places: Sequence[int]
    leading: bool
    halves: tuple[tuple[int, str], ...]
    function: Function | None
    start: GridLaunch | None
    spans: tuple[int, ...]
    steps: IntegerProgram
    program: Program

    @classmethod
    def of(cls, call: BoundCall, form: Form, tracer: Tracer, numbers: Any) -> Passing:
        loaded = form.launches[0]
        outputs, _, ((grid, values, _),), overlaps, spans, _ = numbers
        places: list[int] = []
        sizes: list[Any] = []
        for value in values:
            if value is None:
                places.append(len(places) - len(sizes))
            elif type(value) is SymInt:
                places.append(len(loaded.order) + len(sizes))
                sizes.append(value)
        fixed = [None if type(value) is SymInt else value for value in values]
        limits = _limits(call, form, spans)
        steps = tracer.program((outputs, grid, tuple(sizes), overlaps, limits, spans))
        bare = cls(
            call=call,
            dtypes=form.outputs,
            order=loaded.order,
            fixed=fixed,
            places=places,
            leading=places == list(range(len(places))),
            halves=loaded.halves,
            function=None,
            start=None,
            spans=form.spans,
            steps=steps,
            program=steps.function(),
        )
        return bare.again(form.launches)

    def again(self, launches: Sequence[LoadedLaunch]) -> Passing:
        """The same with its function loaded again."""
        start, places = _started(launches[0], self.fixed), list(self.places)
        halves = [(places.index(i), NEAREST[dtype]) for i, dtype in self.halves]
        if not halves:
            return replace(self, function=launches[0].function, start=start)

        def rounding(grid: tuple[int, int, int], values: Sequence[Value], stream: Stream) -> None:
            own = list(values)
            for place, nearest in halves:
                own[place] = nearest(own[place])
            start(grid, own, stream)

        return replace(self, function=launches[0].function, start=rounding)

    def unloaded(self) -> Passing:
        """The same without its function, for `again` alone."""
        return replace(self, function=None, start=None)

    def at(self, numbers: Any, types: Callable[[], Any]) -> BoundCall:
        """The call with what its program gave."""
        outputs, grid, sizes, overlaps, _, spans = numbers
        start, places = self.start, self.places
        assert start is not None

        def leading(values: Sequence[Value], stream: Stream) -> None:
            start(grid, (*values, *sizes), stream)

        def picking(values: Sequence[Value], stream: Stream) -> None:
            given = (*values, *sizes)
            start(grid, [given[place] for place in places], stream)

        launch = leading if self.leading else picking
        return self.call.with_launch(
            BoundLaunch(launch, self.order, (), self.function, grid),
            _types(self.dtypes, outputs),
            overlaps_of(overlaps, types),
            dict(zip(self.spans, spans, strict=True)),
        )


@value_class(frozen=True, slots=True)
class _Link:
    """A launch of a chain.

    Attributes:
        fixed: as `Passing.fixed`.
        grid: where its grid is among the numbers.
        picks: for each parameter that is given, its place in the call's values, the chain's memory,
            and the numbers, in one row.
        halves: place in `picks`, and the dtype that a number is rounded to.
    """

    fixed: Sequence[Value | None]
    grid: int
    picks: Sequence[int]
    halves: Sequence[tuple[int, str]]


class SizedChain:
    """All that calls of a class start, as one function of numbers, values and stream."""

    def __init__(
        self,
        call: BoundCall,
        pieces: int,
        filled: int,
        links: Sequence[tuple[GridLaunch, int, Sequence[int], Sequence[tuple[int, Any]]]],
    ) -> None:
        """Take what `Chained` has.

        Args:
            links: what launches, where its grid is among the numbers, what it picks, and what
                rounds some of that.
        """
        self._call, self._links, self._pieces = call, links, pieces
        self._filled, self._first = filled, call.takes - filled

    def __call__(self, numbers: Sequence[int], values: Sequence[Value], stream: Stream) -> None:
        call, pieces = self._call, self._pieces
        if self._filled:
            sizes = numbers[pieces : pieces + self._filled]
            call.filling.fill(values[self._first :], sizes, stream)
        if not pieces:
            self.rest(0, numbers, values, stream)
            return
        total, offsets = side_by_side(numbers[:pieces])
        room = call.memory(total, stream)
        try:
            places = [room.address + at for at in offsets]
            call.clearing.fill(places, numbers, stream)
            self.rest(0, numbers, [*values, *places], stream)
            call.done_with(room, stream)
        finally:
            room.close()

    def rest(
        self, first: int, numbers: Sequence[int], values: Sequence[Value], stream: Stream
    ) -> None:
        """Start the launches from one on, as `Chain.rest` does."""
        row: Any = [*values, *numbers]
        for launch, at, picks, halves in self._links[first:]:
            given = [row[place] for place in picks]
            for place, nearest in halves:
                given[place] = nearest(given[place])
            launch(tuple(numbers[at : at + 3]), given, stream)  # type: ignore[arg-type]  # three of them


@value_class(frozen=True, slots=True)
class Chained:
    """Calls that are launches one after the other.

    Attributes:
        call, dtypes, spans, steps, program: as `Passing` has them. The sizes are here the bytes of
            the memory that the launches use, those of what is filled before them, then grid and
            sizes of each launch.
        takes: how many values a call has: its arguments, and the outputs.
        pieces: how many pieces of memory the launches use.
        filled: how many outputs there are, if some are filled.
        functions: of the links; empty where they are not loaded.
        start: takes numbers, values, and the stream.
    """

    call: BoundCall
    dtypes: tuple[str, ...]
    takes: int
    pieces: int
    filled: int
    links: tuple[_Link, ...]
    functions: tuple[Function | None, ...]
    start: SizedChain | None
    spans: tuple[int, ...]
    steps: IntegerProgram
    program: Program

    @classmethod
    def of(cls, call: BoundCall, form: Form, tracer: Tracer, numbers: Any) -> Chained:
        outputs, _, launches, overlaps, spans, nbytes = numbers
        sizes: list[Any] = list(nbytes)
        for _, _, scratch in launches:
            sizes += scratch
        pieces, takes, used = len(sizes), call.takes, len(nbytes)
        if call.filling:
            made = _types(form.outputs, outputs)
            sizes += [type_.size * type_.itemsize for type_ in made]
        filled = len(sizes) - pieces
        links = []
        for loaded, (grid, values, scratch) in zip(form.launches, launches, strict=True):
            at = len(sizes)
            sizes += grid
            picks: list[int] = []
            given: list[int] = []  # for each of `order`, its place in `picks`
            order = iter(loaded.order)
            for value in values:
                if value is None:
                    index = next(order)
                    given.append(len(picks))
                    picks.append(index if index >= 0 else takes + used - 1 - index)
                elif type(value) is SymInt:
                    picks.append(takes + pieces + len(sizes))
                    sizes.append(value)
            used += len(scratch)
            fixed = [None if type(value) is SymInt else value for value in values]
            halves = [(given[place], dtype) for place, dtype in loaded.halves]
            links.append(_Link(fixed, at, picks, halves))
        limits = _limits(call, form, spans)
        steps = tracer.program((outputs, (1, 1, 1), tuple(sizes), overlaps, limits, spans))
        bare = cls(
            call=call,
            dtypes=form.outputs,
            takes=takes,
            pieces=pieces,
            filled=filled,
            links=tuple(links),
            functions=(),
            start=None,
            spans=form.spans,
            steps=steps,
            program=steps.function(),
        )
        return bare.again(form.launches)

    def again(self, launches: Sequence[LoadedLaunch]) -> Chained:
        """The same with its functions loaded again."""
        ready = [
            (
                _started(loaded, link.fixed),
                link.grid,
                link.picks,
                [(place, NEAREST[dtype]) for place, dtype in link.halves],
            )
            for loaded, link in zip(launches, self.links, strict=True)
        ]
        start = SizedChain(self.call, self.pieces, self.filled, ready)
        functions = tuple(loaded.function for loaded in launches)
        return replace(self, functions=functions, start=start)

    def unloaded(self) -> Chained:
        """The same without its functions, for `again` alone."""
        return replace(self, functions=(), start=None)

    def at(self, numbers: Any, types: Callable[[], Any]) -> BoundCall:
        """The call with what its program gave."""
        outputs, _, sizes, overlaps, _, spans = numbers
        start = self.start
        assert start is not None

        def launch(values: Sequence[Value], stream: Stream) -> None:
            start(sizes, values, stream)

        return self.call.with_launch(
            BoundLaunch(launch, tuple(range(self.takes)), ()),
            _types(self.dtypes, outputs),
            overlaps_of(overlaps, types),
            dict(zip(self.spans, spans, strict=True)),
        )
