"""The processor of this machine, as far as the code for it depends on it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["ARCH", "THIS", "flags", "register_bytes", "vectors"]

#: The environment variable by which Intel's run time makes code for another processor; what it
#: means is this processor.
ARCH: Final = "CL_CONFIG_CPU_TARGET_ARCH"
THIS: Final = "auto"
#: The vector instructions that a feature stands for, widest first.
_VECTORS: Final = (("avx512vl", "avx512"), ("avx2", "avx2"), ("asimd", "asimd"))
#: The same of what `ARCH` can say.
_NAMED: Final = {"skx": "avx512", "icx": "avx512", "spr": "avx512", "core-avx2": "avx2"}
#: Bytes of the registers that they have: 32 of 64 bytes, 16 of 32, 32 of 16.
_REGISTERS: Final = {"avx512": 32 * 64, "avx2": 16 * 32, "asimd": 32 * 16}


@cache
def flags() -> frozenset[str]:
    """The features that Linux names; none on another system."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            line = next((one for one in file if one.startswith(("flags", "Features"))), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def vectors() -> str:
    """The vector instructions that code is made of: `avx512`, `avx2`, `asimd`; empty: not known."""
    named = os.environ.get(ARCH, THIS)
    if named != THIS:
        return _NAMED.get(named, "")
    return next((found for feature, found in _VECTORS if feature in flags()), "")


def register_bytes() -> int:
    """Bytes of all vector registers of a core that code is made for; 0: not known."""
    return _REGISTERS.get(vectors(), 0)
