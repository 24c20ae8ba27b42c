"""torch.compile on CPUs through Triton and xtarget."""

from __future__ import annotations

__all__ = ["enable_inductor"]


def enable_inductor() -> None:
    """Make torch.compile write Triton kernels for CPU tensors, which xtarget compiles and launches.

    It holds for the process and for those in which Inductor compiles. `XTARGET_INDUCTOR=1` does the
    same from outside, for a program as it is. What Inductor gives to libraries (matrix products,
    convolutions) stays with them.

    Raises:
        NoDeviceError: no OpenCL CPU run time is here; the message says how to get one.
        NoCompilerError: Triton or llvmlite are not installed.
        ArgumentError: another package is Triton's back end for CPUs.
    """
    from ..targets._triton.importing import import_triton

    import_triton()
    from .._triton_backend import devices, inductor

    devices.host_device()
    inductor.enable()
