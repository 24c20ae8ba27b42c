"""From call to launches: cross entropy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from xtarget import spec

from .elementwise import compute_dtype
from .folds import Sum, is_floating
from .gradients import rows_launch, vector
from .layouts import Space, collapse, without_axes
from .options import one_of
from .reduction import Work

__all__ = [
    "cross_entropy",
    "cross_entropy_backward",
    "nll_loss",
    "reduction_option",
    "rows_reduced",
]

_REDUCTIONS = ("none", "mean", "sum")


def reduction_option(call: spec.Call) -> str:
    """The option `reduction`.

    Raises:
        ArgumentError: it is none.
    """
    return one_of(call, "reduction", _REDUCTIONS)


def rows_reduced(
    call: spec.Call,
    shape: tuple[int, ...],
    dtype: str,
    launch: Callable[[spec.Output | spec.Temporary, spec.ArrayType], spec.Launch],
    *memory: spec.ArrayType,
) -> spec.Plan:
    """The plan of losses of `shape`, or by the option `reduction` of their sum or mean.

    Args:
        launch: from where the losses go, and their layout, to the launch that makes them.
        memory: temporaries of that launch.
    """
    how = reduction_option(call)
    out = call.output(shape if how == "none" else (), dtype)
    count = math.prod(shape)
    if how == "none":
        if not count:
            return spec.Plan((out,), ())
        return spec.Plan((out,), (launch(spec.Output(), out),), memory)
    if not count:
        return spec.Plan((out,), (), (), (float("nan") if how == "mean" else 0,))
    computed = compute_dtype(dtype)
    work = Work(call, Space(1, (), ((0,), ())), Space(1, (), ((0,),)))
    work.temporaries.extend(memory)
    each = work.temporary(computed, count)
    work.launches.append(
        launch(each, spec.ArrayType(computed, shape, spec.contiguous_strides(shape)))
    )
    work.read(each, work.kept, collapse((count,), (1,)))
    last = Sum(computed).step()
    if how == "mean":
        last = Sum(computed, FINISH="mean", count=count).step()
    work.reduce(spec.Output(), last, Sum(computed).step(), last)
    return work.plan(out)


def _without(launch: spec.Launch, *names: str) -> spec.Launch:
    """A launch without parameters that its function lacks."""
    return replace(
        launch,
        args={name: value for name, value in launch.args.items() if name not in names},
        constants={n: value for n, value in launch.constants.items() if n not in names},
    )


class _Classes:
    """The arguments that cross_entropy and nll_loss share: logits, targets, perhaps weights."""

    def __init__(self, call: spec.Call, first: int = 0) -> None:
        self.call, self.first = call, first
        self.x, self.target = call.array(first), call.array(first + 1)
        x, target = self.x, self.target
        if not x.ndim:
            raise spec.ArgumentError(
                f"{call.kernel}: x has no dimension; it needs one of the classes."
            )
        self.axis = min(1, x.ndim - 1)
        self.soft = is_floating(target.dtype)
        if self.soft and target.shape != x.shape:
            raise spec.ArgumentError(
                f"{call.kernel}: target is {target.dtype} of shape {target.shape}; classes are "
                f"int64 or int32, and probabilities of classes need x's shape {x.shape}."
            )
        if not self.soft and target.shape != without_axes(x.shape, (self.axis,)):
            raise spec.ArgumentError(
                f"{call.kernel}: target has shape {target.shape}, but x has shape {x.shape}: "
                f"target needs shape {without_axes(x.shape, (self.axis,))}, one class for each "
                f"vector along axis {self.axis}."
            )
        if not is_floating(x.dtype):
            raise spec.ArgumentError(
                f"{call.kernel} does not take {x.dtype} (x); it takes floating types. Convert the "
                "array first."
            )
        if not self.soft and target.dtype not in ("int64", "int32"):
            raise spec.ArgumentError(
                f"{call.kernel}: target is {target.dtype}; classes are int64 or int32."
            )
        self.weight, self.number, self.constant = vector(call, first + 2, x.shape[self.axis])
        self.dtype = call.rules.promote(x.dtype, *(arg.dtype for arg in call.args[first + 2 :]))
        self.computed = compute_dtype(self.dtype)
        ignore = call.options["ignore_index"]
        if isinstance(ignore, bool) or not isinstance(ignore, int):
            raise spec.ArgumentError(
                f"{call.kernel}: ignore_index is {ignore!r}; it is an integer."
            )
        if self.soft and ignore >= 0:
            raise spec.ArgumentError(
                f"{call.kernel}: ignore_index is {ignore}, and target has probabilities, of which "
                "none is ignored. Leave it out."
            )
        self.ignore = spec.Scalar(ignore, "int64")
        self.rows = without_axes(x.shape, (self.axis,))

    def weights(self, out: spec.Temporary) -> spec.Launch:
        """The launch that gives each target's weight."""
        return _without(
            rows_launch(
                self.call,
                "entropy:weights",
                {"target": spec.Input(self.first + 1), "weight": self.weight, "out": out},
                {"x": self.x},
                self.axis,
                "",
                beside={"t": self.target},
                numbers={"ignore": self.ignore, **self.number},
                constants=self.constant,
                whole=False,
            ),
            "sx",
            "cx",
        )

    def loss(
        self,
        source: str,
        out: spec.Output | spec.Temporary,
        layout: spec.ArrayType,
        numbers: Mapping[str, spec.Argument] = MappingProxyType({}),
        constants: Mapping[str, Any] = MappingProxyType({}),
        *,
        whole: bool = True,
    ) -> spec.Launch:
        """The launch that gives each row's loss.

        Args:
            layout: of the losses, without the axis of the classes.
            numbers, constants: what the kernel takes beside the classes' own.
            whole: whether the kernel goes over the whole row.
        """
        return rows_launch(
            self.call,
            source,
            {"x": spec.Input(0), "target": spec.Input(1), "weight": self.weight, "out": out},
            {"x": self.x},
            self.axis,
            self.computed,
            beside={"t": self.target, "o": layout},
            numbers={"ignore": self.ignore, **numbers, **self.number},
            constants={**constants, **self.constant},
            whole=whole,
            groups=whole,
        )

    def total(
        self, out: spec.Output | spec.Temporary, x: spec.Temporary, how: str, work: Work
    ) -> None:
        """The sum (or by `how` the mean) of what there is for each row."""
        count = self.target.size
        work.read(x, Space(1, (), ((0,), ())), collapse((count,), (1,)))
        if how == "mean":
            weights = work.temporary(self.computed, count)
            work.launches.append(self.weights(weights))
            whole = work.temporary(self.computed)
            work.read(weights, work.kept, work.reduced)
            work.reduce(whole, *[Sum(self.computed).step()] * 3)
            work.read(x, work.kept, work.reduced)
            ratio = Sum(self.computed, FINISH="ratio", aux=whole).step()
            work.reduce(out, ratio, Sum(self.computed).step(), ratio)
        else:
            work.reduce(out, *[Sum(self.computed).step()] * 3)


def _loss(
    call: spec.Call,
    classes: _Classes,
    launch: Callable[[spec.Output | spec.Temporary, spec.ArrayType], spec.Launch],
) -> spec.Plan:
    """A loss of each row, or by the option `reduction` their sum or mean."""
    how = reduction_option(call)
    shape = classes.target.shape
    out = call.output(shape if how == "none" else (), classes.dtype)
    if how == "none":
        if not out.size:
            return spec.Plan((out,), ())
        return spec.Plan((out,), (launch(spec.Output(), out),))
    work = Work(call, Space(1, (), ((0,), ())), Space(1, (), ((0,),)))
    each = work.temporary(classes.computed, classes.target.size)
    if classes.target.size:
        between = spec.ArrayType(classes.computed, shape, spec.contiguous_strides(shape))
        work.launches.append(launch(each, between))
    classes.total(spec.Output(), each, how, work)
    return work.plan(out)


def cross_entropy(call: spec.Call) -> spec.Plan:
    """The plan of cross_entropy: -log(softmax(x)) at each target, times its weight."""
    classes = _Classes(call)
    smoothing, number = _smoothing(call, classes.computed)

    def launch(out: spec.Output | spec.Temporary, layout: spec.ArrayType) -> spec.Launch:
        return classes.loss("entropy:cross_entropy", out, layout, number, {"SMOOTH": smoothing})

    def soft(out: spec.Output | spec.Temporary, layout: spec.ArrayType) -> spec.Launch:
        return rows_launch(
            call,
            "entropy:soft_cross_entropy",
            {"x": spec.Input(0), "y": spec.Input(1), "weight": classes.weight, "out": out},
            {"x": classes.x, "y": classes.target},
            classes.axis,
            classes.computed,
            beside={"o": layout},
            numbers={**number, **classes.number},
            constants={"SMOOTH": smoothing, **classes.constant},
            groups=True,
        )

    if classes.soft:
        return rows_reduced(call, classes.rows, classes.dtype, soft)
    return _loss(call, classes, launch)


def _smoothing(call: spec.Call, dtype: str) -> tuple[bool, dict[str, spec.Argument]]:
    value = call.options["label_smoothing"]
    if not 0 <= value <= 1:
        raise spec.ArgumentError(
            f"{call.kernel}: label_smoothing is {value!r}; it has to be from 0 to 1."
        )
    return value > 0, {"smoothing": spec.Scalar(float(value), dtype)}


def nll_loss(call: spec.Call) -> spec.Plan:
    """The plan of nll_loss: -x at each target, times its weight."""
    classes = _Classes(call)
    if classes.soft:
        raise spec.ArgumentError(
            f"{call.kernel}: target is {classes.target.dtype}; classes are int64 or int32."
        )

    def launch(out: spec.Output | spec.Temporary, layout: spec.ArrayType) -> spec.Launch:
        return classes.loss("entropy:nll_loss", out, layout, whole=False)

    return _loss(call, classes, launch)


def cross_entropy_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of cross_entropy with respect to the logits."""
    classes = _Classes(call, 1)
    how, d = reduction_option(call), call.array(0)
    wanted = classes.rows if how == "none" else ()
    if d.shape != wanted:
        raise spec.ArgumentError(
            f"{call.kernel}: grad has shape {d.shape}; of reduction={how!r} it has shape {wanted}."
        )
    out = call.output(classes.x.shape, call.rules.promote(classes.dtype, d.dtype))
    if not out.size:
        return spec.Plan((out,), ())
    smoothing, number = _smoothing(call, classes.computed)
    if how != "none":
        d = spec.ArrayType(d.dtype, classes.rows, (0,) * len(classes.rows))
    if classes.soft:
        launch = rows_launch(
            call,
            "entropy:soft_cross_entropy_backward",
            {
                "d": spec.Input(0),
                "x": spec.Input(1),
                "y": spec.Input(2),
                "weight": classes.weight,
                "out": spec.Output(),
            },
            {"x": classes.x, "y": classes.target, "o": out},
            classes.axis,
            classes.computed,
            beside={"d": d},
            numbers={
                "count": math.prod(classes.rows) if how == "mean" else 1,
                **number,
                **classes.number,
            },
            constants={"SMOOTH": smoothing, **classes.constant},
            groups=True,
        )
        return spec.Plan((out,), (launch,))
    work = Work(call, Space(1, (), ((0,), ())), Space(1, (), ((0,),)))
    whole = None
    if how == "mean":
        weights = work.temporary(classes.computed, classes.target.size)
        work.launches.append(classes.weights(weights))
        whole = work.temporary(classes.computed)
        work.read(weights, work.kept, collapse((classes.target.size,), (1,)))
        work.reduce(whole, *[Sum(classes.computed).step()] * 3)
    launch = rows_launch(
        call,
        "entropy:cross_entropy_backward",
        {
            "d": spec.Input(0),
            "x": spec.Input(1),
            "target": spec.Input(2),
            "weight": classes.weight,
            "count": whole,
            "out": spec.Output(),
        },
        {"x": classes.x, "o": out},
        classes.axis,
        classes.computed,
        beside={"d": d, "t": classes.target},
        numbers={"ignore": classes.ignore, **number, **classes.number},
        constants={"SMOOTH": smoothing, "HELD": 0, **classes.constant},
        groups=True,
    )
    work.launches.append(_holding(call, launch, classes, out))
    return work.plan(out)


#: Steps of a row that a block keeps in registers, and how many of these a thread may have: two
#: blocks a multiprocessor, which read less from memory again than three do (H100, 8192 x 128256).
_HELD: Final[Mapping[str, tuple[int, int]]] = {"nvidia:sm_90": (2, 128)}


def _holding(
    call: spec.Call, launch: spec.Launch, classes: _Classes, out: spec.ArrayType
) -> spec.Launch:
    """The launch with the steps of its rows that stay in registers, of long rows of a half type."""
    steps, registers = _HELD.get(f"{call.vendor}:{call.arch}", (0, 0))
    known: Mapping[str, Any] = launch.constants
    half = classes.x.dtype == out.dtype and out.itemsize == 2
    if call.general or not half or not known["GROUP"]:
        return launch
    steps = min(steps, classes.x.shape[classes.axis] // (known["BLOCK_N"] * known["GROUP"]))
    options = {**launch.options, "maxnreg": registers} if steps else launch.options
    return replace(launch, constants={**known, "HELD": steps}, options=options)
