"""Choose the libamdhip64 that this process uses. There may be several: torch's wheels bring their
own.

Two copies of HIP in one process know nothing of each other's streams and memory. So the binding
gets the copy that is already loaded, else the one that torch would load, else the system's.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..._values.errors import DriverError, NoDeviceError
from .._host.machine import find_library_file

__all__ = [
    "NAME",
    "candidates",
    "check_alone",
    "files_of",
    "find",
    "launch_entries",
    "loaded",
    "plain_functions",
    "settle",
    "too_old",
]

NAME = "libamdhip64.so"
#: HIP's major versions that can be used, the newest first. Distributions have the library under
#: such a name only; the bare one comes with their -dev package.
_MAJORS = tuple(range(12, 5, -1))
_MAJOR = re.compile(r"\.so\.(\d+)")
_ROCM = "/opt/rocm"
_MAPS = Path("/proc/self/maps")

#: The one that the binding was led to, and what keeps it loaded.
_settled: tuple[Path, Any] | None = None
#: How many modules there were when no second copy was found.
_modules_then = -1


def loaded() -> list[Path]:
    """The files of that library in this process; one for each copy."""
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:  # not Linux
        return []
    paths = (line[line.index("/") :] for line in lines if f"/{NAME}" in line)
    return [Path(path.removesuffix(" (deleted)")) for path in dict.fromkeys(paths)]


def find() -> Path | None:
    """Return the file to use, found without loading it; None if none is found."""
    return next((path for path in candidates() if not too_old(path)), None)


def candidates() -> Iterator[Path]:
    """All files, in the order in which they are wanted."""
    yield from loaded()
    yield from files_of(NAME)


def files_of(name: str) -> Iterator[Path]:
    """A library of ROCm: of Python packages, of ROCm, of the system."""
    for folder in _wheels():
        yield from _in_folder(folder, name)
    for root in (os.environ.get("ROCM_PATH"), os.environ.get("ROCM_HOME"), _ROCM):
        if root:
            yield from _in_folder(Path(root) / "lib", name)
    for each in _names(name):
        path = find_library_file(each)
        if path is not None:
            yield Path(path)


def too_old(path: Path) -> bool:
    """Of ROCm 5 or older, by the name of the file behind links."""
    match = _MAJOR.search(path.resolve().name) or _MAJOR.search(path.name)
    return match is not None and int(match[1]) < min(_MAJORS)


def _names(name: str) -> list[str]:
    return [name, *(f"{name}.{major}" for major in _MAJORS)]


def _in_folder(folder: Path, name: str) -> Iterator[Path]:
    yield from (path for each in _names(name) if (path := folder / each).exists())


def _wheels() -> Iterator[Path]:
    """Folders of Python packages that bring the library."""
    for package, inner in (("torch", "lib"), ("_rocm_sdk_core", "lib")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place) / inner


def settle(hip: Any) -> None:
    """Load the library that `find` names, and lead the binding to it. Before its first call.

    Raises:
        NoDeviceError: the loader refuses it, or a library that it needs.
    """
    global _settled
    if _settled is not None or not sys.platform.startswith("linux"):
        return
    path = find()
    if path is None:
        return  # the binding says what it looked for
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NoDeviceError(
            f"The HIP library {path} cannot be loaded: {error}. Install what it needs (of the same "
            "ROCm version), or remove it."
        ) from error
    _settled = path, (library, _lead(hip, path))


def plain_functions() -> Any:
    """The functions of the library in use, without a binding; None where it is not known."""
    if _settled is not None:
        return _settled[1][0]
    files = loaded()
    return ctypes.CDLL(str(files[0])) if files else None


def launch_entries(hip: Any) -> tuple[int, int, tuple[int, int, int]] | None:
    """The addresses of `hipModuleLaunchKernel`, `hipGetDevice`, and of `hipMemsetD8Async`,
    `hipMemsetD16Async` and `hipMemsetD32Async` (0: it is missing); None: this is not a binding but
    an emulation, or its library is not known."""
    functions = plain_functions() if hasattr(hip, "__name__") else None
    if functions is None:
        return None
    filling = [f"hipMemsetD{bits}Async" for bits in (8, 16, 32)]
    names = ("hipModuleLaunchKernel", "hipGetDevice", *filling)
    launch, current, *fills = (
        ctypes.cast(function, ctypes.c_void_p).value or 0
        for function in (getattr(functions, name, ctypes.c_void_p()) for name in names)
    )
    return (launch, current, (fills[0], fills[1], fills[2])) if launch and current else None


def _lead(hip: Any, path: Path) -> Any:
    """Have hip-python find this file; returns what has to stay."""
    if hip.__name__.startswith("rocm."):
        from rocm.bindings.util import paths  # hip-python 10 asks this module at its first call

        asked = paths.get_library_path

        def answer(shortname: str, *args: Any, **kwargs: Any) -> bytes:
            if shortname == "amdhip64":
                return os.fsencode(path)
            return bytes(asked(shortname, *args, **kwargs))

        paths.get_library_path = answer
        return answer
    # 6 and 7 ask the loader for the bare name
    file = os.memfd_create(NAME)
    try:
        os.write(file, _alias(os.fsencode(path)))
        return ctypes.CDLL(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def _alias(path: bytes) -> bytes:
    """An ELF library without content whose name is the bare one, and which needs that file: who
    opens the name finds the file's functions.

    Source: System V ABI, chapter 5 "Program Loading and Dynamic Linking".
    """
    load, dynamic, stack = 1, 2, 0x6474E551
    needed, strtab, symtab, strsz, syment, soname = 1, 5, 6, 10, 11, 14
    names = b"\0" + NAME.encode() + b"\0" + path + b"\0"
    tags_at = 64 + 3 * 56
    symbols_at = tags_at + 7 * 16
    names_at = symbols_at + 24
    size = names_at + len(names)
    tags = (
        *((soname, 1), (needed, len(NAME) + 2), (strtab, names_at), (strsz, len(names))),
        *((symtab, symbols_at), (syment, 24), (0, 0)),
    )
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)

    def segment(kind: int, place: int, nbytes: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, 6, place, place, place, nbytes, nbytes, align)

    return b"".join(
        (
            identity + header,
            segment(load, 0, size, 4096),
            segment(dynamic, tags_at, 7 * 16, 8),
            segment(stack, 0, 0, 16),
            *(struct.pack("<QQ", *tag) for tag in tags),
            bytes(24),
            names,
        )
    )


def check_alone(where: str) -> None:
    """Refuse what another library brings while it may be of another copy of HIP.

    Raises:
        DriverError: there are two copies; the message names them.
    """
    global _modules_then
    if len(sys.modules) == _modules_then:
        return
    before = len(sys.modules)
    files = loaded()
    if len(files) > 1:
        own = _settled[0].resolve() if _settled is not None else files[0]
        others = [str(path) for path in files if not _same(path, own)]
        if others:
            raise DriverError(
                f"{where} is used through {own}, and this process has loaded another copy of HIP, "
                f"{', '.join(others)}. Neither knows the other's streams and memory, so these "
                "cannot be used here. Import the library that brings it (torch, for one) before "
                "xtarget opens a device, or remove one of the two."
            )
    _modules_then = before


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
