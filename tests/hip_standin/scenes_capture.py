"""Launches while the caller captures a stream into a graph: only what a capture allows."""

from __future__ import annotations

from contextlib import contextmanager

import hsaco
from scene import opened, refused

from xtarget import _errors as errors
from xtarget._types import LaunchConfig


@contextmanager
def _captured(stream):
    from hip import hip

    mode = hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
    assert not hip.hipStreamBeginCapture(stream, mode)[0]
    yield
    assert not hip.hipStreamEndCapture(stream)[0]


def _foreign_stream():
    from hip import hip

    return hip.hipStreamCreateWithFlags(0)[1]


def launches_on_a_borrowed_stream():
    """Of the only device, and of one of two, for which the current device is switched."""
    for count in (1, 2):
        standin, device = opened(count=count)
        foreign = _foreign_stream()
        stream = device.stream(foreign)
        function = device.load(hsaco.artifact()).function()
        start = function.prepare(LaunchConfig((1, 1, 1)), [None, None, None, 0, 0, 0])
        before, launched = standin.captured, len(standin.launches)
        with _captured(foreign):
            start([1, 2, 3], stream)
            start([1, 2, 3], stream)
            function.launch(LaunchConfig((1, 1, 1)), [0] * 6, stream)
        assert standin.captured == before + 3
        assert standin.queued == 0
        assert len(standin.launches) == launched


def memory_and_events_of_a_captured_stream():
    _, device = opened()
    foreign = _foreign_stream()
    stream = device.stream(foreign)
    with _captured(foreign):
        kept = device.alloc(64, stream)
        event = stream.record()
        stream.wait(event)
        kept.close()
    event.close()


def what_a_capture_does_not_allow():
    _, device = opened()
    foreign = _foreign_stream()
    stream, buffer = device.stream(foreign), device.alloc(16)
    advice = "cannot be done while a stream is captured into a graph. Do it before."
    with _captured(foreign):
        for use in (
            stream.synchronize,
            device.synchronize,
            device.stream,
            lambda: device.load(hsaco.artifact()),
            lambda: buffer.write(memoryview(bytes(16)), stream),
        ):
            refused(errors.LaunchError, use, "hipErrorStreamCaptureUnsupported (900)", advice)
    stream.synchronize()
