"""CuPy's arrays in the compiled core, with a CuPy and a CUDA that are written in Python."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cpu_entries import ENTRY
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
    """The launches that the core makes in the driver: stream, grid in x, addresses and length."""
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

    address = ctypes.cast(launch, ctypes.c_void_p).value
    success = driver.CUresult.CUDA_SUCCESS
    monkeypatch.setattr("xtarget.targets.nvidia.module.launch_entries", lambda: (address, 0))
    monkeypatch.setattr("xtarget.targets.nvidia.module._entry", lambda name: 0)
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
