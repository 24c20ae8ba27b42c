"""Launches while the caller captures a stream into a graph: only what a capture allows."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial

import hsaco
from scene import LIBRARY, add, opened, refused

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


def the_public_run_on_our_own_arrays():
    """Nothing of the launch waits for what is outside of the graph, or is waited for there."""
    os.environ["XTARGET_CACHE_DIR"] = str(LIBRARY.parent / "cache")
    os.environ["LD_LIBRARY_PATH"] = str(LIBRARY.parent)
    import numpy as np

    import xtarget

    standin, _ = opened()
    standin.kernel("add", lambda dims, data: add((1000, 1, 1, 1), data))
    a = xtarget.asarray(np.ones(1000, np.float32), device="amd:0")
    out, foreign = xtarget.asarray(np.zeros(1000, np.float32), device="amd:0"), _foreign_stream()
    stream = int(foreign)
    # two launches and memory between them: an axis far longer than a block
    long = xtarget.asarray(np.ones(1 << 20, np.float32), device="amd:0")
    total = xtarget.asarray(np.zeros((), np.float32), device="amd:0")
    run = partial(xtarget.run, stream=stream)
    run("add", a, a, out=out)  # compiled and loaded before: a capture does not allow that
    run("sum", long, out=total)
    before, calls = standin.captured, standin.calls
    with _captured(foreign):
        run("add", a, a, out=out)
        assert standin.captured == before + 1
        assert standin.calls <= calls + 4  # begin, ask, launch; no event is made or destroyed
        run("sum", long, out=total)
    assert standin.captured >= before + 2
    assert standin.complaint == ""
    with _captured(foreign):
        advice = "cannot be done while a stream is captured into a graph. Do it before."
        refused(xtarget.LaunchError, lambda: run("add", a, a), advice)
    run("add", a, a, out=out)  # in order with other streams again
    assert (out.numpy() == 2).all()
