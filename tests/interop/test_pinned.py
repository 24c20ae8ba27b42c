"""Host arrays go to a device through pinned memory: a CUDA that is written in Python."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("cuda.core", reason="cuda-python is not installed")

import xtarget
from xtarget._devices import registry
from xtarget._launch import run as launching
from xtarget.targets._objects import pinned


@pytest.fixture
def gpu(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A device whose launches add two arrays of float32."""
    from fake_cuda import INFO

    from xtarget.targets.nvidia.device import CudaDevice

    def add(stream: Any, config: Any, kernel: Any, *values: Any) -> None:
        x, y, out, n = (getattr(value, "value", value) for value in values[:4])

        def at(address: int) -> Any:
            memory, start = cuda.within(address)
            return np.frombuffer(memory, np.float32, n, start)

        at(out)[:] = at(x) + at(y)
        cuda.launches.append((stream.handle, (x, y, out, n)))

    import cuda.core as core

    monkeypatch.setattr(core, "launch", add)
    device = CudaDevice(INFO, alone=True)
    monkeypatch.setitem(registry._devices, INFO.name, device)
    device.when_closed(lambda: registry._forget(INFO.name, device))
    monkeypatch.setenv("XTARGET_DEVICE", INFO.name)
    launching.forget_calls()
    yield SimpleNamespace(name=INFO.name, device=device, cuda=cuda)
    launching.forget_calls()
    device.close()
    assert not cuda.pinned, "a device that is closed pins nothing"


def use(gpu: Any) -> Any:
    return xtarget.memory_stats().devices[gpu.name]


def test_random_layouts_go_there_and_back(gpu: Any) -> None:
    rng = np.random.default_rng(3)
    for turn in range(60):
        n = int(rng.choice((1, 7, 1000, 70_000)))
        memory = rng.standard_normal((3, 2 * n)).astype(np.float32)
        x = (memory[0, :n], memory[0, ::2], memory[0, n - 1 :: -1])[rng.integers(3)]
        y = (memory[1, n:], memory[1, 1::2])[rng.integers(2)]
        room = np.full(2 * n + 2, 7, np.float32)
        out = (room[:n], room[1 : 2 * n + 1 : 2], None)[rng.integers(3)]
        given = {} if out is None else {"out": out}
        made = xtarget.run("add", x, y, **given)
        assert out is None or made is out
        np.testing.assert_array_equal(made, x + y)
        if out is not None:
            made[:] = 7
            assert (room == 7).all(), "what is beside it stays as it is"
        assert len(gpu.cuda.launches) == turn + 1
    assert 0 < len(gpu.cuda.pinned) < 6
    assert use(gpu).pinned == sum(len(block) for block in gpu.cuda.pinned.values())
    assert "pinned" in str(xtarget.memory_stats())
    assert use(gpu).in_use == 0
    xtarget.empty_cache()
    assert use(gpu).pinned == len(gpu.cuda.pinned) == 0


def test_one_copy_takes_all_and_one_brings_all_back(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuda.bindings import driver

    copies: list[str] = []

    def note(name: str) -> None:
        call = getattr(driver, name)

        def noted(*args: Any) -> Any:
            copies.append(name)
            return call(*args)

        monkeypatch.setattr(driver, name, noted)

    for name in ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamSynchronize"):
        note(name)
    x = np.ones(1000, np.float32)
    for _ in range(3):
        del copies[:]
        np.testing.assert_array_equal(xtarget.run("add", x, x), 2)
        assert sorted(copies)[:2] == ["cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"]
        assert len(copies) <= 3


def test_large_arrays_are_copied_without(gpu: Any) -> None:
    x = np.ones((5 << 20) // 12, np.float32)
    np.testing.assert_array_equal(xtarget.run("add", x, x), 2)
    assert not gpu.cuda.pinned


def test_without_memory_to_pin_the_call_is_made(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import driver

    none = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    success, text = driver.CUresult.CUDA_SUCCESS, b"CUDA_ERROR_OUT_OF_MEMORY"
    monkeypatch.setattr(driver, "cuMemHostAlloc", lambda nbytes, flags: (none, 0))
    for name in ("cuGetErrorName", "cuGetErrorString"):
        monkeypatch.setattr(driver, name, lambda status: (success, text))
    x = np.ones(500, np.float32)
    np.testing.assert_array_equal(xtarget.run("add", x, x), 2)
    assert use(gpu).pinned == 0


def test_a_launch_that_fails_gives_its_block_back(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cuda.core as core

    x = np.ones(500, np.float32)
    add = core.launch
    np.testing.assert_array_equal(xtarget.run("add", x, x), 2)

    def failing(*given: Any) -> None:
        raise RuntimeError("CUDA_ERROR_LAUNCH_FAILED: the driver's text")

    monkeypatch.setattr(core, "launch", failing)
    launching.forget_calls()
    for _ in range(3):
        with pytest.raises(xtarget.XTargetError):
            xtarget.run("add", x, x)
        assert use(gpu).in_use == 0
    monkeypatch.setattr(core, "launch", add)
    launching.forget_calls()
    np.testing.assert_array_equal(xtarget.run("add", x, x), 2)
    assert len(gpu.cuda.pinned) == 1


def test_what_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    numbers = iter(range(1, 1000))
    pool = pinned.PinnedPool(lambda nbytes: next(numbers), freed.append)
    taken = [pool.take(pinned.LARGEST) for _ in range(20)]
    assert pool.take(pinned.LARGEST + 1) is None
    for one in taken:
        assert one is not None
        pool.give_back(*one)
    kept = pinned.KEPT // pinned.LARGEST
    assert len(freed) == 20 - kept
    assert pool.nbytes == pinned.KEPT
    small = pool.take(1)
    assert small == (21, pinned.SMALLEST)
    pool.trim()
    assert len(freed) == 20
    assert pool.nbytes == pinned.SMALLEST, "what is in use stays"


def test_a_part_of_a_split_call_goes_there_in_pieces(gpu: Any) -> None:
    """Beside the CPU, which computes in place: large parts through pinned memory, at once."""
    if not any(info.vendor == "cpu" for info in xtarget.devices()):
        pytest.skip("no OpenCL CPU run time")
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 9000, 1500), dtype=np.float32)
    out = np.empty_like(x)
    devices = [gpu.name, "cpu"]
    assert xtarget.split("add", x, y, devices=devices, out=out) is out
    np.testing.assert_array_equal(out, x + y)
    sizes = [values[-1] for _, values in gpu.cuda.launches]
    assert sum(sizes) == 4500 * 1500
    assert len(sizes) > 4
    assert max(sizes) * 12 <= pinned.LARGEST
    assert gpu.cuda.pinned, "they went through pinned memory"
    made = xtarget.split("add", x[::2, ::3], y[1::2, ::3], devices=devices)
    np.testing.assert_array_equal(made, x[::2, ::3] + y[1::2, ::3])


def test_an_error_in_a_piece_ends_the_call(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda.core as core

    def lost(stream: Any, config: Any, kernel: Any, *values: Any) -> None:
        gpu.cuda.launches.append(stream)
        raise RuntimeError("the kernel")

    monkeypatch.setattr(core, "launch", lost)
    x = np.ones((3000, 1500), np.float32)
    with pytest.raises(Exception, match="the kernel"):
        xtarget.split("add", x, x, devices=[gpu.name])
    assert len(gpu.cuda.launches) <= 4, "the other pieces are not begun"
