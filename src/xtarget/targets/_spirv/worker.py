"""The child process that runs LLVM: `python -m xtarget.targets._spirv.worker`.

It loads LLVM once and forks for every request, for two reasons. LLVM's SPIR-V back end ends its
process on input that it does not know. And it keeps state: the second module of a process may come
out invalid (LLVM 22: ids defined twice), while in a fresh copy the same input gives the same bytes.

Imports neither Triton nor NumPy.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Any

from .._child_process import limit_memory, take_standard_output
from .._frames import pack, read_frame

__all__ = ["main"]


def _answer(header: dict[str, Any], parts: list[bytes]) -> bytes:
    from . import codegen
    from .irtext import Layout, UnsupportedError

    try:
        if header["step"] == "prepare":
            text, kernel = codegen.prepare(
                parts[0].decode(), parts[1], header["entry"], Layout(**header["layout"])
            )
            answer = {
                "parameters": kernel.parameters,
                "asserts": kernel.asserts,
                "warp_size": kernel.warp_size,
            }
            return pack(answer, [text.encode()])
        return pack({}, [codegen.emit(parts[0].decode())])
    except UnsupportedError as error:
        return pack({"unsupported": str(error), "symbol": error.symbol}, [])
    except Exception as error:  # whatever it is, the parent shall say it
        return pack({"error": f"{type(error).__name__}: {error}"}, [])


def _serve(header: dict[str, Any], parts: list[bytes]) -> bytes:
    """Answer one request in a fork; answer for it if it dies or takes too long."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(source)
            limit_memory(header["memory_limit"])
            with os.fdopen(sink, "wb") as stream:
                stream.write(_answer(header, parts))
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    answer = _collect(source, time.monotonic() + header["time_limit"])
    os.close(source)
    if answer is None:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if answer is None:
        return pack({"lost": f"did not finish within {header['time_limit']:g} s"}, [])
    if status:
        how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        return pack({"lost": how}, [])
    return answer


def _collect(source: int, deadline: float) -> bytes | None:
    """All that the fork writes; None if it takes too long, or if the parent is gone meanwhile."""
    watch = select.poll()
    watch.register(source, select.POLLIN)
    watch.register(0, 0)  # asks for nothing but the end of the pipe, which is always told
    answer = bytearray()
    while True:
        ready = watch.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if source not in (descriptor for descriptor, _ in ready):
            return None
        chunk = os.read(source, 1 << 20)
        if not chunk:
            return bytes(answer)
        answer += chunk


def main() -> None:
    """Answer requests from standard input until it ends."""
    answers = take_standard_output()
    from . import codegen

    codegen.warm_up()
    with contextlib.suppress(BrokenPipeError):  # the parent is gone
        while True:
            answers.write(_serve(*read_frame()))
            answers.flush()


if __name__ == "__main__":
    main()
