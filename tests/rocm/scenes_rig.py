"""Programs on the rig that show the rig itself to be right."""

from __future__ import annotations

import gc
import os
import signal
import struct
import threading
from pathlib import Path

import numpy as np
from scene import BLOCK, add_one, compiled, opened, refused

import xtarget
from xtarget._values.types import LaunchConfig


def _kernels() -> list[list[str]]:
    """The kernels that the executor ran: device, name, ..., the argument bytes in hex, seconds."""
    return [line.split() for line in Path(os.environ["XTARGET_TEST_RIG_KERNELS"]).open()]


def arguments_arrive() -> None:
    """The bytes that HIP wrote where the kernel reads them are those that were launched with."""
    a = xtarget.asarray(np.arange(1000, dtype=np.float32), device="amd:0")
    b = xtarget.asarray(np.full(1000, 0.5, np.float32), device="amd:0")
    out = xtarget.run("add", a, b)
    assert (out.numpy() == np.arange(1000) + np.float32(0.5)).all()
    # HIP may have copied the result with a kernel of its own, as it does for gfx90a
    (arguments,) = [line[-2] for line in _kernels() if line[1] == "add"]
    given = struct.unpack_from("<3Q", bytes.fromhex(arguments))
    assert sorted(given) == sorted((a.address, b.address, out.address))


def several_gpus() -> None:
    """Each runs its own arch's code, on its own memory, from threads that share them."""
    assert [info.name for info in xtarget.devices()][:3] == ["amd:0", "amd:1", "amd:2"]
    wrong: list[str] = []

    def work(ordinal: int) -> None:
        rng = np.random.default_rng(ordinal)
        for _ in range(3):
            values = rng.standard_normal((5, 300)).astype(np.float32)
            x = xtarget.asarray(values, device=f"amd:{ordinal}")
            found = xtarget.run("softmax", x).numpy()
            e = np.exp(values - values.max(1, keepdims=True))
            if not np.allclose(found, e / e.sum(1, keepdims=True), atol=1e-6):
                wrong.append(f"amd:{ordinal}")

    threads = [threading.Thread(target=work, args=(i % 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    assert {line[0] for line in _kernels()} == {"0", "1", "2"}


def code_in_the_place_of_other_code() -> None:
    """Kernels of one size, loaded where others were: each does its own."""
    device = opened()
    buffer = device.alloc(4 * BLOCK)
    codes = [compiled(device, name, "x:*fp32", BLOCK=BLOCK) for name in ("add_one", "add_two")]
    buffer.write(memoryview(bytes(4 * BLOCK)), device.default_stream)
    for turn in range(6):
        function = device.load(codes[turn % 2]).function()
        config = LaunchConfig((1, 1, 1))
        function.launch(config, [buffer.address, 0, 0], device.default_stream)
        device.synchronize()
        del function
        gc.collect()
    found = np.empty(BLOCK, np.float32)
    buffer.read(memoryview(found).cast("B"), device.default_stream)
    assert set(found.tolist()) == {9.0}


def a_fork_beside_the_device() -> None:
    """The child of a fork is told to start anew; the parent goes on."""
    a = xtarget.asarray(np.ones(10, np.float32), device="amd:0")
    assert (xtarget.run("add", a, a).numpy() == 2).all()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            xtarget.run("add", a, a)
        except xtarget.XTargetError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (xtarget.run("add", a, a).numpy() == 2).all()


def too_much_memory() -> None:
    """The device works on afterwards."""
    device = opened()
    refused(xtarget.OutOfMemoryError, lambda: device.alloc(32 << 30), "Free now:")
    a = xtarget.asarray(np.ones(10, np.float32), device="amd:0")
    assert (xtarget.run("add", a, a).numpy() == 2).all()


def beyond_the_memory() -> None:
    """A kernel that leaves its memory ends the process, as on a GPU."""
    device = opened()
    launch = add_one(device)
    buffer = device.alloc(4 * BLOCK)
    launch(buffer.address)
    device.synchronize()
    print("before", flush=True)
    launch(1 << 37)
    device.synchronize()
    print("after", flush=True)


def devices() -> None:
    for info in xtarget.devices():
        print(info.name, info.target, info.runs_on, info.product)


def large_copies() -> None:
    device = opened()
    for nbytes in (1 << 20, 5 << 20, 40 << 20):
        buffer, data = device.alloc(nbytes), bytes(range(256)) * (nbytes // 256)
        buffer.write(memoryview(data), device.default_stream)
        found = bytearray(nbytes)
        buffer.read(memoryview(found), device.default_stream)
        assert found == data
