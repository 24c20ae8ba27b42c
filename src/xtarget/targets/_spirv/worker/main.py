"""The child process that runs LLVM: `python -m xtarget.targets._spirv.worker.main`.

It loads LLVM once and forks for every request, for two reasons. LLVM's SPIR-V back end ends its
process on input that it does not know. And it keeps state: the second module of a process may come
out invalid (LLVM 22: ids defined twice), while in a fresh copy the same input gives the same bytes.

Imports neither Triton nor NumPy.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import IO, Any

from ...._children.frames import pack
from ...._children.limits import CLOCK_TIMES, limit_memory, memory_hint
from ...._children.serve import Answer, serve

__all__ = ["main"]


#: What a fork writes before it goes on from rewriting to emitting.
_PREPARED = b"P"


def _answer(header: dict[str, Any], parts: list[bytes], stream: IO[bytes]) -> bytes:
    from ..llvm import codegen
    from ..llvm.text import Layout, UnsupportedError

    steps, step = header["steps"], header["steps"][0]
    answer: dict[str, Any] = {}
    results: list[bytes] = []
    try:
        text = parts[0].decode()
        if "prepare" in steps:
            text, kernel = codegen.prepare(
                text, parts[1], header["entry"], Layout(**header["layout"])
            )
            answer = {
                "parameters": kernel.parameters,
                "asserts": kernel.asserts,
                "warp_size": kernel.warp_size,
                "only_read": kernel.only_read,
            }
            results.append(text.encode())
        if "emit" in steps:
            step = "emit"
            stream.write(_PREPARED)
            stream.flush()
            results.append(codegen.emit(text))
        return pack(answer, results)
    except UnsupportedError as error:
        return pack({"unsupported": str(error), "symbol": error.symbol}, [])
    except Exception as error:  # whatever it is, the parent shall say it
        hint = memory_hint(header.get("memory_limit"), error)
        return pack({"error": f"{type(error).__name__}: {error}{hint}", "step": step}, [])


def _serve(header: dict[str, Any], parts: list[bytes]) -> bytes:
    """Answer one request in a fork; answer for it if it dies or takes too long."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(source)
            limit_memory(header["memory_limit"])
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, header["time_limit"])
            with os.fdopen(sink, "wb") as stream:
                stream.write(_answer(header, parts, stream))
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    # on the clock it is ours to see: LLVM has use for a process's alarm when it crashes
    answer, late = _collect(source, time.monotonic() + CLOCK_TIMES * header["time_limit"])
    os.close(source)
    if late:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    late = late or status == -signal.SIGPROF
    step = "emit" if answer.startswith(_PREPARED) else header["steps"][0]
    if late:
        how = f"did not finish within {header['time_limit']:g} s of processor time"
        return pack({"lost": how, "step": step}, [])
    if status:
        how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        return pack({"lost": how, "step": step}, [])
    return answer.removeprefix(_PREPARED)


def _collect(source: int, deadline: float) -> tuple[bytes, bool]:
    """Return the output of the fork, and whether it took too long or the parent has ended."""
    watch = select.poll()
    watch.register(source, select.POLLIN)
    watch.register(0, 0)  # asks for nothing but the end of the pipe, which is always told
    answer = bytearray()
    while True:
        ready = watch.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if source not in (descriptor for descriptor, _ in ready):
            return bytes(answer), True
        chunk = os.read(source, 1 << 20)
        if not chunk:
            return bytes(answer), False
        answer += chunk


def _loaded() -> Answer:
    from ..llvm import codegen

    codegen.warm_up()
    return _serve


def main() -> None:
    """Answer requests from standard input until it ends."""
    serve(_loaded, watch=False)  # a fork watches the parent itself (`_collect`)


if __name__ == "__main__":
    main()
