"""Shared parts of the scenarios: an opened stand-in device, and how a refusal is looked at.

A scenario is a function without arguments that one child process calls; see
tests/unit/test_amd_driver.py. Nothing here runs on a GPU; the devices say `runs_on="fake"`.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from standin import StandIn

from xtarget._values import errors
from xtarget.targets.amd import create_driver

#: The built library, in a folder that the scenarios may write to.
LIBRARY = Path(os.environ["XTARGET_TEST_STANDIN"])


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
