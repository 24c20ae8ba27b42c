"""An emulator of AMD GPUs: runs the code objects that ship, and checks what they do.

A vendor of its own by name (`emu`), whose targets are AMD's.
"""

from __future__ import annotations

from ...base import Compiler, Driver

__all__ = ["create_compiler", "create_driver"]


def create_driver() -> Driver:
    """The emulated devices."""
    from .driver import EmulatorDriver

    return EmulatorDriver()


def create_compiler() -> Compiler:
    """AMD's: an emulated device's target is `amd:<arch>`."""
    from ..compiler import HsacoCompiler

    return HsacoCompiler()
