"""The child process of `jit`: it builds modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._children import serve as serving
from ..._children.frames import pack
from ..._children.limits import end_after, limit_memory, memory_hint
from ..._values.errors import XTargetError

__all__ = ["Build", "serve"]

#: What builds on a device: (SPIR-V, entry, the compiler's options) to bytes.
Build = Callable[[bytes, str, str], bytes]

#: Seconds without a request after which the process ends and gives its memory back.
_IDLE = 60.0


def serve(open_device: Callable[[str], Build]) -> None:
    """Answer requests from standard input until it ends, or until there were none for a while.

    Args:
        open_device: raises XTargetError where there is no such device.
    """
    devices: dict[str, Build] = {}

    def answer(header: dict[str, Any], parts: list[bytes]) -> bytes:
        (spirv,) = parts
        try:
            build = devices.get(header["device"])
            if build is None:
                build = devices[header["device"]] = open_device(header["device"])
                limit_memory(header["memory"])  # on top of what the run time itself has mapped
            end_after(header["seconds"])
            return pack({}, [build(spirv, header["entry"], header["options"])])
        except XTargetError as error:
            hint = memory_hint(header["memory"], error.__cause__)
            return pack({"failed": f"{error}{hint and chr(10)}{hint.strip()}"})
        except Exception as error:  # whatever it is, the parent shall say it
            hint = memory_hint(header["memory"], error)
            return pack({"failed": f"{type(error).__name__}: {error}{hint}"})
        finally:
            end_after(0)

    serving.serve(lambda: answer, idle=_IDLE)
