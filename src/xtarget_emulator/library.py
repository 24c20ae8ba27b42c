"""The real way to an emulated device: hip-python calls a libamdhip64.so, and that one asks here.

The library (library.c) is built with the machine's C compiler when it is first asked for, and stays
loaded until the process ends. It is asked for by `XTARGET_EMULATOR_HIP=library`; without that the
devices are reached through an object of this process, which any machine has what it takes for.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import threading
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from xtarget._system import files
from xtarget._system.life import at_exit
from xtarget._system.scratch import Folder
from xtarget._system.tools import find_tool
from xtarget._values import environment
from xtarget._values.errors import NoDeviceError, XTargetError
from xtarget.targets._host.machine import find_library_file
from xtarget.targets.amd import binding

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
        self.hip = binding.load()
        # both are kept alive by this: C holds their addresses only
        self.answers = Answers(devices)
        self._callback = _ANSWER(self._answer)
        self._loaded.emulator_answer(self._callback)
        at_exit(self._loaded.emulator_answer, None)

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
    binding.load()
    path = _build()
    library = Library(path, devices)
    before = os.environ.get("ROCM_PATH")
    # hip-python 10 looks there; 6 and 7 find a loaded library by its name
    os.environ["ROCM_PATH"] = str(path.parent.parent)
    try:
        count = binding.device_count(library)
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


@cache
def _folder() -> Folder:
    """For what this process makes for itself, till its end."""
    return Folder("emulator")


def _build() -> Path:
    """The library's file, made once for each state of its source.

    It is native code that nobody signed, so it is kept and found in a folder where this user alone
    may write. Where the cache is for several users, for signed entries only, or not to be written,
    each process makes one of its own.

    Raises:
        NoDeviceError: there is no C compiler, or it fails.
    """
    source = _SOURCE.read_bytes()
    settings = environment.cache_settings()
    names = ("emulator", hashlib.sha256(source).hexdigest()[:16], "lib")
    path = settings.folder.joinpath(*names, _NAME)
    alone = settings.mode != "off" and not settings.shared and settings.trust is None
    if alone and _is_ours(settings.folder, names):
        return path
    compiler = find_tool(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NoDeviceError(
            "there is no C compiler (cc, or what CC names) to build the emulator's HIP library "
            "with. Install one, or unset XTARGET_EMULATOR_HIP."
        )
    made = _folder().path / "lib" / _NAME
    made.parent.mkdir()
    flags = ("-shared", "-fPIC", "-O1", f"-Wl,-soname,{_NAME}")
    command = [compiler, *flags, "-o", str(made), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDeviceError(
            f"the C compiler {compiler} failed to build the emulator's HIP library: "
            f"{done.stderr.strip()[-500:]}. Unset XTARGET_EMULATOR_HIP to do without it."
        )
    if not alone or settings.mode != "readwrite":
        return made
    try:
        files.make_folders(settings.folder, names)
        files.remove_leftovers(path.parent)
        files.write(path, made.read_bytes(), mode=0o700)
    except OSError:
        return made
    return path if _is_ours(settings.folder, names) else made


def _is_ours(root: Path, names: tuple[str, ...]) -> bool:
    """Return whether the library exists, and no other user could have put it there."""
    try:
        files.check_folders(root, names)
        descriptor, status = files.open_file(root.joinpath(*names, _NAME))
        files.close(descriptor)
        files.check_owner(status, _NAME)
    except (OSError, files.FolderError):
        return False
    return True
