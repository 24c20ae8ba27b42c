"""Any CPU, through an OpenCL CPU run time and SPIR-V."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..base import Compiler, Driver

__all__ = ["compiler", "driver"]


def driver() -> Driver:
    from .driver import CpuDriver

    return CpuDriver()


def compiler() -> Compiler:
    from .compiler import CpuCompiler

    return CpuCompiler()
