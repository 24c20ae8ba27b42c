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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..._system.locks import Lock
from ..._system.scratch import Folder
from . import contents
from .machine import find_library_file

__all__ = ["IntelRuntime", "compilers", "icd_file_names", "icd_vendors", "intel_runtime"]

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

#: How the names of the wheel's files begin that make machine code or become part of it.
_COMPILING = ("libintelocl.so", "clbltfn", "cllibrary", "libocl_svml", "libcommon_clang.so")

#: Shared memory that Intel's run time for CPUs gives a block: it is ordinary memory there, 256 KiB
#: by default. `_spirv.dots` relies on this setting.
_SHARED_MEMORY = ("CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE", "1MB")

# The loaders read their variables on the first call; one thread at a time sets and clears them.
_lock = Lock()


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
    """Find the wheel's run time and load what it needs. Load nothing if no wheel is installed."""
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


def compilers() -> str:
    """Names and sizes of what makes machine code in OpenCL's run times: one that was replaced by
    another of the same version is another compiler. Not their content: to read 150 MB takes longer
    than all else that a first launch does.
    """
    files = []
    icd = intel_runtime().icd
    if icd is not None:
        names = contents.names_in(str(icd.parent))[0]
        files += [icd.parent / name for name in names if name.startswith(_COMPILING)]
    for named in sorted(SYSTEM_VENDORS.glob("*.icd")):
        with suppress(OSError):
            library = named.read_text(encoding="utf-8", errors="replace").strip()
            found = library if "/" in library else find_library_file(library)
            files += [Path(found)] if found else []
    return ", ".join(f"{file.name} {_size(file)}" for file in files)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


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


def _wheel_for(variable: str) -> Path | None:
    """The ICD of an installed wheel; None without one, and if the user has set `variable`."""
    return None if variable in os.environ else intel_runtime().icd


@contextmanager
def icd_vendors() -> Iterator[None]:
    """Around the first OpenCL call of pyopencl's own loader: the wheel's run time and the system's.

    The loader searches as usual if the user has set `OCL_ICD_VENDORS` or no wheel is installed.
    """
    icd = _wheel_for("OCL_ICD_VENDORS")
    if icd is None:
        with _variables():
            yield
        return
    with Folder("icd") as folder:
        (folder / "00-xtarget-intel-cpu.icd").write_text(f"{icd}\n", encoding="utf-8")
        for file in sorted(SYSTEM_VENDORS.glob("*.icd")):
            try:
                shutil.copyfile(file, folder / file.name)
            except OSError:
                continue  # unreadable for us, so for the loader
        with _variables(OCL_ICD_VENDORS=str(folder)):
            yield


@contextmanager
def icd_file_names() -> Iterator[None]:
    """Around the first call of the Khronos loader that SYCL uses: adds the wheel's run time.

    The loader searches as usual if the user has set `OCL_ICD_FILENAMES` or no wheel is installed.
    """
    icd = _wheel_for("OCL_ICD_FILENAMES")
    with _variables(**({} if icd is None else {"OCL_ICD_FILENAMES": str(icd)})):
        yield
