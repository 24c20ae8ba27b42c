"""Launching: grids, every type of argument, shared memory, replays, threads."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xtarget import XTargetError
from xtarget._values.types import LaunchConfig
from xtarget.targets.optional import PreparesGrids

BLOCK = 1024
_SCALARS = (
    "integers:*i64 floats:*fp64 b:i1 i8:i8 u8:u8 i16:i16 u16:u16 i32:i32 u32:u32 i64:i64 u64:u64 "
    "half:fp16 brain:bf16 single:fp32 double:fp64"
)


def _grid(n: int) -> LaunchConfig:
    return LaunchConfig((math.ceil(n / BLOCK), 1, 1))


def _bfloat16(value: float) -> float:
    """The nearest number with 8 significant bits, ties to even."""
    if value == 0 or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, 8)), exponent - 8)


@pytest.fixture
def add(vendor: Any) -> Any:
    return vendor.device.load(vendor.vector_add()).function()


@pytest.mark.parametrize("n", [1, 1000, 1024, 1025, 100_003])
def test_vector_add(add: Any, memory: Any, stream: Any, hidden: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n), np.float32)
    x, y, out = memory.put(a), memory.put(b), memory.empty(n + 7)
    add.launch(_grid(n), [x.address, y.address, out.address, n, *hidden(add)], stream)
    got = memory.get(out)
    assert (got[:n] == a + b).all()
    assert (got[n:].view(np.uint8) == 0xA5).all(), "written behind the end"


@pytest.mark.parametrize("num_warps", [1, 2, 8])
def test_other_numbers_of_warps(
    vendor: Any, memory: Any, stream: Any, hidden: Any, num_warps: int
) -> None:
    artifact = vendor.vector_add(num_warps=num_warps)
    assert artifact.num_warps == num_warps
    function = vendor.device.load(artifact).function()
    x, out = memory.put(np.arange(3000, dtype=np.float32)), memory.empty(3000)
    args = [x.address, x.address, out.address, 3000, *hidden(function)]
    function.launch(_grid(3000), args, stream)
    assert (memory.get(out) == 2 * np.arange(3000)).all()


def test_aligned_specialization(vendor: Any, memory: Any, stream: Any, hidden: Any) -> None:
    artifact = vendor.vector_add(aligned=("a", "b", "out", "n"))
    function = vendor.device.load(artifact).function()
    x, out = memory.put(np.arange(4096, dtype=np.float32)), memory.empty(4096)
    args = [x.address, x.address, out.address, 4096, *hidden(function)]
    function.launch(_grid(4096), args, stream)
    assert (memory.get(out) == 2 * np.arange(4096)).all()


def _check_blocks(written: Any, grid: tuple[int, int, int]) -> None:
    """Each block of `write_grid` has written where it stands, and the grid."""
    rows = written.reshape(grid[2], grid[1], grid[0], 6)
    for z, y, x in np.ndindex(grid[::-1]):
        assert rows[z, y, x].tolist() == [x, y, z, *grid]


@pytest.mark.parametrize(
    "grid", [(1, 1, 1), (7, 1, 1), (3, 5, 1), (2, 3, 4), (1, 1, 9), (65, 2, 3)]
)
def test_grid_of_every_dimension(
    vendor: Any, memory: Any, stream: Any, hidden: Any, grid: tuple[int, int, int]
) -> None:
    function = vendor.device.load(vendor.artifact("write_grid", "out:*i32")).function()
    out = memory.empty(6 * math.prod(grid), np.int32)
    function.launch(LaunchConfig(grid), [out.address, *hidden(function)], stream)
    _check_blocks(memory.get(out, np.int32), grid)


def test_grids_that_come_with_the_launch(
    vendor: Any, memory: Any, stream: Any, hidden: Any
) -> None:
    function = vendor.device.load(vendor.artifact("write_grid", "out:*i32")).function()
    if not isinstance(function, PreparesGrids):
        pytest.skip(f"{vendor.name} prepares launches with their grid")
    launch = function.prepare_grids([None, *hidden(function)])
    grids = [(7, 1, 1), (2, 3, 4), (1, 1, 9), (7, 1, 1)]
    outs = [memory.empty(6 * math.prod(grid), np.int32) for grid in grids]
    for grid, out in zip(grids, outs, strict=True):
        launch(grid, [out.address], stream)
    for grid, out in zip(grids, outs, strict=True):
        _check_blocks(memory.get(out, np.int32), grid)


def test_a_grid_and_sizes_that_come_with_the_launch(
    add: Any, memory: Any, stream: Any, hidden: Any
) -> None:
    """The size between the addresses and what is constant; a wrong number of values is told."""
    if not isinstance(add, PreparesGrids):
        pytest.skip("launches are prepared with their grid")
    x = memory.put(np.arange(5000, dtype=np.float32))
    launch = add.prepare_grids([x.address, None, None, None, *hidden(add)])
    for n in (5000, 1, 1024, 1025):
        y, out = memory.put(np.full(n, 2, np.float32)), memory.empty(n + 3)
        launch(_grid(n).grid, [y.address, out.address, n], stream)
        got = memory.get(out)
        assert (got[:n] == np.arange(n) + 2).all()
        assert (got[n:].view(np.uint8) == 0xA5).all(), "written behind the end"
    with pytest.raises(XTargetError, match="3 dynamic values"):
        launch((1, 1, 1), [x.address], stream)


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (4, 4, 0), (0, 0, 0)])
def test_empty_grid_does_nothing(
    add: Any, memory: Any, stream: Any, hidden: Any, grid: tuple[int, int, int]
) -> None:
    out = memory.empty(4)
    args = [out.address, out.address, out.address, 4, *hidden(add)]
    add.launch(LaunchConfig(grid), args, stream)
    assert (memory.get(out).view(np.uint8) == 0xA5).all()


@pytest.mark.parametrize(
    ("integers", "floats"),
    [
        (
            [True, -128, 255, -32768, 65535, -(1 << 31), (1 << 32) - 1, -(1 << 63), (1 << 64) - 1],
            [-65504.0, 3.0e38, 3.4e38, 1.7e308],
        ),
        ([False, 127, 0, 32767, 0, (1 << 31) - 1, 0, (1 << 63) - 1, 0], [-0.0, 1.0, 0.1, math.pi]),
        ([True, -1, 1, -2, 2, -3, 3, -4, 4], [math.inf, -math.inf, math.inf, -math.inf]),
        ([False, 5, 6, 7, 8, 9, 10, 11, 12], [math.nan] * 4),
        ([True, 0, 0, 0, 0, 0, 0, 0, 0], [1 / 3, 1 / 3, 1 / 3, 1 / 3]),
        # between two values: rounded to nearest, ties to even
        ([True, 0, 0, 0, 0, 0, 0, 0, 0], [2049.0, 257.0, 16777217.0, 5e-324]),
    ],
    ids=["extremes", "others", "infinite", "nan", "thirds", "ties"],
)
def test_every_type_of_scalar(
    vendor: Any,
    memory: Any,
    stream: Any,
    hidden: Any,
    integers: list[int],
    floats: list[float],
) -> None:
    function = vendor.device.load(vendor.artifact("write_scalars", _SCALARS)).function()
    ints, reals = memory.empty(9, np.int64), memory.empty(4, np.float64)
    values = [ints.address, reals.address, *integers, *floats, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), values, stream)
    got = [int(v) for v in memory.get(ints, np.int64)]
    got[-1] %= 1 << 64
    assert got == integers
    if vendor.name == "fake":  # NumPy forms get the values, not their bits
        return
    types = (np.float16, _bfloat16, np.float32, np.float64)
    expected = np.array([float(t(v)) for t, v in zip(types, floats, strict=True)])
    result = memory.get(reals, np.float64)
    np.testing.assert_array_equal(result, expected)
    nans = np.isnan(expected)
    assert (np.signbit(result) == np.signbit(expected))[~nans].all()


@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_sum_over_several_warps(
    vendor: Any, memory: Any, stream: Any, hidden: Any, num_warps: int
) -> None:
    artifact = vendor.artifact("block_sum", "x:*fp32 out:*fp32", num_warps=num_warps, N=2048)
    function = vendor.device.load(artifact).function()
    # whole numbers: exact in any order
    x = np.random.default_rng(0).integers(-100, 100, (33, 2048)).astype(np.float32)
    data, out = memory.put(x), memory.empty(33)
    args = [data.address, out.address, *hidden(function)]
    function.launch(LaunchConfig((33, 1, 1)), args, stream)
    assert (memory.get(out) == x.sum(axis=1)).all()


# ------------------------------------------------------------------------------- prepared launches


def test_replay_with_other_pointers(add: Any, memory: Any, stream: Any, hidden: Any) -> None:
    n = 2000
    launch = add.prepare(_grid(n), [None, None, None, n, *hidden(add)])
    arrays = [np.full(n, k, np.float32) for k in range(4)]
    inputs = [memory.put(a) for a in arrays]
    outs = []
    for i in range(4):
        for j in range(4):
            out = memory.empty(n)
            launch((inputs[i].address, inputs[j].address, out.address), stream)
            outs.append((i + j, out))
    for expected, out in outs:
        assert (memory.get(out) == expected).all()


def test_unchanged_and_changed_values_alternate(
    vendor: Any, memory: Any, stream: Any, hidden: Any
) -> None:
    """A driver's state of the last launch must not leak into the next."""
    artifact = vendor.artifact("scale_shift", "x:*fp32 factor:fp32 shift:fp32 n:i32", BLOCK=BLOCK)
    function = vendor.device.load(artifact).function()
    launch = function.prepare(_grid(5), [None, None, None, 5, *hidden(function)])
    x, y = memory.put(np.ones(5, np.float32)), memory.put(np.ones(5, np.float32))
    for values in (
        (x.address, 2.0, 1.0),  # 3
        (x.address, 2.0, 1.0),  # 7
        (y.address, 2.0, 1.0),  # 3
        (x.address, 1.0, 1.0),  # 8
        (x.address, 0.0, -0.0),
        (y.address, 1.0, 0.5),  # 3.5
    ):
        launch(values, stream)
    assert (memory.get(x) == 0).all()
    assert (memory.get(y) == 3.5).all()


def test_zero_and_minus_zero_are_two_values(
    vendor: Any, memory: Any, stream: Any, hidden: Any
) -> None:
    artifact = vendor.artifact("slow_fill", "x:*fp32 value:fp32 rounds:i32 n:i32", BLOCK=BLOCK)
    function = vendor.device.load(artifact).function()
    launch = function.prepare(_grid(5), [None, None, 1, 5, *hidden(function)])
    outs = [memory.empty(5) for _ in range(3)]
    for out, value in zip(outs, (0.0, -0.0, 0.0), strict=True):
        launch((out.address, value), stream)
    assert [bool(np.signbit(memory.get(out)).any()) for out in outs] == [False, True, False]


def test_values_are_copied_before_launch_returns(
    vendor: Any, memory: Any, stream: Any, hidden: Any
) -> None:
    artifact = vendor.artifact("slow_fill", "x:*fp32 value:fp32 rounds:i32 n:i32", BLOCK=BLOCK)
    function = vendor.device.load(artifact).function()
    rounds = min(vendor.rounds, 100_000)
    launch = function.prepare(_grid(BLOCK), [None, None, rounds, BLOCK, *hidden(function)])
    outs = [memory.empty(BLOCK) for _ in range(6)]
    values: list[Any] = [None, None]
    for k, out in enumerate(outs):
        values[:] = [out.address, float(k)]
        launch(values, stream)
        values[:] = [0, -1.0]
    for k, out in enumerate(outs):
        assert (memory.get(out) == k).all()


def test_wrong_number_of_values_is_told(add: Any, stream: Any, hidden: Any) -> None:
    launch = add.prepare(_grid(1), [None, None, None, 1, *hidden(add)])
    with pytest.raises(XTargetError, match="3"):
        launch((0,), stream)


def test_closed_stream_or_module_is_told(vendor: Any, memory: Any, hidden: Any) -> None:
    module = vendor.device.load(vendor.vector_add())
    function = module.function()
    launch = function.prepare(_grid(4), [None, None, None, 4, *hidden(function)])
    x = memory.put(np.ones(4, np.float32))
    vendor.device.synchronize()
    stream = vendor.device.stream()
    launch((x.address, x.address, x.address), stream)
    stream.synchronize()
    stream.close()
    with pytest.raises(XTargetError, match="closed"):
        launch((x.address, x.address, x.address), stream)
    module.close()
    with pytest.raises(XTargetError, match="closed"):
        launch((x.address, x.address, x.address), vendor.device.default_stream)
    assert (memory.get(x) == 2).all()


@pytest.mark.parametrize("own_streams", [False, True], ids=["one stream", "own streams"])
def test_two_prepared_launches_from_eight_threads(
    vendor: Any, memory: Any, hidden: Any, own_streams: bool
) -> None:
    n, rounds = 3000, 12 if vendor.device.info.runs_on == "emulator" else 60
    function = vendor.device.load(vendor.vector_add()).function()
    launches = [
        function.prepare(_grid(n), [None, None, None, n, *hidden(function)]),
        function.prepare(_grid(n // 2), [None, None, None, n // 2, *hidden(function)]),
    ]
    inputs = [memory.put(np.full(n, k, np.float32)) for k in range(8)]
    outs = [[memory.empty(n) for _ in range(4)] for _ in range(8)]
    vendor.device.synchronize()

    def work(thread: int) -> None:
        stream = vendor.device.stream() if own_streams else vendor.device.default_stream
        for k in range(rounds):
            other = inputs[(thread + k) % 8].address
            # its own output and sum each time: the last round of each output counts
            launches[k % 2]((inputs[thread].address, other, outs[thread][k % 4].address), stream)
        stream.synchronize()
        if own_streams:
            stream.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    for thread in range(8):
        for slot in range(4):
            k = max(k for k in range(rounds) if k % 4 == slot)
            count = n if k % 2 == 0 else n // 2
            expected = thread + (thread + k) % 8
            assert (memory.get(outs[thread][slot])[:count] == expected).all()


@pytest.mark.only_vendor("cpu")
@pytest.mark.parametrize("host_memory", [True, False])
def test_memory_that_comes_and_goes_under_one_launch(
    vendor: Any, hidden: Any, host_memory: bool
) -> None:
    """Memory that is freed between two launches comes back at the same address in other sizes; also
    on a run time whose kernels use no memory but its own.
    """
    device = vendor.open()
    device.info = replace(device.info, host_memory=host_memory)
    function = device.load(vendor.vector_add()).function()
    stream = device.default_stream
    most = 3 << 20
    launch = function.prepare(_grid(most), [None] * len(function.artifact.parameters))
    for step, n in enumerate((700, 700, 700, most, most, 5, 1 << 20, 1 << 20, most, 700)):
        x = np.arange(n, dtype=np.float32) + step
        given, out = device.alloc(x.nbytes), device.alloc(x.nbytes)
        given.write(memoryview(x).cast("B"), stream)
        launch([given.address, given.address, out.address, n, *hidden(function)], stream)
        got = np.empty_like(x)
        out.read(memoryview(got).cast("B"), stream)
        np.testing.assert_array_equal(got, x + x)
        given.close()
        out.close()
    device.close()
