"""Launches while the caller captures a stream into a graph: only what a capture allows."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager

import hsaco
from scene import opened

from xtarget._values.types import LaunchConfig


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


def captured_code_stays_and_other_code_goes():
    os.environ["XTARGET_MODULES"] = "1"  # nothing stays without being asked about
    for count in (1, 2):
        standin, device = opened(count=count)
        foreign = _foreign_stream()
        stream, before = device.stream(foreign), standin.modules
        graph, other = (device.load(hsaco.artifact()).function() for _ in range(2))
        arguments = LaunchConfig((1, 1, 1)), [0] * 6, stream
        graph.launch(*arguments[:2], device.default_stream)
        other.launch(*arguments)
        assert [graph.stays, other.stays] == [False, False]
        with _captured(foreign):
            graph.launch(*arguments)
            assert graph.stays
            asked = standin.calls
            graph.launch(*arguments)
            assert standin.calls == asked + (1 if count == 1 else 2)  # it stays: none asks
            del other
            gc.collect()
            assert standin.modules == before + 2  # unloading would end the capture
        device.load(hsaco.artifact()).function().launch(*arguments)
        gc.collect()
        device.synchronize()
        assert standin.modules == before + 1
        del graph
        gc.collect()
        device.close()
        del device, stream, arguments
        gc.collect()
        assert standin.modules == before + 1  # the graph may run for ever
        assert standin.complaint == ""


def the_first_on_other_streams_stay_without_being_asked_about():
    os.environ["XTARGET_MODULES"] = "4"
    standin, device = opened()
    stream, before = device.stream(), standin.modules
    functions = [device.load(hsaco.artifact()).function() for _ in range(4)]
    for function in functions:
        function.launch(LaunchConfig((1, 1, 1)), [0] * 6, device.default_stream)
    assert not any(function.stays for function in functions)
    for function in functions:
        function.launch(LaunchConfig((1, 1, 1)), [0] * 6, stream)
    assert [function.stays for function in functions] == [True, True, False, False]
    functions.clear()
    del function
    gc.collect()
    assert standin.modules == before + 2
