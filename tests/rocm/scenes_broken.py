"""Machines where something is missing, or goes away."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scene import BLOCK, add_one, opened, refused

import xtarget
from xtarget._devices import registry
from xtarget._launch.interrupts import unfinished
from xtarget.targets.amd import create_driver, library

_LIB = Path(sys.prefix) / "lib"


def _told(*command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "xtarget", *command], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def without_its_hsa() -> None:
    """A HIP whose HSA is not installed: the reason names the missing file."""
    folder = Path("without/lib").resolve()
    folder.mkdir(parents=True)
    content = next(_LIB.glob("libamdhip64.so.*")).resolve().read_bytes()
    missing = b"libhsa-missing64.so"
    assert content.count(b"libhsa-runtime64.so")
    content = content.replace(b"libhsa-runtime64.so", missing)
    (folder / library.NAME).write_bytes(content)
    os.environ["ROCM_PATH"] = str(folder.parent)
    reason = create_driver().probe().reason or ""
    assert f"The HIP library {folder / library.NAME} cannot be loaded: libhsa-missing" in reason
    assert "Install what it needs" in reason
    refused(xtarget.NoDeviceError, lambda: create_driver().open(0), "libhsa-missing64.so")


def two_versions_on_the_path() -> None:
    """The newer one is taken, and it alone."""
    os.environ.pop("ROCM_PATH", None)
    os.environ["LD_LIBRARY_PATH"] = os.environ["XTARGET_TEST_FOLDERS"]
    device = opened()
    assert device.info.driver_version.startswith("HIP 7.")
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    launch(buffer.address)
    device.synchronize()
    assert len(library.loaded()) == 1


def an_arch_that_is_not_known() -> None:
    """It is listed with what it is good for, and a kernel for it is refused in one sentence."""
    (report,) = [r for r in registry.probe_all() if r.vendor == "amd"]
    assert [device.name for device in report.devices] == ["amd:0"]
    x = np.ones(10, np.float32)
    words = "the AMD compiler does not know 'gfx1036'. It knows amd:gfx90a"
    refused(xtarget.UnknownTargetError, lambda: xtarget.run("add", x, x, device="amd:0"), words)
    code, text = _told("run", "add", "--shape", "10", "--device", "amd:0")
    assert code == 1
    assert text.startswith(f"error: {words}")
    buffer = opened().alloc(64)  # its memory can be used
    buffer.write(memoryview(bytes(range(64))), opened().default_stream)
    found = (ctypes.c_ubyte * 64)()
    buffer.read(memoryview(found).cast("B"), opened().default_stream)
    assert bytes(found) == bytes(range(64))


def a_device_that_vanishes() -> None:
    """HSA ends the process, as it does when a GPU falls off its bus; there is nothing to catch."""
    device = opened()
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    print("before", flush=True)
    launch(buffer.address)
    device.synchronize()
    print("after", flush=True)


def a_device_that_does_not_answer() -> None:
    """It is found and described, in which no work of it is waited for."""
    code, text = _told("devices")
    assert code == 0
    assert [line for line in text.splitlines() if "amd:0" in line and "gfx1100" in line]


def opening_a_device_that_does_not_answer() -> None:
    _interrupted(opened)
    os.environ["XTARGET_WAIT_SECONDS"] = "1"
    refused(xtarget.DeviceLostError, opened, "opening amd:0 was not done after", "not answer")
    os.environ["XTARGET_WAIT_SECONDS"] = "1000"
    refused(xtarget.DeviceLostError, opened, "amd:0 still does not answer: opening amd:0")
    print("told")


def a_command_on_a_device_that_does_not_answer() -> None:
    """One sentence, and the command's own exit code."""
    os.environ["XTARGET_WAIT_SECONDS"] = "1"
    code, text = _told("run", "add", "--shape", "10", "--device", "amd:0")
    assert code == 1, text
    assert text.startswith("error: ")
    assert "AMD GPU gfx1100 does not answer" in text
    assert len(text.splitlines()) == 1


def _interrupted(wait: Callable[[], Any], times: int = 1) -> None:
    """Ctrl-C ends the wait."""
    # a shell's background job, as CI may be, ignores the signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = threading.Event()

    def press() -> None:
        for _ in range(times):
            if not ended.wait(1.5):
                os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        wait()
    except KeyboardInterrupt:
        ended.set()
        thread.join()
        return
    raise AssertionError("the wait ended by itself")


def a_kernel_that_does_not_end() -> None:
    """Each way of waiting for it is told after a limit, and ended by Ctrl-C."""
    device = opened()
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    stream = device.stream()
    launch(buffer.address, stream)
    event = stream.record()
    found = memoryview(bytearray(4 * BLOCK))
    waits: list[Callable[[], Any]] = [
        stream.synchronize,
        event.synchronize,
        lambda: buffer.read(found, stream),
    ]
    for wait in waits:
        _interrupted(wait)
    os.environ["XTARGET_WAIT_SECONDS"] = "0.5"
    refused(xtarget.DeviceLostError, waits[0], "was not done after", "does not end")
    os.environ["XTARGET_WAIT_SECONDS"] = "1000"  # it is known by now
    for use in (*waits, device.synchronize, device.stream, lambda: device.alloc(64), device.close):
        refused(xtarget.DeviceLostError, use, "amd:0 still does not answer:")
    refused(xtarget.DriverError, device.synchronize, "amd:0 is closed")
    assert bytes(found) == bytes(4 * BLOCK)
    print("told")


def a_call_that_does_not_end() -> None:
    """The same for `run`, with arrays of the device and of the host."""
    x = np.ones(1000, np.float32)
    a = xtarget.asarray(x, device="amd:0")
    out = xtarget.run("add", a, a)
    _interrupted(out.numpy)
    _interrupted(opened().synchronize)
    # what the launch uses is waited for first, until another Ctrl-C
    _interrupted(lambda: xtarget.run("add", x, x, device="amd:0"), times=3)
    assert unfinished
    os.environ["XTARGET_WAIT_SECONDS"] = "0.5"
    refused(xtarget.DeviceLostError, out.numpy, "was not done after")
    for use in (out.numpy, lambda: xtarget.run("add", a, a), lambda: xtarget.asarray(x, "amd:0")):
        refused(xtarget.DeviceLostError, use, "amd:0 still does not answer:")
    print("told")


def a_copy_that_does_not_end() -> None:
    """It waits inside HIP, and can be interrupted and limited all the same."""
    device = opened()
    buffer, found = device.alloc(4 * BLOCK), memoryview(bytearray(4 * BLOCK))
    _interrupted(lambda: buffer.read(found, device.default_stream))
    os.environ["XTARGET_WAIT_SECONDS"] = "0.5"
    stream = device.stream()
    words = "copying 1024 bytes to amd:0 was not done after"
    refused(xtarget.DeviceLostError, lambda: buffer.write(found, stream), words)
    refused(xtarget.DeviceLostError, device.synchronize, "amd:0 still does not answer:")
    print("told")


def a_kernel_that_is_late() -> None:
    """The device is lost until it is done, and then of use again."""
    x = np.arange(1000, dtype=np.float32)
    a = xtarget.asarray(x, device="amd:0")
    out = xtarget.run("add", a, a)
    os.environ["XTARGET_WAIT_SECONDS"] = "0.5"
    refused(xtarget.DeviceLostError, out.numpy, "was not done after")
    del os.environ["XTARGET_WAIT_SECONDS"]
    refused(xtarget.DeviceLostError, out.numpy, "amd:0 still does not answer:")
    Path(os.environ["XTARGET_TEST_RIG_GATE"]).touch()
    found = None
    while found is None:
        with contextlib.suppress(xtarget.DeviceLostError):
            found = out.numpy()
        time.sleep(0.1)
    assert (found == 2 * x).all()
    assert (xtarget.run("add", out, a).numpy() == 3 * x).all()
