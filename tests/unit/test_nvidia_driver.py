"""The NVIDIA driver's own logic on a CUDA that is written in Python here (no GPU: nothing is
silicon): closing, contexts of threads, memory, what is refused.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")
pytest.importorskip("cuda.core", reason="cuda-core is not installed")

from fake_cuda import ADD, INFO, ONE, FakeCuda

from xtarget._values.errors import (
    ArgumentError,
    DeviceLostError,
    DriverError,
    LaunchError,
    LoadError,
    OutOfResourcesError,
)
from xtarget._values.types import LaunchConfig

FOREIGN = 5


@pytest.fixture(params=[True, False], ids=["alone", "one of two"])
def device(request: pytest.FixtureRequest, cuda: FakeCuda) -> Any:
    from xtarget.targets.nvidia.device import CudaDevice

    return CudaDevice(INFO, alone=request.param)


def in_thread(work: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def test_values_reach_the_kernel(cuda: FakeCuda, device: Any) -> None:
    function = device.load(ADD).function()
    function.prepare(LaunchConfig((3, 1, 1)), [None, None, 1.5, 0])((5, -2), device.default_stream)
    function.launch(LaunchConfig((0, 1, 1)), [0, 0, 0, 0], device.default_stream)
    assert cuda.launches == [(1, (5, 2**32 - 2, 0x3E00, 0))]


def test_what_can_never_run_is_refused(device: Any) -> None:
    module = device.load(ADD)
    with pytest.raises(LoadError, match=r"no entry 'sub'.*has add"):
        module.function("sub")
    function = module.function()
    with pytest.raises(OutOfResourcesError, match=r"70000 blocks in y.*65535"):
        function.prepare(LaunchConfig((1, 70_000, 1)), [0, 0, 0, 0])
    with pytest.raises(LaunchError, match=r"takes 4 values \(p, n, f, global_scratch\), and got 3"):
        function.prepare(ONE, [0, 0, 0])


def test_a_kernel_that_is_loaded_again_is_not_left_to_lazy_loading(
    cuda: FakeCuda, device: Any
) -> None:
    """A launch that loads it would end a capture: asking for its limits loads it before."""
    for times in (1, 2, 3):  # as one that is unloaded and loaded again
        device.load(ADD).function().prepare(ONE, [0, 0, 0, 0])
        assert cuda.limits_read == times


def test_a_binary_whose_blocks_do_not_fit_is_refused_each_time(cuda: FakeCuda, device: Any) -> None:
    cuda.most_threads = 64
    for _ in range(2):
        with pytest.raises(OutOfResourcesError, match="128 threads"):
            device.load(ADD).function().prepare(ONE, [0, 0, 0, 0])


def test_a_failed_launch_has_the_drivers_words(cuda: FakeCuda, device: Any) -> None:
    launch = device.load(ADD).function().prepare(ONE, [0, 0, 0, 0])
    cuda.failing = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceLostError, match=r"add on nvidia:0.*ILLEGAL_ADDRESS.*driver's text"):
        launch((), device.default_stream)


@pytest.mark.parametrize(
    "handle", ["text", object(), 1.5, True], ids=lambda handle: type(handle).__name__
)
def test_what_is_no_stream_is_refused(device: Any, handle: object) -> None:
    with pytest.raises(DriverError, match=type(handle).__name__):
        device.stream(handle)


def test_a_borrowed_stream_keeps_its_owner(device: Any) -> None:
    class Owner:
        alive = 0

        def __init__(self) -> None:
            Owner.alive += 1

        def __del__(self) -> None:
            Owner.alive -= 1

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 99

    stream = device.stream(Owner())
    assert (stream.handle, Owner.alive) == (99, 1)
    core_stream = stream.raw
    stream.close()
    gc.collect()
    assert Owner.alive == 0
    assert not core_stream.closed, "it is the caller's"


def test_events(device: Any) -> None:
    stream = device.stream()
    first, second = stream.record(), stream.record()
    assert second.elapsed_ms(first) == 1.5
    for use in (stream.wait, second.elapsed_ms):
        with pytest.raises(DriverError, match="this object is not an event of nvidia:0"):
            use(object())
    first.close()
    first.close()
    with pytest.raises(DriverError, match="event of nvidia:0 is closed"):
        first.synchronize()


def test_copies_check_their_size_and_stream(device: Any) -> None:
    stream, buffer = device.stream(), device.alloc(4)
    buffer.write(memoryview(b"four"), stream)
    back = bytearray(4)
    buffer.read(memoryview(back), stream)
    assert back == b"four"
    with pytest.raises(ArgumentError, match="5 bytes do not fit a buffer of 4"):
        buffer.write(memoryview(b"fives"), stream)
    with pytest.raises(ArgumentError, match="read-only"):
        buffer.read(memoryview(b"four"), stream)
    stream.close()
    with pytest.raises(DriverError, match="stream of nvidia:0 is closed"):
        buffer.read(memoryview(back), stream)


def test_memory_of_a_closed_stream_is_freed_after_its_work(cuda: FakeCuda, device: Any) -> None:
    stream = device.stream()
    early, late = device.alloc(8, stream), device.alloc(8, stream)
    early.close()
    stream.close()
    late.close()
    late.close()
    assert cuda.calls == ["alloc", "alloc", "free in order", "wait", "free at once"]


def test_memory_that_is_dropped_is_freed_in_any_thread(cuda: FakeCuda, device: Any) -> None:
    held = [device.alloc(8)]
    in_thread(held.clear)
    assert not cuda.memory


def test_a_threads_own_context_stays(cuda: FakeCuda, device: Any) -> None:
    launch = device.load(ADD).function().prepare(ONE, [0, 0, 0, 0])

    def work() -> None:
        cuda.enter(FOREIGN)
        buffer = device.alloc(8)
        assert cuda.context == FOREIGN
        launch((), device.default_stream)
        assert cuda.context == FOREIGN
        del buffer
        assert cuda.context == FOREIGN

    in_thread(work)
    assert not cuda.memory
    assert len(cuda.launches) == 1


def test_use_after_close(cuda: FakeCuda, device: Any) -> None:
    stream, kept = device.stream(), device.alloc(8)
    module = device.load(ADD)
    launch = module.function().prepare(ONE, [0, 0, 0, 0])
    late = device.load(ADD).function().prepare(ONE, [0, 0, 0, 0])
    default = device.default_stream
    default.close()
    default.synchronize()  # it stays open
    stream.close()
    with pytest.raises(DriverError, match="stream of nvidia:0 is closed"):
        launch((), stream)
    module.close()
    with pytest.raises(DriverError, match="module of add on nvidia:0 is closed"):
        launch((), default)
    device.close()
    device.close()
    assert cuda.calls == ["alloc", "wait", "pool trimmed"]
    for use in (
        lambda: device.alloc(1),
        device.stream,
        device.synchronize,
        lambda: device.load(ADD),
        lambda: device.default_stream,
        lambda: late((), default),
    ):
        with pytest.raises(DriverError, match="nvidia:0 is closed"):
            use()
    kept.close()  # memory outlives its device
    assert not cuda.memory


def test_a_device_that_is_opened_again_has_the_same_pool(cuda: FakeCuda) -> None:
    from xtarget.targets.nvidia.device import CudaDevice

    first = CudaDevice(INFO, alone=True)
    first.close()
    assert CudaDevice(INFO, alone=True)._pool is first._pool


def test_a_stream_knows_whether_it_is_captured(cuda: FakeCuda, device: Any) -> None:
    assert device.stream(101).capturing()
    assert not device.stream(102).capturing()
    assert not device.default_stream.capturing()


# -------------------------------------------------------------------------------------- unloading
