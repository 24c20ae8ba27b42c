"""The environment variables that xtarget reads, in one place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = [
    "bundles",
    "cache_dir",
    "default_device",
    "emulator_budget",
    "emulator_checks",
    "kernel_folders",
    "probe_seconds",
    "spirv_seconds",
    "spirv_untested",
    "trust_file",
]

_PROBE_SECONDS: Final = 5.0
_SPIRV_SECONDS: Final = 60.0
_EMULATOR_BUDGET: Final = 20_000_000_000


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


def spirv_seconds() -> float:
    """`XTARGET_SPIRV_SECONDS`: how long LLVM may take for one step of one kernel to SPIR-V."""
    try:
        return float(os.environ.get("XTARGET_SPIRV_SECONDS", _SPIRV_SECONDS))
    except ValueError:
        return _SPIRV_SECONDS


def spirv_untested() -> bool:
    """`XTARGET_SPIRV_UNTESTED`: try a pair of Triton and llvmlite that nobody tested."""
    return os.environ.get("XTARGET_SPIRV_UNTESTED", "") not in ("", "0")


def emulator_budget() -> int:
    """`XTARGET_EMULATOR_BUDGET`: lane-instructions after which the emulator stops a launch."""
    try:
        return int(os.environ.get("XTARGET_EMULATOR_BUDGET", _EMULATOR_BUDGET))
    except ValueError:
        return _EMULATOR_BUDGET


def emulator_checks() -> frozenset[str]:
    """`XTARGET_EMULATOR_CHECK`: further checks of the emulator, separated by commas (`race`)."""
    text = os.environ.get("XTARGET_EMULATOR_CHECK", "")
    return frozenset(part.strip() for part in text.split(",") if part.strip())
