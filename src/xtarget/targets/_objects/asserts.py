"""device_assert on targets without traps: a device's memory for the message, looked at whenever the
host waits for the device.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..._values.errors import DeviceAssertError
from ..._values.types import Artifact
from ..base import Value

__all__ = ["ASSERT_BYTES", "ASSERT_MEMORY", "Asserts"]

#: The hidden parameter's name.
ASSERT_MEMORY = "assert_memory"
#: Bytes behind it. `_spirv/llvm/asserts.py` says what kernels write there.
ASSERT_BYTES = 4096
_HEAD = struct.Struct("<IIIII")
_TEXT_AT = 32


class Asserts:
    """The memory of one device.

    Args:
        memory: `ASSERT_BYTES` zero bytes that kernels and the host see alike.
        address: where kernels find it.
        where: the device, for the message.
    """

    def __init__(self, memory: memoryview, address: int, where: str) -> None:
        self._memory = memory
        self._address = address
        self._where = where

    def check(self) -> None:
        """Called after the host has waited for work.

        Raises:
            DeviceAssertError: an assertion has failed since the last call.
        """
        failed, length, x, y, z = _HEAD.unpack_from(self._memory)
        if not failed:
            return
        text = bytes(self._memory[_TEXT_AT : _TEXT_AT + length]).decode(errors="replace")
        self._memory[:4] = bytes(4)
        raise DeviceAssertError(
            f"a kernel on {self._where} stopped: {text} First seen in block ({x}, {y}, {z})."
        )

    def fill_in(self, artifact: Artifact, args: Sequence[Value | None]) -> list[Value | None]:
        """The launch arguments with the memory's address for the hidden parameter."""
        return [
            self._address if parameter.hidden == ASSERT_MEMORY else value
            for parameter, value in zip(artifact.parameters, args, strict=True)
        ]
