"""The child process that runs LLVM: `python -m xtarget.targets._spirv.worker`.

LLVM's SPIR-V back end ends its process on input that it does not know, so it has one of its own.
Frames on both pipes: 4 bytes length of the header, the header (JSON), then the parts whose lengths
the header lists. Imports neither Triton nor NumPy.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import sys
import threading
from typing import Any, BinaryIO

__all__ = ["main", "pack", "unpack_header"]

HEADER_LENGTH = struct.Struct("<I")


def pack(header: dict[str, Any], parts: list[bytes]) -> bytes:
    """A frame."""
    data = json.dumps({**header, "parts": [len(part) for part in parts]}).encode()
    return b"".join([HEADER_LENGTH.pack(len(data)), data, *parts])


def unpack_header(data: bytes) -> tuple[dict[str, Any], list[int]]:
    """The header of a frame, and the lengths of its parts."""
    header = json.loads(data)
    return header, [int(length) for length in header.pop("parts")]


def _read(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def _requests(
    stream: BinaryIO, inbox: queue.SimpleQueue[tuple[dict[str, Any], list[bytes]]]
) -> None:
    """Read frames for ever. When the pipe ends, the parent is gone, and so is the reason to go on,
    also in the middle of a long optimisation.
    """
    try:
        while True:
            length = HEADER_LENGTH.unpack(_read(stream, HEADER_LENGTH.size))[0]
            header, lengths = unpack_header(_read(stream, length))
            inbox.put((header, [_read(stream, length) for length in lengths]))
    except (EOFError, OSError):
        os._exit(0)


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


def main() -> None:
    """Answer requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints must not get between the frames
    inbox: queue.SimpleQueue[tuple[dict[str, Any], list[bytes]]] = queue.SimpleQueue()
    threading.Thread(target=_requests, args=(sys.stdin.buffer, inbox), daemon=True).start()
    from . import codegen

    codegen.warm_up()
    while True:
        answers.write(_answer(*inbox.get()))
        answers.flush()


if __name__ == "__main__":
    main()
