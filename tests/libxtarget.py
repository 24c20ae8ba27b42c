"""libxtarget: compiled by gcc, and called by ctypes with NumPy arrays, errors as exceptions."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtarget._values.types import DTYPES

__all__ = [
    "BAD_ARGUMENT",
    "BAD_BUNDLE",
    "CUDA",
    "HIP",
    "NEWER",
    "NOT_BUILT",
    "NOT_IN_BUNDLE",
    "NOT_IN_LOCK",
    "NOT_TRUSTED",
    "NO_DRIVER",
    "NO_SERVER",
    "OPENCL",
    "SANITIZERS",
    "Device",
    "Failed",
    "Kernel",
    "Library",
    "environment",
    "needs_compiler_and_opencl",
    "sanitized",
    "use_wheels",
]

CUDA, HIP, LEVEL_ZERO, OPENCL = 1, 2, 3, 4
BAD_ARGUMENT, BAD_BUNDLE, NEWER, NOT_TRUSTED, NOT_IN_BUNDLE, NO_DRIVER = range(1, 7)
NO_SERVER, NOT_IN_LOCK, NOT_BUILT = 9, 10, 11
_CODES = {name: code for code, name in enumerate(DTYPES)}


ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "libxtarget"
CORE = ROOT / "src" / "xtarget" / "_core"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-g", '-DXT_VERSION="test"')
INCLUDE = (f"-I{SOURCES / 'include'}", f"-I{SOURCES}", f"-I{CORE}")
LIBRARIES = ("-lz", "-lcrypto", "-ldl", "-lpthread", "-lm")


def compiled(to: Path, *sources: Path, flags: tuple[str, ...] = (), compiler: str = "gcc") -> Path:
    """A program or a library of these files and all of libxtarget's."""
    command = [compiler, *FLAGS, *flags, *INCLUDE, *map(str, sources), *_objects(compiler, flags)]
    subprocess.run([*command, "-o", str(to), *LIBRARIES], check=True, timeout=300)
    return to


@cache
def _objects(compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """libxtarget's files, compiled once for each set of flags: 20 seconds with a sanitizer."""
    folder = Path(tempfile.mkdtemp(prefix="libxtarget-"))
    atexit.register(shutil.rmtree, folder)
    files = [*sorted(SOURCES.glob("*.c")), CORE / "program.c"]
    command = [compiler, *FLAGS, *flags, *INCLUDE, "-c", *map(str, files)]
    subprocess.run(command, check=True, timeout=300, cwd=folder)
    return tuple(str(folder / f"{file.stem}.o") for file in files)


#: Flags of compilers, by what they look for.
SANITIZERS: dict[str, tuple[str, ...]] = {
    "address,undefined": (
        "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
    ),
    "thread": ("-O1", "-fsanitize=thread"),
}  # fmt: skip
#: Of the vendor's libraries, which nobody has instrumented.
_SUPPRESSED = "leak:libOpenCL\nleak:libintelocl\nleak:libtbb\nleak:libcommon_clang\n"


def sanitized(folder: Path, *words: object) -> str:
    """The output of a program with a sanitizer, which has to end well.

    Args:
        folder: for files of this.
        words: the program and its arguments.
    """
    (folder / "leaks").write_text(_SUPPRESSED)
    done = subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **{n: v for n, v in os.environ.items() if n != "XTARGET_TRUST"},
            **environment(),
            "LSAN_OPTIONS": f"suppressions={folder / 'leaks'}:print_suppressions=0",
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",
        },
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel's address layout is not one that gcc's TSan knows")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    """Where a C program finds the OpenCL loader and run time for CPUs of the wheels."""
    folder = Path(sysconfig.get_path("data"), "lib")
    if not (folder / "libintelocl.so").exists():
        return {}
    return {
        "XT_OPENCL_LIBRARY": str(folder / "libOpenCL.so.1"),
        "OCL_ICD_FILENAMES": str(folder / "libintelocl.so"),
        "LD_LIBRARY_PATH": str(folder),
    }


needs_compiler_and_opencl = pytest.mark.skipif(
    shutil.which("gcc") is None or not environment(),
    reason="there is no gcc, or no OpenCL run time for CPUs",
)


def use_wheels(patch: Any) -> None:
    """Have this process find them too, which reads LD_LIBRARY_PATH no more.

    Args:
        patch: pytest's.
    """
    for name, value in environment().items():
        patch.setenv(name, value)
        if name == "LD_LIBRARY_PATH":
            for needed in ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so"):
                ctypes.CDLL(str(Path(value, needed)))


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    ]


class Argument(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("tensor", Tensor),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
    ]


class Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Failed(Exception):
    """A status that is not 0, and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def tensor(array: np.ndarray[Any, Any], device_type: int = 0) -> Tensor:
    sizes = ctypes.c_int64 * max(array.ndim, 1)
    steps = [step // array.itemsize for step in array.strides]
    return Tensor(
        array.ctypes.data,
        _CODES[array.dtype.name],
        array.ndim,
        sizes(*array.shape),
        sizes(*steps),
        device_type,
        0,
    )


def argument(value: Any) -> Argument:
    if value is None:
        return Argument(0)
    if isinstance(value, Tensor):
        return Argument(1, 0, value)
    if isinstance(value, np.ndarray):
        return Argument(1, 0, tensor(value))
    if isinstance(value, float):
        return Argument(3, 0, Tensor(), 0, value)
    return Argument(2, 0, Tensor(), int(value))


class Library:
    """The library of a file."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        for name in ("message", "bundle_signer", "bundle_target", "device_target", "device_name"):
            getattr(self.c, f"xtarget_{name}").restype = ctypes.c_char_p
        self.c.xtarget_bundle_target_count.restype = ctypes.c_size_t

    def check(self, status: int) -> None:
        if status:
            raise Failed(status, self.c.xtarget_message().decode())

    def open(self, path: Path, trust: str | None = None) -> ctypes.c_void_p:
        bundle = ctypes.c_void_p()
        given = None if trust is None else trust.encode()
        self.check(self.c.xtarget_bundle_open(str(path).encode(), given, ctypes.byref(bundle)))
        return bundle

    def of_library(
        self, folder: Path, device: Device, kernels: str | None, dtypes: str, seconds: float = 100.0
    ) -> ctypes.c_void_p:
        """A bundle that a child process builds."""
        bundle = ctypes.c_void_p()
        status = self.c.xtarget_library_open(
            str(folder).encode(),
            device.raw,
            None if kernels is None else kernels.encode(),
            dtypes.encode(),
            ctypes.c_double(seconds),
            ctypes.byref(bundle),
        )
        self.check(status)
        return bundle

    def compile_by(
        self, bundle: ctypes.c_void_p, server: str | None, seconds: float = 60.0
    ) -> None:
        given = None if server is None else server.encode()
        status = self.c.xtarget_bundle_compile_by(bundle, given, ctypes.c_double(seconds))
        self.check(status)

    def close(self, bundle: ctypes.c_void_p) -> None:
        self.c.xtarget_bundle_close(bundle)

    def kernels(self, bundle: ctypes.c_void_p, target: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
        each = of(lambda data, kernel, dtype: found.append((kernel.decode(), dtype.decode())) or 0)
        self.check(self.c.xtarget_bundle_kernels(bundle, target.encode(), each, None))
        return found


class Device:
    def __init__(self, library: Library, driver: int = OPENCL) -> None:
        self.library, self.raw, self.stream = library, ctypes.c_void_p(), ctypes.c_void_p()
        library.check(library.c.xtarget_device_open(driver, 0, ctypes.byref(self.raw)))
        library.check(library.c.xtarget_device_stream(self.raw, ctypes.byref(self.stream)))

    def synchronize(self) -> None:
        self.library.check(self.library.c.xtarget_device_synchronize(self.raw, self.stream))

    def close(self) -> None:
        self.library.c.xtarget_device_close(self.raw)


class Kernel:
    """A kernel of a bundle, called with NumPy arrays."""

    def __init__(
        self,
        device: Device,
        bundle: ctypes.c_void_p,
        name: str,
        dtype: str,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.device, self.library, self.raw = device, device.library, ctypes.c_void_p()
        given = [Option(n.encode(), v.encode()) for n, v in (options or {}).items()]
        status = self.library.c.xtarget_kernel_get(
            bundle,
            device.raw,
            name.encode(),
            dtype.encode(),
            (Option * max(len(given), 1))(*given),
            ctypes.c_size_t(len(given)),
            ctypes.byref(self.raw),
        )
        self.library.check(status)

    def launch(self, args: Sequence[Any], outs: Sequence[Any], stream: Any = None) -> None:
        given = (Argument * max(len(args), 1))(*map(argument, args))
        results = [one if isinstance(one, Tensor) else tensor(one) for one in outs]
        status = self.library.c.xtarget_kernel_call(
            self.raw,
            self.device.stream if stream is None else stream,
            given,
            ctypes.c_size_t(len(args)),
            (Tensor * max(len(outs), 1))(*results),
            ctypes.c_size_t(len(outs)),
        )
        self.library.check(status)

    def outputs(self, *args: Any) -> list[tuple[str, tuple[int, ...]]]:
        """Dtypes and shapes of what a call gives."""
        given = (Argument * max(len(args), 1))(*map(argument, args))
        found, shapes = (Tensor * 8)(), ((ctypes.c_int64 * 16) * 8)()
        count = ctypes.c_size_t()
        status = self.library.c.xtarget_kernel_outputs(
            self.raw,
            given,
            ctypes.c_size_t(len(args)),
            found,
            shapes,
            ctypes.c_size_t(8),
            ctypes.byref(count),
        )
        self.library.check(status)
        names = list(_CODES)
        return [
            (names[one.dtype], tuple(shapes[n][: one.ndim]))
            for n, one in enumerate(found[: count.value])
        ]

    def __call__(self, *args: Any) -> Any:
        """New arrays with the results."""
        outs = [np.empty(shape, dtype) for dtype, shape in self.outputs(*args)]
        self.launch(args, outs)
        self.device.synchronize()
        return outs[0] if len(outs) == 1 else outs

    def release(self) -> None:
        self.library.c.xtarget_kernel_release(self.raw)
