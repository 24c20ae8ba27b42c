"""`XTARGET_LOG` and programs in C: what a library says on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from libxtarget import environment, needs_compiler_and_opencl

pytestmark = needs_compiler_and_opencl

PROGRAM = """
import ctypes, sys
c = ctypes.CDLL(sys.argv[1])
made = ctypes.c_void_p()
assert c.xtarget_bundle_open(sys.argv[2].encode(), b"", ctypes.byref(made)) == 0
c.xtarget_bundle_close(made)
assert c.xtarget_bundle_open(b"/nowhere/a\\x1b[1m.xtb", b"", ctypes.byref(made)) == 2
"""


MISSING = "ERROR: the bundle /nowhere/a?[1m.xtb cannot be opened"


@pytest.mark.parametrize(
    ("level", "says"),
    [
        (None, []),
        ("error", [MISSING]),
        ("Info", ["INFO: open the bundle", MISSING]),
        ("loud", ["WARNING: XTARGET_LOG=loud means nothing. Write error or warning or info"]),
    ],
)
def test_a_line_for_what_the_level_lets_through(
    shared: Path, path: Path, level: str | None, says: list[str]
) -> None:
    found = {name: value for name, value in os.environ.items() if name != "XTARGET_LOG"}
    found |= environment() | ({} if level is None else {"XTARGET_LOG": level})
    words = [sys.executable, "-S", "-c", PROGRAM, str(shared), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=found)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(says)
    for line, words_of in zip(lines, says, strict=True):
        assert line.startswith(f"xtarget: {words_of}")


FAILING = """
import ctypes, sys
c = ctypes.CDLL(sys.argv[1])
c.xtarget_message.restype = ctypes.c_char_p
place, nothing = ctypes.byref(ctypes.c_void_p()), None
calls = [("bundle_open", "", "", place), ("bundle_open_memory", nothing, 0, "", place)]
calls += [("bundle_compile_by", nothing, "", 1), ("bundle_verify", nothing)]
calls += [("bundle_kernels", nothing, "", nothing, nothing), ("device_open", 0, -1, place)]
calls += [("device_in", 0, nothing, nothing, place), ("device_open", 99, 0, place)]
calls += [("device_stream", nothing, place), ("device_synchronize", nothing, nothing)]
calls += [("device_allocate", nothing, 1, place), ("device_copy", nothing, nothing, nothing, 1, 1)]
calls += [("device_clear", nothing, nothing, nothing, 1)]
calls += [("kernel_get",) + (nothing,) * 7, ("kernel_call",) + (nothing,) * 6]
calls += [("kernel_outputs",) + (nothing,) * 7, ("from_dlpack", nothing, nothing)]
for name, *given in calls:
    assert getattr(c, "xtarget_" + name)(*given) != 0
    print(c.xtarget_message().decode())
"""


def test_whatever_fails_is_an_error(shared: Path) -> None:
    words = [sys.executable, "-S", "-c", FAILING, str(shared)]
    found = {**os.environ, **environment(), "XTARGET_LOG": "error"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=found)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"xtarget: ERROR: {x}" for x in done.stdout.splitlines()]
