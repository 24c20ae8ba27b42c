"""The NumPy forms of the conformance kernels (tests/conformance/conformance_kernels.py).

A form gets the memory, the grid, the constants and the argument values, and does all blocks at
once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .memory import Memory

Form = Callable[[Memory, tuple[int, int, int], Mapping[str, int], Sequence[Any]], None]


def vector_add(memory: Memory, grid: Any, constants: Any, args: Sequence[Any]) -> None:
    a, b, out, n = args[:4]
    count = min(n, grid[0] * constants["BLOCK"])
    x, y = (memory.array(p, np.float32, count) for p in (a, b))
    memory.array(out, np.float32, count)[:] = x + y


def scale_shift(memory: Memory, grid: Any, constants: Any, args: Sequence[Any]) -> None:
    x, factor, shift, n = args[:4]
    data = memory.array(x, np.float32, min(n, grid[0] * constants["BLOCK"]))
    data[:] = data * np.float32(factor) + np.float32(shift)


def slow_fill(memory: Memory, grid: Any, constants: Any, args: Sequence[Any]) -> None:
    x, value, _rounds, n = args[:4]
    memory.array(x, np.float32, min(n, grid[0] * constants["BLOCK"]))[:] = value


def write_grid(memory: Memory, grid: Any, constants: Any, args: Sequence[Any]) -> None:
    out = memory.array(args[0], np.int32, 6 * grid[0] * grid[1] * grid[2]).reshape(-1, 6)
    ids = itertools.product(range(grid[2]), range(grid[1]), range(grid[0]))
    for row, (z, y, x) in zip(out, ids, strict=True):
        row[:] = (x, y, z, *grid)


def write_scalars(memory: Memory, grid: Any, constants: Any, args: Sequence[Any]) -> None:
    integers, floats = args[0], args[1]
    memory.array(integers, np.int64, 9)[:] = [
        np.int64(v) if v < 1 << 63 else np.uint64(v).astype(np.int64) for v in args[2:11]
    ]
    memory.array(floats, np.float64, 4)[:] = args[11:15]


def block_sum(memory: Memory, grid: Any, constants: Any, args: Sequence[Any]) -> None:
    n = constants["N"]
    x = memory.array(args[0], np.float32, n * grid[0]).reshape(grid[0], n)
    memory.array(args[1], np.float32, grid[0])[:] = x.sum(axis=1)


KERNELS: dict[str, Form] = {
    form.__name__: form
    for form in (vector_add, scale_shift, slow_fill, write_grid, write_scalars, block_sum)
}
