"""An emulator of AMD GPUs: runs the code objects that ship, and checks what they do.

A vendor of its own (`emu`), whose targets are AMD's. It enters by the entry-point group
`xtarget.targets.named`, as a third party's emulator would: xtarget knows its name only.
"""

from __future__ import annotations

from xtarget.targets.base import Compiler, Driver

__all__ = ["create_compiler", "create_driver"]


def create_driver() -> Driver:
    """The emulated devices."""
    from .driver import EmulatorDriver

    return EmulatorDriver()


def create_compiler() -> Compiler:
    """AMD's: an emulated device's target is `amd:<arch>`."""
    from xtarget.targets import amd

    return amd.create_compiler()
