"""NVIDIA's driver unloads code when nobody needs it any more."""

from __future__ import annotations

import gc
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")
pytest.importorskip("cuda.core", reason="cuda-core is not installed")

from cuda.bindings import driver
from fake_cuda import ADD, INFO, ONE, PRIMARY, FakeCuda, FakeEvent, FakeStream

from xtarget._values.errors import (
    DriverError,
)


@pytest.fixture(params=[True, False], ids=["alone", "one of two"])
def device(request: pytest.FixtureRequest, cuda: FakeCuda) -> Any:
    from xtarget.targets.nvidia.device import CudaDevice

    return CudaDevice(INFO, alone=request.param)


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
