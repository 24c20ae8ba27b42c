"""C that is made from the kernels' Triton text: where Triton is missing, the CPU's own run time
compiles it, and NVRTC for NVIDIA."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from c_route_programs import BLOCKS, CATALOG, LIBRARY, ROWS, SCRIPT, WRITTEN
from processes import run_python

from xtarget.targets.nvidia import nvrtc

ROUTES = {"cpu": "opencl", "nvidia": "nvrtc"}


@pytest.fixture
def route(device: str) -> str:
    """The route of the device that needs no Triton."""
    found = ROUTES.get(device.partition(":")[0])
    if found is None:
        pytest.skip(f"{device} has no route without Triton")
    if found == "nvrtc" and not nvrtc.installed():
        pytest.skip("NVRTC is not installed")
    return found


def test_rows_are_right_without_triton(device: str, route: str, tmp_path: Path) -> None:
    words = ("-W", "ignore", "-c", SCRIPT, device, *ROWS.split())
    done = run_python(*words, XTARGET_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    said = rf"{route} cannot serve it: .*searching\.py:\d+: the name atomic_add"
    assert re.search(said, done.stdout), done.stdout
    made = {path.suffix for path in tmp_path.rglob("*/*/*/*") if path.suffix != ".json"}
    # on the CPU the text, and the machine code that the run time makes of it
    assert made == ({".cl", ".bin"} if route == "opencl" else {".cubin"})


@pytest.fixture
def looped(device: str, route: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of a user, and the routes without Triton."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "own.py").write_text(LIBRARY)
    (folder / "catalog.py").write_text(CATALOG)
    monkeypatch.setenv("XTARGET_KERNELS", str(folder))
    monkeypatch.setenv("XTARGET_ROUTES", f"strict,{route}")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XTARGET_DEVICE", device)
    return folder


CALL = "import numpy as np, xtarget\nprint(*xtarget.run('looped', np.arange(3.0)))"


def test_a_users_kernel_and_what_explain_says_of_it(looped: Path, route: str) -> None:
    done = run_python("-c", CALL)
    assert done.stdout.split() == ["3.0", "-3.0", "-9.0"], done.stderr
    explain = ("-m", "xtarget", "explain", "looped", "--shape", "3", "--dtype", "float64")
    done = run_python(*explain)
    assert f"taken from: the cache (route {route})" in done.stdout, done.stdout + done.stderr


def test_a_written_source_stands_before_what_is_translated(looped: Path, route: str) -> None:
    path = looped / f"own.kernel_.{'cl' if route == 'opencl' else 'cu'}"
    path.write_text(WRITTEN)
    done = run_python("-c", CALL)
    assert done.stdout.split() == ["1.0", "4.0", "7.0"], done.stderr
    path.write_text(WRITTEN.replace("+ WHICH", "- WHICH"))
    assert run_python("-c", CALL).stdout.split() == ["-1.0", "2.0", "5.0"]
    path.write_text(WRITTEN.replace("* times", "* tines"))
    errors = run_python("-c", CALL).stderr
    assert "CompileError" in errors
    assert re.search(rf"{path.name}[:(]5\b.*error.*tines", errors), errors
    path.write_text(WRITTEN.replace("kernel_(", "other("))
    assert f"{path.name}: there is no kernel kernel_ in it." in run_python("-c", CALL).stderr


@pytest.mark.parametrize("threads", ["one", "several"])
def test_blocks_of_several_axes_are_right_without_triton(
    threads: str, device: str, route: str, tmp_path: Path
) -> None:
    if threads == "several" and route != "opencl":
        pytest.skip("other routes have several threads anyway")
    words = ("-W", "ignore", "-c", BLOCKS, device, threads)
    done = run_python(*words, XTARGET_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in tmp_path.rglob("*.cl")]
    assert any("xt_barrier();" in text for text in texts) == (threads == "several")
