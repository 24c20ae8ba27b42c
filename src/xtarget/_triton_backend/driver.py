"""Triton's driver for the devices. It is imported when the back end is chosen, never earlier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import jit
from triton.runtime.autotuner import Autotuner

from .._system.scratch import cache_of, make_room
from .._values.errors import ArgumentError, NoDeviceError
from ..targets._triton.cache_keys import complete_keys
from ..targets.base import Device
from .arguments import accept_arrays
from .autotuning import restore_arrays
from .devices import has_torch_xpu, home
from .launcher import Binary, Launcher
from .timing import DeviceInterface

__all__ = ["SpirvDriver", "target_of"]

#: Every Intel GPU has sub-groups of 16, and they are the fastest on a CPU.
_WARP_SIZE = 16
#: Of a thread, as far as anybody is told.
_REGISTERS = 1
#: What do_bench writes between two runs, so that none finds its data in a cache.
_FLUSH_BYTES = 64 << 20

_C_TYPES = {
    "i1": "int8_t",
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    "u1": "uint8_t",
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("fp16", "bf16", "fp32", "f32", "fp64"), "double"),
}


@dataclass(frozen=True)
class DeviceTarget(GPUTarget):  # type: ignore[misc]  # Triton has no types
    """The target, and what code for the current device is compiled with (see `DeviceInfo`)."""

    compile_options: Mapping[str, bool | int] = field(
        default_factory=dict, hash=False, compare=False
    )


def target_of(device: Callable[[], Device]) -> DeviceTarget:
    """The target of code for a device. Compiling needs no device; a launch names it."""
    try:
        options = device().info.compile_options
    except NoDeviceError:
        options = {}
    return DeviceTarget("spirv", "spirv64", _WARP_SIZE, options)


class _Utilities:
    """Loading, and a device's limits."""

    @cached_property
    def _properties(self) -> dict[str, int]:
        info = home().info
        return {
            "max_shared_mem": info.max_shared_bytes,
            "max_threads": info.max_threads_per_block,
            "multiprocessor_count": info.compute_units,
            "warpSize": _WARP_SIZE,
            # No run time tells of registers, but programs divide by them to find out how many
            # blocks fit: with one for each thread (`_REGISTERS`) only a block's threads count.
            "max_num_regs": info.max_threads_per_block,
            "sm_clock_rate": 0,  # from here on: what no OpenCL or SYCL tells
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    def get_device_properties(self, device: int) -> dict[str, int]:
        return self._properties

    def load_binary(
        self, name: str, binary: bytes, shared: int, device: int
    ) -> tuple[Binary, Binary, int, int, int]:
        """Module, function, registers, spills, most threads of a block."""
        module = Binary(name, binary)
        return module, module, _REGISTERS, 0, self._properties["max_threads"]

    def unload_module(self, module: Binary) -> None:
        module.unload()


class SpirvDriver(DriverBase):  # type: ignore[misc]  # Triton has no types
    """CPUs through OpenCL and Intel GPUs through SYCL, as the one device that Triton knows: code is
    the same for all, and a launch goes where its arguments lie.
    """

    def __init__(self) -> None:
        super().__init__()
        accept_arrays(jit)
        restore_arrays(Autotuner)
        complete_keys()
        self.utils = _Utilities()
        self.launcher_cls = Launcher
        make_room()
        instead = cache_of("triton", knobs.cache.dir)
        if instead is not None:
            knobs.cache.dir = instead

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return target_of(home)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        if device != 0:
            raise ArgumentError(
                f"device {device} cannot be made current: with TRITON_DEFAULT_BACKEND=spirv a "
                "launch goes where its arguments lie. Pass arrays of that device."
            )

    def get_current_stream(self, device: int) -> int:
        """0: a launch finds its stream with its arguments."""
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return (0, 0)

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "void*" if ty.startswith("*") else _C_TYPES[ty]

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("xpu", 0) if has_torch_xpu() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        if has_torch_xpu():
            import torch

            return torch.xpu
        return DeviceInterface

    def get_benchmarker(self) -> Any:
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        if has_torch_xpu():
            import torch

            return torch.empty(_FLUSH_BYTES, dtype=torch.int8, device="xpu")
        import numpy as np

        return np.empty(_FLUSH_BYTES, np.int8)

    def clear_cache(self, cache: Any) -> None:
        cache[...] = 0
