"""Queues that a caller made with pyopencl or dpctl: in order, out of order, without times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xtarget import DriverError, LaunchError
from xtarget._values.types import LaunchConfig

BLOCK = 1024


def _launcher(vendor: Any, hidden: Any, kernel: str, signature: str) -> Any:
    function = vendor.device.load(vendor.artifact(kernel, signature, BLOCK=BLOCK)).function()

    def launch(stream: Any, *values: Any) -> None:
        function.launch(LaunchConfig((1, 1, 1)), [*values, BLOCK, *hidden(function)], stream)

    return launch


@pytest.fixture
def fill(vendor: Any, hidden: Any) -> Any:
    return _launcher(vendor, hidden, "slow_fill", "x:*fp32 value:fp32 rounds:i32 n:i32")


@pytest.fixture
def scale(vendor: Any, hidden: Any) -> Any:
    return _launcher(vendor, hidden, "scale_shift", "x:*fp32 factor:fp32 shift:fp32 n:i32")


def _check_order(vendor: Any, memory: Any, stream: Any, fill: Any, scale: Any) -> None:
    x = memory.empty(BLOCK)
    vendor.device.synchronize()
    expected = 1.0
    fill(stream, x.address, expected, 1_000_000)
    for k in range(10):
        scale(stream, x.address, -2.0, float(k))
        expected = expected * -2.0 + k
    got = np.empty(BLOCK, np.float32)
    x.read(memoryview(got), stream)
    assert (got == expected).all()


def _check_queue(
    vendor: Any, memory: Any, queue: Any, fill: Any, scale: Any, no_times: str
) -> None:
    """The queue serves as a stream in order; asked for times, it says `no_times`."""
    stream = vendor.device.stream(queue)
    _check_order(vendor, memory, stream, fill, scale)
    first, second = stream.record(), stream.record()
    second.synchronize()
    with pytest.raises(DriverError, match=no_times):
        second.elapsed_ms(first)
    stream.close()


@pytest.mark.only_vendor("cpu")
def test_pyopencl_queue_without_times(vendor: Any, memory: Any, fill: Any, scale: Any) -> None:
    import pyopencl as cl

    queue = cl.CommandQueue(vendor.device.default_stream.handle.context)
    _check_queue(vendor, memory, queue, fill, scale, "PROFILING_ENABLE")
    queue.finish()


@pytest.mark.only_vendor("cpu")
def test_pyopencl_queue_of_another_context(vendor: Any) -> None:
    device = vendor.device
    import pyopencl as cl

    mine = cl.Context(device.default_stream.handle.context.devices)
    with pytest.raises(DriverError, match="another OpenCL context"):
        device.stream(cl.CommandQueue(mine))


@pytest.mark.only_vendor("cpu")
def test_pyopencl_queue_out_of_order(vendor: Any) -> None:
    device = vendor.device
    import pyopencl as cl

    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(device.default_stream.handle.context, properties=mode)
    with pytest.raises(DriverError, match="out of order"):
        device.stream(queue)


@pytest.mark.only_vendor("intel")
def test_dpctl_queue_out_of_order_is_kept_in_order(
    vendor: Any, memory: Any, fill: Any, scale: Any
) -> None:
    """dpctl's arrays come with such a queue by default."""
    import dpctl

    queue = dpctl.SyclQueue(vendor.device.default_stream.handle.sycl_device)
    assert not queue.is_in_order
    _check_queue(vendor, memory, queue, fill, scale, "enable_profiling")
    queue.wait()


@pytest.mark.only_vendor("intel")
def test_dpctl_queue_of_another_context(vendor: Any) -> None:
    device = vendor.device
    import dpctl

    own = device.default_stream.handle.sycl_device
    # the default context of a platform is one object; a second one has to be asked for
    queue = dpctl.SyclQueue(dpctl.SyclContext([own]), own)
    assert queue.sycl_context != device.default_stream.handle.sycl_context
    with pytest.raises(DriverError, match="context"):
        device.stream(queue)


@pytest.mark.only_vendor("intel")
def test_usm_of_dpctl_is_used_in_place(vendor: Any, memory: Any, hidden: Any) -> None:
    device = vendor.device
    import dpctl.memory

    function = device.load(vendor.vector_add()).function()
    queue = device.default_stream.handle
    shared = dpctl.memory.MemoryUSMShared(8 * BLOCK, queue=queue)
    x = np.frombuffer(shared, np.float32)
    x[:] = 3
    second = shared._pointer + 4 * BLOCK
    args = [shared._pointer, second, second, BLOCK, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), args, device.default_stream)
    device.synchronize()
    assert (x[:BLOCK] == 3).all()
    assert (x[BLOCK:] == 6).all()


@pytest.mark.only_vendor("intel")
def test_host_memory_is_refused_where_kernels_cannot_use_it(vendor: Any, hidden: Any) -> None:
    device = vendor.device
    function = device.load(vendor.vector_add()).function()
    x = np.ones(BLOCK, np.float32)
    args = [x.ctypes.data] * 3 + [BLOCK, *hidden(function)]
    with pytest.raises(LaunchError, match=f"{x.ctypes.data:#x} is not memory of intel:0"):
        function.launch(LaunchConfig((1, 1, 1)), args, device.default_stream)


def test_host_memory_is_used_in_place_where_the_device_says_so(vendor: Any, hidden: Any) -> None:
    device = vendor.device
    if not device.info.host_memory:
        pytest.skip(f"{device.info.name} does not use host memory in place")
    function = device.load(vendor.vector_add()).function()
    x = np.arange(BLOCK, dtype=np.float32)
    out = np.zeros(BLOCK, np.float32)
    args = [x.ctypes.data, x.ctypes.data, out.ctypes.data, BLOCK, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), args, device.default_stream)
    device.synchronize()
    assert (out == 2 * x).all()
