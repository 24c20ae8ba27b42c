"""Workloads: a kernel with arguments of one size, and the work that this is."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from .._kernels import libraries
from .._launch import planning
from .._values.types import DTYPES, DeviceInfo
from .._values.value_classes import value_class
from .._verify.cases import Case, meaningful, values
from ..spec import ArrayType, KernelSpec

__all__ = ["TURNING_BYTES", "Work", "Workload", "inputs", "room", "work_of"]

#: Floating point operations for each element of the result or, for sums, of the input: of kernels
#: of which that is the whole arithmetic. Others have none in reports.
_FLOPS: Final = {"add": 1, "sub": 1, "mul": 1, "div": 1, "sum": 1, "mean": 1}
#: Inputs that take turns are this many bytes in all, more than caches hold, if there is room.
TURNING_BYTES: Final = 256 << 20
_MOST_SETS: Final = 16
#: Elements of an array that are drawn.
_RANDOM: Final = 1 << 20


@value_class(frozen=True, slots=True)
class Workload:
    """A kernel and the layouts of its arguments.

    Attributes:
        args: a layout for each array; numbers as they are.
        size: the shape that the others follow from, as it is written: `1024x1024`.
    """

    spec: KernelSpec
    args: tuple[Any, ...]
    dtype: str
    shape: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> str:
        return "x".join(map(str, self.shape)) or "scalar"


@value_class(frozen=True, slots=True)
class Work:
    """The least that a call has to move and to compute.

    Attributes:
        input_bytes, output_bytes: of all arrays, each counted once.
        flops: None: not counted for this kernel.
        in_flops: its speed is told in FLOP/s (products of matrices), not in bytes.
    """

    input_bytes: int
    output_bytes: int
    flops: int | None
    in_flops: bool

    @property
    def bytes(self) -> int:
        return self.input_bytes + self.output_bytes


def work_of(load: Workload, info: DeviceInfo) -> Work:
    """The work of a call, from its plan: no array is made.

    Raises:
        ArgumentError: the kernel does not take these arguments.
    """
    registered = libraries.find(load.spec.name)
    plan, types, _ = planning.plan_of_layouts(registered, load.args, load.options, info.target)
    arrays = [one for one in types if isinstance(one, ArrayType)]
    results = plan.outputs
    in_flops = load.spec.category == "linear algebra"
    flops: int | None = None
    if in_flops:
        flops = 2 * results[0].size * arrays[0].shape[-1]
    elif load.spec.name in _FLOPS and DTYPES[load.dtype].kind == "f":
        flops = _FLOPS[load.spec.name] * max(arrays[0].size, results[0].size)
    return Work(_nbytes(arrays), _nbytes(results), flops, in_flops)


def _nbytes(arrays: Sequence[ArrayType]) -> int:
    return sum(array.size * array.itemsize for array in arrays)


def room(info: DeviceInfo) -> float:
    """Bytes that arrays of a workload may take: half of what is free, as others need some too."""
    free = _available_memory()
    return 0.5 * (min(info.memory_bytes, free) if info.memory_bytes > 0 else free)


def _available_memory() -> float:
    """Of the host, without what the system would take back from its caches."""
    with open("/proc/meminfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def inputs(load: Workload, work: Work, space: float) -> list[tuple[Any, ...]]:
    """Sets of arguments on the host, equal and in different memory.

    Args:
        space: bytes that they and the results may take; there are two sets at least.
    """
    one = max(work.input_bytes, 1)
    several = math.ceil(TURNING_BYTES / one)
    fitting = int((space / 2 - work.output_bytes) // one)
    count = max(2, min(_MOST_SETS, several, fitting))
    least = min(load.shape, default=1)
    first = tuple(
        _array(arg, name.rstrip("?"), least, seed) if isinstance(arg, ArrayType) else arg
        for seed, (name, arg) in enumerate(zip(load.spec.inputs, load.args, strict=False))
    )
    return [first, *(_copied(first) for _ in range(count - 1))]


def _array(layout: ArrayType, name: str, least: int, seed: int) -> Any:
    """Some random elements, over and over: the time of a call does not depend on them."""
    some = min(layout.size, _RANDOM)
    block = values(Case(layout.dtype, (some,), "normal", "contiguous"), (some,), layout.dtype, seed)
    return np.resize(meaningful(name, block, least), layout.shape)


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.copy() if hasattr(arg, "copy") else arg for arg in args)
