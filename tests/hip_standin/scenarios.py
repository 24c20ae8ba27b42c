"""What the AMD driver does, seen by a stand-in library: one function, one child process.

Run by tests/unit/test_amd_driver.py, or by hand: `python scenarios.py NAME FOLDER`.
Nothing here runs on a GPU; the devices say `runs_on="fake"`.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import hsaco
from standin import StandIn, build

from xtarget import _errors as errors
from xtarget._types import LaunchConfig, Parameter, Scratch, Target
from xtarget.targets.amd import create_compiler, create_driver
from xtarget.targets.amd.driver import HipDriver

LIBRARY = Path(sys.argv[2]) / "lib" / "libamdhip64.so" if len(sys.argv) > 2 else Path()


def refused(kind, action, *words) -> str:
    """The message of the error of exactly that class that `action` ends in."""
    caught = None
    try:
        action()
    except errors.XTargetError as error:
        caught = error
    assert caught is not None, f"no {kind.__name__} was raised"
    assert type(caught) is kind, f"{type(caught).__name__}: {caught}"
    message = str(caught)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    assert message[-1] in '.")', message
    return message


def reason(*words, probe=None) -> str:
    report = (probe or create_driver()).probe()
    assert report.vendor == "amd"
    assert report.devices == ()
    assert report.reason is not None
    for word in words:
        assert word in report.reason, f"{word!r} is not in: {report.reason}"
    refused(errors.NoDeviceError, lambda: (probe or create_driver()).open(0), *words)
    return report.reason


def add(dims, data) -> None:
    """The kernel `add` on host memory, from its argument bytes."""
    import ctypes

    a, b, o, n = struct.unpack_from("<QQQi", data)
    array = ctypes.c_float * n
    x, y, z = (array.from_address(p) for p in (a, b, o))
    for i in range(min(n, dims[0] * dims[3])):
        z[i] = x[i] + y[i]


def opened(**devices):
    standin = StandIn(LIBRARY)
    if devices:
        standin.devices(**devices)
    standin.kernel("add", add)
    return standin, create_driver().open(0)


def floats(count, start=0.0) -> bytes:
    return struct.pack(f"<{count}f", *(start + i for i in range(count)))


# ------------------------------------------------------------------------------------------ probing


def no_binding():
    for name in [m for m in sys.modules if m.partition(".")[0] in ("hip", "rocm")]:
        del sys.modules[name]
    sys.path[:] = [p for p in sys.path if not (Path(p or ".") / "hip").exists()]
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    reason("not installed", 'pip install "xtarget[amd]"', "No module named")


def broken_binding():
    folder = LIBRARY.parent / "broken" / "hip"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("from . import missing_part\n")
    sys.path.insert(0, str(folder.parent))
    reason("installed but cannot be imported", "missing_part", 'pip install "xtarget[amd]"')


def no_library():
    os.environ["ROCM_PATH"] = str(LIBRARY.parent / "nowhere")
    text = reason("libamdhip64.so was not found", "/nowhere/lib", "/opt/rocm/lib", "Install ROCm")
    assert "(failed to" in text or "(" in text


def library_under_another_name():
    other = LIBRARY.parent / "versioned" / "lib"
    other.mkdir(parents=True, exist_ok=True)
    (other / "libamdhip64.so.6").write_bytes(b"")
    os.environ["ROCM_PATH"] = str(other.parent)
    reason("was not found", f"There is {other}/libamdhip64.so.6", "LD_LIBRARY_PATH")


def library_too_old():
    StandIn(LIBRARY).version(50221153)
    reason("version 5.2.21153", "needs 6.0 or newer", "newer ROCm")


def library_lacks_a_function():
    # a library that calls itself new and lacks what ROCm 5 lacked
    StandIn(build(LIBRARY.parent / "old", old=True))
    report = create_driver().probe()
    assert not report.devices
    assert report.reason is not None
    assert "hipGetDeviceProperties" in report.reason
    assert "same ROCm version" in report.reason


def _dev(kfd=True, render=True) -> Path:
    dev = LIBRARY.parent / "dev"
    shutil.rmtree(dev, ignore_errors=True)
    (dev / "dri").mkdir(parents=True, exist_ok=True)
    for node, wanted in (("kfd", kfd), ("dri/renderD999", render)):
        if wanted is not None:
            (dev / node).write_bytes(b"")
            (dev / node).chmod(0o666 if wanted else 0)
    return dev


def no_kernel_driver():
    StandIn(LIBRARY).devices(0)
    text = reason("hipErrorNoDevice (100)", probe=HipDriver(_dev(kfd=None)))
    assert "There is no" in text
    assert "amdgpu is not loaded" in text


def no_device():
    standin = StandIn(LIBRARY)
    standin.devices(0)
    reason("hipErrorNoDevice (100)", "rocminfo", probe=HipDriver(_dev()))
    for _ in range(2):  # reason() asks twice: probe and open
        standin.fail("hipGetDeviceCount", 101)
        report = HipDriver(_dev()).probe()
        assert report.reason is not None
        assert "hipErrorInvalidDevice (101)" in report.reason


def devices_hidden():
    StandIn(LIBRARY).devices(0)
    os.environ["HIP_VISIBLE_DEVICES"] = ""
    reason("hides devices", "HIP_VISIBLE_DEVICES=", probe=HipDriver(_dev()))


def _as_a_user() -> None:
    create_driver().probe()  # hip-python is imported before we stop being root
    if os.getuid() == 0:
        os.setuid(65534)


def absence_is_told_without_loading_anything():
    os.environ.pop("ROCM_PATH", None)
    assert "There is no" in (HipDriver(_dev(kfd=None)).absent() or "")
    assert HipDriver(_dev()).absent() is None
    os.environ["ROCM_PATH"] = "/an/emulator"
    assert HipDriver(_dev(kfd=None)).absent() is None
    sys.meta_path.clear()
    assert 'pip install "xtarget[amd]"' in (HipDriver(_dev()).absent() or "")
    assert not [m for m in sys.modules if m.partition(".")[0] in ("hip", "rocm")]


def no_permission_for_the_driver():
    StandIn(LIBRARY).devices(0)
    dev = _dev(kfd=False)
    _as_a_user()
    text = reason("no permission", f"{dev}/kfd", "usermod -aG render,video", probe=HipDriver(dev))
    assert "renderD999" not in text


def no_permission_for_the_device():
    StandIn(LIBRARY).devices(0)
    dev = _dev(render=False)
    _as_a_user()
    text = reason("no permission", f"{dev}/dri/renderD999", probe=HipDriver(dev))
    assert "kfd" not in text


def a_folder_that_may_not_be_read():
    StandIn(LIBRARY).devices(0)
    dev = _dev()
    dev.chmod(0)
    _as_a_user()
    reason("HIP sees no device", probe=HipDriver(dev))


def probe_survives_other_failures():
    standin = StandIn(LIBRARY)
    standin.fail("hipGetDeviceCount", 999)
    report = create_driver().probe()
    assert report.reason is not None
    assert "hipErrorUnknown (999)" in report.reason


def devices():
    standin = StandIn(LIBRARY)
    standin.devices(2, "gfx1201", 32)
    report = create_driver().probe()
    assert report.reason is None
    first, second = report.devices
    assert (first.name, second.name) == ("amd:0", "amd:1")
    assert first.target == Target("amd", "gfx1201")
    assert first.product == "stand-in, not a GPU"
    assert first.runs_on == "fake"
    assert (first.memory_bytes, first.compute_units, first.warp_size) == (1 << 28, 8, 32)
    assert (first.max_threads_per_block, first.max_shared_bytes) == (1024, 65536)
    assert first.driver_version == "HIP 7.2.53211"
    assert first.details["gcn_arch_name"] == "gfx1201"
    refused(errors.NoDeviceError, lambda: create_driver().open(2), "no amd:2", "amd:0, amd:1")
    refused(errors.NoDeviceError, lambda: create_driver().open(-1), "no amd:-1")


# --------------------------------------------------------------------------------- memory and order


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


def out_of_memory():
    _, device = opened()
    kept = device.alloc(1 << 27)
    text = refused(
        errors.OutOfMemoryError,
        lambda: device.alloc(1 << 28),
        "268,435,456 bytes",
        "amd:0",
        "hipErrorOutOfMemory (2)",
        "a text of the stand-in",
        "Free now: 134,217,728 of 268,435,456",
    )
    assert "Free arrays" in text
    kept.close()


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
    refused(errors.ArgumentError, lambda: device.stream("a"), "not a HIP stream")
    refused(errors.ArgumentError, lambda: own.wait(object()), "type object")
    own.close()
    own.close()
    refused(errors.DriverError, lambda: own.synchronize(), "hipErrorInvalidHandle")


# ---------------------------------------------------------------------------------- load and launch


def add_runs():
    standin, device = opened()
    stream = device.stream()
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
    module.close()
    module.close()
    refused(errors.DriverError, lambda: module.function(), "hipErrorInvalidHandle")
    device.close()


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


def a_real_hsaco_of_triton():
    """Triton's output passes every check, and its descriptor agrees with the bytes we pack."""
    from xtarget._types import CompileRequest, KernelSource

    def kernel():
        import real_kernel

        return real_kernel.scaled_add

    signature = (
        ("a", "*fp32"),
        ("b", "*bf16"),
        ("o", "*fp32"),
        ("flag", "i1"),
        ("scale", "fp32"),
        ("n", "i64"),
        ("block", "constexpr"),
    )
    source = KernelSource("scaled_add", "0", "real_kernel.py", kernel)
    request = CompileRequest(source, signature, (("block", 256),), ("a", "b", "o"))
    standin = StandIn(LIBRARY)
    for arch, gcn, warp in (("gfx942", "gfx942:sramecc+:xnack-", 64), ("gfx1201", "gfx1201", 32)):
        standin.devices(1, gcn, warp)
        device = create_driver().open(0)
        made = create_compiler().compile(request, Target("amd", arch))
        function = device.load(made).function()
        values = [256, 512, 768, True, 0.5, 2**40, 0, 0]
        function.launch(LaunchConfig((3, 2, 1)), values, device.default_stream)
        device.synchronize()
        name, dims, shared, _, data = standin.launches[-1]
        assert (name, dims, shared) == ("scaled_add", (3, 2, 1, 4 * warp, 1, 1), made.shared_bytes)
        assert data == struct.pack("<QQQ?3xfqQQ", 256, 512, 768, True, 0.5, 2**40, 0, 0)


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


# --------------------------------------------------------------------------------- refused binaries


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
    refused(errors.LoadError, lambda: module.function("sub"), "no described entry 'sub'", "add")


def what_hip_refuses_at_load():
    standin, device = opened()
    for status, name in ((209, "hipErrorNoBinaryForGpu"), (200, "hipErrorInvalidImage")):
        standin.fail("hipModuleLoadData", status)
        refused(errors.LoadError, lambda: device.load(hsaco.artifact()), "loading add", name)
    module = device.load(hsaco.artifact())
    standin.fail("hipModuleGetFunction", 500)
    refused(errors.LoadError, lambda: module.function(), "hipErrorNotFound (500)")


# --------------------------------------------------------------------------------- refused launches


def impossible_launches_are_refused():
    standin, device = opened()
    args = [0, 0, 0, 0, 0, 0]

    def prepare(grid=(1, 1, 1), values=args, **how):
        return device.load(hsaco.artifact(**how)).function().prepare(LaunchConfig(grid), values)

    too_much = errors.OutOfResourcesError
    most = (2**32 - 1) // 256
    prepare((most, 65536, 65536))
    text = refused(too_much, lambda: prepare((most + 1, 1, 1)), "16,777,216", "16,777,215")
    assert "several launches" in text
    refused(too_much, lambda: prepare((1, 65537, 1)), "65,537 blocks in y", "65,536")
    refused(too_much, lambda: prepare((1, 1, 65537)), "in z")
    refused(
        too_much, lambda: prepare(warps=17), "1088 threads", "at most 1024", "smaller num_warps"
    )
    prepare(shared=65536)
    refused(too_much, lambda: prepare(shared=65537), "65,537", "65,536", "num_stages")
    refused(too_much, lambda: prepare(shared=65000, group_segment_fixed_size=1000), "66,000")
    refused(errors.ArgumentError, lambda: prepare(values=args[:-1]), "takes 6", "got 5", "a, b, o")
    wrong = [0, 0, 0, 2**31, 0, 0]
    refused(errors.ArgumentError, lambda: prepare(values=wrong), "2147483648", "n of type i32")
    refused(errors.LaunchError, lambda: prepare(artifact_changes={"cluster": 2}), "num_ctas=1")
    refused(
        errors.LaunchError,
        lambda: prepare(artifact_changes={"cooperative": True}),
        "cooperative launch",
    )
    needy = Scratch(128, 16)
    refused(errors.LaunchError, lambda: prepare(scratch=needy), "128 bytes of global_scratch")
    prepare(scratch=needy, values=[0, 0, 0, 0, 4096, 0])
    late = prepare(scratch=needy, values=[0, 0, 0, 0, None, 0])
    refused(errors.LaunchError, lambda: late([0], device.default_stream), "bytes of global_scratch")
    start = prepare(values=[None, None, None, None, 0, 0])
    stream = device.default_stream
    refused(errors.ArgumentError, lambda: start([1, 2, 3], stream), "takes 4 values, and got 3")
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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("ok:", sys.argv[1])
