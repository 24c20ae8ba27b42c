"""Decide if code for one target runs on another one, by the vendor's own rules
(`VendorTraits.arch_rules`). Without rules, code runs on its own arch alone."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from .._values.types import Target
from .._values.vendors import traits

__all__ = ["FORMS", "Form", "describe", "fit", "portable_fit"]

Form: TypeAlias = Literal["exact", "family", "portable"]
#: The order in which variants are preferred.
FORMS: Final[tuple[Form, ...]] = ("exact", "family", "portable")


def fit(made: Target, here: Target, specific: bool) -> tuple[Form | None, str]:
    """Return in which form a binary for `made` runs on `here`, or why it does not run.

    Args:
        specific: the binary uses features that only its own arch has (`sm_90a`).
    """
    if made == here:
        return "exact", ""
    if made.vendor != here.vendor:
        return None, f"it is for {made.vendor}"
    rules = traits(made.vendor).arch_rules
    if rules is None:
        return None, f"{made.vendor} guarantees a binary for {made.arch} on {made.arch} alone"
    why_not = rules.refusal(made.arch, here.arch, specific)
    return ("family", "") if why_not is None else (None, why_not)


def portable_fit(made: Target, oldest: str | None, here: Target) -> str | None:
    """Return why the portable form of a variant does not work on `here`; None where it works.

    Args:
        oldest: the oldest arch that the form can be compiled for; None where there is no such form.
    """
    if made.vendor != here.vendor:
        return f"it is for {made.vendor}"
    rules = traits(made.vendor).arch_rules
    if oldest is None or rules is None:
        return "it has no portable form"
    return rules.portable_refusal(oldest, here.arch)


def describe(made: Target, specific: bool, oldest: str | None) -> str:
    """Describe the targets on which a variant runs."""
    rules = traits(made.vendor).arch_rules
    return f"{made.arch} alone" if rules is None else rules.describe(made.arch, specific, oldest)
