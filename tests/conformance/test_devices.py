"""Looking for devices, opening them, and their memory."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from xtarget import NoDeviceError, OutOfMemoryError, XTargetError
from xtarget._values.types import DeviceInfo, ProbeReport

_RUNS_ON = ("silicon", "CPU runtime", "emulator", "stand-in", "fake")


def test_probe_describes_the_devices(vendor: Any) -> None:
    report = vendor.report
    assert isinstance(report, ProbeReport)
    assert report.vendor == vendor.name
    assert report.reason is None
    names = getattr(vendor.driver, "names", lambda: range(len(report.devices)))()
    assert [info.name for info in report.devices] == [f"{vendor.name}:{name}" for name in names]
    for info in report.devices:
        assert isinstance(info, DeviceInfo)
        assert info.target.vendor == ("amd" if vendor.name == "emu" else vendor.name)
        assert info.product.strip() == info.product != ""
        assert info.driver_version
        assert info.memory_bytes > 1 << 20
        assert info.compute_units >= 1
        assert info.warp_size & (info.warp_size - 1) == 0
        assert info.max_threads_per_block >= info.warp_size
        assert info.max_shared_bytes >= 16384
        assert info.runs_on in _RUNS_ON
        assert all(isinstance(v, str) for pair in info.details.items() for v in pair)


def test_opened_device_is_the_probed_one(vendor: Any) -> None:
    assert vendor.device.info == vendor.report.devices[vendor.ordinal]


def test_open_imports_neither_triton_nor_torch(vendor: Any) -> None:
    code = (
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "from xtarget._devices import registry as _registry\n"
        f"_registry.driver({vendor.name!r}).open({vendor.ordinal}).close()\n"
        "assert 'triton' not in sys.modules and 'torch' not in sys.modules\n"
    )
    environment = {**os.environ, **vendor.environment}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


@pytest.mark.parametrize("ordinal", [99, -1])
def test_wrong_ordinal_lists_the_right_ones(vendor: Any, ordinal: int) -> None:
    with pytest.raises(NoDeviceError, match=vendor.device.info.name):
        vendor.open(ordinal)


def test_close_is_idempotent_and_use_after_it_is_told(vendor: Any) -> None:
    device = vendor.open()
    stream = device.stream()
    buffer = device.alloc(64)
    module = device.load(vendor.vector_add())
    buffer.close()
    buffer.close()
    with pytest.raises(XTargetError, match="closed"):
        _ = buffer.address
    module.close()
    module.close()
    with pytest.raises(XTargetError, match="closed"):
        module.function()
    stream.close()
    stream.close()
    with pytest.raises(XTargetError, match="closed"):
        stream.synchronize()
    device.close()
    device.close()
    for use in (
        lambda: device.alloc(1),
        device.stream,
        device.synchronize,
        lambda: device.load(vendor.vector_add()),
        lambda: device.default_stream,
    ):
        with pytest.raises(XTargetError, match="closed"):
            use()


def test_closing_one_handle_leaves_the_other(vendor: Any, memory: Any) -> None:
    buffer = memory.put(np.arange(8, dtype=np.float32))
    vendor.open().close()
    assert memory.get(buffer).tolist() == list(range(8))


def test_default_stream_is_always_the_same(device: Any) -> None:
    assert device.default_stream is device.default_stream


# ------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 1 << 24])
def test_alloc_is_aligned_and_of_its_size(device: Any, nbytes: int) -> None:
    buffers = [device.alloc(nbytes) for _ in range(3)]
    for buffer in buffers:
        assert buffer.nbytes == nbytes
        assert buffer.address % 256 == 0
        assert buffer.address or not nbytes
    addresses = sorted(buffer.address for buffer in buffers)
    if nbytes:
        assert all(b - a >= nbytes for a, b in pairwise(addresses))
    for buffer in buffers:
        buffer.close()


def test_alloc_more_than_there_is(device: Any) -> None:
    with pytest.raises(OutOfMemoryError, match=str(1 << 50)):
        device.alloc(1 << 50)


def test_alloc_for_a_stream_of_its_own(device: Any) -> None:
    stream = device.stream()
    buffer = device.alloc(16, stream)
    buffer.write(memoryview(b"sixteen bytes ok"), stream)
    got = bytearray(16)
    buffer.read(memoryview(got), stream)
    assert bytes(got) == b"sixteen bytes ok"
    buffer.close()
    stream.close()


def test_source_may_be_reused_when_write_returns(device: Any, stream: Any) -> None:
    buffer = device.alloc(1 << 20)
    source = np.full(1 << 20, 7, np.uint8)
    buffer.write(memoryview(source), stream)
    source[:] = 9
    got = np.empty(1 << 20, np.uint8)
    buffer.read(memoryview(got), stream)
    assert (got == 7).all()
    buffer.close()


def test_read_of_other_dtypes_and_shapes(device: Any, stream: Any) -> None:
    array = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    buffer = device.alloc(array.nbytes)
    buffer.write(memoryview(array), stream)
    got = np.empty_like(array)
    buffer.read(memoryview(got), stream)
    assert (got == array).all()
    buffer.close()


def test_borrowed_memory_is_used_in_place_and_not_freed(device: Any, stream: Any) -> None:
    owner = device.alloc(32)
    guest = device.borrow(owner.address, 32)
    assert (guest.address, guest.nbytes) == (owner.address, 32)
    guest.write(memoryview(bytes(range(32))), stream)
    guest.close()
    device.synchronize()
    got = bytearray(32)
    owner.read(memoryview(got), stream)
    assert got == bytes(range(32))
    owner.close()


def test_memory_comes_back(device: Any) -> None:
    """Sixty-four times a sixteenth of the device (at most 256 MiB), one after the other."""
    size = min(device.info.memory_bytes // 16, 1 << 28)
    for _ in range(64):
        device.alloc(size).close()
        device.synchronize()
