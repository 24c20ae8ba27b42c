"""The real way to an emulated device: hip-python calls a libamdhip64.so, and that one asks here.

The library (library.c) is built with the machine's C compiler when it is first asked for, and stays
loaded until the process ends. It is asked for by `XTARGET_EMULATOR_HIP=library`; without that the
devices are reached through an object of this process, which any machine has what it takes for.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from .... import _env
from ...._errors import NoDeviceError, XTargetError
from ..._library_files import find_library_file
from .. import _binding
from .answers import Answers
from .hip import EmulatedHip

__all__ = ["Library", "load"]

_NAME = "libamdhip64.so"
_SOURCE = Path(__file__).with_name("library.c")
#: What the kernel driver of a real device shows itself by.
_REAL = ("/dev/kfd", "/dev/dxg")
_ANSWER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))


class Library:
    """hip-python on the stand-in library. A call's exception (a kernel's fault) comes out of the
    call, where a GPU's library gives a status and no more.

    Args:
        devices: what the library offers, by ordinal.
    """

    def __init__(self, path: Path, devices: Sequence[EmulatedHip]) -> None:
        self._thread = threading.local()
        self._loaded = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        self.hip = _binding.load()
        # both are kept alive by this: C holds their addresses only
        self.answers = Answers(devices)
        self._callback = _ANSWER(self._answer)
        self._loaded.emulator_answer(self._callback)
        atexit.register(self._loaded.emulator_answer, None)

    def _answer(self, function: bytes, arguments: Any) -> int:
        try:
            status, why = self.answers.give(function.decode(), arguments)
        except XTargetError as error:
            self._thread.error = error
            status, why = 719, str(error)
        self._loaded.emulator_text(why.encode())
        return status

    def _called(self, function: Any, *args: Any) -> Any:
        self._thread.error = None
        result = function(*args)
        error, self._thread.error = self._thread.error, None
        if error is not None:
            raise error
        return result

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.hip, name)
        if not name.startswith("hip") or isinstance(value, type):
            return value
        called = partial(self._called, value)
        self.__dict__[name] = called
        return called


@cache
def load(devices: tuple[EmulatedHip, ...]) -> Library:
    """Build the library, where that was not done yet, and load it.

    Raises:
        NoDeviceError: there is a real device, another HIP library, no hip-python or no C compiler.
    """
    for node in _REAL:
        if os.path.exists(node):
            raise NoDeviceError(
                f"there is {node}, so this machine may have a real AMD GPU, beside which the "
                "emulator's HIP library is not loaded. Unset XTARGET_EMULATOR_HIP."
            )
    if _is_loaded():
        raise NoDeviceError(
            f"another {_NAME} is loaded in this process, beside which the emulator's is not. Unset "
            "XTARGET_EMULATOR_HIP, or use the emulator in a process of its own."
        )
    _binding.load()
    path = _build()
    library = Library(path, devices)
    before = os.environ.get("ROCM_PATH")
    # hip-python 10 looks there; 6 and 7 find what is loaded by its name
    os.environ["ROCM_PATH"] = str(path.parent.parent)
    try:
        count = _binding.device_count(library)
    finally:
        if before is None:
            del os.environ["ROCM_PATH"]
        else:
            os.environ["ROCM_PATH"] = before
    if library.answers.asked == 0 or count != len(devices):
        raise NoDeviceError(
            f"hip-python found another {_NAME} than the emulator's ({find_library_file(_NAME)}). "
            "Unset XTARGET_EMULATOR_HIP."
        )
    return library


def _is_loaded() -> bool:
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:  # no such file but on Linux
        return False
    return _NAME in maps


def _build() -> Path:
    """The library's file; made once for each state of its source.

    Raises:
        NoDeviceError: there is no C compiler, or it fails.
    """
    source = _SOURCE.read_bytes()
    digest = hashlib.sha256(source).hexdigest()[:16]
    path = _env.cache_dir() / "emulator" / digest / "lib" / _NAME
    if path.exists():
        return path
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NoDeviceError(
            "there is no C compiler (cc, or what CC names) to build the emulator's HIP library "
            "with. Install one, or unset XTARGET_EMULATOR_HIP."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / _NAME
        flags = ("-shared", "-fPIC", "-O1", f"-Wl,-soname,{_NAME}")
        command = [compiler, *flags, "-o", str(made), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoDeviceError(
                f"the C compiler {compiler} failed to build the emulator's HIP library: "
                f"{done.stderr.strip()[-500:]}. Unset XTARGET_EMULATOR_HIP to do without it."
            )
        os.replace(made, path)  # whole, whoever else builds it at this time
    return path
