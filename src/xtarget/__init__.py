"""xtarget: one Triton kernel library on any vendor's GPU, and on any CPU.

    xtarget.run("add", a, b)

Importing this module loads no array library, no Triton and no vendor's binding: names are resolved
when they are first used.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from ._system import importing  # what it does at a fork holds from the first import on

if TYPE_CHECKING:
    from . import spec
    from ._arrays.device_array import Array, asarray
    from ._bundle.reader import Bundle, load_bundle
    from ._cache.stats import CacheStats, cache_stats
    from ._fuse.fused import Fused, fuse
    from ._kernels.decorator import kernel
    from ._kernels.libraries import catalog, load_library
    from ._launch.compiling import compile as compile
    from ._launch.devices import default_device, device, devices, probe
    from ._launch.graphs import Graph, capture
    from ._launch.hooks import hooks
    from ._launch.memory import MemoryStats, empty_cache, memory_stats
    from ._launch.objects import Kernel, get
    from ._launch.prepared import Prepared
    from ._launch.profile import Profile, profile
    from ._launch.run import run
    from ._launch.split import split
    from ._launch.warmup import Warmup, warmup
    from ._values.environment import cache_dir
    from ._values.errors import (
        ArgumentError,
        CompileError,
        DeviceLostError,
        DriverError,
        FrozenError,
        KernelFault,
        LaunchError,
        LoadError,
        NoCompilerError,
        NoDeviceError,
        OutOfMemoryError,
        OutOfResourcesError,
        UnknownKernelError,
        UnknownTargetError,
        UnsupportedInstruction,
        UntrustedError,
        WrongResultError,
        XTargetError,
    )
    from ._values.types import Artifact, DeviceInfo, ProbeReport, Target

__version__ = "0.1.0"

# without `compile`, which would hide Python's own after `from xtarget import *`
__all__ = [
    "ArgumentError",
    "Array",
    "Artifact",
    "Bundle",
    "CacheStats",
    "CompileError",
    "DeviceInfo",
    "DeviceLostError",
    "DriverError",
    "FrozenError",
    "Fused",
    "Graph",
    "Kernel",
    "KernelFault",
    "LaunchError",
    "LoadError",
    "MemoryStats",
    "NoCompilerError",
    "NoDeviceError",
    "OutOfMemoryError",
    "OutOfResourcesError",
    "Prepared",
    "ProbeReport",
    "Profile",
    "Target",
    "UnknownKernelError",
    "UnknownTargetError",
    "UnsupportedInstruction",
    "UntrustedError",
    "Warmup",
    "WrongResultError",
    "XTargetError",
    "asarray",
    "cache_dir",
    "cache_stats",
    "capture",
    "catalog",
    "default_device",
    "device",
    "devices",
    "empty_cache",
    "fuse",
    "get",
    "hooks",
    "kernel",
    "load_bundle",
    "load_library",
    "memory_stats",
    "probe",
    "profile",
    "run",
    "spec",
    "split",
    "warmup",
]

_HOME = {
    "_bundle.reader": ("Bundle", "load_bundle"),
    "_cache.stats": ("CacheStats", "cache_stats"),
    "_arrays.device_array": ("Array", "asarray"),
    "_values.environment": ("cache_dir",),
    "_values.errors": (
        "KernelFault",
        "UnsupportedInstruction",
        *(name for name in __all__ if name.endswith("Error")),
    ),
    "_kernels.libraries": ("catalog", "load_library"),
    "_launch.compiling": ("compile",),
    "_launch.devices": ("default_device", "device", "devices", "probe"),
    "_launch.graphs": ("Graph", "capture"),
    "_launch.hooks": ("hooks",),
    "_launch.memory": ("MemoryStats", "empty_cache", "memory_stats"),
    "_launch.objects": ("Kernel", "get"),
    "_launch.prepared": ("Prepared",),
    "_launch.profile": ("Profile", "profile"),
    "_launch.run": ("run",),
    "_launch.split": ("split",),
    "_launch.warmup": ("Warmup", "warmup"),
    "_values.types": ("Artifact", "DeviceInfo", "ProbeReport", "Target"),
    "_kernels.decorator": ("kernel",),
    "_fuse.fused": ("Fused", "fuse"),
}
#: What begins with the first name of `_launch` where a variable is set.
_BEGUN = {
    "XTARGET_LOG": "_launch.log",
    "XTARGET_TRACE": "_launch.trace",
    "XTARGET_RECORD": "_launch.used_classes",
    "XTARGET_VERIFY": "_verify.calls",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


if not TYPE_CHECKING:  # for a type checker, the names above are all there are

    def __getattr__(name: str) -> Any:
        if name == "spec":
            value = importlib.import_module(f"{__name__}.spec")
        elif name in _MODULE_OF:
            if _MODULE_OF[name] != "_values.errors":  # that is whole, and handlers catch by it
                importing.check_imported()
            value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
            for variable, module in _BEGUN.items():
                if variable in os.environ and _MODULE_OF[name].startswith("_launch."):
                    importlib.import_module(f"{__name__}.{module}").begin_from_environment()
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULE_OF})
