"""Sections of fused functions (`xtarget.fuse`) as one launch: chains of elementwise operators, and
what is done to each row of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xtarget.spec import Call, DtypeRules, KernelSpec, Plan

from .operators.rules import CASTABLE, FLOATS_OF_8_BITS
from .plans.around_attention import around_attention
from .plans.elementwise import Elementwise, compute_dtype
from .plans.heads import with_heads
from .plans.made import Made
from .plans.picked import Picks, picked
from .plans.rowwise import rowwise
from .plans.scored_attention import scored
from .plans.several import Result, several
from .plans.stored import read_through, scanned, stored_through
from .plans.tails import with_tail
from .plans.viewed import Steps, viewed

__all__ = ["of_scores", "section", "through_views"]

#: Names of a section's arguments.
_INPUTS = "abcdefghijklmnop"


def section(
    name: str,
    function: str,
    dtypes: Sequence[str],
    result: str,
    rows: str = "",
    product: tuple[str, bool, int | None] | None = None,
    views: Sequence[Steps] = (),
    picks: Picks = (),
    results: Sequence[tuple[Any, ...]] = (),
    written: str = "",
    base: tuple[KernelSpec, Mapping[str, Any], Sequence[int]] | None = None,
    read: str = "",
    heads: Sequence[tuple[str, str, int, int]] = (),
) -> KernelSpec:
    """The kernel of a section.

    Args:
        name: of the kernel.
        function: its steps.
        dtypes: of its arguments.
        result: dtype of what it gives.
        rows: of a section that folds rows, what it gives for each: `wide` (a row), `kept` or
            `dropped` (a number, in an axis of length 1 or without one).
        product: of a section that goes on from a product of its first two arguments: as
            `tails.with_tail`.
        views: as which of its arguments are read, none or one for each.
        picks: of a section that begins with gathers, as `picked`.
        results: of a section with several, all of them, as `Result`; elementwise, or of rows.
        written: which steps give those behind the first.
        base: of a section that goes on in a kernel of its first arguments, as `stored_through`.
        heads: of a section with a product, a scan or attention, what makes arguments of it, each as
            `made.Made`.
        read: of a section of which `base` is the end, a scan, the dtype that it scans.
    """
    # floats of 8 bits come as their bits
    loaded = tuple("uint8" if d in FLOATS_OF_8_BITS else compute_dtype(d) for d in dtypes)

    def rule(
        rules: DtypeRules, given: Sequence[str], options: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        return (result,), loaded

    inputs = tuple(_INPUTS[: len(dtypes)])
    plan = Elementwise(lambda _: function, rule, CASTABLE)
    if rows:
        plan = rowwise(function, [(result, rows)])
    if results:
        all_of = [Result(*one) for one in results]
        whole = (
            rowwise(function, [(one.dtype, one.gives) for one in all_of], written)
            if rows
            else Elementwise(
                lambda _: f"each.{written}|{function}",
                lambda rules, given, options: ([one.dtype for one in all_of], loaded),
                CASTABLE,
            )
        )
        plan = several(whole, all_of, partial(_alone, dtypes=loaded))
    if product is not None:
        plan = with_tail(function, result, *product)
    if base is not None and read:
        alone = Elementwise(lambda _: function, lambda *_: ((read,), loaded), CASTABLE)
        plan = read_through(function, read, base[0], base[1], alone)
    elif base is not None and base[0].category == "attention":
        plan = around_attention(function, result, *base, _alone_of(heads, loaded, len(base[2])))
    elif base is not None:
        plan = stored_through(function, result, *base)
    if heads and product is not None:
        plan = with_heads(_alone_of(heads, loaded, 2), plan, function, result, *product)
    elif heads and base is not None and base[0].category != "attention":
        ((made, alone),) = _alone_of(heads, loaded, 1)
        plan = scanned(made, alone, plan, function, result, base[0], base[1])
    if picks:
        plan = picked(function, result, picks)
    if views:
        plan = viewed(plan, views)
    return KernelSpec(
        name,
        inputs,
        plan,
        category="fused",
        summary="a section of a fused function",
        dtypes=CASTABLE,
        apart=inputs,
        outputs=("out", "out2", "out3", "out4")[: len(results)],
        complete=True,
        elementwise=not (rows or product or views or picks or results or base),
        in_place=not (product or views or picks or results or base),
    )


def _alone_of(
    heads: Sequence[tuple[str, str, int, int]], loaded: Sequence[str], behind: int
) -> list[tuple[Made, Callable[[Call], Plan]]]:
    """The sections that make arguments of a kernel, each with its plan alone.

    Args:
        loaded: dtypes that the section's arguments are computed in.
        behind: how many arguments the kernel itself has.
    """
    found = []
    for head in heads:
        made = Made(*head)
        given = (loaded[made.place], *loaded[behind : behind + made.count])
        rule = partial(_of_one, result=made.dtype, given=given)
        found.append((made, Elementwise(partial(_text, steps=made.steps), rule, CASTABLE)))
        behind += made.count
    return found


def _text(_: Call, steps: str) -> str:
    return steps


def _of_one(
    rules: DtypeRules, _: Sequence[str], options: Mapping[str, Any], *, result: str,
    given: Sequence[str],
) -> tuple[Sequence[str], Sequence[str]]:  # fmt: skip
    return (result,), given


def _alone(result: Result, dtypes: Sequence[str]) -> Callable[[Call], Plan]:
    """The plan of one of several results."""
    if result.folds:
        return rowwise(result.steps, [(result.dtype, result.gives)])
    computed = [dtypes[place] for place in result.places]
    return Elementwise(
        lambda _: result.steps, lambda rules, given, options: ((result.dtype,), computed), CASTABLE
    )


def of_scores(
    name: str,
    steps: str,
    base: KernelSpec,
    options: Mapping[str, Any],
    arrays: int,
    beside: Sequence[int],
) -> KernelSpec:
    """Attention whose scores go through steps.

    Args:
        arrays: how many arguments there are behind the query, the key and the value.
        steps, base, options, beside: as of `scored`.
    """
    inputs = (*base.inputs[:3], *_INPUTS[:arrays])
    return KernelSpec(
        name,
        inputs,
        scored(steps, base, options, beside),
        category="fused",
        summary="attention of a fused function, with a function of its scores",
        dtypes=CASTABLE,
        apart=inputs,
        complete=True,
    )


def through_views(name: str, kernel: KernelSpec, views: Sequence[Steps]) -> KernelSpec:
    """A kernel that reads views of its arguments.

    Args:
        views: of each argument.
    """
    return replace(
        kernel,
        name=name,
        plan=viewed(kernel.plan, views),
        category="fused",
        aliases=(),
        c=None,
        elementwise=False,
        in_place=False,
    )
