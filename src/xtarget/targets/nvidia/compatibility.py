"""On which other chips a cubin and a PTX text run: NVIDIA's guarantees.

Sources: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"; PTX ISA,
`.target` (arch-specific targets end in a letter).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..._values.vendor_traits import Portable
from .ptx import target

__all__ = ["CubinRules", "portable_arch"]

#: CUDA: no binary compatibility between desktop and Tegra, nor among Tegra's.
_TEGRA: Final = frozenset({53, 62, 72, 87, 101, 110})


def _capability(arch: str) -> int | None:
    """Return 90 for `sm_90`; None for `sm_90a` and names that are not CUDA archs."""
    digits = arch.removeprefix("sm_")
    return int(digits) if arch.startswith("sm_") and re.fullmatch(r"[0-9]{1,6}", digits) else None


def portable_arch(ptx: str) -> str | None:
    """The oldest arch that a PTX text can be compiled for; None where it is tied to one arch
    (`sm_90a`) or family (`sm_100f`)."""
    number, letter = target(ptx) or (0, "")
    return f"sm_{number}" if number and not letter else None


class CubinRules:
    """`ArchRules` of NVIDIA."""

    def refusal(self, made: str, here: str, specific: bool) -> str | None:
        old, new = _capability(made), _capability(here)
        if old is None or new is None:
            return f"nvidia guarantees a binary for {made} on {made} alone"
        if specific:
            return f"its binary uses what is in {made} alone ({made}a)"
        if old // 10 != new // 10:
            return "a cubin runs within its own major capability only"
        if old > new:
            return f"a cubin never runs on an older chip than {made}"
        if old in _TEGRA or new in _TEGRA:
            return "cubins are not compatible between desktop and Tegra chips"
        return None

    def describe(self, arch: str, specific: bool, oldest: str | None) -> str:
        if specific:
            return f"{arch} alone (it uses what {arch}a has)"
        return f"{arch[:-1]}x from {arch} on" + (f"; PTX from {oldest} on" if oldest else "")

    def portable(self, texts: Mapping[str, str]) -> Portable | None:
        ptx = texts.get("ptx")
        return None if ptx is None else Portable("ptx", ptx, portable_arch(ptx))

    def portable_refusal(self, oldest: str, here: str) -> str | None:
        old, new = _capability(oldest), _capability(here)
        if old is None or new is None:
            return f"its portable form names an arch {oldest!r} that cannot be compared"
        return f"its PTX needs {oldest} or newer" if old > new else None
