"""Kernels that store to inputs which they have not declared: told once, and then declared.

Triton would launch such a kernel. Here it is launched as if `updates=` named these inputs, so that
an array of the host is copied back, one that is read-only is refused, and none shares its memory
with another argument.
"""

from __future__ import annotations

import warnings
from pathlib import PurePath

from .._compile.declared import UndeclaredStoreError
from .._kernels import libraries
from .._kernels.libraries import RegisteredKernel
from ..spec import Input, Launch

__all__ = ["declare_stores"]


def declare_stores(kernel: RegisteredKernel, launch: Launch, error: UndeclaredStoreError) -> None:
    """Warn, and declare what the kernel stores to, for this call and later ones.

    Raises:
        UndeclaredStoreError: the kernel is not one of `@xtarget.kernel`, or what it writes was told
            to another library already.
    """
    names = [name.rstrip("?") for name in kernel.spec.inputs]
    found = []
    for parameter in error.stores:
        argument = launch.args[parameter]
        assert isinstance(argument, Input)  # all others may be written
        found.append(names[argument.index])
    if not libraries.declare_updates(kernel, found):
        raise UndeclaredStoreError(kernel.spec.name, error.path, error.stores, tuple(found))
    said = error.told(kernel.spec.name, tuple(found))
    where = next(iter(error.stores.values())) or ""
    file, _, line = where.rpartition(":")
    own = file == PurePath(error.path).name and line.isdigit()
    warnings.warn_explicit(
        f"{said} It is launched as if updates= named it.",
        RuntimeWarning,
        filename=error.path,
        lineno=int(line) if own else 1,
    )
