"""The processor of this machine, as far as the code for it depends on it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["ARCH", "THIS", "flags", "register_bytes"]

#: The environment variable by which Intel's run time makes code for another processor; what it
#: means is this processor.
ARCH: Final = "CL_CONFIG_CPU_TARGET_ARCH"
THIS: Final = "auto"
#: Bytes of the vector registers of a core, by the instruction set that has them: 32 of 64 bytes, 16
#: of 32, 32 of 16.
_REGISTERS: Final = (("avx512vl", 32 * 64), ("avx2", 16 * 32), ("asimd", 32 * 16))
#: The same of what `ARCH` can say.
_NAMED: Final = {"skx": 32 * 64, "icx": 32 * 64, "spr": 32 * 64, "core-avx2": 16 * 32}


@cache
def flags() -> frozenset[str]:
    """The features that Linux names; none on another system."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            line = next((one for one in file if one.startswith(("flags", "Features"))), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def register_bytes() -> int:
    """Bytes of all vector registers of a core that code is made for; 0: not known."""
    named = os.environ.get(ARCH, THIS)
    if named != THIS:
        return _NAMED.get(named, 0)
    return next((nbytes for name, nbytes in _REGISTERS if name in flags()), 0)
