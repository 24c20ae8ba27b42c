"""A vendor in memory: shows that one can be added out of tree, and is strict about the contract.

It enters by the entry-point group `xtarget.targets`, executes a few kernels with NumPy, and defers
all work of a stream until somebody waits for it, so that a missing synchronization shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xtarget.targets.base import Compiler, Driver

__all__ = ["create_compiler", "create_driver"]


def create_driver() -> Driver:
    from .driver import FakeDriver

    return FakeDriver()


def create_compiler() -> Compiler:
    from .compiler import FakeCompiler

    return FakeCompiler()
