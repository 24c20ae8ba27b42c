"""Every error that xtarget raises on purpose: one tree, so that one `except` is enough.

A message has three parts: what failed and on what; the vendor's own status name and text where
    there is one; what to
do next.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceAssertError",
    "DeviceLostError",
    "DriverError",
    "FrozenError",
    "KernelFault",
    "LaunchError",
    "LoadError",
    "NoCompilerError",
    "NoDeviceError",
    "OutOfMemoryError",
    "OutOfResourcesError",
    "UnknownKernelError",
    "UnknownTargetError",
    "UnsupportedInstruction",
    "UntrustedError",
    "WrongResultError",
    "XTargetError",
    "shortened",
    "shortened_text",
]


def shortened(value: object) -> str:
    """A value of the caller's as a message shows it: its repr, or what there is to say of it where
    that is long or fails.
    """
    try:
        if isinstance(value, int) and value.bit_length() > 256:
            return f"an integer of {value.bit_length()} bits"  # Python refuses to write long ones
        return shortened_text(" ".join(repr(value).split()))
    except Exception as error:  # whatever a repr raises
        return f"a {type(value).__qualname__} ({type(error).__name__} in its repr)"


def shortened_text(text: str, most: int = 100) -> str:
    """A text of at most about that length, without its middle if need be."""
    if len(text) <= most:
        return text
    return f"{text[: most - 30]}...{text[-20:]} ({len(text)} characters)"


class XTargetError(Exception):
    """Base class of every error of this package."""


class UnknownKernelError(XTargetError):
    """No kernel of that name is registered."""


class UnknownTargetError(XTargetError):
    """The text names no target that can be compiled for, or no vendor."""


class ArgumentError(XTargetError, ValueError):
    """The arguments do not fit the kernel: number, shape, dtype, device, overlap; or an environment
    variable has a value that means nothing."""


class MissingFeatureError(ArgumentError):
    """The device lacks what the call needs, which another one may have."""


class NoDeviceError(XTargetError):
    """No device was found, or the one that was named does not exist."""


class CompileError(XTargetError):
    """A kernel could not be compiled, or no compiler is installed."""


class NoCompilerError(CompileError):
    """No compiler is installed, and the binary that is wanted is not there either."""


class FrozenError(CompileError):
    """A kernel would have to be compiled, and `XTARGET_COMPILE=error` forbids it."""


class UntrustedError(XTargetError):
    """Nobody whom `XTARGET_TRUST` names has signed this, or no key can be read."""


class LoadError(XTargetError):
    """A binary was refused: wrong format, wrong arch, damaged, or without the wanted entry."""


class LaunchError(XTargetError):
    """A launch was refused or failed."""


class DeviceAssertError(LaunchError, RuntimeError):
    """A `device_assert` of a kernel failed; the message has the kernel's file, line and text. The
    blocks concerned stopped there, so results are incomplete. The device can be used on.

    A `RuntimeError`, too, which code for Triton catches.
    """


class OutOfResourcesError(LaunchError):
    """A launch needs more threads, registers or shared memory than the device has."""


class KernelFault(LaunchError):
    """The emulator stopped a kernel: it did what no correct kernel does (access outside of its
    buffers, use of uninitialised values, a race, no end). The message names kernel, block, lane and
    instruction.
    """


class OutOfMemoryError(XTargetError, MemoryError):
    """The device has no memory left for an allocation."""


class WrongResultError(XTargetError):
    """A call's result is not what the kernel's reference gives; only `XTARGET_VERIFY` compares."""


class DeviceLostError(XTargetError):
    """The device or its context is gone (fault, reset, unplugged); nothing on it can be used any
    more.
    """


class DriverError(XTargetError):
    """A vendor's run time answered with a status that has no better class here."""


class UnsupportedInstruction(XTargetError):
    """The emulator met an instruction, or a form of one, that it does not execute."""
