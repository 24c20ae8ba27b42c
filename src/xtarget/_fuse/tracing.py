"""A function's computation as a graph: it is called with arguments that note what is done to them.

Nothing is launched. Dtypes and shapes of results come from the kernels' plans.
"""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import numpy as np

from .._arrays import is_scalar, view_of
from .._kernels import libraries
from .._launch.arguments import argument_types, check_arguments, placed
from .._values.choosing import CONFIG
from .._values.errors import ArgumentError, UnknownKernelError, XTargetError, shortened
from ..spec import ArrayType, KernelSpec, contiguous_strides
from . import attended_scores
from .nodes import Node, Number, Value, node_of
from .traced import NumberAsked, Traced

__all__ = ["Tracer", "signature_of"]


@dataclass(slots=True)
class Tracer:
    """One pass through the function.

    Attributes:
        code: of the function, for the lines in messages.
        nodes: in the order of their calls.
        reads_shapes: the function has asked for a shape.
    """

    code: CodeType
    nodes: list[Node] = field(default_factory=list)
    reads_shapes: bool = False
    _made: list[weakref.ref[Traced]] = field(default_factory=list)
    _numbers: list[tuple[np.ndarray[Any, Any], bytes]] = field(default_factory=list)

    @property
    def has_numbers(self) -> bool:
        """Whether the function gives operators arrays of one number."""
        return bool(self._numbers)

    def holds(self) -> bool:
        """Whether the arrays of one number in the function are what they were."""
        return all(array.tobytes() == before for array, before in self._numbers)

    def check_kept(self) -> None:
        """Refuse a function that keeps what it computes, where there are no values: in a list, a
        global, an object that is not its own. What it returned is no longer held.

        Raises:
            ArgumentError: something is still there.
        """
        if any(own() is not None for own in self._made):
            gc.collect()  # what the function's own objects hold in a circle
        for own in self._made:
            kept = own()
            if kept is not None and isinstance(kept.stands, Value) and kept.stands.node is not None:
                node = kept.stands.node
                raise ArgumentError(
                    f"{node.line}: what {node.spec.name} gives here is kept outside of the fused "
                    "function (in a list, a global or another object), which is a side effect: "
                    "there are no values while it is traced. Return it, and keep the result."
                )

    def argument(self, value: Any, index: int) -> Traced:
        """The stand-in for an argument of the function.

        Raises:
            ArgumentError: it is neither an array nor a number.
        """
        if is_scalar(value):
            return Traced(self, Number(value, index))
        layout = view_of(value).type
        type_ = ArrayType(layout.dtype, layout.shape, contiguous_strides(layout.shape))
        return Traced(self, Value(type_, index))

    def call(
        self, kernel: str, args: Sequence[Any], given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """Note a call; what stands for its results.

        Raises:
            ArgumentError: the kernel does not take it, or it cannot be part of a fused function.
        """
        line = self.line()
        spec = libraries.find(kernel).spec
        args, options = placed(kernel, tuple(args), dict(options))
        if given:
            raise ArgumentError(
                f"{line}: {spec.name} has {next(iter(given))}=. Within a fused function a call has "
                "none: give it where you call the function."
            )
        if spec.updates:
            raise ArgumentError(
                f"{line}: {spec.name} writes to {', '.join(spec.updates)}, which a fused function "
                "cannot do. Call it outside."
            )
        if spec.counts:
            raise ArgumentError(
                f"{line}: how much {spec.name} gives is known when it has run. Call it outside of "
                "the fused function."
            )
        if options.get(CONFIG) is not None and CONFIG not in spec.options:
            raise ArgumentError(
                f"{line}: {spec.name} has config=. Within a fused function a call has none: "
                "several calls become one launch."
            )
        of_scores = options.pop(attended_scores.NAME, None) if _has_scores(options) else None
        for value in options.values():
            for one in value if isinstance(value, tuple | list) else (value,):
                if isinstance(one, Traced):
                    one.ask("an option")
        operands = tuple(self._operand(arg, spec, line) for arg in args)
        if operands and all(isinstance(own, Number) for own in operands):
            for own in operands:
                if isinstance(own, Number) and own.index is not None:
                    raise NumberAsked(own.index)
        try:
            if of_scores is not None:
                return self._of_scores(of_scores, kernel, spec, operands, options, line)
            return self._planned(kernel, spec, operands, options, line)
        except ArgumentError as error:
            self.reads_shapes = True  # a function that goes on without it may depend on them
            if str(error).startswith(f"{self.code.co_filename}, line "):
                raise  # out of the function of attention's scores
            raise ArgumentError(f"{line}: {error}") from None

    def _of_scores(
        self,
        function: Callable[..., Any],
        kernel: str,
        spec: KernelSpec,
        operands: tuple[Value | Number, ...],
        options: Mapping[str, Any],
        line: str,
    ) -> Any:
        """Note attention with a function of its scores."""
        if spec.name != attended_scores.OF_SCORES:
            raise ArgumentError(
                f"score= is of {attended_scores.OF_SCORES}, in a fused function; {spec.name} "
                "takes none."
            )
        if not libraries.find(kernel).fixed:
            raise ArgumentError(
                f"score= is of xtarget's own attention, and another kernel has the name {kernel}."
            )
        chosen = {**spec.options, **options}
        for name in ("lse", "softcap"):
            if chosen.get(name):
                raise ArgumentError(f"attention with score= takes no {name}=.")
        self._check(spec, operands, options)
        scores = attended_scores.scores_of(operands, chosen["layout"])
        if 0 in scores.shape:  # nothing to do, for arrays of this shape
            self.reads_shapes = True
            return self._planned(kernel, spec, operands, options, line)
        outer, self.nodes = self.nodes, []
        try:
            found = function(*(Traced(self, own) for own in scores.values_for(function)))
        finally:
            inner, self.nodes = self.nodes, outer
        for node in inner:
            for own in node.operands:
                if isinstance(own, Number) and own.index is not None:
                    raise NumberAsked(own.index)
        result = found.stands if isinstance(found, Traced) else found
        name, arrays, more = attended_scores.kernel_of(scores, inner, result, spec, chosen)
        if not name:
            return self._planned(kernel, spec, operands, {**options, **more}, line)
        return self._planned(name, libraries.find(name).spec, (*operands, *arrays), {}, line)

    @staticmethod
    def _check(
        spec: KernelSpec, operands: Sequence[Value | Number], options: Mapping[str, Any]
    ) -> None:
        values: list[Any] = [own.value if isinstance(own, Number) else own for own in operands]
        check_arguments(spec, values, options)

    def _planned(
        self,
        kernel: str,
        spec: KernelSpec,
        operands: tuple[Value | Number, ...],
        options: Mapping[str, Any],
        line: str,
    ) -> Any:
        values: list[Any] = [own.value if isinstance(own, Number) else own for own in operands]
        self._check(spec, operands, options)
        views: list[Any] = [
            SimpleNamespace(type=own.type) if isinstance(own, Value) else None for own in operands
        ]
        types = argument_types(spec, values, views)
        node = node_of(kernel, spec, operands, types, options, line, libraries.find(kernel).fixed)
        plan = node.plan
        self.nodes.append(node)
        made = tuple(
            Traced(
                self,
                Value(ArrayType(out.dtype, out.shape, contiguous_strides(out.shape)), index, node),
            )
            for index, out in enumerate(plan.outputs)
        )
        self._made += [weakref.ref(own) for own in made]
        return made[0] if len(made) == 1 else made

    def _operand(self, arg: Any, spec: KernelSpec, line: str) -> Value | Number:
        if isinstance(arg, Traced):
            if arg.tracer is not self:
                raise ArgumentError(
                    f"{line}: {spec.name} gets a value of another fused function's call. Give it "
                    "as an argument."
                )
            return arg.stands
        if arg is None or is_scalar(arg):
            return Number(arg)
        if isinstance(arg, np.ndarray) and not arg.ndim:  # of numbers: run("add", 1, 2)
            self._numbers.append((arg, arg.tobytes()))
            return Number(arg[()])
        raise ArgumentError(
            f"{line}: {spec.name} gets {shortened(arg)}, an array that is not an argument of the "
            "fused function. Give it as an argument."
        )

    def told(self, error: XTargetError) -> XTargetError:
        """An error that came out of the function, with the line, if it does not say it."""
        if type(error) not in (ArgumentError, UnknownKernelError):
            return error
        text = str(error)
        if ", line " in text.partition(":")[0]:
            return error
        return type(error)(f"{self._line_of(error)}: {text}")

    def told_of_others(self, error: TypeError) -> ArgumentError | None:
        """That another library's function was called with a traced array, which does not know it;
        None: it was not."""
        if Traced.__name__ not in str(error):
            return None
        return ArgumentError(
            f"{self._line_of(error)}: a function that is none of xtarget's or NumPy's operators "
            f"gets an array of a fused function, which has no values while it is traced ({error}). "
            "Use an operator of xtarget in its place, or do it outside of the fused function."
        )

    def _line_of(self, error: Exception) -> str:
        """Where in the function an error came up."""
        number = self.code.co_firstlineno
        at = error.__traceback__
        while at is not None:
            number = at.tb_lineno if at.tb_frame.f_code is self.code else number
            at = at.tb_next
        return f"{self.code.co_filename}, line {number}"

    def line(self) -> str:
        """Where the function is, for messages."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        number = self.code.co_firstlineno if frame is None else frame.f_lineno
        return f"{self.code.co_filename}, line {number}"


def _has_scores(options: Mapping[str, Any]) -> bool:
    """Whether a call has a function of attention's scores."""
    return callable(options.get(attended_scores.NAME))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Of a function to fuse.

    Raises:
        ArgumentError: it is none of Python, or takes any number of arguments.
    """
    if not inspect.isfunction(function):
        raise ArgumentError(f"xtarget.fuse takes a function of Python, not {shortened(function)}.")
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ArgumentError(
                f"{function.__name__} takes any number of arguments ({parameter}). A fused "
                "function names each of its arguments."
            )
    return signature
