"""`XTARGET_INDUCTOR=1`: torch.compile makes Triton kernels for the CPU, and xtarget compiles them.

Inductor has a setting for it (`cpu_backend = "triton"`), and asks Triton for a back end of the name
`cpu` then. Triton has none of its own, so the name is free; it is taken in this process only, and
in those that Inductor starts, which have the variable from it.
"""

from __future__ import annotations

import os
from typing import Any

from triton.backends import Backend, backends

from .._values.errors import ArgumentError
from .devices import cpu_options, host_device
from .driver import SpirvDriver, target_of
from .tuning import TunableBackend

__all__ = ["VARIABLE", "enable"]

VARIABLE = "XTARGET_INDUCTOR"
_NAME = "cpu"


class CpuBackend(TunableBackend):
    """The compiler for the target that Inductor asks for, the CPU; calling it makes ours."""

    def __new__(cls, target: Any) -> Any:
        return TunableBackend.checked(target_of(host_device), cpu_options())

    @staticmethod
    def supports_target(target: Any) -> bool:
        return bool(target.backend == _NAME)


def enable() -> None:
    """Make Inductor use Triton for the CPU, here and in the processes that it starts.

    Raises:
        ArgumentError: another package is Triton's back end for CPUs here, or this torch has no such
            setting.
    """
    from torch._inductor import config

    known = backends.get(_NAME)
    if known is not None and known.compiler is not CpuBackend:
        raise ArgumentError(
            f"Triton has a back end for CPUs already, {known.compiler.__module__}. Set "
            'torch._inductor.config.cpu_backend = "triton" to use it, or uninstall it.'
        )
    if not hasattr(config, "cpu_backend"):
        raise ArgumentError("this torch's Inductor has no cpu_backend. Install torch 2.6 or newer.")
    os.environ[VARIABLE] = "1"
    backends[_NAME] = Backend(CpuBackend, SpirvDriver)
    config.cpu_backend = "triton"
