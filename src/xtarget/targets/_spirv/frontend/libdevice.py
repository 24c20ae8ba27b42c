"""Triton's libdevice for SPIR-V: the functions that a kernel may name.

`library` defines them in LLVM IR; only LLVM's child process reads those definitions.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["module"]


def module() -> ModuleType:
    """Return a module in place of `triton.language.extra.libdevice`: AMD's functions, and
    NVIDIA's where AMD has none of the name.
    """
    from triton.language.extra.cuda import libdevice as nvidia
    from triton.language.extra.hip import libdevice as amd

    both = ModuleType("xtarget.libdevice")
    for source in (nvidia, amd):
        both.__dict__.update({k: v for k, v in vars(source).items() if not k.startswith("_")})
    return both
