"""`xtarget.fuse`: a function over operators of the catalog, as few launches."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, overload

from .._arrays import is_scalar, view_of
from .._compile import functions
from .._devices import registry
from .._devices.choice import default_device
from .._kernels import libraries, plan_values
from .._launch.arguments import deferred_among
from .._launch.compiling import compile as compile_call
from .._system.locks import Lock
from .._values import environment
from .._values.errors import ArgumentError, XTargetError, shortened
from .._values.types import Artifact, Target
from ..spec import ArrayType, Example, KernelSpec, ScalarType
from . import attended_scores
from .expansions import expansion_of
from .given import ahead_arguments, hashable, is_static, layout_key, outs_of
from .launches import (
    PREFIX,
    Program,
    layouts_of,
    only,
    operands_of,
    program_of,
    stand_in,
    told,
)
from .nodes import Value
from .picks import takes_indices
from .running import OtherRows, execute, replay, seen_of
from .scores import not_moved
from .traced import NumberAsked, Traced
from .tracing import Tracer, signature_of
from .views import through_views

__all__ = ["Fused", "fuse"]

#: Traces of one function.
_MOST_TRACES = 256
_all: weakref.WeakSet[Fused] = weakref.WeakSet()


class Fused:
    """A function over operators of the catalog that runs as few launches: `xtarget.fuse` makes it.

    It is traced once for each combination of the arguments' dtypes and numbers of dimensions: for
    other sizes it is not traced again, unless it asks for a shape. What it gives is what it would
    give unfused: each result is rounded to its dtype, also one that is not written to memory. Sums
    over a row may be added in another order.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any], ahead: Iterable[Example] = ()) -> None:
        self.ahead = tuple(ahead)
        self._signature = signature_of(function)
        parameters = self._signature.parameters.values()
        self._positional = all(one.kind is not one.KEYWORD_ONLY for one in parameters)
        self._function = function
        self._traces: dict[Hashable, Program] = {}
        self._warm: dict[Hashable, Program] = {}  # of calls that were made, by `seen_of`
        self._static: frozenset[int] = frozenset()
        self._by_shape, self._by_rows = False, 0  # of what a trace holds for: `layout_key`
        self._lock = Lock()
        functools.update_wrapper(self, function)
        _all.add(self)

    def __call__(
        self, *args: Any, out: Any = None, device: Any = None, stream: Any = None, **named: Any
    ) -> Any:
        """Run it.

        Args:
            args, named: the function's arguments: arrays as of `xtarget.run`, numbers, and what
                else the function takes (text, switches), which is part of what is compiled.
            out: an array for the result, or a tuple of them for several.
            device, stream: as of `xtarget.run`.

        Returns:
            what the function returns, with arrays in the place of what it computes.

        Raises:
            ArgumentError: the function cannot be traced; the message names the line.
            XTargetError: as of `xtarget.run`.
        """
        if not named:
            program = self._warm.get(seen_of(args))
            if program is not None and program.holds():
                return replay(self.__name__, program, args, out, device, stream)
        values = self._bound(args, named)
        if deferred_among(values) is not None:  # called by a function that is being traced
            return self._function(*args, **named)
        while True:
            program = self._program(values, device, runs=True)
            outs = outs_of(self.__name__, program, out, values)
            try:
                made = execute(program, values, outs, device, stream)
            except OtherRows:  # nothing of the caller's is changed yet that is not written again
                if self._by_shape:
                    raise
                self._by_shape = True
            else:
                break
        if not named and len(args) == len(values):
            self._remember(args, program)
        return made

    @property
    def function(self) -> Callable[..., Any]:
        """The Python function that was fused."""
        return self._function

    def operators(
        self, *args: Any
    ) -> tuple[
        list[tuple[KernelSpec, tuple[ArrayType, ...], Mapping[str, Any], ArrayType]],
        tuple[ArrayType, ...],
    ]:
        """The operators of a call, each with the layouts of its arrays, its options and the layout
        of its first result; and the layouts of the call's results."""
        values = self._bound(args, {})
        self._program(values)
        program = self._trace(values)
        listed: list[tuple[KernelSpec, tuple[ArrayType, ...], Mapping[str, Any], ArrayType]] = [
            (
                node.spec,
                tuple(type_ for type_ in node.types if isinstance(type_, ArrayType)),
                {**node.spec.options, **node.options},
                node.plan.outputs[0],
            )
            for node in program.operators
        ]
        made: dict[int, ArrayType] = {}
        for launch in program.launches:
            outputs = [node.plan.outputs[index] for node, index in launch.section.results]
            made |= dict(zip(launch.places, outputs, strict=True))
        missing = [place for place in program.returned if place not in made]
        if missing:
            raise ArgumentError(f"{self.__name__} returns an argument as it is. Leave it out.")
        return listed, tuple(made[place] for place in program.returned)

    def explain(self, *args: Any, target: str | Target | None = None, **named: Any) -> str:
        """A report of a call: its launches, the operators of each, the bytes that fusing saves, and
        the compiler's numbers.

        Args:
            args, named: as of a call.
            target: to compile for (`nvidia:sm_90`); without it, the device that would run the
                call, unless that is a CPU.
        """
        values = self._bound(args, named)
        self._program(values)
        goal = self._target(values, None) if target is None else Target.parse(target)
        program = self._trace(values, goal)  # of these sizes
        fused = [launch for launch in program.launches if launch.text]
        lines = [
            f"{self.__name__}. Operators: {len(program.operators)}. "
            f"Launches: {len(program.launches)}, of which {len(fused)} are fused. "
            "Bytes that are not moved: "
            f"{sum(not_moved(launch.section) for launch in fused):,}."
        ]
        for number, launch in enumerate(program.launches, 1):
            first, *rest = told(launch, goal, program.compiled.get(launch.kernel, ()))
            lines += [f"{number}. {first}", *rest]
        names = list(self._signature.parameters)
        lines += [
            f"{names[index]} is part of the code: the function asks for its value"
            for index in sorted(self._static)
        ]
        if self._by_shape:
            lines.append(
                "The function asks for a shape, or the lengths of its rows differ by call: "
                "it is traced for each shape."
            )
        return "\n".join(lines)

    def compile(
        self, *args: Any, target: str | Target, keep_stages: bool = False, **named: Any
    ) -> tuple[Artifact, ...]:
        """Compile what a call launches, for a target that need not be here (`xtarget.compile`).

        Args:
            args, named: as of a call.

        Returns:
            the binaries of all launches, in their order.
        """
        values = self._bound(args, named)
        self._program(values)
        found: list[Artifact] = []
        for launch in self._trace(values, Target.parse(target)).launches:
            given = [stand_in(own, values) for own in operands_of(launch)]
            options = launch.options
            found += compile_call(
                launch.kernel, *given, target=target, keep_stages=keep_stages, **options
            )
        return tuple(found)

    def ahead_calls(
        self, dtype: str
    ) -> list[tuple[str, tuple[ArrayType | ScalarType, ...], Mapping[str, Any]]]:
        """The launches of its examples (`ahead`) on arrays of a dtype, to be built ahead: names
        of kernels, layouts of their arguments, options.

        Raises:
            ArgumentError: it has no examples, or the function cannot be traced for one. (That it
                takes no lengths beside the example's is not an error.)
        """
        if not self.ahead:
            raise ArgumentError(
                f"{self.__name__} does not say for which calls it is built ahead of time. Give "
                "some: @xtarget.fuse(ahead=[xtarget.spec.Example(((4096, 1024), (1024,)))])."
            )
        found = []
        for example in self.ahead:
            for arguments, own in ahead_arguments(example, dtype):
                values = self._bound(arguments, example.options)
                try:
                    self._program(values)
                    program = self._trace(values)  # of these lengths
                except ArgumentError:
                    if own:
                        raise
                    continue  # the function takes no such lengths
                for launch in program.launches:
                    found.append((launch.kernel, layouts_of(launch), launch.options))
        return found

    def _bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The function's arguments, in order."""
        if not named and self._positional and len(args) == len(self._signature.parameters):
            return list(args)
        try:
            bound = self._signature.bind(*args, **named)
        except TypeError as error:
            raise ArgumentError(f"{self.__name__}{self._signature}: {error}.") from None
        bound.apply_defaults()
        return [bound.arguments[name] for name in self._signature.parameters]

    def _program(self, values: list[Any], device: Any = None, *, runs: bool = False) -> Program:
        """The launches for such arguments.

        Args:
            device: of the call.
            runs: they are run next, so that they may be compiled now.
        """
        while True:
            try:
                program = self._traces.get(self._key(values))
            except TypeError:
                raise ArgumentError(
                    f"{self.__name__} takes arrays, numbers, and text; not "
                    f"{', '.join(shortened(v) for v in values if not hashable(v))}."
                ) from None
            if program is not None and program.holds():
                return program
            with self._lock:
                try:
                    made = self._traced(values)
                except NumberAsked as number:
                    self._static |= {number.index}
                    continue
                program = made(None)
                if runs and any(launch.text for launch in program.launches):
                    goal = self._target(values, device)
                    program = program if goal is None else made(goal)
                if len(self._traces) >= _MOST_TRACES:
                    self._traces.clear()
                self._traces[self._key(values)] = program  # by what it turned out to hold for
                return program

    def _remember(self, args: tuple[Any, ...], program: Program) -> None:
        """Have the next call with such arrays run the same launches."""
        if self._traces.get(self._key(args)) is not program:  # something was replaced meanwhile
            return
        if self._static.isdisjoint(i for i, value in enumerate(args) if is_scalar(value)):
            key = seen_of(args, learn=True)
            if key is not None:
                if len(self._warm) >= _MOST_TRACES:
                    self._warm.clear()
                self._warm[key] = program

    def _key(self, values: Sequence[Any]) -> Hashable:
        """The key by which traces of the function are kept."""
        asked = self._by_shape, self._by_rows
        return (asked, self._static, *map(self._part, range(len(values)), values))

    def _part(self, index: int, value: Any) -> Hashable:
        """The part of an argument that decides how the function is traced."""
        if self._is_part(index, value):
            return type(value), value, repr(value)  # 0.0 is equal to -0.0, and (1,) to (True,)
        return layout_key(value, by_shape=self._by_shape, by_rows=self._by_rows)

    def _is_part(self, index: int, value: Any) -> bool:
        """Whether an argument's value is part of what is computed."""
        return is_static(value) or (index in self._static and is_scalar(value))

    def _target(self, values: Sequence[Any], device: Any) -> Target | None:
        """The target of a call; None for a CPU, whose compilers do not report registers, and for a
        call that a bundle serves as it is."""
        arrays = [value for value in values if not is_static(value) and not is_scalar(value)]
        places = {view_of(array).place for array in arrays} - {None}
        if len(places) > 1 or environment.compile_mode() == "error" or functions.has_bundles():
            return None
        name = next(iter(places), None)
        if name is None:
            name = default_device() if device is None else registry.find_device(device)
        info = registry.open_device(name).info
        return None if info.host_memory else info.target

    def _trace(self, values: list[Any], target: Target | None = None) -> Program:
        return self._traced(values)(target)

    def _traced(self, values: list[Any]) -> Callable[[Target | None], Program]:
        """The function, traced: what gives its launches, for a target whose compiler is asked."""
        tracer = Tracer(self._function.__code__)
        stands = [
            value if self._is_part(index, value) else tracer.argument(value, index)
            for index, value in enumerate(values)
        ]
        given = dict(zip(self._signature.parameters, stands, strict=True))
        positional = [
            given.pop(name)
            for name, parameter in self._signature.parameters.items()
            if parameter.kind is not parameter.KEYWORD_ONLY
        ]
        reads = plan_values.Reads(self._function)
        try:
            returned = self._function(*positional, **given)
        except XTargetError as error:
            raise tracer.told(error) from error.__cause__
        except TypeError as error:
            refusal = tracer.told_of_others(error)
            if refusal is None:
                raise
            raise refusal from error
        results, form = self._results(returned)
        del returned, stands, given, positional
        tracer.check_kept()
        attended_scores.check_within(tracer.nodes, results, tracer.line())
        reads.leave_own()
        graph = through_views(tracer.nodes, results)
        folds = any(expansion_of(node) is not None for node in graph.nodes)
        self._by_rows |= folds + 2 * graph.across
        conditions = [reads.holds]
        if tracer.has_numbers:
            conditions.append(tracer.holds)
        if any(takes_indices(node) for node in tracer.nodes):
            checked = environment.check_indices()
            conditions.append(lambda: environment.check_indices() == checked)
        holds = reads.holds if len(conditions) == 1 else lambda: all(one() for one in conditions)
        self._by_shape |= tracer.reads_shapes or graph.by_shape

        def made(target: Target | None) -> Program:
            nodes = tuple(tracer.nodes)
            program = program_of(graph, len(values), nodes, form, holds, target)
            rows = [axes for launch in program.launches for _, _, axes in launch.rows]
            self._by_shape |= None in rows
            return program

        return made

    def _results(self, returned: Any) -> tuple[list[Value], Callable[[Sequence[Any]], Any]]:
        several = isinstance(returned, tuple | list)
        found = []
        for value in returned if several else (returned,):
            if not isinstance(value, Traced) or not isinstance(value.stands, Value):
                raise ArgumentError(
                    f"{self.__name__} returns {shortened(value)}, which is not computed from its "
                    "arrays. A fused function returns an array, or a tuple of arrays."
                )
            found.append(value.stands)
        form: Callable[[Sequence[Any]], Any] = type(returned) if several else only
        return found, form

    def forget(self) -> None:
        """Trace the function again at its next call."""
        self._traces.clear()
        self._warm.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<xtarget.Fused {self.__name__}{self._signature}>"


@overload
def fuse(function: Callable[..., Any], /, *, ahead: Iterable[Example] = ()) -> Fused: ...
@overload
def fuse(*, ahead: Iterable[Example]) -> Callable[[Callable[..., Any]], Fused]: ...
def fuse(
    function: Callable[..., Any] | None = None, /, *, ahead: Iterable[Example] = ()
) -> Fused | Callable[[Callable[..., Any]], Fused]:
    """Make a function over operators of the catalog run as few launches; a decorator.

        @xtarget.fuse
        def bias_gelu(x, bias, residual):
            return xtarget.run("gelu", x + bias) + residual

    Within it the operators of Python, NumPy's ufuncs and `xtarget.run` on the arguments are noted
    instead of computed. Chains of elementwise operators, broadcasting included, become one launch,
    and so do reductions, softmaxes and normalisations of rows with what comes before and after, and
    products of matrices, convolutions, scans and gathers with what comes after, and products with
    what gives a factor that few tiles read; other kernels are launched as they are, between them.

    Args:
        function: takes arrays, numbers, and what else decides what it computes, and returns an
            array or a tuple of arrays. It has to do the same each time: what it does beside its
            operators is done while it is traced only.
        ahead: calls that a bundle is built for (`xtarget bundle build --fuse`): shapes of the
            arguments, None for a number; further arguments by name as `options`; dtypes of those
            that always have the same, as indices.

    Returns:
        the function as an object: call it, or ask it to `explain` a call. Without `function`, what
        makes one of it.

    Raises:
        ArgumentError: it is no function of Python, or takes any number of arguments.
    """
    if function is None:
        examples = tuple(ahead)
        return lambda given: Fused(given, examples)
    return Fused(function, ahead)


def _forget_traces(kernel: str) -> None:
    """A kernel was added or replaced: a trace may have been made with another one of its name."""
    if not kernel.startswith(PREFIX):
        for function in list(_all):
            function.forget()


libraries.on_change.append(_forget_traces)
