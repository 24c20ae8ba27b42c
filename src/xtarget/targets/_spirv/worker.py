"""The child process that runs LLVM: `python -m xtarget.targets._spirv.worker`.

It loads LLVM once and forks for every request, for two reasons. LLVM's SPIR-V back end ends its
process on input that it does not know. And it keeps state: the second module of a process may come
out invalid (LLVM 22: ids defined twice), while in a fresh copy the same input gives the same bytes.

Frames on both pipes: 4 bytes length of the header, the header (JSON), then the parts whose lengths
the header lists. Imports neither Triton nor NumPy.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
from typing import Any, BinaryIO

__all__ = ["HEADER_LENGTH", "main", "pack", "unpack_header"]

HEADER_LENGTH = struct.Struct("<I")


def pack(header: dict[str, Any], parts: list[bytes]) -> bytes:
    """A frame."""
    data = json.dumps({**header, "parts": [len(part) for part in parts]}).encode()
    return b"".join([HEADER_LENGTH.pack(len(data)), data, *parts])


def unpack_header(data: bytes) -> tuple[dict[str, Any], list[int]]:
    """The header of a frame, and the lengths of its parts."""
    header = json.loads(data)
    return header, [int(length) for length in header.pop("parts")]


def _read(length: int) -> bytes:
    """Exactly `length` bytes of standard input, unbuffered, so that `select` sees what is left. Its
    end means that the parent is gone, and so is the reason to go on.
    """
    data = bytearray()
    while len(data) < length:
        chunk = os.read(0, length - len(data))
        if not chunk:
            sys.exit(0)
        data += chunk
    return bytes(data)


def _answer(header: dict[str, Any], parts: list[bytes]) -> bytes:
    from . import codegen
    from .irtext import Layout, UnsupportedError

    try:
        if header["step"] == "prepare":
            text, kernel = codegen.prepare(
                parts[0].decode(), parts[1], header["entry"], Layout(**header["layout"])
            )
            return pack({"parameters": kernel.parameters}, [text.encode()])
        return pack({}, [codegen.emit(parts[0].decode())])
    except UnsupportedError as error:
        return pack({"unsupported": str(error)}, [])
    except Exception as error:  # whatever it is, the parent shall say it
        return pack({"error": f"{type(error).__name__}: {error}"}, [])


def _serve(header: dict[str, Any], parts: list[bytes], answers: BinaryIO) -> None:
    """Answer one request in a fork; answer for it if it dies or takes too long."""
    ended, alive = os.pipe()  # the read end is ready when the fork is gone
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            answers.write(_answer(header, parts))
            answers.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(alive)
    watch = select.poll()
    watch.register(ended, select.POLLIN)
    watch.register(0, 0)  # asks for nothing but the end of the pipe, which is always told
    ready = [descriptor for descriptor, _ in watch.poll(header["time_limit"] * 1000)]
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
    os.close(ended)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not ready:
        answers.write(pack({"lost": f"did not finish within {header['time_limit']:g} s"}, []))
    elif ended not in ready:
        sys.exit(0)
    elif status:
        how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        answers.write(pack({"lost": how}, []))
    answers.flush()


def main() -> None:
    """Answer requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints must not get between the frames
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    from . import codegen

    codegen.warm_up()
    while True:
        header, lengths = unpack_header(_read(HEADER_LENGTH.unpack(_read(HEADER_LENGTH.size))[0]))
        _serve(header, [_read(length) for length in lengths], answers)


if __name__ == "__main__":
    main()
