"""The AMD GPUs for which there are kernels."""

from __future__ import annotations

__all__ = ["ARCHS", "unsuitable"]

#: What Triton 3.6 to 3.9 compiles for; tests/compile/test_amd.py tries each arch.
ARCHS = (
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1100",
    "gfx1101",
    "gfx1102",
    "gfx1103",
    "gfx1150",
    "gfx1151",
    "gfx1152",
    "gfx1153",
    "gfx1200",
    "gfx1201",
    "gfx1250",
)


def unsuitable(arch: str) -> str | None:
    """Return why a device of this arch should not be the default device; None if it may be."""
    if arch in ARCHS:
        return None
    return f"Triton compiles nothing for {arch}, so the device is used only where it is named"
