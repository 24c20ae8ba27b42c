"""The compiled core in processes of its own: which core is taken, sanitizers, forks."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

SCENE = """
import sys
import numpy as np
{before}
import xtarget
a, o = np.ones(64, np.float32), np.empty(64, np.float32)
for _ in range(5):
    xtarget.run("add", a, a, out=o, device=sys.argv[1])
assert (o == 2).all()
{after}
from xtarget._launch import run
print(run._native and run._native.statistics()[0])
"""


def scene(device: str, before: str = "", after: str = "", **environment: str | None) -> Any:
    """A program's last word, and what it has said on stderr."""
    program = SCENE.format(before=before, after=after)
    done = run_python("-c", program, device, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1], done.stderr


def test_a_core_of_another_version_is_not_used_and_one_warning_says_so(
    core: Any, device: str
) -> None:
    before = "import xtarget; xtarget.__version__ = '9.9'"
    said, errors = scene(device, before, XTARGET_CORE=None)
    assert said == "None"
    assert errors.count("RuntimeWarning") == 1
    assert "install xtarget again" in errors
    insisting = run_python("-c", f"{before}\nxtarget.run", XTARGET_CORE="c")
    assert "XTARGET_CORE=c, but the compiled core" in insisting.stderr


def test_python_makes_the_calls_where_it_is_chosen(device: str) -> None:
    assert scene(device, XTARGET_CORE="python") == ("None", "")


TORCH = """
import ctypes
import torch
make = ctypes.pythonapi.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
table = (ctypes.c_uint64 * 8)({table})
name = ctypes.create_string_buffer(b"{name}")
torch.Tensor.__dlpack_c_exchange_api__ = make(ctypes.addressof(table), name, None)
"""
AFTER = """
t = torch.ones(64)
for _ in range(5):
    r = xtarget.run("add", t, t)
assert (r == 2).all()
from xtarget._launch import run
run._native.forget()
before = run._native.statistics()[0]
for _ in range(5):
    xtarget.run("add", t, t)
assert run._native.statistics()[0] == before
"""


@pytest.mark.sample(3, each=("name",))
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("dlpack_exchange_api", "2"),  # major version 2, minor 0
        ("dlpack_exchange_api", "1 | 1 << 32"),  # 1.1, before there was such a table
        ("dlpack_exchange_api", "1 | 3 << 32"),  # 1.3, without functions
        ("another_api", "1 | 3 << 32"),
    ],
)
def test_tensors_with_an_unknown_exchange_api_are_pythons(
    core: Any, device: str, name: str, table: str
) -> None:
    pytest.importorskip("torch")
    said, _ = scene(device, TORCH.format(name=name, table=table), AFTER)
    assert said != "None"


LOAD = """
import importlib.machinery, importlib.util
loader = importlib.machinery.ExtensionFileLoader("xtarget._core._native", {path!r})
made = importlib.util.module_from_spec(
    importlib.util.spec_from_file_location(loader.name, {path!r}, loader=loader)
)
loader.exec_module(made)
sys.modules[loader.name] = made
"""
MANY = """
for n in range(1, 300):
    b = np.ones((n % 7 + 1, n), np.float32)[:, :: n % 3 + 1]
    for _ in range(3):
        assert (xtarget.run("add", b, n, device=sys.argv[1]) == n + 1).all()
launch = xtarget.get("add").prepare(a, a, out=o, device=sys.argv[1])
for _ in range(50):
    launch()
    launch.update(b=o.copy())
"""


@pytest.mark.long
def test_the_core_is_clean_to_sanitizers(core: Any, device: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location("hatch_build", root / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    made = tmp_path / "_native.abi3.so"
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g")
    why = hook.build(strict=True, into=made, flags=flags)
    if why.startswith("there is no"):
        pytest.skip(why)
    assert why == ""
    asked = [["cc", f"-print-file-name=lib{name}.so"] for name in ("asan", "ubsan")]
    found = [subprocess.check_output(command, text=True).strip() for command in asked]
    preloaded = {"LD_PRELOAD": " ".join(found), "ASAN_OPTIONS": "detect_leaks=0"}
    said, errors = scene(device, LOAD.format(path=str(made)), MANY, **preloaded)
    assert int(said) > 0
    assert "Sanitizer" not in errors


def test_a_forked_child_knows_no_calls_of_its_parent(core: Any, device: str) -> None:
    after = """
import os
child = os.fork()
if not child:
    from xtarget._launch import run
    os._exit(run._native.statistics()[2])
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = run_python(
        "-W", "ignore::DeprecationWarning", "-c", SCENE.format(before="", after=after), device
    )
    assert done.returncode == 0, done.stderr
