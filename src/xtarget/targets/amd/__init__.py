"""AMD GPUs: hsaco code objects by Triton, launched through HIP (hip-python)."""

from __future__ import annotations

from ..base import Compiler, Driver

__all__ = ["create_compiler", "create_driver"]


def create_driver() -> Driver:
    """The HIP run time."""
    from .driver import HipDriver

    return HipDriver()


def create_compiler() -> Compiler:
    """Triton's AMD back end."""
    from .compiler import HsacoCompiler

    return HsacoCompiler()
