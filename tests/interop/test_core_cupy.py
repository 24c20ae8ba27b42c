"""CuPy's arrays in the compiled core, with a CuPy and a CUDA that are written in Python."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from core_filled_kernels import SPLIT, begun
from cpu_entries import ENTRY, FILLS
from test_core import hot

import xtarget
from xtarget._devices import registry
from xtarget._launch import run as launching

pytest.importorskip("triton")
N, ON_DEFAULT = 4096, 1


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed, whose arrays the other tests take")
    import fake_cupy

    with fake_cupy.in_place(monkeypatch) as module:
        yield module


@pytest.fixture
def launched(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The launches that the core makes in the driver: stream, grid in x, addresses and length. What
    it fills: stream, bits of a word, address, word and how many."""
    from cuda.bindings import driver
    from fake_cuda import INFO

    from xtarget.targets.nvidia.device import CudaDevice

    found: list[Any] = []

    @ENTRY
    def launch(
        function: Any, x: int, y: int, z: int, threads: int, two: int, three: int,
        shared: int, stream: Any, values: Any, extra: Any,
    ) -> int:  # fmt: skip
        *words, n = (ctypes.cast(values[i], ctypes.POINTER(ctypes.c_uint64))[0] for i in range(4))
        found.append((stream, x, (*words, n & 0xFFFFFFFF)))
        return 0

    def filling(bits: int) -> Any:
        def fill(address: int, word: int, count: int, stream: Any) -> int:
            found.append((stream, bits, (address, word, count)))
            return 0

        return fill

    fills = [kind(filling(bits)) for kind, bits in zip(FILLS, (8, 16, 32), strict=True)]
    entries = tuple(ctypes.cast(one, ctypes.c_void_p).value for one in fills)
    address = ctypes.cast(launch, ctypes.c_void_p).value
    success = driver.CUresult.CUDA_SUCCESS
    monkeypatch.setattr("xtarget.targets.nvidia.module.launch_entries", lambda: (address, 0))
    monkeypatch.setattr("xtarget.targets.nvidia.module._entry", lambda name: 0)
    monkeypatch.setattr("xtarget.targets.nvidia.module.fill_entries", lambda: entries)
    monkeypatch.setattr(driver, "cuKernelGetFunction", lambda kernel: (success, 9))
    monkeypatch.setitem(registry._devices, INFO.name, CudaDevice(INFO, alone=True))
    launching.forget_calls()
    yield found
    launching.forget_calls()


def test_the_core_reads_cupys_arrays_and_its_stream(
    core: Any, cupy: Any, cuda: Any, launched: list[Any]
) -> None:
    a, b, out = (cupy.ndarray((N,), np.float32, address << 16) for address in (1, 2, 3))
    assert hot(core, "add", a, b, out=out) == 2
    assert launched[-1] == (None, 4, (1 << 16, 2 << 16, 3 << 16, N))
    assert cuda.launches[0] == (ON_DEFAULT, (1 << 16, 2 << 16, 3 << 16, N, 0, 0)), "Python's"
    cuda.launches.clear()
    b.data.ptr = 5 << 16  # CuPy's arrays may get other memory
    xtarget.run("add", a, b, out=out)
    assert launched[-1][2] == (1 << 16, 5 << 16, 3 << 16, N)
    made = core.statistics()[0]
    for n in range(16, 3200, 16):
        x, y, z = (cupy.ndarray((n,), np.float32, address << 16) for address in (1, 2, 3))
        xtarget.run("add", x, y, out=z)
        assert launched[-1] == (None, -(-n // 1024), (1 << 16, 2 << 16, 3 << 16, n))
    assert core.statistics()[0] - made == 199, "its sizes are of the class that is known"
    assert not cuda.launches
    cupy.cuda.stream = 104
    xtarget.run("add", a, b, out=out)  # where code that may go is launched, Python notes it
    assert cuda.launches[-1][0] == 104
    for _ in range(2):
        xtarget.run("add", a, b, out=out)
    assert launched[-1][0] == 104


def test_a_stream_whose_keyword_a_program_has_made(
    core: Any, cupy: Any, cuda: Any, launched: list[Any]
) -> None:
    """Text that is not the one object of its letters."""
    a, b, out = (cupy.ndarray((N,), np.float32, address << 16) for address in (1, 2, 3))

    class Word(str):
        pass

    for name in ("".join(["str", "eam"]), Word("stream")):
        launched.clear()
        cuda.launches.clear()
        for _ in range(6):
            xtarget.run("add", a, b, out=out, **{name: 1234})
        started = [stream for stream, *_ in launched + cuda.launches]
        assert started == [1234] * 6


def test_what_begins_as_something_takes_a_call_of_the_driver_more(
    core: Any, cupy: Any, cuda: Any, launched: list[Any]
) -> None:
    one_and_a_half = 0x3FC00000
    for dtype, init, fill in (
        ("float32", 1.5, (32, one_and_a_half, N)),
        ("int16", 258, (16, 258, N)),
        ("int32", -1, (8, 255, 4 * N)),
        ("float64", 0, (8, 0, 8 * N)),
    ):
        x, out = (cupy.ndarray((N,), dtype, address << 16) for address in (1, 3))
        cuda.calls.clear()
        assert hot(core, begun(init), x, out=out) == 2
        assert cuda.calls[0].startswith("fill by"), "Python's, before there is the core's"
        launched.clear()
        cuda.calls.clear()
        xtarget.run(begun(init), x, out=out)
        bits, word, count = fill
        assert launched[0] == (None, bits, (3 << 16, word, count))
        assert [(grid, words[:2]) for _, grid, words in launched[1:]] == [(64, (1 << 16, 3 << 16))]
        assert not cuda.calls
    assert len(cuda.launches) == 4, "the first call of each"


def test_two_launches_and_what_they_begin_with_are_four_calls_of_the_driver(
    core: Any, cupy: Any, cuda: Any, launched: list[Any]
) -> None:
    x, out = (cupy.ndarray((N,), np.float32, address << 16) for address in (1, 3))
    assert hot(core, SPLIT, x, out=out) == 2
    launched.clear()
    cuda.launches.clear()
    cuda.calls.clear()
    xtarget.run(SPLIT, x, out=out)
    two, five = 0x40000000, 0x40A00000
    (_, _, (room, _, _)) = launched[1]
    assert [(number, words[:2]) for _, number, words in launched] == [
        (32, (3 << 16, two)), (32, (room, five)), (64, (1 << 16, room)), (64, (room, 3 << 16))
    ]  # fmt: skip
    assert not cuda.launches
    assert not any(call.startswith("fill") for call in cuda.calls)


def test_a_row_is_read_without_the_tuple_of_its_shape(
    core: Any, cupy: Any, cuda: Any, launched: list[Any]
) -> None:
    rows = [cupy.ndarray((N,), np.float32, address << 16) for address in (1, 2, 3)]
    grids = [cupy.ndarray((64, 64), np.float32, address << 16) for address in (1, 2, 3)]
    for arrays, looks in ((rows, 0), (grids, 3)):
        a, b, out = arrays
        assert hot(core, "add", a, b, out=out) == 2
        before = cupy.ndarray.shapes
        xtarget.run("add", a, b, out=out)
        assert cupy.ndarray.shapes - before == looks
        assert launched[-1][1:] == (4, (1 << 16, 2 << 16, 3 << 16, N))


def test_other_layouts_of_cupys_are_told_apart(
    core: Any, cupy: Any, cuda: Any, launched: list[Any]
) -> None:
    columns = cupy.ndarray((8, 8), np.float32, 1 << 16, strides=(4, 32))
    rows, out = (cupy.ndarray((8, 8), np.float32, address << 16) for address in (2, 3))
    assert hot(core, "add", rows, rows, out=out) == 2
    count = len(launched)
    twin = launching._run_in_python
    for first in (columns, rows):
        cuda.launches.clear()
        twin("add", first, rows, out=out)
        expected = cuda.launches[-1][1]
        assert hot(core, "add", first, rows, out=out) == 2
        assert launched[-1][2][:3] == expected[:3]
    assert len(launched) > count
    torn = cupy.ndarray((8,), np.float32, 1 << 16, strides=(6,))
    with pytest.raises(xtarget.ArgumentError, match="does not lie on its 4-byte elements"):
        xtarget.run("add", torn, torn)
    result = xtarget.run("add", rows, rows)
    assert type(result) is cupy.ndarray
    assert result.shape == (8, 8)
