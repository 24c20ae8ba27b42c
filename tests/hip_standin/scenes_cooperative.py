"""Launches whose blocks wait for each other: all of them have to fit on the device at once."""

from __future__ import annotations

import hsaco
from scene import add, floats, opened, refused

from xtarget._values import errors
from xtarget._values.types import LaunchConfig
from xtarget.targets.amd import kernarg

_COOPERATIVE = {"cooperative": True}


def _opened():
    standin, device = opened()
    fields = kernarg.layout((*hsaco.ADD, *hsaco.HIDDEN))
    standin.arguments(*((f.offset, f.size) for f in fields))
    return standin, device, device.load(hsaco.artifact(artifact_changes=_COOPERATIVE)).function()


def a_cooperative_launch():
    """Another function of HIP, which takes the address of each value."""
    standin, device, function = _opened()
    standin.kernel("add", add)
    stream = device.stream()
    buffers = [device.alloc(4000) for _ in range(3)]
    for start, buffer in enumerate(buffers[:2]):
        buffer.write(memoryview(floats(1000, start)), stream)
    a, b, o = (buffer.address for buffer in buffers)
    start = function.prepare(LaunchConfig((4, 1, 2)), [a, None, o, None, 0, 0])
    start([b, 1000], stream)
    back = bytearray(4000)
    buffers[2].read(memoryview(back), stream)
    expected = memoryview(floats(1000)).cast("f")
    assert memoryview(back).cast("f").tolist() == [2 * x + 1 for x in expected]
    ((name, dims, shared, handle, _),) = standin.launches
    assert (name, dims, shared, handle) == ("add", (4, 1, 2, 256, 1, 1), 0, stream.handle)


def a_grid_that_does_not_fit():
    standin, device, function = _opened()
    before = len(standin.launches)
    refused(
        errors.OutOfResourcesError,
        lambda: function.prepare(LaunchConfig((17, 1, 1)), [0] * 6),
        "add is launched cooperatively with 17 blocks",
        "amd:0",
        "holds 16: 2 on each of 8 compute units",
        "Launch fewer blocks",
    )
    function.launch(LaunchConfig((4, 2, 2)), [0] * 6, device.default_stream)
    start = function.prepare(LaunchConfig((16, 1, 1)), [0] * 6)
    standin.cooperative(True, 1)  # what HIP says itself, should it see that otherwise
    refused(
        errors.OutOfResourcesError,
        lambda: start((), device.default_stream),
        "launching add with grid (16, 1, 1)",
        "hipErrorCooperativeLaunchTooLarge (720)",
        "Launch fewer blocks.",
    )
    device.synchronize()
    assert len(standin.launches) == before + 1


def a_device_without_cooperative_launches():
    standin, _, function = _opened()
    standin.cooperative(False)
    refused(
        errors.LaunchError,
        lambda: function.prepare(LaunchConfig((1, 1, 1)), [0] * 6),
        "compiled for a cooperative launch, which amd:0 (stand-in, not a GPU) does not have",
        "Compile it without launch_cooperative_grid.",
    )


def a_closed_module_is_not_launched_cooperatively_either():
    _, device, function = _opened()
    start = function.prepare(LaunchConfig((1, 1, 1)), [0] * 6)
    stream = device.stream()
    stream.close()
    refused(errors.DriverError, lambda: start((), stream), "this stream of amd:0 is closed")
