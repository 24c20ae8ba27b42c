"""Executes plans in NumPy: the device side's address arithmetic, without Triton.

So thousands of layouts can be tried in the time of one compilation. What is emulated is where each
launch reads and writes; every write also counts, so that an element that two blocks write, or none,
shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xtarget.spec import ArrayType, Call, Input, KernelSpec, Launch, Output, Plan, Temporary

#: Of the elementwise kernels, those that the emulator knows.
ELEMENTWISE = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "where": np.where}


@dataclass
class Memory:
    """A flat buffer, the place of an array's first element, and how often each was written."""

    cells: np.ndarray
    origin: int
    writes: np.ndarray

    @classmethod
    def of(cls, view: np.ndarray) -> Memory:
        base = view
        while base.base is not None:
            base = base.base
        cells = base.reshape(-1)
        assert np.shares_memory(cells, base) or not base.size
        origin = (view.ctypes.data - base.ctypes.data) // view.itemsize
        return cls(cells, origin, np.zeros(cells.shape, int))

    def read(self, offsets: np.ndarray) -> np.ndarray:
        places = self.origin + offsets
        assert not places.size or (places.min() >= 0 and places.max() < self.cells.size)
        return self.cells[places]

    def write(self, offsets: np.ndarray, values: Any) -> None:
        places = self.origin + offsets
        assert not places.size or (places.min() >= 0 and places.max() < self.cells.size)
        self.cells[places] = values
        np.add.at(self.writes, places, 1)


def layout(view: np.ndarray) -> ArrayType:
    strides = tuple(s // view.itemsize for s in view.strides)
    return ArrayType(view.dtype.name, view.shape, strides)


def offset(i: np.ndarray, lengths: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """`indexing.offset`."""
    if not strides:
        return i
    full = strides if len(strides) > len(lengths) else (*strides, 1)
    assert len(full) == len(lengths) + 1
    rest, result = i, np.zeros_like(i)
    for length, stride in zip(reversed(lengths), reversed(full[1:]), strict=True):
        result = result + rest % length * stride
        rest = rest // length
    return result + rest * full[0]


def _value(launch: Launch, name: str) -> Any:
    return launch.constants[name] if name in launch.constants else launch.args[name]


class _Launched:
    """A launch's parameters by name, arrays as memory."""

    def __init__(self, launch: Launch, memory: Callable[[Any], Any]) -> None:
        self._launch, self._memory = launch, memory

    def __getattr__(self, name: str) -> Any:
        return self._memory(_value(self._launch, name))


def _row_offset(i: np.ndarray, lengths: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """`indexing.at` for a row and columns: a last stride of 0 comes twice."""
    if len(strides) == len(lengths) + 2:
        assert strides[-2:] == (0, 0)
        strides = strides[:-1]
    assert strides
    return offset(i, lengths, strides)


def _elementwise(name: str, launch: Launch, p: _Launched) -> None:
    parts = -(-p.n // p.BLOCK)
    if p.ROWS:
        assert p.n % p.shape[-1] == 0
        parts = p.n // p.shape[-1] * -(-p.shape[-1] // p.BLOCK)
    assert launch.grid[0] * p.STEPS >= parts > (launch.grid[0] - 1) * p.STEPS
    offset_of = _row_offset if p.ROWS else offset
    i = np.arange(p.n)
    values = []
    for operand in "abcd":
        if operand in launch.args:
            at = getattr(p, operand)
            place = offset_of(i, p.shape, getattr(p, f"s{operand}"))
            values.append(at.read(place) if isinstance(at, Memory) else at)
    p.out.write(offset_of(i, p.shape, p.so), ELEMENTWISE[name](*values))


def _reduction(name: str, launch: Launch, p: _Launched) -> None:
    assert launch.grid[0] * p.BLOCK_K >= p.kept
    k = offset(np.arange(p.kept), p.kept_shape, p.kx)
    for y in range(launch.grid[1]):
        first = y * p.chunk
        r = np.arange(first, first + min(p.chunk, p.reduced - first))
        x = p.x.read(k[:, None] + offset(r, p.reduced_shape, p.rx)[None, :])
        result = x.sum(1) if name == "sum" else x.max(1)
        p.out.write(y * p.part + offset(np.arange(p.kept), p.kept_shape, p.ko), result)


def _rows(name: str, launch: Launch, p: _Launched, spec: KernelSpec) -> None:
    assert launch.grid[0] * p.BLOCK_M >= p.m
    assert name.endswith(("_long", "_walk")) or p.n <= p.BLOCK_N
    rows, columns = np.arange(p.m), np.arange(p.n)
    x = p.x.read(offset(rows, p.shape, p.sx)[:, None] + columns * p.cx)
    vectors = [
        getattr(p, vector).read(columns * getattr(p, f"s{vector[0]}"))
        for vector in ("weight", "bias")
        if vector in launch.args
    ]
    assert spec.reference is not None
    result = spec.reference(x, *vectors)
    p.out.write(offset(rows, p.shape, p.so)[:, None] + columns * p.co, result)


def _matmul(launch: Launch, p: _Launched) -> None:
    outer = launch.source == "linear:matmul_outer"
    rows = -(-p.M // p.BLOCK_M)
    blocks = (-(-rows // p.height) if outer else rows) * -(-p.N // p.BLOCK_N)
    batch, left = divmod(launch.grid[0], blocks)
    assert not left
    assert p.chunk % p.BLOCK_K == 0
    m, n = np.arange(p.M), np.arange(p.N)
    index = np.arange(batch)
    starts = [offset(index, p.batch_shape, strides) for strides in (p.sa, p.sb, p.so)]
    for y in range(launch.grid[1]):
        first = y * p.chunk
        k = np.arange(first, first + min(p.chunk, p.K - first))
        assert outer or not p.EVEN_K or len(k) % p.BLOCK_K == 0
        for i, (a, b, o) in enumerate(zip(*starts, strict=True)):
            left_matrix = p.a.read(a + (m * p.am)[:, None] + k * p.ak)
            columns = b + (k * p.bk)[:, None] + n * p.bn
            if outer and p.PANELS:
                panel = i * -(-p.N // p.BLOCK_N) + n // p.BLOCK_N
                columns = (panel * p.K + k[:, None]) * p.BLOCK_N + n % p.BLOCK_N
            right_matrix = p.b.read(columns)
            place = y * p.part + o + (m * p.om)[:, None] + n * p.on
            p.out.write(place, left_matrix @ right_matrix)


def _panels(launch: Launch, p: _Launched) -> None:
    width = p.WIDTH
    panels, left = divmod(launch.grid[0] * p.PART, width)
    assert not left
    assert panels * width >= p.count > (panels - 1) * width
    assert launch.grid[2] * p.BLOCK_K * p.STEPS >= p.K
    k, column = np.arange(p.K)[:, None], np.arange(p.count)
    starts = offset(np.arange(launch.grid[1]), p.shape, p.sx)
    for i, start in enumerate(starts):
        target = i * p.to_matrix + k * p.to_k
        value = p.x.read(start + k * p.xk + column * p.step)
        p.out.write(target + column // width * p.to_panel + column % width, value)
        if p.FILL:
            left = np.arange(p.count, panels * width)
            p.out.write(target + left // width * p.to_panel + left % width, 0)


def emulate(
    spec: KernelSpec,
    views: list[np.ndarray],
    rules: Any,
    *,
    out: np.ndarray | None = None,
    vendor: str = "nvidia",
    compute_units: int = 132,
    options: Mapping[str, Any] | None = None,
) -> tuple[np.ndarray, Plan]:
    """The result of a call, as its plan's launches make it.

    Asserts that it writes every element once.
    """
    call = Call(
        spec.name,
        tuple(layout(v) for v in views),
        {**spec.options, **(options or {})},
        None if out is None else layout(out),
        vendor,
        compute_units,
        rules,
    )
    plan = spec.plan(call)
    result = np.zeros(plan.outputs[0].shape, plan.outputs[0].dtype) if out is None else out
    inputs = [Memory.of(view) for view in views]
    output = Memory.of(result)
    temporaries = [Memory.of(np.full(t.shape, np.nan)) for t in plan.temporaries]

    def memory(value: Any) -> Any:
        if isinstance(value, Input):
            return inputs[value.index]
        if isinstance(value, Output):
            return output
        return temporaries[value.index] if isinstance(value, Temporary) else value

    for launch in plan.launches:
        family, _, name = launch.source.partition(":")
        parameters = _Launched(launch, memory)
        assert 0 not in launch.grid
        if family == "elementwise":
            _elementwise(name.rpartition(":")[2].rstrip(")"), launch, parameters)
        elif family == "reduction":
            _reduction(name, launch, parameters)
        elif family in ("normalization", "softmaxes"):
            _rows(name, launch, parameters, spec)
        elif launch.source == "linear:panels":
            _panels(launch, parameters)
        else:
            assert launch.source in ("linear:matmul", "linear:matmul_outer")
            _matmul(launch, parameters)
    if result.size:
        assert output.writes.sum() == result.size
        assert output.writes.max() == 1
    for temporary in temporaries:
        assert (temporary.writes == 1).all()
    return result, plan
