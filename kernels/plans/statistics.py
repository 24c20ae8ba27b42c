"""From call to launches: reductions that go over their elements more than once, or by powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

from .elementwise import compute_dtype
from .folds import (
    Reduced,
    Result,
    Sum,
    fold_into,
    in_steps,
    is_floating,
    outputs,
)
from .reduction import Step, Work

__all__ = ["logsumexp", "nanmean", "norm", "var"]


def _less(call: spec.Call, count: int) -> int:
    """`count` less the options `correction` (or `ddof`), but not below 0."""
    correction = call.options["correction"]
    if correction is None:
        correction = call.options["ddof"]
    if isinstance(correction, bool) or not isinstance(correction, int):
        raise spec.ArgumentError(
            f"{call.kernel}: ddof (or correction) is {correction!r}; it has to be an integer, the "
            "number that the count of elements is reduced by."
        )
    return max(count - correction, 0)


def var(
    result: Result, FINISH: str, *, with_mean: bool = False
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of the variance: the mean, then the mean of the squares of what differs from it.

    Args:
        FINISH: `mean` for the variance, `deviation` for its root.
        with_mean: the mean is a second result.
    """

    def plan(call: spec.Call) -> spec.Plan:
        shapes = Reduced(call)
        dtype = result(call.rules, shapes.x.dtype)
        outs = (
            outputs(call, shapes.shape, dtype, dtype)
            if with_mean
            else (call.output(shapes.shape, dtype),)
        )
        less = _less(call, shapes.count)
        if not outs[0].size:
            return spec.Plan(outs, ())
        work = shapes.work(outs[0])
        _moments(work, shapes.count, less, compute_dtype(dtype), FINISH, with_mean=with_mean)
        return work.plan(*outs)

    return plan


def _moments(
    work: Work, count: int, less: int, dtype: str, FINISH: str, *, with_mean: bool
) -> None:
    """One launch, or one over pieces and one over what they leave.

    Args:
        count: elements that go into one of the result; less: what their squares are divided by.
    """
    addresses: dict[str, spec.Argument] = {"mean": spec.Output(1)} if with_mean else {}
    constants: dict[str, Any] = (
        {"FINISH": FINISH} if with_mean else {"FINISH": FINISH, "mean": None}
    )
    whole = Step("moments", dtype, addresses, {"count": less}, {**constants, "rest": None})
    parts = work.parts(whole)
    if parts == 1:
        work.launches.append(work.first(whole, spec.Output()))
        return
    mean, rest, squares = (work.temporary(dtype, parts) for _ in range(3))
    piece = Step("moments", dtype, {"mean": mean, "rest": rest}, {}, {"FINISH": "", "count": None})
    pieces = work.first(piece, squares, parts)
    chunk = pieces.args["chunk"]
    numbers = {"piece": chunk, "last": count - (parts - 1) * chunk, "whole": count, "count": less}
    given = {"rest": rest, "squares": squares, **addresses}
    merged = Step("merged", dtype, given, numbers, constants)
    work.launches += [pieces, work.rest(merged, mean, spec.Output(), parts)]


def logsumexp(result: Result) -> Callable[[spec.Call], spec.Plan]:
    """The plan of log(sum(exp(x))): the largest, then the sum of what exp makes of the rest."""

    def steps(work: Work, shapes: Reduced, dtype: str) -> None:
        top = work.temporary(dtype)
        fold_into(work, top, "max", dtype, "", dtype)
        Sum(dtype, "exp", "log_of_exp", aux=top).into(work, spec.Output())

    return in_steps(result, steps)


def nanmean(result: Result) -> Callable[[spec.Call], spec.Plan]:
    """The plan of the mean of those elements that are not nan."""

    def steps(work: Work, shapes: Reduced, dtype: str) -> None:
        if not is_floating(shapes.x.dtype):
            Sum(dtype, FINISH="mean", count=shapes.count).into(work, spec.Output())
        else:
            count = work.temporary("int64")
            given = compute_dtype(shapes.x.dtype)
            Sum("int64", "is_number", given=given).into(work, count)
            Sum(dtype, "number", "ratio", aux=count).into(work, spec.Output())

    return in_steps(result, steps)


def norm(result: Result) -> Callable[[spec.Call], spec.Plan]:
    """The plan of the vector norm: (sum |x| ** p) ** (1 / p), and its limits."""

    def plan(call: spec.Call) -> spec.Plan:
        shapes = Reduced(call)
        dtype = result(call.rules, shapes.x.dtype)
        out = call.output(shapes.shape, dtype)
        p = call.options["p"]
        if isinstance(p, bool) or p != p:
            raise spec.ArgumentError(f"{call.kernel}: p is {p!r}; it has to be a number, or inf.")
        if not out.size:
            return spec.Plan((out,), ())
        computed = compute_dtype(dtype)
        work = shapes.work(out)
        if p in (float("inf"), float("-inf")):
            shapes.refuse_nothing()
            fold_into(work, spec.Output(), "max" if p > 0 else "min", computed, "abs", computed)
        elif p == 0:
            Sum(computed, "nonzero", given=compute_dtype(shapes.x.dtype)).into(work, spec.Output())
        elif p == 1:
            Sum(computed, "abs").into(work, spec.Output())
        elif p == 2:
            Sum(computed, "square", "root").into(work, spec.Output())
        else:
            _powers(work, float(p), computed)
        return work.plan(out)

    return plan


def _powers(work: Work, p: float, dtype: str) -> None:
    """Two roots: of the elements' power and of the sum's, whose p differ."""
    between = work.temporary(dtype)
    Sum(dtype, "power", p=spec.Scalar(p, dtype)).into(work, between)
    last = Sum(dtype, FINISH="power", p=spec.Scalar(1 / p, dtype)).step()
    work.launches.append(work.rest(last, between, spec.Output(), 1))
