"""A process that uses its device while a stream is captured into a graph."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from hip import hip
from scene import BLOCK, add_one, compiled, opened, refused

import xtarget
from xtarget._values.types import LaunchConfig

GLOBAL = hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
#: Flags of a stream that waits for the null stream, and of one that does not (torch's).
KINDS = (0, 1)


@contextmanager
def _captured(flags: int) -> Iterator[Any]:
    """A stream that is captured; the graph has to be whole in the end."""
    status, stream = hip.hipStreamCreateWithFlags(flags)
    assert not status
    assert not hip.hipStreamBeginCapture(stream, GLOBAL)[0]
    yield stream
    status = hip.hipStreamEndCapture(stream)[0]
    assert not status, status


def arrays_are_dropped() -> None:
    for flags in KINDS:
        kept = [xtarget.asarray(np.ones(100, np.float32), device="amd:0") for _ in range(3)]
        total = xtarget.run("add", kept[0], kept[1])
        with _captured(flags):
            kept.clear()
            del total
            gc.collect()
        again = xtarget.asarray(np.ones(100, np.float32), device="amd:0")
        assert (xtarget.run("add", again, again).numpy() == 2).all()


def memory_comes_back() -> None:
    """Memory that was dropped in a capture is used again after it."""
    device = opened()
    most = 3 << 30  # of 4
    for _ in range(3):
        buffer = device.alloc(most)
        with _captured(0):
            del buffer
            gc.collect()
        device.synchronize()


def results_are_allocated() -> None:
    """`run` without `out` is refused with what to do, and the capture goes on."""
    x = xtarget.asarray(np.ones(100, np.float32), device="amd:0")
    out, more = xtarget.run("add", x, x), xtarget.run("add", x, x)
    with _captured(0):
        words = "while a stream is captured into a graph. Do it before."
        refused(xtarget.LaunchError, lambda: xtarget.run("add", x, x), "allocating", words)
        assert not hip.hipGetLastError()[0]
    xtarget.run("add", more, more, out=out)
    assert (out.numpy() == 4).all()


def modules_are_dropped() -> None:
    for flags in KINDS:
        device = opened()
        launch, buffer = add_one(device), device.alloc(4 * BLOCK)
        launch(buffer.address)
        device.synchronize()
        with _captured(flags) as stream:
            # a stream that does not wait for the null stream is known where it was borrowed
            mine = device.stream(int(stream))
            del launch
            gc.collect()
        del mine
        device.synchronize()
        device.close()


def a_graph_of_launches() -> None:
    device = opened()
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    buffer.write(memoryview(bytes(4 * BLOCK)), device.default_stream)
    launch(buffer.address)
    with _captured(0) as handle:
        stream = device.stream(int(handle))
        for _ in range(3):
            launch(buffer.address, stream)
    found = (ctypes.c_float * BLOCK)()
    buffer.read(memoryview(found).cast("B"), device.default_stream)
    assert set(found) == {1.0}


def a_graph_of_calls() -> None:
    """The public run on arrays of ours, captured once and run three times: results are new ones."""
    x = xtarget.asarray(np.arange(1000, dtype=np.float32), device="amd:0")
    long = xtarget.asarray(np.ones(1 << 16, np.float32), device="amd:0")
    out, total = xtarget.run("add", x, x), xtarget.run("sum", long)
    for flags in KINDS:
        status, handle = hip.hipStreamCreateWithFlags(flags)
        assert not status
        run = partial(xtarget.run, stream=int(handle))
        assert not hip.hipStreamBeginCapture(handle, GLOBAL)[0]
        run("add", x, x, out=out)
        run("sum", long, out=total)  # two launches, and memory between them
        run("add", out, out, out=out)
        status, graph = hip.hipStreamEndCapture(handle)
        assert not status
        status, instance = hip.hipGraphInstantiateWithFlags(graph, 0)
        assert not status
        for _ in range(3):
            xtarget.run("sub", out, out, out=out)
            xtarget.run("sub", total, total, out=total)
            assert not hip.hipDeviceSynchronize()[0]
            assert not hip.hipGraphLaunch(instance, handle)[0]
            assert not hip.hipStreamSynchronize(handle)[0]
            assert (out.numpy() == 4 * np.arange(1000)).all()
            assert total.numpy() == 1 << 16
        run("add", x, x, out=out)  # in order with other streams again
        assert (out.numpy() == 2 * np.arange(1000)).all()


def memory_and_events_of_the_graph() -> None:
    device = opened()
    for flags in KINDS:
        with _captured(flags) as handle:
            stream = device.stream(int(handle))
            buffer = device.alloc(64, stream)
            event = stream.record()
            stream.wait(event)
            buffer.close()
        event.close()


def waiting_is_refused() -> None:
    """With what to do; and the process goes on. HIP makes the capture invalid at it."""
    device = opened()
    buffer, launch = device.alloc(4 * BLOCK), add_one(device)
    for flags in KINDS:
        for uses in ("stream", "device"):
            status, handle = hip.hipStreamCreateWithFlags(flags)
            assert not status
            assert not hip.hipStreamBeginCapture(handle, GLOBAL)[0]
            wait = (
                device.stream(int(handle)).synchronize if uses == "stream" else device.synchronize
            )
            words = ("hipErrorStreamCaptureUnsupported (900)", "into a graph. Do it before.")
            refused(xtarget.LaunchError, wait, *words)
            assert hip.hipStreamEndCapture(handle)[0]
            hip.hipGetLastError()
    launch(buffer.address)
    device.synchronize()


def copies_are_refused() -> None:
    """HIP 6 took them into the graph, with host memory that was gone when it ran; HIP 7 made the
    capture invalid, and what was told was that memory could not be freed."""
    x, host = xtarget.asarray(np.ones(100, np.float32), device="amd:0"), np.ones(100, np.float32)
    out, found = xtarget.run("add", x, x), np.zeros(100, np.float32)
    xtarget.run("add", host, host, out=found, device="amd:0")
    device = opened()
    buffer = device.alloc(4 * BLOCK)
    words = ("copying ", "the stream is captured. This cannot be done while a stream is captured")
    for flags in KINDS:
        with _captured(flags) as handle:
            stream, data = device.stream(int(handle)), memoryview(bytearray(4 * BLOCK))
            refused(xtarget.LaunchError, partial(buffer.write, data, stream), *words)
            refused(xtarget.LaunchError, partial(buffer.read, data, stream), *words)
            on = {"stream": int(handle)}
            for call in (
                lambda on=on: xtarget.run("add", host, host, out=found, device="amd:0", **on),
                lambda on=on: xtarget.run("add", x, host, out=out, **on),
            ):
                refused(xtarget.LaunchError, call, *words)
            xtarget.run("add", out, out, out=out, **on)
    assert (out.numpy() == 2).all()


def a_pipelined_kernel() -> None:
    """It starts no service of HIP's, which a graph with it would start."""
    device = opened()
    signature = "a:*fp16 b:*fp16 c:*fp32 k:i32"
    art = compiled(device, "product", signature, BLOCK=64, num_stages=2)
    function, launch = device.load(art).function(), add_one(device)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 128), (128, 64)))
    arrays = [xtarget.asarray(v, device="amd:0") for v in (a, b, np.zeros((64, 64), np.float32))]
    status, handle = hip.hipStreamCreateWithFlags(1)
    assert not status
    stream, other = device.stream(int(handle)), device.alloc(4 * BLOCK)
    launch(other.address, stream)  # the stream has its queue
    stream.synchronize()
    threads = len(os.listdir("/proc/self/task"))
    assert not hip.hipStreamBeginCapture(handle, GLOBAL)[0]
    config = LaunchConfig((1, 1, 1))
    function.launch(config, [*(array.address for array in arrays), 128, 0, 0], stream)
    status, graph = hip.hipStreamEndCapture(handle)
    assert not status
    status, instance = hip.hipGraphInstantiateWithFlags(graph, 0)
    assert not status
    assert not hip.hipGraphLaunch(instance, handle)[0]
    stream.synchronize()
    assert len(os.listdir("/proc/self/task")) == threads
    right = a.astype(np.float32) @ b.astype(np.float32)
    assert np.allclose(arrays[2].numpy(), right, atol=1e-3)


def a_graph_of_ours() -> None:
    """`xtarget.capture`: kernels that were never used, memory between two launches, a fill."""
    x = xtarget.asarray(np.arange(1000, dtype=np.float32), device="amd:0")
    long = xtarget.asarray(np.ones(1 << 16, np.float32), device="amd:0")
    other = xtarget.device("amd:0").stream()
    with xtarget.capture("amd:0") as graph:
        doubled = xtarget.run("add", x, x)
        total = xtarget.run("sum", long)
    for factor in (1, 2, 4):
        graph.replay(stream=other if factor == 2 else None)
        assert (doubled.numpy() == 2 * factor * np.arange(1000)).all()
        assert total.numpy() == 1 << 16
        xtarget.run("add", x, x, out=x)
    assert type(graph._vendors).__name__ == "HipGraph"
    buffer = opened().borrow(x.address, 4000)
    for pattern in (b"\0", b"\1", b"\1\2", b"\0\0\x80?", b"\0\0\0\xff", bytes(8)):
        buffer.fill(pattern, x.stream)
        assert x.numpy().tobytes() == pattern * (4000 // len(pattern))
    del graph
    gc.collect()
    xtarget.device("amd:0").synchronize()
    assert (doubled.numpy() == 8 * np.arange(1000)).all()


def nothing_disturbs_the_making_of_a_graph() -> None:
    """hipFree of another thread makes captures invalid, but for those in the relaxed mode."""
    device = opened()
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    buffer.write(memoryview(bytes(4 * BLOCK)), device.default_stream)

    def record(stream: Any) -> None:
        launch(buffer.address, stream)
        thread = threading.Thread(target=lambda: hip.hipFree(hip.hipMalloc(64)[1]))
        thread.start()
        thread.join()

    graph = device.graph(record)
    for _ in range(3):
        graph.replay(device.default_stream)
    found = (ctypes.c_float * BLOCK)()
    buffer.read(memoryview(found).cast("B"), device.default_stream)
    assert set(found) == {3.0}
    graph.close()


def a_graph_outlives_its_function() -> None:
    """Its code stays, though nothing of it is left in Python and other code comes and goes."""
    os.environ["XTARGET_MODULES"] = "1"  # what is launched on a stream is asked about
    device = opened()
    launch, other, buffer = add_one(device), add_one(device), device.alloc(4 * BLOCK)
    buffer.write(memoryview(bytes(4 * BLOCK)), device.default_stream)
    status, handle = hip.hipStreamCreateWithFlags(1)
    assert not status
    stream = device.stream(int(handle))
    other(buffer.address, stream)
    assert not hip.hipStreamBeginCapture(handle, GLOBAL)[0]
    launch(buffer.address, stream)
    launch(buffer.address, stream)
    del launch, other
    gc.collect()  # the other's code is unloaded after the capture
    status, graph = hip.hipStreamEndCapture(handle)
    assert not status, status
    status, whole = hip.hipGraphInstantiateWithFlags(graph, 0)
    assert not status, status
    for _ in range(3):
        add_one(device)(buffer.address)
        gc.collect()
        device.synchronize()
        assert not hip.hipGraphLaunch(whole, handle)[0]
        assert not hip.hipStreamSynchronize(handle)[0]
    found = (ctypes.c_float * BLOCK)()
    buffer.read(memoryview(found).cast("B"), device.default_stream)
    assert set(found) == {1.0 + 3 * (1 + 2)}


def an_error_leaves_nothing_behind() -> None:
    """torch asks for HIP's last error after each launch of its own."""
    device = opened()
    refused(xtarget.OutOfMemoryError, lambda: device.alloc(64 << 30))
    assert not hip.hipGetLastError()[0]
    refused(xtarget.LoadError, lambda: device.load(add_one_of_another()))
    assert not hip.hipGetLastError()[0]


def add_one_of_another() -> Any:
    from dataclasses import replace

    good = compiled(opened(), "add_one", "x:*fp32", BLOCK=BLOCK)
    return replace(good, binary=good.binary[:-64])
