"""The loop of a child process that builds modules for `_jit`."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from .._errors import XTargetError
from ._child_process import end_after, end_with_parent, limit_memory, take_standard_output
from ._frames import pack, read_frame

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
    answers = take_standard_output()
    end_with_parent()
    devices: dict[str, Build] = {}
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while poll.poll(_IDLE * 1000):
        header, (spirv,) = read_frame()
        try:
            build = devices.get(header["device"])
            if build is None:
                build = devices[header["device"]] = open_device(header["device"])
                limit_memory(header["memory"])  # on top of what the run time itself has mapped
            end_after(header["seconds"])
            answer = pack({}, [build(spirv, header["entry"], header["options"])])
        except XTargetError as error:
            answer = pack({"failed": str(error)}, [])
        except Exception as error:  # whatever it is, the parent shall say it
            answer = pack({"failed": f"{type(error).__name__}: {error}"}, [])
        finally:
            end_after(0)
        answers.write(answer)
        answers.flush()
    os._exit(0)  # a run time that hangs in its destructors is of no interest
