"""Launches that may start before the one in front has ended: what the core gives the driver."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xtarget import _core

#: In a process of its own: the core keeps the driver's function.
PROGRAM = """
from ctypes import CFUNCTYPE, POINTER, Structure, c_byte, c_int, c_uint, c_void_p, cast
from xtarget import _core

class Attribute(Structure):  # CUlaunchAttribute: 64 bytes of value
    _fields_ = [("id", c_uint), ("unused", c_uint), ("value", c_int), ("rest", c_byte * 60)]

class Configuration(Structure):  # CUlaunchConfig
    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint),
                ("stream", c_void_p), ("attributes", POINTER(Attribute)), ("count", c_uint)]

seen = []

@CFUNCTYPE(c_int, POINTER(Configuration), c_void_p, c_void_p, c_void_p)
def extended(given, function, parameters, extra):
    one = given.contents
    attributes = [(a.id, a.value) for a in one.attributes[:one.count]]
    seen.append((list(one.grid), list(one.block), one.shared, one.stream, attributes,
                 function, parameters, extra))
    return 5

address = _core.native().early(cast(extended, c_void_p).value)
start = CFUNCTYPE(c_int, c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p)(address)
assert start(7, 1, 2, 3, 32, 4, 5, 48, 99, 11, None) == 5
print(seen)
"""


@pytest.mark.skipif(_core.native() is None, reason="there is no compiled core")
def test_the_driver_is_told_that_the_launch_may_start_early() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    # 6 is CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert found.stdout.strip() == "[([1, 2, 3], [32, 4, 5], 48, 99, [(6, 1)], 7, 11, None)]"


@pytest.mark.skipif(_core.native() is None, reason="there is no compiled core")
def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(TypeError):
        _core.native().early("cuLaunchKernelEx")


@pytest.mark.parametrize(("version", "address"), [(12020, 0), (12030, 7), (13000, 7)])
def test_drivers_whose_graphs_cannot_hold_such_launches_start_none(
    monkeypatch: pytest.MonkeyPatch, version: int, address: int
) -> None:
    module = pytest.importorskip("xtarget.targets.nvidia.module")
    monkeypatch.setattr(module, "_version", lambda: version)
    monkeypatch.setattr(module, "_entry", lambda name: 7)
    assert module.early_entry.__wrapped__() == address
