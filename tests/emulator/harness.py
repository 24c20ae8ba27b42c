"""Compile a kernel of this folder for an emulated arch, and run it on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import load_file

from xtarget._devices import registry
from xtarget._values.types import Artifact, CompileRequest, KernelSource, LaunchConfig, Target
from xtarget_emulator.driver import EmulatedDevice

ARCHS = ("gfx1100", "gfx1201", "gfx90a", "gfx942", "gfx950")
SHORT_ARCHS = ("gfx1100", "gfx942")
_KERNELS = Path(__file__).with_name("emulator_kernels.py")


_module = cache(load_file)


def by_arch(cases: Iterable[Any], is_short: Callable[[Any, str], bool]) -> list[Any]:
    """Each case on each arch, as pytest's parameters; those that are not short are the long tier's.
    Most suites have one arch of RDNA and one of CDNA in the short tier (`SHORT_ARCHS`).
    """
    return [
        pytest.param(
            case,
            arch,
            id=f"{getattr(case, '__name__', case)}-{arch}",
            marks=() if is_short(case, arch) else pytest.mark.long,
        )
        for case in cases
        for arch in ARCHS
    ]


@cache
def compiled(
    name: str,
    signature: str,
    arch: str,
    num_warps: int = 4,
    constants: tuple[tuple[str, Any], ...] = (),
    num_stages: int = 2,
    path: Path = _KERNELS,
    options: tuple[tuple[str, Any], ...] = (),
    aligned: tuple[str, ...] = (),
) -> Artifact:
    """`signature` is `name:type` for each parameter that is not a constant, in order."""
    pairs = [tuple(pair.split(":")) for pair in signature.split()]
    request = CompileRequest(
        source=KernelSource(name, name, str(path), lambda: getattr(_module(path), name)),
        signature=(*pairs, *((key, "constexpr") for key, _ in constants)),
        constants=constants,
        num_warps=num_warps,
        num_stages=num_stages,
        options=options,
        aligned=aligned,
    )
    return registry.compiler("amd").compile(request, Target("amd", arch))


_devices: dict[str, EmulatedDevice] = {}


def device(arch: str) -> EmulatedDevice:
    """This suite's own handle: a kernel that fails loses it, and then there is another one."""
    there = _devices.get(arch)
    if there is None or getattr(there.hip, "lost", ""):
        opened = registry.driver("emu").open(ARCHS.index(arch))
        assert isinstance(opened, EmulatedDevice)
        there = _devices[arch] = opened
    return there


def put(there: EmulatedDevice, array: np.ndarray) -> Any:
    buffer = there.alloc(array.nbytes)
    data = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    buffer.write(data, there.default_stream)
    return buffer


def get(there: EmulatedDevice, buffer: Any, like: np.ndarray) -> np.ndarray:
    result = np.empty_like(np.ascontiguousarray(like))
    data = memoryview(result.reshape(-1).view(np.uint8))
    buffer.read(data, there.default_stream)
    return result


def run(
    artifact: Artifact, grid: tuple[int, ...], *args: Any, blank: tuple[int, ...] = ()
) -> list[Any]:
    """Launch on arrays and numbers; returns the arrays as they are afterwards.

    Args:
        blank: positions of arrays that are not copied to the device.
    """
    there = device(artifact.target.arch)
    module = there.load(artifact)
    buffers: dict[int, Any] = {}
    try:
        for i, a in enumerate(args):
            if isinstance(a, np.ndarray):
                buffers[i] = there.alloc(a.nbytes) if i in blank else put(there, a)
        values = [buffers[i].address if i in buffers else a for i, a in enumerate(args)]
        hidden = [0 for p in artifact.parameters if p.hidden]
        config = LaunchConfig((*grid, 1, 1)[:3])
        module.function().launch(config, [*values, *hidden], there.default_stream)
        there.synchronize()
        return [get(there, buffers[i], a) for i, a in enumerate(args) if i in buffers]
    finally:
        for buffer in buffers.values():
            buffer.close()
        module.close()
