"""AMD's run-time compiler: HIP C++ to a code object within this process, with no GPU.

It is called by its C functions: hip-python has other faces of them in each of its versions.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from ..._values.errors import CompileError
from .._host import contents
from .library import files_of

__all__ = ["build", "find", "identity"]

_NAME = "libhiprtc.so"
_OPTIONS = ("-std=c++17", "-O3", "-ffp-contract=off", "-mcode-object-version=5")
_LOG_BYTES = 4000


def find() -> Path | None:
    """The library's file, found without loading it."""
    return next(files_of(_NAME), None)


def identity() -> str:
    """The library by content, with the compiler that it calls; empty where there is none."""
    path = find()
    if path is None:
        return ""
    real = path.resolve()
    files = [real, *sorted({file.resolve() for file in real.parent.glob("libamd_comgr.so*")})]
    return ", ".join(f"{file.name} {contents.of_file(file)[:32]}" for file in files)


@cache
def _loaded(path: Path) -> Any:
    return ctypes.CDLL(os.fspath(path))


def build(text: str, name: str, arch: str, what: str) -> bytes:
    """The code object of a text. The library has HIP's words and functions built in.

    Args:
        name: of the file, for messages.

    Raises:
        CompileError: the library cannot be loaded, or refuses the text; the message has its log,
            with file and line.
    """
    path = find()
    assert path is not None, "who calls has asked `find`"
    try:
        rtc = _loaded(path)
    except OSError as error:
        raise CompileError(f"{what}: {path} cannot be loaded ({error}).") from error
    program = ctypes.c_void_p()
    created = rtc.hiprtcCreateProgram(
        ctypes.byref(program), text.encode(), name.encode(), 0, None, None
    )
    if created:
        raise CompileError(f"{what}: hiprtcCreateProgram gives the status {created}.")
    try:
        options = [f"--offload-arch={arch}", *_OPTIONS]
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = rtc.hiprtcCompileProgram(program, len(options), words)
        if status:
            log = _bytes(rtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise CompileError(
                f"{what}: {log[-_LOG_BYTES:].strip() or f'hipRTC gives the status {status}.'}"
            )
        return _bytes(rtc, program, "Code")
    finally:
        rtc.hiprtcDestroyProgram(ctypes.byref(program))


def _bytes(rtc: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(rtc, f"hiprtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    getattr(rtc, f"hiprtcGet{what}")(program, buffer)
    return buffer.raw[: size.value]
