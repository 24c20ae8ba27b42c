"""Users without a home that can be written: in containers, or numbers without a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import numpy as np
import xtarget
a = np.arange(1000, dtype=np.float32)
assert [d.name for d in xtarget.devices()]
assert (xtarget.run("add", a, a, device=sys.argv[1]) == a + a).all()
"""
TRITON = """
import numpy as np, triton, triton.language as tl

@triton.jit
def k(x, o, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(o + i, tl.load(x + i) + 1)

x, o = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
k[(1,)](x, o, 16)
assert (o == x + 1).all()
"""
NO_ROOM = "import tempfile\ntempfile._candidate_tempdir_list = list\n"


def run(tmp_path: Path, code: str, *words: str, **more: str) -> str:
    """A program whose home cannot be made, by root either: a file is in its way. Its errors."""
    (tmp_path / "file").touch()
    (tmp_path / "kernel.py").write_text(code)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "XTARGET_", "TRITON_"))
    }
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "kernel.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**environment, "PYTHONPATH": path, "HOME": str(tmp_path / "file" / "home"), **more},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_with_a_folder_for_the_cache_nothing_is_said(device: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert run(tmp_path, SCRIPT, device, XTARGET_CACHE_DIR=str(folder)) == ""
    assert list(folder.rglob("add-*"))


def test_without_one_it_is_said_once(device: str, tmp_path: Path) -> None:
    said = run(tmp_path, SCRIPT, device)
    assert said.count("\n") == 1
    assert "cannot be" in said
    assert "XTARGET_CACHE_DIR" in said


def test_where_no_temporary_file_can_be_made(device: str, tmp_path: Path) -> None:
    assert run(tmp_path, NO_ROOM + SCRIPT, device, XTARGET_CACHE_DIR=str(tmp_path / "c")) == ""


def test_a_program_that_uses_pyopencl_itself(tmp_path: Path, device: str) -> None:
    if not device.startswith("cpu"):
        pytest.skip("the device is not reached by pyopencl")
    code = "import pyopencl\n" + SCRIPT
    assert run(tmp_path, code, device, XTARGET_CACHE_DIR=str(tmp_path / "c")) == ""


def test_tritons_own_launching(tmp_path: Path, triton_on_cpu: None, ran_on_cpu: None) -> None:
    code = (
        "import triton\nfrom triton.backends import Backend, backends\n"
        "from xtarget_triton.compiler import SpirvBackend\n"
        "from xtarget_triton.driver import SpirvDriver\n"
        "backends['spirv'] = Backend(compiler=SpirvBackend, driver=SpirvDriver)\n" + TRITON
    )
    folder = tmp_path / "c"
    settings = {"TRITON_DEFAULT_BACKEND": "spirv", "XTARGET_CACHE_DIR": str(folder)}
    assert run(tmp_path, code, **settings) == ""
    assert list((folder / "triton").rglob("*.spirv"))
