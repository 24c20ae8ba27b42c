"""Sections of fused functions (`xtarget.fuse`): a chain of elementwise operators as one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xtarget.spec import DtypeRules, KernelSpec

from .operators.rules import ALL
from .plans.elementwise import compute_dtype, elementwise

__all__ = ["section"]


def section(name: str, function: str, dtypes: Sequence[str], result: str) -> KernelSpec:
    """The kernel of a section.

    Args:
        name: of the kernel.
        function: its device function, in steps.
        dtypes: of its arguments.
        result: dtype of what it gives.
    """
    loaded = tuple(map(compute_dtype, dtypes))

    def rule(
        rules: DtypeRules, given: Sequence[str], options: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        return (result,), loaded

    inputs = tuple("abcdefgh"[: len(dtypes)])
    return KernelSpec(
        name,
        inputs,
        elementwise(lambda _: function, rule, ALL),
        category="fused",
        summary="a section of a fused function",
        dtypes=ALL,
        apart=inputs,
        complete=True,
        elementwise=True,
    )
