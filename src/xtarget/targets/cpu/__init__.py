"""Any CPU, through an OpenCL CPU run time and SPIR-V."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..base import Compiler, Driver

__all__ = ["create_compiler", "create_driver"]


def create_driver() -> Driver:
    from .driver import CpuDriver

    return CpuDriver()


def create_compiler() -> Compiler:
    from .compiler import CpuCompiler

    return CpuCompiler()
