"""Builds the stand-in libamdhip64.so, loads it into this process, and turns its knobs.

For child processes of tests only: a library loaded with RTLD_GLOBAL never goes away again.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint * 6),
    ctypes.c_uint,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_uint64,
)


def compiler() -> str | None:
    """The C compiler's path, or None."""
    return shutil.which(os.environ.get("CC", "cc"))


def build(root: Path, *, old: bool = False) -> Path:
    """Compile to `root/lib/libamdhip64.so`; `old` leaves out what ROCm 5 does not have."""
    library = root / "lib" / "libamdhip64.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(compiler()),
        *("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread"),
        "-Wl,-soname,libamdhip64.so",
        *(["-DSTANDIN_OLD"] if old else []),
        *("-o", str(library), str(Path(__file__).with_name("hip.c"))),
    ]
    subprocess.run(command, check=True, timeout=120)
    return library


def _counter(name: str) -> property:
    """A counter of the library."""
    return property(lambda self: getattr(self._library, f"standin_{name}")())


class StandIn:
    """The library, loaded so that hip-python finds it: 6 and 7 by its SONAME, 10 by ROCM_PATH."""

    def __init__(self, library: Path) -> None:
        os.environ["ROCM_PATH"] = str(library.parent.parent)
        self._library = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        self._library.standin_complaint.restype = ctypes.c_char_p
        self._library.standin_calls.restype = ctypes.c_long
        self._kernels: dict[str, object] = {}
        self.launches: list[tuple[str, tuple[int, ...], int, int, bytes]] = []
        self._callback = LAUNCH(self._launched)  # kept alive: C holds only its address
        self._library.standin_on_launch(self._callback)

    def devices(self, count: int, gcn: str = "gfx942:sramecc+:xnack-", warp: int = 64) -> None:
        self._library.standin_devices(count, gcn.encode(), warp)

    def version(self, number: int) -> None:
        self._library.standin_version(number)

    def pools(self, yes: bool) -> None:
        self._library.standin_pools(int(yes))

    def cooperative(self, yes: bool, blocks: int = 2) -> None:
        """Whether there are cooperative launches, and how many blocks a compute unit takes."""
        self._library.standin_cooperative(int(yes), blocks)

    def arguments(self, *places: tuple[int, int]) -> None:
        """(offset, size) of each argument of the kernels that are launched cooperatively."""
        for offset, size in places:
            self._library.standin_argument(offset, size)

    def fail(self, function: str, status: int, after: int = 0) -> None:
        """Let the call of `function` after `after` good ones return `status`, once."""
        self._library.standin_fail(function.encode(), status, after)

    def kernel(self, name: str, work) -> None:
        """`work(dims, kernarg bytes) -> status or None` does what the kernel would."""
        self._kernels[name] = work

    @property
    def complaint(self) -> str:
        return self._library.standin_complaint().decode()

    live_buffers = _counter("live_buffers")
    queued = _counter("queued")
    calls = _counter("calls")
    #: Launches that became nodes of a graph.
    captured = _counter("captured")
    #: How many are loaded.
    modules = _counter("modules")

    def _launched(self, name, dims, shared, stream, data, count) -> int:
        data = ctypes.string_at(data, count)
        self.launches.append((name.decode(), tuple(dims.contents), shared, stream, data))
        work = self._kernels.get(name.decode())
        return (work(tuple(dims.contents), data) or 0) if work else 0
