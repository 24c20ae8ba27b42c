"""The NVIDIA driver's own logic on a CUDA that is written in Python here (no GPU: nothing is
silicon): closing, contexts of threads, memory, what is refused.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")
pytest.importorskip("cuda.core", reason="cuda-core is not installed")

from cuda.bindings import driver
from fake_cuda import INFO, PRIMARY, FakeCuda, FakeEvent, FakeStream

from xtarget._values.errors import (
    ArgumentError,
    DeviceLostError,
    DriverError,
    LaunchError,
    LoadError,
    OutOfResourcesError,
)
from xtarget._values.types import Artifact, LaunchConfig, Parameter

FOREIGN = 5
ADD = Artifact(
    INFO.target,
    "cubin",
    "add",
    b"",
    num_warps=4,
    warp_size=32,
    shared_bytes=50_000,
    parameters=(
        Parameter("p", "*fp32"),
        Parameter("n", "i32"),
        Parameter("f", "fp16"),
        Parameter("global_scratch", "*i8", hidden="global_scratch"),
    ),
)
ONE = LaunchConfig((1, 1, 1))


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
        with pytest.raises(DriverError, match="this object is no event of nvidia:0"):
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


def _prepared(device: Any) -> Any:
    """A launch of code of its own; nothing else holds it."""
    return device.load(ADD).function().prepare(ONE, [0, 0, 0, 0])


def _reach(stream: int | None = None) -> None:
    """The device has done what was launched before these events."""
    for event in FakeEvent.made:
        if stream in (None, event.stream):
            event.is_done = True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays loaded without being asked about."""
    monkeypatch.setenv("XTARGET_MODULES", "1")


def test_code_is_unloaded_when_its_launches_have_passed(cuda: FakeCuda, device: Any) -> None:
    launch = _prepared(device)
    launch((), device.default_stream)
    del launch
    gc.collect()
    assert cuda.loaded == 1, "it may still run"
    other = device.load(ADD)  # a call that is slow anyway looks after it
    assert cuda.loaded == 2
    assert [event.stream for event in FakeEvent.made] == [1]
    device.load(ADD)
    assert not cuda.unloads
    _reach()
    before = cuda.context
    del other
    device.load(ADD)
    # as a thread that no capture of others hinders, and in the device's context
    relaxed = int(driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    assert cuda.unloads == [(relaxed, PRIMARY)]
    assert (cuda.mode, cuda.context) == (0, before)


def test_waiting_for_the_device_unloads(cuda: FakeCuda, device: Any) -> None:
    launch = _prepared(device)
    launch((), device.default_stream)
    del launch
    gc.collect()
    device.synchronize()
    assert cuda.loaded == 0
    held = [_prepared(device)]
    device.close()
    assert cuda.loaded == 1
    held.clear()  # after the end: nothing was launched since it was waited for
    gc.collect()
    assert cuda.loaded == 0


def test_what_somebody_holds_is_not_unloaded(cuda: FakeCuda, device: Any) -> None:
    module = device.load(ADD)
    function = module.function()
    launch = function.prepare(ONE, [0, 0, 0, 0])
    for held in ("module", "function", "launch"):
        device.synchronize()
        gc.collect()
        assert cuda.loaded == 1, held
        if held == "module":
            del module
        elif held == "function":
            del function
    launch((), device.default_stream)
    del launch
    device.synchronize()
    assert cuda.loaded == 0


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("own", [True, False], ids=["own stream", "borrowed stream"])
def test_captured_code_stays(cuda: FakeCuda, device: Any, own: bool) -> None:
    stream = device.stream(None if own else 44)
    function = device.load(ADD).function()
    assert not function.stays
    launch = function.prepare(ONE, [0, 0, 0, 0])
    launch((), stream)
    launch((), stream)
    assert not function.stays
    cuda.captured.add(stream.handle)
    launch((), stream)
    assert function.stays
    cuda.asked.clear()
    launch((), stream)
    assert not cuda.asked, "it stays anyway"
    cuda.captured.clear()
    del function, launch
    gc.collect()
    _reach()
    device.load(ADD)
    device.synchronize()
    assert cuda.loaded == 1
    device.close()  # a graph of another library may outlive it
    del device
    gc.collect()
    assert cuda.loaded == 1


@pytest.mark.usefixtures("asked")
def test_nothing_is_unloaded_or_waited_for_in_a_capture(
    cuda: FakeCuda, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = device.stream()
    launch = _prepared(device)
    launch((), device.default_stream)
    del launch
    gc.collect()
    for captured in ("own stream", "one that waits for the default stream"):
        with monkeypatch.context() as patch:
            if captured == "own stream":
                cuda.captured.add(stream.handle)
            else:
                answer = (driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, None)
                patch.setattr(driver, "cuStreamIsCapturing", Mock(return_value=answer))
            _reach()
            device.load(ADD)
            device.load(ADD)
            assert not cuda.unloads, captured
            assert all(event.stream != 1 for event in FakeEvent.made), captured
        cuda.captured.clear()
    device.load(ADD)
    _reach()
    device.load(ADD)
    assert len(cuda.unloads) >= 1


def test_what_cannot_be_asked_about_stays_for_later(
    cuda: FakeCuda, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **named: Any) -> Any:
        raise RuntimeError("CUDA_ERROR_UNKNOWN: the driver's text")

    for _ in range(3):
        device.load(ADD)
    for broken in ("record", "is_done"):
        with monkeypatch.context() as patch:
            if broken == "record":
                patch.setattr(FakeStream, "record", fails)
            else:
                patch.setattr(FakeEvent, "is_done", property(fails, lambda *_: None))
            with pytest.raises(DriverError, match=r"driver's text"):
                device.load(ADD)
        assert not cuda.unloads, broken
    device.load(ADD)
    _reach()
    device.load(ADD)
    assert len(cuda.unloads) >= 3


@pytest.mark.usefixtures("asked")
def test_other_streams_are_waited_for_also_when_they_are_gone(cuda: FakeCuda, device: Any) -> None:
    launch = _prepared(device)
    for handle in (44, 46, 44):
        launch((), device.stream(handle))
    assert [event.stream for event in FakeEvent.made] == [44, 46, 44]
    assert len(set(map(id, FakeEvent.made))) == 2, "an event is recorded anew"
    del launch
    gc.collect()
    device.load(ADD)
    for done in (1, 44, 46):
        assert not cuda.unloads
        _reach(done)
        keep = device.load(ADD)
    assert len(cuda.unloads) == 1
    del keep


@pytest.mark.usefixtures("asked")
def test_a_launch_that_nobody_knows_the_end_of_keeps_its_code(
    cuda: FakeCuda, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Any, event: Any = None, options: Any = None) -> Any:
        raise KeyboardInterrupt

    function = device.load(ADD).function()
    launch = function.prepare(ONE, [0, 0, 0, 0])
    stream = device.stream()
    with monkeypatch.context() as patch:
        patch.setattr(FakeStream, "record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            launch((), stream)
    assert function.stays
    many = device.load(ADD).function()
    launch = many.prepare(ONE, [0, 0, 0, 0])
    for handle in range(2, 2 * 34, 2):
        assert not many.stays
        launch((), device.stream(handle))
    assert many.stays, "launched on more streams than are remembered"


def test_the_first_on_other_streams_stay_without_being_asked_about(
    cuda: FakeCuda, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_MODULES", "4")
    stream, functions = device.stream(), [device.load(ADD).function() for _ in range(4)]
    for function in functions:
        function.launch(ONE, [0, 0, 0, 0], device.default_stream)
    assert not any(function.stays for function in functions)
    for function in functions:
        function.launch(ONE, [0, 0, 0, 0], stream)
    assert [function.stays for function in functions] == [True, True, False, False]
    assert cuda.asked == [stream.handle] * 2
