"""The environment variables that xtarget reads (`environment_table` has all of them), and their
values.

A value that is not understood is an ArgumentError where the variable is first used; the command
line checks all of them when it starts. A name that nobody knows is warned of once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from .environment_parsing import parse_bytes
from .environment_table import VARIABLES
from .errors import ArgumentError

__all__ = [
    "VARIABLES",
    "CacheSettings",
    "build_memory",
    "bundles",
    "cache_audit",
    "cache_dir",
    "cache_settings",
    "check_names",
    "check_reader",
    "compile_mode",
    "compile_seconds",
    "compile_server",
    "default_device",
    "device_reader",
    "emulator_budget",
    "emulator_checks",
    "emulator_library",
    "emulator_processes",
    "hip_clang",
    "host_memory",
    "intel_devices",
    "jit_seconds",
    "kernel_folders",
    "lock_file",
    "log_level",
    "ocloc",
    "parse_bytes",
    "probe_seconds",
    "problems",
    "record_file",
    "routes",
    "spirv_seconds",
    "spirv_untested",
    "trace_file",
    "trust_file",
    "unknown_names",
]


#: Names that belong to the scripts in ci/ and to the tests, not to the package.
_OTHERS: Final = (
    "XTARGET_TEST_",
    "XTARGET_HIP_",
    "XTARGET_POCL_",
    "XTARGET_ROCM_",
    "XTARGET_TRITON_",
    "XTARGET_DOT_",
    "XTARGET_CONFORMANCE",
    "XTARGET_REQUIRE_TOOLS",
)

#: The cache of a user without a home.
_NO_HOME: Final = Path(f"/tmp/xtarget-{os.getuid() if hasattr(os, 'getuid') else 0}")

#: Values by name, beside the text that they were read from.
_read: dict[str, tuple[str, Any]] = {}
_names_checked = False


def compile_server() -> tuple[str, Path | None, Path | None, float] | None:
    """`XTARGET_COMPILE_SERVER`: its address, the file of its token, the file of certificates, and
    the seconds that it may take; None if there is none."""
    url: str | None = _value("XTARGET_COMPILE_SERVER")
    if url is None:
        return None
    return (
        url,
        _value("XTARGET_COMPILE_TOKEN"),
        _value("XTARGET_COMPILE_CA"),
        _value("XTARGET_COMPILE_SERVER_SECONDS"),
    )


def _value(name: str) -> Any:
    """A variable's value.

    Raises:
        ArgumentError: its text means nothing.
    """
    if not _names_checked:
        check_names()
    variable = VARIABLES[name]
    given = os.environ.get(name, "").strip()
    if not given:
        return variable.unset
    known = _read.get(name)
    if known is not None and known[0] == given:
        return known[1]
    try:
        value = variable.parse(given)
    except ValueError as error:
        raise ArgumentError(_sentence(name, given, error)) from None
    _read[name] = given, value
    return value


def _sentence(name: str, given: str, error: ValueError) -> str:
    from .text import one_line, shown_url

    shown = one_line(shown_url(given))
    return f"{name}={shown if len(shown) <= 80 else shown[:77] + '...'} {one_line(str(error))}"


def problems() -> list[str]:
    """A sentence for each variable whose value means nothing, or names what is not there."""
    found = []
    for name, variable in VARIABLES.items():
        given = os.environ.get(name, "").strip()
        try:
            for check in (variable.parse, variable.there):
                if given and check is not None:
                    check(given)
        except ValueError as error:
            found.append(_sentence(name, given, error))
    return found


def unknown_names() -> dict[str, str]:
    """Variables of the environment that begin as ours do and are none, and the nearest one that
    there is (or nothing).
    """
    strange = [
        name
        for name in os.environ
        if name.startswith("XTARGET_") and name not in VARIABLES and not name.startswith(_OTHERS)
    ]
    if not strange:
        return {}
    import difflib

    near = {name: difflib.get_close_matches(name, VARIABLES, 1, 0.6) for name in sorted(strange)}
    return {name: found[0] if found else "" for name, found in near.items()}


def check_names(*, warn: bool = True) -> None:
    """Warn of unknown variables, once in a process.

    Args:
        warn: False leaves it to the parent process, which has done it.
    """
    global _names_checked
    if _names_checked:
        return
    _names_checked = True
    if not warn:
        return
    for name, near in unknown_names().items():
        import logging

        hint = f"Did you mean {near}?" if near else "The README lists those that there are."
        logging.getLogger("xtarget").warning(
            "the environment variable %s means nothing to xtarget. %s", name, hint
        )


#: `XTARGET_COMPILE_SECONDS`: how long one kernel may take to compile, in seconds of processor time,
#: in a child process; None means no limit, in this process.
compile_seconds: Callable[[], float | None] = partial(_value, "XTARGET_COMPILE_SECONDS")
#: `XTARGET_KERNELS`: folders with kernel libraries.
kernel_folders: Callable[[], tuple[Path, ...]] = partial(_value, "XTARGET_KERNELS")
#: `XTARGET_BUNDLES`: bundles to take binaries from.
bundles: Callable[[], tuple[Path, ...]] = partial(_value, "XTARGET_BUNDLES")
#: `XTARGET_RECORD`: where the classes of calls that are used are noted.
record_file: Callable[[], Path | None] = partial(_value, "XTARGET_RECORD")
#: `XTARGET_TRACE`: where a trace of calls and kernels is written.
trace_file: Callable[[], Path | None] = partial(_value, "XTARGET_TRACE")
#: `XTARGET_LOG`: from which level on something is said; None leaves it to the program.
log_level: Callable[[], str | None] = partial(_value, "XTARGET_LOG")
#: `XTARGET_TRUST`: the file of public keys whose signatures are asked for.
trust_file: Callable[[], Path | None] = partial(_value, "XTARGET_TRUST")
#: `XTARGET_LOCK`: the file that lists the binaries that may be loaded.
lock_file: Callable[[], Path | None] = partial(_value, "XTARGET_LOCK")
#: `XTARGET_INTEL_DEVICES`: a SYCL filter in place of Intel's GPUs.
intel_devices: Callable[[], str | None] = partial(_value, "XTARGET_INTEL_DEVICES")
#: `XTARGET_HIP_CLANG`: a clang with AMD's target, for the route `hip`.
hip_clang: Callable[[], str | None] = partial(_value, "XTARGET_HIP_CLANG")
#: `XTARGET_OCLOC`: Intel's offline compiler for GPUs, where it is not on the PATH.
ocloc: Callable[[], str | None] = partial(_value, "XTARGET_OCLOC")
#: `XTARGET_BUILD_MEMORY`: bytes that a child process may take to compile one kernel; None is no
#: limit.
build_memory: Callable[[], int | None] = partial(_value, "XTARGET_BUILD_MEMORY")
#: `XTARGET_CORE`: `python` or `c`.
core: Callable[[], str | None] = partial(_value, "XTARGET_CORE")
#: `XTARGET_EMULATOR_CHECK`: further checks of the emulator, separated by commas (`race`).
emulator_checks: Callable[[], frozenset[str]] = partial(_value, "XTARGET_EMULATOR_CHECK")
#: `XTARGET_CACHE_AUDIT`: the share of hits that are compiled again and compared.
cache_audit: Callable[[], float] = partial(_value, "XTARGET_CACHE_AUDIT")
#: `XTARGET_ROUTES`: the ways to a binary in their order, `strict` among them.
routes: Callable[[], tuple[str, ...]] = partial(_value, "XTARGET_ROUTES")
#: `XTARGET_VERIFY`: the results of calls are compared with the kernels' references.
verify_calls: Callable[[], bool] = partial(_value, "XTARGET_VERIFY")
#: `XTARGET_PROBE_SECONDS`: how long a vendor's library may take to answer a probe.
probe_seconds: Callable[[], float] = partial(_value, "XTARGET_PROBE_SECONDS")
#: `XTARGET_SPIRV_SECONDS`: how long LLVM may take for one kernel to SPIR-V, in seconds of processor
#: time.
spirv_seconds: Callable[[], float] = partial(_value, "XTARGET_SPIRV_SECONDS")
#: `XTARGET_SPIRV_UNTESTED`: try a pair of Triton and llvmlite that nobody tested.
spirv_untested: Callable[[], bool] = partial(_value, "XTARGET_SPIRV_UNTESTED")
#: `XTARGET_JIT_SECONDS`: how long a run time or `ocloc` may take to make machine code of one
#: kernel, in seconds of processor time.
jit_seconds: Callable[[], float] = partial(_value, "XTARGET_JIT_SECONDS")
#: `XTARGET_EMULATOR_BUDGET`: lane-instructions after which the emulator stops a launch.
emulator_budget: Callable[[], int] = partial(_value, "XTARGET_EMULATOR_BUDGET")
#: `XTARGET_EMULATOR_PROCESSES`: how many processes may share a large launch of the emulator.
emulator_processes: Callable[[], int] = partial(_value, "XTARGET_EMULATOR_PROCESSES")
#: `XTARGET_CHECK`: compare indices with the arrays that they are for.
check_indices: Callable[[], bool] = partial(_value, "XTARGET_CHECK")
#: `XTARGET_TUNE`: measure the configurations of a kernel at the first call of each key.
tune_calls: Callable[[], bool] = partial(_value, "XTARGET_TUNE")
#: `XTARGET_COMPILE`: allow, warn or error, when a kernel has to be compiled. Read at each
#: compilation, so that a server can set it once it is warm.
compile_mode: Callable[[], str] = partial(_value, "XTARGET_COMPILE")


def default_device() -> str | None:
    """`XTARGET_DEVICE`: the device to use when neither `device=` nor the arrays name one."""
    return os.environ.get("XTARGET_DEVICE", "").strip() or None


def _reader(name: str) -> Callable[[], object]:
    """Return a function that gives equal objects as long as a variable does not change.

    Calls ask it. `os.environ` takes six times as long to say that a variable is not set.
    """
    if os.name != "posix":
        return partial(os.environ.get, name)
    import ctypes

    getenv = ctypes.PyDLL(None).getenv  # os.environ writes through to what it reads
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_char_p
    return partial(getenv, name.encode())


#: Of the texts of `XTARGET_DEVICE` and `XTARGET_CHECK`.
device_reader: Callable[[], Callable[[], object]] = partial(_reader, "XTARGET_DEVICE")
check_reader: Callable[[], Callable[[], object]] = partial(_reader, "XTARGET_CHECK")


def cache_dir() -> Path:
    """`XTARGET_CACHE_DIR`, or `xtarget` in the platform's cache folder."""
    given: Path | None = _value("XTARGET_CACHE_DIR")
    if given is not None:
        return given
    try:
        from platformdirs import user_cache_path
    except ImportError:  # a bare checkout on a machine without a registry: the XDG rule by hand
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(base) / "xtarget" if os.path.isabs(base) else _NO_HOME
    try:
        return user_cache_path("xtarget", appauthor=False)
    except RuntimeError:  # a user without a home: a container started with some number for one
        return _NO_HOME


def wait_seconds() -> float | None:
    """`XTARGET_WAIT_SECONDS`: how long work on an AMD GPU may be waited for; None: no limit."""
    found = _value("XTARGET_WAIT_SECONDS")
    return None if found is None else float(found)


#: `XTARGET_MODULES`: how many kernels stay loaded without a call that needs them, and the most
#: bytes of their binaries; None means no limit.
modules: Callable[[], tuple[int, int | None]] = partial(_value, "XTARGET_MODULES")


def host_memory() -> int:
    """`XTARGET_HOST_MEMORY`: bytes of results' memory that are kept for later results; `none` is no
    limit.
    """
    found: int | None = _value("XTARGET_HOST_MEMORY")
    return sys.maxsize if found is None else found


def emulator_library() -> bool:
    """`XTARGET_EMULATOR_HIP`: `object` (the default) reaches an emulated device in this process,
    `library` by real calls of hip-python into a stand-in library.
    """
    return bool(_value("XTARGET_EMULATOR_HIP") == "library")


class CacheSettings(NamedTuple):
    """The settings of the cache of compiled kernels, from the environment.

    Attributes:
        folder: `XTARGET_CACHE_DIR`.
        mode: `XTARGET_CACHE`: readwrite, readonly or off.
        layers: `XTARGET_CACHE_PATH`: read-only folders that are asked first.
        max_bytes: `XTARGET_CACHE_SIZE`; None means no limit.
        shared: `XTARGET_CACHE_SHARED`: trust folders that others may write.
        wait_seconds: `XTARGET_CACHE_WAIT`: how long another process may compile the same kernel.
        remote: `XTARGET_CACHE_REMOTE`: URL of the remote store.
        remote_write: `XTARGET_CACHE_REMOTE_WRITE`: fill it with what is compiled here.
        remote_seconds: `XTARGET_CACHE_REMOTE_SECONDS`: time limit of one question to it.
        trust: `XTARGET_TRUST`: file with the public keys to trust.
        sign: `XTARGET_SIGN`: file with the private key to sign with.
    """

    folder: Path
    mode: str = "readwrite"
    layers: tuple[Path, ...] = ()
    max_bytes: int | None = VARIABLES["XTARGET_CACHE_SIZE"].unset
    shared: bool = False
    wait_seconds: float = VARIABLES["XTARGET_CACHE_WAIT"].unset
    remote: str | None = None
    remote_write: bool = False
    remote_seconds: float = VARIABLES["XTARGET_CACHE_REMOTE_SECONDS"].unset
    trust: Path | None = None
    sign: Path | None = None


def cache_settings() -> CacheSettings:
    """The cache's variables, all at once.

    Raises:
        ArgumentError: a variable has a value that means nothing.
    """
    return CacheSettings(
        folder=cache_dir(),
        mode=_value("XTARGET_CACHE"),
        layers=_value("XTARGET_CACHE_PATH"),
        max_bytes=_value("XTARGET_CACHE_SIZE"),
        shared=_value("XTARGET_CACHE_SHARED"),
        wait_seconds=_value("XTARGET_CACHE_WAIT"),
        remote=_value("XTARGET_CACHE_REMOTE"),
        remote_write=_value("XTARGET_CACHE_REMOTE_WRITE"),
        remote_seconds=_value("XTARGET_CACHE_REMOTE_SECONDS"),
        trust=_value("XTARGET_TRUST"),
        sign=_value("XTARGET_SIGN"),
    )
