"""Which device runs what was compiled for another arch: what each vendor guarantees, as data.

Sources: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility", and PTX ISA,
`.target` (arch-specific targets end in a letter); LLVM, "User Guide for AMDGPU Backend", processors
(a code object is for one gfx, apart from the generic ones, which are archs of their own).
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from .._types import Target

__all__ = ["FORMS", "Form", "fit", "portable_arch", "portable_fit"]

Form: TypeAlias = Literal["exact", "family", "portable"]
#: The order in which variants are preferred.
FORMS: Final[tuple[Form, ...]] = ("exact", "family", "portable")

#: CUDA: no binary compatibility between desktop and Tegra, nor among Tegra's.
_TEGRA: Final = frozenset({53, 62, 72, 87, 101, 110})


def _capability(arch: str) -> int | None:
    """90 for `sm_90`; None for `sm_90a` and what is no CUDA arch."""
    digits = arch.removeprefix("sm_")
    return int(digits) if arch.startswith("sm_") and digits.isdigit() else None


def fit(made: Target, here: Target, specific: bool) -> tuple[Form | None, str]:
    """Whether a binary for `made` runs on `here`, and why not where it does not.

    Args:
        specific: it uses what only its own arch has (`sm_90a`).
    """
    if made == here:
        return "exact", ""
    if made.vendor != here.vendor:
        return None, f"it is for {made.vendor}"
    old, new = _capability(made.arch), _capability(here.arch)
    if made.vendor != "nvidia" or old is None or new is None:
        return None, f"{made.vendor} guarantees a binary for {made.arch} on {made.arch} alone"
    if specific:
        return None, f"its binary uses what is in {made.arch} alone ({made.arch}a)"
    if old // 10 != new // 10:
        return None, "a cubin runs within its own major capability only"
    if old > new:
        return None, f"a cubin never runs on an older chip than {made.arch}"
    if old in _TEGRA or new in _TEGRA:
        return None, "cubins are not compatible between desktop and Tegra chips"
    return "family", ""


def portable_arch(ptx: str) -> str | None:
    """The oldest arch that a PTX text can be compiled for; None where it is tied to one arch
    (`sm_90a`) or family (`sm_100f`)."""
    found = re.search(r"^\s*\.target\s+(sm_\d+)([a-z]?)", ptx, re.MULTILINE)
    return found[1] if found and not found[2] else None


def portable_fit(made: Target, oldest: str | None, here: Target) -> str | None:
    """Why the portable form of a variant does not do on `here`; None where it does.

    Args:
        oldest: `portable_arch` of it; None where it has no portable form.
    """
    if made.vendor != here.vendor:
        return f"it is for {made.vendor}"
    if oldest is None:
        return "it has no portable form"
    old, new = _capability(oldest), _capability(here.arch)
    if old is None or new is None:
        return f"its portable form names an arch {oldest!r} that cannot be compared"
    return f"its PTX needs {oldest} or newer" if old > new else None
