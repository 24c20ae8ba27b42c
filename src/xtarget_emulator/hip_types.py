"""HIP's numbers, as far as the emulated devices give or take them."""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Sequence
from typing import Any

from xtarget.targets.amd.code_object import KernelArgument

__all__ = ["Attribute", "Kind", "Status", "kernarg_behind", "kernarg_of"]

_END, _POINTER, _SIZE = 3, 1, 2


class Status(enum.IntEnum):
    """hipError_t, as far as it is given here. Truth: something is wrong."""

    hipSuccess = 0
    hipErrorInvalidValue = 1
    hipErrorOutOfMemory = 2
    hipErrorInvalidConfiguration = 9
    hipErrorNoDevice = 100
    hipErrorInvalidDevice = 101
    hipErrorInvalidImage = 200
    hipErrorNoBinaryForGpu = 209
    hipErrorInvalidHandle = 400
    hipErrorNotFound = 500
    hipErrorNotReady = 600
    hipErrorContextIsDestroyed = 709
    hipErrorLaunchFailure = 719
    hipErrorCooperativeLaunchTooLarge = 720
    hipErrorNotSupported = 801


class Attribute(enum.IntEnum):
    hipDeviceAttributeMemoryPoolsSupported = 1
    hipDeviceAttributeCooperativeLaunch = 2


class Kind(enum.IntEnum):
    hipMemcpyHostToHost = 0
    hipMemcpyHostToDevice = 1
    hipMemcpyDeviceToHost = 2
    hipMemcpyDeviceToDevice = 3
    hipMemcpyDefault = 4


def kernarg_of(extra: Any) -> bytes | None:
    """The argument bytes behind HIP_LAUNCH_PARAM_*: markers and addresses, 8 bytes each."""
    if extra is None:
        return None
    head = struct.unpack_from("5Q", extra)
    if (head[0], head[2], head[4]) != (_POINTER, _SIZE, _END):
        return None
    size = ctypes.c_size_t.from_address(head[3]).value
    return ctypes.string_at(head[1], size)


def kernarg_behind(
    parameters: Any, arguments: Sequence[KernelArgument], nbytes: int
) -> bytes | None:
    """The argument bytes of a launch that gives the address of each value.

    Args:
        parameters: the addresses in C's form: an array, or where there is one.
        arguments: of the kernel.
        nbytes: size of all arguments.
    """
    if not parameters:
        return None
    at = parameters if isinstance(parameters, int) else ctypes.addressof(parameters)
    given = [a for a in arguments if not a.hidden]
    found, result = (ctypes.c_void_p * len(given)).from_address(at), bytearray(nbytes)
    for argument, address in zip(given, found, strict=True):
        if not address:
            return None
        value = ctypes.string_at(address, argument.size)
        result[argument.offset : argument.offset + argument.size] = value
    return bytes(result)
