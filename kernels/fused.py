"""Sections of fused functions (`xtarget.fuse`) as one launch: chains of elementwise operators, and
what is done to each row of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xtarget.spec import DtypeRules, KernelSpec

from .operators.rules import ALL
from .plans.elementwise import compute_dtype, elementwise
from .plans.picked import Picks, picked
from .plans.rowwise import rowwise
from .plans.tails import with_tail
from .plans.viewed import Steps, viewed

__all__ = ["section", "through_views"]


def section(
    name: str,
    function: str,
    dtypes: Sequence[str],
    result: str,
    rows: str = "",
    product: tuple[str, bool, int | None] | None = None,
    views: Sequence[Steps] = (),
    picks: Picks = (),
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
    """
    loaded = tuple(map(compute_dtype, dtypes))

    def rule(
        rules: DtypeRules, given: Sequence[str], options: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        return (result,), loaded

    inputs = tuple("abcdefgh"[: len(dtypes)])
    plan = elementwise(lambda _: function, rule, ALL)
    if rows:
        plan = rowwise(function, result, rows)
    if product is not None:
        plan = with_tail(function, result, *product)
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
        dtypes=ALL,
        apart=inputs,
        complete=True,
        elementwise=not (rows or product or views or picks),
        in_place=not (product or views or picks),
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
