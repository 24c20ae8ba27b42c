"""HIP's numbers, as far as the emulated devices give or take them."""

from __future__ import annotations

import ctypes
import enum
import struct
from typing import Any

__all__ = ["Attribute", "Kind", "Status", "kernarg_of"]

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
    hipErrorNotSupported = 801


class Attribute(enum.IntEnum):
    hipDeviceAttributeMemoryPoolsSupported = 1


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
