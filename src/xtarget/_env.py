"""The environment variables that xtarget reads, in one place."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from ._errors import XTargetError

__all__ = [
    "CacheSettings",
    "build_memory",
    "bundles",
    "cache_dir",
    "cache_settings",
    "compile_mode",
    "default_device",
    "emulator_budget",
    "emulator_checks",
    "emulator_library",
    "emulator_processes",
    "host_memory",
    "jit_seconds",
    "kernel_folders",
    "ocloc",
    "parse_bytes",
    "probe_seconds",
    "spirv_seconds",
    "spirv_untested",
    "trust_file",
    "without_password",
]

_PROBE_SECONDS: Final = 5.0
_SPIRV_SECONDS: Final = 60.0
_JIT_SECONDS: Final = 60.0
_BUILD_MEMORY: Final = 8 << 30
_HOST_MEMORY: Final = 1 << 30
_EMULATOR_BUDGET: Final = 20_000_000_000
_CACHE_BYTES: Final = 2 << 30
_CACHE_WAIT: Final = 120.0
_REMOTE_SECONDS: Final = 2.0


def default_device() -> str | None:
    """`XTARGET_DEVICE`: the device to use when neither `device=` nor the arrays name one."""
    return os.environ.get("XTARGET_DEVICE", "").strip() or None


def kernel_folders() -> tuple[Path, ...]:
    """`XTARGET_KERNELS`: folders with kernel libraries, separated like PATH."""
    text = os.environ.get("XTARGET_KERNELS", "")
    return tuple(Path(part) for part in text.split(os.pathsep) if part)


def bundles() -> tuple[Path, ...]:
    """`XTARGET_BUNDLES`: bundles to take binaries from, separated like PATH."""
    text = os.environ.get("XTARGET_BUNDLES", "")
    return tuple(Path(part) for part in text.split(os.pathsep) if part)


def trust_file() -> Path | None:
    """`XTARGET_TRUST`: the file of public keys whose signatures are asked for."""
    text = os.environ.get("XTARGET_TRUST", "")
    return Path(text) if text else None


def cache_dir() -> Path:
    """`XTARGET_CACHE_DIR`, or `xtarget` in the platform's cache folder."""
    given = os.environ.get("XTARGET_CACHE_DIR")
    if given:
        return Path(given)
    try:
        from platformdirs import user_cache_path
    except ImportError:  # a bare checkout on a machine without a registry: the XDG rule by hand
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xtarget"
    return user_cache_path("xtarget", appauthor=False)


def probe_seconds() -> float:
    """`XTARGET_PROBE_SECONDS`: how long a vendor's library may take to answer a probe."""
    try:
        return float(os.environ.get("XTARGET_PROBE_SECONDS", _PROBE_SECONDS))
    except ValueError:
        return _PROBE_SECONDS


def ocloc() -> str | None:
    """`XTARGET_OCLOC`: Intel's offline compiler for GPUs, where it is not on the PATH."""
    return os.environ.get("XTARGET_OCLOC") or None


def spirv_seconds() -> float:
    """`XTARGET_SPIRV_SECONDS`: how long LLVM may take for one step of one kernel to SPIR-V.

    Raises:
        XTargetError: it is no time.
    """
    return _seconds("XTARGET_SPIRV_SECONDS", _SPIRV_SECONDS)


def spirv_untested() -> bool:
    """`XTARGET_SPIRV_UNTESTED`: try a pair of Triton and llvmlite that nobody tested."""
    return os.environ.get("XTARGET_SPIRV_UNTESTED", "") not in ("", "0")


def jit_seconds() -> float:
    """`XTARGET_JIT_SECONDS`: how long a run time may take to make machine code of one kernel,
    in seconds of processor time; `ocloc`, on the clock.

    Raises:
        XTargetError: it is no time.
    """
    return _seconds("XTARGET_JIT_SECONDS", _JIT_SECONDS)


def build_memory() -> int | None:
    """`XTARGET_BUILD_MEMORY`: bytes that a child process may take to compile one kernel; None is no
    limit.

    Raises:
        XTargetError: it is no size.
    """
    return _nbytes("XTARGET_BUILD_MEMORY", _BUILD_MEMORY)


def host_memory() -> int:
    """`XTARGET_HOST_MEMORY`: bytes of results' memory that are kept for later results; `none` is no
    limit.

    Raises:
        XTargetError: it is no size.
    """
    given = _nbytes("XTARGET_HOST_MEMORY", _HOST_MEMORY)
    return sys.maxsize if given is None else given


def emulator_budget() -> int:
    """`XTARGET_EMULATOR_BUDGET`: lane-instructions after which the emulator stops a launch."""
    try:
        return int(os.environ.get("XTARGET_EMULATOR_BUDGET", _EMULATOR_BUDGET))
    except ValueError:
        return _EMULATOR_BUDGET


def emulator_processes() -> int:
    """`XTARGET_EMULATOR_PROCESSES`: how many processes may share a large launch of the emulator.

    Raises:
        XTargetError: it is no such number.
    """
    given = os.environ.get("XTARGET_EMULATOR_PROCESSES", "").strip() or "1"
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= 256:
        raise XTargetError(
            f"XTARGET_EMULATOR_PROCESSES={given} is no number of processes. Write 1 to 256."
        )
    return int(given)


def emulator_library() -> bool:
    """`XTARGET_EMULATOR_HIP`: `object` (the default) reaches an emulated device in this process,
    `library` by real calls of hip-python into a stand-in library.

    Raises:
        XTargetError: it is neither.
    """
    return _choice("XTARGET_EMULATOR_HIP", ("object", "library")) == "library"


def emulator_checks() -> frozenset[str]:
    """`XTARGET_EMULATOR_CHECK`: further checks of the emulator, separated by commas (`race`)."""
    text = os.environ.get("XTARGET_EMULATOR_CHECK", "")
    return frozenset(part.strip() for part in text.split(",") if part.strip())


class CacheSettings(NamedTuple):
    """What the environment says of the cache of compiled kernels.

    Attributes:
        folder: `XTARGET_CACHE_DIR`.
        mode: `XTARGET_CACHE`: readwrite, readonly or off.
        layers: `XTARGET_CACHE_PATH`: read-only folders that are asked first.
        max_bytes: `XTARGET_CACHE_SIZE`; None is no limit.
        shared: `XTARGET_CACHE_SHARED`: believe folders that others may write.
        wait_seconds: `XTARGET_CACHE_WAIT`: how long another process may compile the same kernel.
        remote: `XTARGET_CACHE_REMOTE`: URL of the store behind.
        remote_write: `XTARGET_CACHE_REMOTE_WRITE`: fill it with what is compiled here.
        remote_seconds: `XTARGET_CACHE_REMOTE_SECONDS`: time limit of one question to it.
        trust: `XTARGET_TRUST`: file with the public keys to believe.
        sign: `XTARGET_SIGN`: file with the private key to sign with.
    """

    folder: Path
    mode: str = "readwrite"
    layers: tuple[Path, ...] = ()
    max_bytes: int | None = _CACHE_BYTES
    shared: bool = False
    wait_seconds: float = _CACHE_WAIT
    remote: str | None = None
    remote_write: bool = False
    remote_seconds: float = _REMOTE_SECONDS
    trust: Path | None = None
    sign: Path | None = None


def cache_settings() -> CacheSettings:
    """The cache's variables, all at once.

    Raises:
        XTargetError: a variable has a value that means nothing.
    """
    path = os.environ.get("XTARGET_CACHE_PATH", "")
    trust, sign = os.environ.get("XTARGET_TRUST"), os.environ.get("XTARGET_SIGN")
    return CacheSettings(
        folder=cache_dir(),
        mode=_choice("XTARGET_CACHE", ("readwrite", "readonly", "off")),
        layers=tuple(Path(part) for part in path.split(os.pathsep) if part),
        max_bytes=_nbytes("XTARGET_CACHE_SIZE", _CACHE_BYTES),
        shared=_flag("XTARGET_CACHE_SHARED"),
        wait_seconds=_seconds("XTARGET_CACHE_WAIT", _CACHE_WAIT),
        remote=os.environ.get("XTARGET_CACHE_REMOTE", "").strip() or None,
        remote_write=_flag("XTARGET_CACHE_REMOTE_WRITE"),
        remote_seconds=_seconds("XTARGET_CACHE_REMOTE_SECONDS", _REMOTE_SECONDS),
        trust=Path(trust) if trust else None,
        sign=Path(sign) if sign else None,
    )


def compile_mode() -> str:
    """`XTARGET_COMPILE`: allow, warn or error, when a kernel has to be compiled. Read at each
    compilation, so that a server can set it once it is warm.

    Raises:
        XTargetError: it is none of these.
    """
    return _choice("XTARGET_COMPILE", ("allow", "warn", "error"))


def _flag(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def _choice(name: str, choices: tuple[str, ...]) -> str:
    """The variable's value; the first choice where it is not set."""
    given = os.environ.get(name, "").strip() or choices[0]
    if given not in choices:
        raise XTargetError(f"{name}={given} means nothing. Write {' or '.join(choices)}.")
    return given


def _seconds(name: str, default: float) -> float:
    given = os.environ.get(name, "").strip()
    try:
        seconds = float(given) if given else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise XTargetError(f"{name}={given} is no time. Write seconds, for example {default:g}.")
    return seconds


def _nbytes(name: str, default: int) -> int | None:
    given = os.environ.get(name, "").strip()
    try:
        return parse_bytes(given) if given else default
    except ValueError as error:
        raise XTargetError(f"{name}: {error}") from None


def parse_bytes(text: str) -> int | None:
    """`500M`, `2GiB`, `4096`; `none` is None.

    Raises:
        ValueError: it is no size.
    """
    if text.lower() == "none":
        return None
    import re

    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", text.lower())
    if match is None:
        raise ValueError(
            f"{text!r} is no size. Write bytes, or a number with K, M, G or T (of 1024), for "
            "example 500M or 2GiB; none is no limit."
        )
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    before, at, host = url.rpartition("@")
    scheme, slashes, _ = before.partition("://")
    return f"{scheme}{slashes}...@{host}" if at and slashes else url
