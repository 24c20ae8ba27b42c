"""Memory, streams, loading and launching that go well."""

from __future__ import annotations

import gc
import os
import struct
import threading
from functools import partial

import hsaco
from scene import LIBRARY, floats, opened, refused
from standin import StandIn

from xtarget._values import errors
from xtarget._values.types import LaunchConfig, Parameter
from xtarget.targets.amd import create_driver


def memory_goes_there_and_back():
    standin, device = opened()
    stream = device.default_stream
    buffer = device.alloc(16)
    assert buffer.nbytes == 16
    assert buffer.address % 256 == 0
    back = bytearray(16)
    buffer.read(memoryview(back), stream)
    assert bytes(back) == b"\xa5" * 16  # uninitialised, and the read really came from there
    buffer.write(memoryview(b"0123456789abcdef"), stream)  # read-only source
    half = bytearray(8)
    buffer.read(memoryview(half), stream)
    assert bytes(half) == b"01234567"
    foreign = device.borrow(buffer.address + 8, 8)
    foreign.read(memoryview(half), stream)
    assert bytes(half) == b"89abcdef"
    foreign.close()
    assert standin.live_buffers == 1
    buffer.close()
    buffer.close()
    device.synchronize()
    assert standin.live_buffers == 0
    empty = device.alloc(0)
    empty.write(memoryview(b""), stream)
    empty.read(memoryview(bytearray()), stream)
    empty.close()


def memory_is_freed_in_stream_order():
    standin, device = opened()
    stream = device.stream()
    buffer = device.alloc(64, stream)
    buffer.close()
    assert standin.live_buffers == 1  # not before the stream gets there
    stream.synchronize()
    assert standin.live_buffers == 0
    late = device.alloc(64, stream)
    stream.close()
    late.close()  # the stream is gone: freed at once
    assert standin.live_buffers == 0


def memory_without_a_pool():
    standin = StandIn(LIBRARY)
    standin.pools(False)
    device = create_driver().open(0)
    buffer = device.alloc(64)
    buffer.close()
    assert standin.live_buffers == 0


def bad_copies_are_refused():
    _, device = opened()
    stream, buffer = device.default_stream, device.alloc(4)
    view = memoryview(b"12345678")
    refused(errors.ArgumentError, lambda: buffer.write(view, stream), "8 bytes", "of 4 bytes")
    refused(errors.ArgumentError, lambda: buffer.read(memoryview(b"1234"), stream), "read-only")


def streams_and_events():
    standin, device = opened()
    assert device.default_stream is device.default_stream
    assert device.default_stream.handle == 0
    assert device.stream(0) is device.default_stream
    own, other = device.stream(), device.stream()
    assert own.handle not in (0, other.handle)
    start = own.record()
    end = own.record()
    other.wait(end)
    assert standin.queued == 2
    end.synchronize()
    assert standin.queued == 0
    assert end.elapsed_ms(start) >= 0
    unreached = own.record()
    refused(errors.DriverError, lambda: unreached.elapsed_ms(start), "hipErrorNotReady (600)")
    for event in (start, end, unreached):
        event.close()
        event.close()

    class Torch:
        cuda_stream = own.handle

    class Cupy:
        ptr = own.handle

    class Core:
        def __cuda_stream__(self):
            return (0, own.handle)

    for foreign in (own.handle, Torch(), Cupy(), Core()):
        borrowed = device.stream(foreign)
        assert borrowed.handle == own.handle
        borrowed.close()  # leaves it alive
        own.synchronize()
    for wrong in ("a", object(), 1.5, True):
        refused(errors.DriverError, lambda w=wrong: device.stream(w), "not a stream of amd:0")
    refused(errors.DriverError, lambda: own.wait(object()), "this object is not an event of amd:0")
    start = own.record()
    start.close()
    own.close()
    own.close()
    before = standin.calls
    for use in (own.synchronize, own.record, lambda: own.handle, start.synchronize):
        refused(errors.DriverError, use, "closed")
    assert standin.calls == before  # HIP would touch memory that is gone


def add_runs():
    standin, device = opened()
    stream = device.stream()
    os.environ["XTARGET_MODULES"] = "1"  # what is launched on a stream is asked about
    module = device.load(hsaco.artifact())
    function = module.function()
    assert function.name == "add"
    assert module.native() is None
    assert device.native_key is None
    a, b, o = (device.alloc(400) for _ in range(3))
    a.write(memoryview(floats(100)), stream)
    b.write(memoryview(floats(100, 1000.0)), stream)
    prepared = function.prepare(LaunchConfig((1, 1, 1)), [None, None, None, 100, 0, 0])
    prepared([a.address, b.address, o.address], stream)
    assert standin.queued == 1  # asynchronous
    back = bytearray(400)
    o.read(memoryview(back), stream)
    assert bytes(back) == struct.pack("<100f", *(1000.0 + 2 * i for i in range(100)))
    name, dims, shared, handle, data = standin.launches[0]
    assert (name, dims, shared, handle) == ("add", (1, 1, 1, 256, 1, 1), 0, stream.handle)
    assert data == struct.pack("<QQQi4xQQ", a.address, b.address, o.address, 100, 0, 0)
    before = standin.calls
    function.launch(LaunchConfig((0, 4, 1)), [0, 0, 0, 0, 0, 0], stream)  # nothing to do
    assert standin.calls == before
    function.launch(LaunchConfig((2, 1, 1)), [a.address, a.address, o.address, 100, 0, 0], stream)
    stream.synchronize()
    o.read(memoryview(back), stream)
    assert bytes(back) == struct.pack("<100f", *(2.0 * i for i in range(100)))
    before = standin.calls
    module.close()
    module.close()
    refused(errors.DriverError, lambda: module.function(), "module of add on amd:0 is closed")
    refused(errors.DriverError, partial(prepared, [1, 2, 3], stream), "closed")
    assert standin.calls == before  # the code stays as long as something may start it
    del function, prepared
    gc.collect()  # the errors above hold frames
    assert standin.calls == before + 4  # asked about two streams, waited for, and unloaded
    stream.close()
    device.default_stream.close()
    device.default_stream.synchronize()  # it stays open
    device.close()
    device.close()
    uses = (
        lambda: device.alloc(1),
        device.synchronize,
        device.stream,
        lambda: a.read(memoryview(back), stream),
    )
    for use in uses:
        refused(errors.DriverError, use, "closed")


def what_is_dropped_is_given_back():
    standin, device = opened()
    stream = device.stream()
    device.load(hsaco.artifact()).function().launch(LaunchConfig((1, 1, 1)), [0] * 6, stream)
    event, kept = stream.record(), device.alloc(64, stream)
    assert standin.live_buffers == 1
    del event, kept
    device.synchronize()
    assert standin.live_buffers == 0
    late = device.alloc(64, stream)
    number = stream.handle
    del stream  # which lives as long as the memory that is freed in its order
    device.stream(number).synchronize()
    late.close()
    assert standin.live_buffers == 0
    refused(errors.DriverError, device.stream(number).synchronize, "hipErrorInvalidHandle")


def memory_outlives_its_device():
    standin, device = opened()
    kept = device.alloc(64)
    device.close()
    kept.close()
    assert standin.queued + standin.live_buffers == 2  # in order, as ever
    del device, kept


def a_launch_costs_one_call():
    standin, device = opened()
    start = (
        device.load(hsaco.artifact())
        .function()
        .prepare(LaunchConfig((1, 1, 1)), [None, None, None, 0, 0, 0])
    )
    before = standin.calls
    start([1, 2, 3], device.default_stream)
    assert standin.calls == before + 1


def every_type_is_packed():
    """Bytes of each scalar type against struct and ml_dtypes-free constants."""
    standin, device = opened()
    cases = [
        ("i1", True, b"\x01"),
        ("u1", 2, b"\x01"),
        ("i8", -2, b"\xfe"),
        ("u8", 254, b"\xfe"),
        ("i16", -2, b"\xfe\xff"),
        ("u16", 65534, b"\xfe\xff"),
        ("i32", -2, b"\xfe\xff\xff\xff"),
        ("u32", 2**32 - 2, b"\xfe\xff\xff\xff"),
        ("i64", -2, b"\xfe" + b"\xff" * 7),
        ("u64", 2**64 - 2, b"\xfe" + b"\xff" * 7),
        ("fp16", 1.5, b"\x00\x3e"),
        ("fp16", 1e9, b"\x00\x7c"),
        ("bf16", 1.5, b"\xc0\x3f"),
        ("bf16", -1e300, b"\x80\xff"),
        ("fp32", 0.1, struct.pack("<f", 0.1)),
        ("fp32", -1e300, struct.pack("<f", float("-inf"))),
        ("fp32", 3, struct.pack("<f", 3.0)),
        ("fp64", 0.1, struct.pack("<d", 0.1)),
        ("*fp16", 2**63 + 1, b"\x01" + b"\0" * 6 + b"\x80"),
    ]
    # a byte before each one, so that a wrong alignment shows
    parameters, values, expected = [], [], b""
    for i, (type_, value, stored) in enumerate(cases):
        parameters += [Parameter(f"pad{i}", "i8"), Parameter(f"p{i}", type_)]
        values += [7, value]
        expected += b"\x07"
        expected += bytes(-len(expected) % len(stored)) + stored
    expected += bytes(-len(expected) % 8) + bytes(16)
    function = device.load(hsaco.artifact("mixed", tuple(parameters))).function()
    grid = LaunchConfig((1, 1, 1))
    fixed = function.prepare(grid, [*values, 0, 0])
    fixed((), device.default_stream)
    function.prepare(grid, [*(None for _ in values), 0, 0])(values, device.default_stream)
    every_other = [None if i % 3 else v for i, v in enumerate(values)]
    dynamic = [v for i, v in enumerate(values) if i % 3]
    function.prepare(grid, [*every_other, 0, 0])(dynamic, device.default_stream)
    device.synchronize()
    for launch in standin.launches:
        assert launch[4] == expected, f"{launch[4].hex(' ')}\n{expected.hex(' ')}"
    assert len(standin.launches) == 3


def threads_share_no_argument_storage():
    standin, device = opened()
    start = (
        device.load(hsaco.artifact())
        .function()
        .prepare(LaunchConfig((1, 1, 1)), [None, None, None, None, 0, 0])
    )
    standin.kernel("add", lambda dims, data: None)

    def work(number):
        for i in range(200):
            start([number] * 3 + [number * 1000 + i], device.default_stream)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.synchronize()
    seen = [struct.unpack("<QQQi4xQQ", launch[4]) for launch in standin.launches]
    assert len(set(seen)) == 800
    assert all(s[0] == s[1] == s[2] == s[3] // 1000 for s in seen)


def hidden_arguments_are_left_to_the_run_time():
    """The segment is larger than our parameters: zeros behind them, and HIP fills them in."""
    standin, device = opened()
    args = hsaco.metadata("add", (*hsaco.ADD, *hsaco.HIDDEN), warps=4, warp_size=64)[".args"]
    args = [*args, {".offset": 48, ".size": 4, ".value_kind": "hidden_block_count_x"}]
    module = device.load(hsaco.artifact(args=args, kernarg_segment_size=304))
    function = module.function()
    function.launch(LaunchConfig((1, 1, 1)), [256, 0, 0, 0, 0, 4096], device.default_stream)
    standin.kernel("add", lambda dims, data: None)
    device.synchronize()
    data = standin.launches[-1][4]
    assert data == struct.pack("<QQQi4xQQ", 256, 0, 0, 0, 0, 4096) + bytes(256)


def two_devices():
    standin, _ = opened(count=2)
    from hip import hip

    hip.hipSetDevice(1)
    first, second = create_driver().open(0), create_driver().open(1)
    for device in (first, second):
        stream = device.stream()
        buffer = device.alloc(64, stream)
        module = device.load(hsaco.artifact())
        module.function().launch(LaunchConfig((1, 1, 1)), [0, 0, 0, 0, 0, 0], stream)
        stream.record().close()
        device.synchronize()
        buffer.close()
        assert hip.hipGetDevice()[1] == 1  # the caller's device is left as it was
    assert len(standin.launches) == 2
