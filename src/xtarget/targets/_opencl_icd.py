"""Makes the OpenCL CPU run time of the wheel `intel-opencl-rt` visible: nothing to set by hand.

The wheel's own .icd file names a path of the machine that built it, so no OpenCL loader finds the
library. Its dependencies come from other wheels and have no path of their own either; a library
that is loaded already satisfies them by its name.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = ["IntelRuntime", "icd_file_names", "icd_vendors", "intel_runtime"]

#: Where the loaders look on Linux when no variable says otherwise (Khronos OpenCL ICD loader).
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")

#: (wheel, library) that libintelocl.so needs, in loading order.
_NEEDED = (
    ("intel-cmplr-lib-rt", "libintlc.so.5"),
    ("intel-cmplr-lib-rt", "libirng.so"),
    ("intel-cmplr-lib-rt", "libimf.so"),
    ("intel-cmplr-lib-rt", "libsvml.so"),
    ("tbb", "libtbb.so.12"),
    ("tbb", "libtbbmalloc.so.2"),
)

#: What Intel's run time for CPUs shall give a block as shared memory: it is memory like any other
#: there, and 256 KiB by default. `_spirv.dots` counts on this.
_SHARED_MEMORY = ("CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE", "1MB")

# The loaders read their variables on the first call; one thread at a time sets and clears them.
_lock = threading.RLock()


class IntelRuntime:
    """The run time of the wheel.

    Attributes:
        icd: path of libintelocl.so, or None when no wheel brought it.
        problem: None, or a sentence: the wheel is there but cannot work.
    """

    def __init__(self, icd: Path | None, problem: str | None) -> None:
        self.icd = icd
        self.problem = problem


def _library(wheel: str, name: str) -> Path | None:
    """A library of an installed wheel, in a virtual environment, a user or a --prefix install."""
    try:
        distribution = importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.name == name:
            path = Path(str(distribution.locate_file(file))).resolve()
            if path.exists():
                return path
    return None


@cache
def intel_runtime() -> IntelRuntime:
    """Find the wheel's run time and load what it needs. Loads nothing when there is no wheel."""
    if not sys.platform.startswith("linux"):
        return IntelRuntime(None, None)  # elsewhere the loader finds run times by the registry
    icd = _library("intel-opencl-rt", "libintelocl.so")
    if icd is None:
        try:
            importlib.metadata.distribution("intel-opencl-rt")
        except importlib.metadata.PackageNotFoundError:
            return IntelRuntime(None, None)
        return IntelRuntime(
            None,
            "the package intel-opencl-rt is installed, but its library libintelocl.so is not where "
            "its file list says (pip install --target leaves such files out). "
            'Install into a virtual environment: pip install "xtarget[cpu]"',
        )
    for wheel, name in _NEEDED:
        beside = icd.parent / name
        path = beside if beside.exists() else _library(wheel, name)
        try:
            # RTLD_LOCAL: a dependency is matched by its name in the loader's list; a global one
            # would put Intel's libimf before other libraries' libm.
            ctypes.CDLL(str(path) if path else name, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        except OSError as error:
            return IntelRuntime(
                None,
                f"{icd} needs {name}, which cannot be loaded ({error}). "
                f"Install it with: pip install {wheel}",
            )
    return IntelRuntime(icd, None)


@contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set environment variables, and take them back: child processes must not inherit them."""
    with _lock:
        name, nbytes = _SHARED_MEMORY
        if name not in os.environ:
            values[name] = nbytes
        os.environ.update(values)
        try:
            yield
        finally:
            for name in values:
                os.environ.pop(name, None)


@contextmanager
def icd_vendors() -> Iterator[None]:
    """Around the first OpenCL call of pyopencl's own loader: the wheel's run time and the system's.

    The loader finds what it finds when the user has set `OCL_ICD_VENDORS` or there is no wheel.
    """
    icd = intel_runtime().icd
    if icd is None or "OCL_ICD_VENDORS" in os.environ:
        with _variables():
            yield
        return
    folder = Path(tempfile.mkdtemp(prefix="xtarget-icd-"))
    try:
        (folder / "00-xtarget-intel-cpu.icd").write_text(f"{icd}\n", encoding="utf-8")
        for file in sorted(SYSTEM_VENDORS.glob("*.icd")):
            try:
                shutil.copyfile(file, folder / file.name)
            except OSError:
                continue  # unreadable for us, so for the loader
        with _variables(OCL_ICD_VENDORS=str(folder)):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def icd_file_names() -> Iterator[None]:
    """Around the first call of the Khronos loader that SYCL uses: adds the wheel's run time.

    The loader finds what it finds when the user has set `OCL_ICD_FILENAMES` or there is no wheel.
    """
    icd = intel_runtime().icd
    if icd is None or "OCL_ICD_FILENAMES" in os.environ:
        with _variables():
            yield
        return
    with _variables(OCL_ICD_FILENAMES=str(icd)):
        yield
