"""Binaries and launches that are refused, and what HIP answers."""

from __future__ import annotations

import sys

import hsaco
from scene import opened, refused

from xtarget._values import errors
from xtarget._values.types import LaunchConfig, Parameter, Scratch, Target
from xtarget.targets.amd import create_compiler, create_driver


def wrong_binaries_are_refused():
    standin, device = opened()
    before = standin.calls

    def load(*words, **how):
        refused(errors.LoadError, lambda: device.load(hsaco.artifact(**how)), *words)

    load("compiled for amd:gfx90a", "amd:0", "amd:gfx942", arch="gfx90a", flags=0x53F)
    load("xnack on", "has it off", flags=0x74C)
    load("sramecc off", "has it on", flags=0x94C)
    load("should be gfx90a", "says gfx942", artifact_changes={"target": Target("amd", "gfx90a")})
    load("does not know", "0xef", flags=0x5EF)
    load("a kernel", "should be sub", "says add", artifact_changes={"entry": "sub"})
    load("warps of 32 threads", "warps of 64", warp_size=32)
    load("warp size", "should be 64", "says 32", wavefront_size=32)
    load("threads per block", "256", "512", max_flat_workgroup_size=512)
    load("a (offset, size, kind) should be (0, 8, 'global_buffer')", "says None", args=[])
    load("argument bytes", "48", "56", kernarg_segment_size=56)
    load("stack of unknown size", uses_dynamic_stack=True)
    load("loads hsaco", "is cubin", artifact_changes={"format": "cubin"})
    load("not an ELF file", artifact_changes={"binary": b"#!/bin/sh"})
    load("offload bundle", artifact_changes={"binary": b"__CLANG_OFFLOAD_BUNDLE__"})
    swapped = (hsaco.ADD[3], *hsaco.ADD[:3], *hsaco.HIDDEN)
    load("n (offset, size, kind)", artifact_changes={"parameters": swapped})
    fewer = (*hsaco.ADD, hsaco.HIDDEN[0])
    load("a further argument", artifact_changes={"parameters": fewer})
    args = hsaco.metadata("add", (*hsaco.ADD, *hsaco.HIDDEN), warps=4, warp_size=64)[".args"]
    hidden = {".offset": 48, ".size": 4, ".value_kind": "hidden_block_count_x"}
    load("argument bytes", "305", args=[*args, hidden], kernarg_segment_size=305)
    load("hidden_block_count_x", "behind byte 48", args=[*args, hidden | {".offset": 40}])
    foreign = (*hsaco.ADD[:3], Parameter("n", "fp8e4nv"), *hsaco.HIDDEN)
    load("type 'fp8e4nv'", artifact_changes={"parameters": foreign})
    assert standin.calls == before  # HIP never saw one of them
    module = device.load(hsaco.artifact())
    refused(errors.LoadError, lambda: module.function("sub"), "no entry 'sub'", "has add")


def what_hip_refuses_at_load():
    standin, device = opened()
    for status, name in ((209, "hipErrorNoBinaryForGpu"), (200, "hipErrorInvalidImage")):
        standin.fail("hipModuleLoadData", status)
        refused(errors.LoadError, lambda: device.load(hsaco.artifact()), "loading add", name)
    module = device.load(hsaco.artifact())
    standin.fail("hipModuleGetFunction", 500)
    refused(errors.LoadError, lambda: module.function(), "hipErrorNotFound (500)")


def impossible_launches_are_refused():
    standin, device = opened()
    args = [0, 0, 0, 0, 0, 0]

    def prepare(grid=(1, 1, 1), values=args, **how):
        return device.load(hsaco.artifact(**how)).function().prepare(LaunchConfig(grid), values)

    too_much = errors.OutOfResourcesError
    most = (2**32 - 1) // 256
    prepare((most, 65536, 65536))
    text = refused(too_much, lambda: prepare((most + 1, 1, 1)), "16777216", "16777215")
    assert "several launches" in text
    refused(too_much, lambda: prepare((1, 65537, 1)), "65537 blocks in y", "65536")
    refused(too_much, lambda: prepare((1, 1, 65537)), "in z")
    refused(too_much, lambda: prepare(warps=17), "1088 threads", "takes 1024", "smaller num_warps")
    prepare(shared=65536)
    refused(too_much, lambda: prepare(shared=65537), "65537", "65536", "num_stages")
    refused(too_much, lambda: prepare(shared=65000, group_segment_fixed_size=1000), "66000")
    refused(errors.LaunchError, lambda: prepare(values=args[:-1]), "takes 6", "got 5", "a, b, o")
    wrong = [0, 0, 0, 2**31, 0, 0]
    refused(errors.ArgumentError, lambda: prepare(values=wrong), "2147483648", "n of type i32")
    refused(errors.LaunchError, lambda: prepare(artifact_changes={"cluster": 2}), "num_ctas=1")
    needy = Scratch(128, 16)
    refused(errors.LaunchError, lambda: prepare(scratch=needy), "128 bytes of global_scratch")
    prepare(scratch=needy, values=[0, 0, 0, 0, 4096, 0])
    late = prepare(scratch=needy, values=[0, 0, 0, 0, None, 0])
    refused(errors.LaunchError, lambda: late([0], device.default_stream), "bytes of global_scratch")
    start = prepare(values=[None, None, None, None, 0, 0])
    stream = device.default_stream
    refused(errors.LaunchError, lambda: start([1, 2, 3], stream), "takes 4 dynamic", "got 3")
    refused(errors.ArgumentError, lambda: start([1, 2, -3, 4], stream), "-3", "o of type *fp32")
    refused(errors.ArgumentError, lambda: start([1, 2, 3, 4.5], stream), "4.5", "n of type i32")
    assert standin.launches == []


def what_hip_refuses_at_launch():
    standin, device = opened()
    start = (
        device.load(hsaco.artifact())
        .function()
        .prepare(LaunchConfig((7, 1, 1)), [0, 0, 0, 0, 0, 0])
    )
    for status, kind, name in (
        (1, errors.LaunchError, "hipErrorInvalidValue (1)"),
        (9, errors.LaunchError, "hipErrorInvalidConfiguration (9)"),
        (719, errors.LaunchError, "hipErrorLaunchFailure (719)"),
        (701, errors.OutOfResourcesError, "hipErrorLaunchOutOfResources (701)"),
        (2, errors.OutOfMemoryError, "hipErrorOutOfMemory (2)"),
    ):
        standin.fail("hipModuleLaunchKernel", status)
        refused(
            kind,
            lambda: start((), device.default_stream),
            "launching add with grid (7, 1, 1)",
            "amd:0",
            name,
            "a text of the stand-in",
        )
    start((), device.default_stream)
    device.synchronize()
    assert len(standin.launches) == 1


def the_stand_in_checks_the_protocol():
    """The test's own referee: it catches what HIP would let pass."""
    standin, device = opened()
    # the descriptor wants more bytes than the metadata say: only the referee can see that
    function = device.load(hsaco.artifact(kernarg=64)).function()
    refused(
        errors.LaunchError,
        lambda: function.launch(LaunchConfig((1, 1, 1)), [0] * 6, device.default_stream),
        "hipErrorInvalidValue",
    )
    assert standin.complaint == "add reads 64 argument bytes, and was given 48"


def faults_of_kernels():
    standin, device = opened()
    standin.kernel("add", lambda dims, data: 700)
    stream = device.stream()
    function = device.load(hsaco.artifact()).function()
    function.launch(LaunchConfig((1, 1, 1)), [0] * 6, stream)  # no error yet: asynchronous
    refused(
        errors.DeviceLostError,
        stream.synchronize,
        "hipErrorIllegalAddress (700)",
        "shapes, strides and masks",
    )
    refused(errors.DeviceLostError, lambda: device.alloc(16), "hipErrorIllegalAddress")


def every_status_has_its_class():
    standin, device = opened()
    for status, kind in (
        (2, errors.OutOfMemoryError),
        (100, errors.NoDeviceError),
        (101, errors.NoDeviceError),
        (200, errors.LoadError),
        (209, errors.LoadError),
        (218, errors.LoadError),
        (303, errors.LoadError),
        (500, errors.LoadError),
        (98, errors.LoadError),
        (214, errors.DeviceLostError),
        (700, errors.DeviceLostError),
        (701, errors.OutOfResourcesError),
        (702, errors.DeviceLostError),
        (709, errors.DeviceLostError),
        (710, errors.DeviceLostError),
        (719, errors.DeviceLostError),
        (720, errors.OutOfResourcesError),
        (1052, errors.DeviceLostError),
        (1, errors.DriverError),
        (801, errors.DriverError),
        (999, errors.DriverError),
    ):
        standin.fail("hipDeviceSynchronize", status)
        refused(kind, device.synchronize, f"({status})", "work of amd:0", "a text of the stand-in")
    standin.fail("hipDeviceSynchronize", 4242)  # a code that the binding has no name for
    refused(errors.DriverError, device.synchronize, "4242", "same ROCm version")


def no_gpu_library_for_the_compiler():
    """Asking for one half of the vendor never loads the other."""
    create_compiler().archs()
    assert not [m for m in sys.modules if m.partition(".")[0] in ("hip", "rocm", "triton")]
    create_driver()
    assert not [m for m in sys.modules if m.partition(".")[0] in ("hip", "rocm", "triton")]
