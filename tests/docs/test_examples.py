"""The examples run on the CPU and say what they are to say."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_in_checkout

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, device: str, folder: Path, *words: str) -> str:
    program = str(EXAMPLES / f"{name}.py")
    done: subprocess.CompletedProcess[str] = run_in_checkout(
        sys.executable, program, *words, cwd=folder, seconds=300, XTARGET_DEVICE=device
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_server_meets_new_lengths_without_compiling(cpu: str, tmp_path: Path) -> None:
    out = run("serving", cpu, tmp_path)
    assert "served 500 new lengths" in out
    assert "nothing was compiled" in out


def test_inference_is_what_numpy_says(cpu: str, tmp_path: Path) -> None:
    out = run("inference", cpu, tmp_path, cpu)
    assert f"mlp: right on {cpu}" in out
    assert f"block: right on {cpu}" in out


def test_a_picture_comes_out(cpu: str, tmp_path: Path) -> None:
    flat = tmp_path / "in.ppm"
    pixels = np.full((20, 300, 3), 128, np.uint8)
    flat.write_bytes(b"P6\n300 20\n255\n" + pixels.tobytes())
    run("image_filters", cpu, tmp_path, str(flat), str(tmp_path / "out.ppm"))
    head, _, data = (tmp_path / "out.ppm").read_bytes().partition(b"\n255\n")
    assert head == b"P6\n300 20"
    done = np.frombuffer(data, np.uint8).reshape(20, 300, 3)
    # nothing to sharpen: contrast and the vignette are all there is to see
    y, x = np.mgrid[0:20, 0:300]
    light = 1 - 0.8 * ((x / 300 - 0.5) ** 2 + (y / 20 - 0.5) ** 2)
    expected = ((128 / 255 - 0.5) * 1.2 + 0.5) * light * 255
    np.testing.assert_allclose(done[..., 0], expected, atol=0.51)
    assert (done[..., 0] == done[..., 2]).all()


@pytest.mark.long
def test_a_model_learns_as_with_torchs_own_norm(cpu: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    assert "with torch's own norm to" in run("torch_training", cpu, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("name", "needs"), [("dask_workers", "dask"), ("ray_tasks", "ray")])
def test_several_workers_share_an_array(name: str, needs: str, cpu: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    out = run(name, cpu, tmp_path)
    assert "8 chunks by" in out
    assert "workers: right" in out


@pytest.mark.long
def test_one_bundle_is_in_two_c_programs(cpu: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    out = run("bundle_in_c", cpu, tmp_path, str(tmp_path / "out"))
    for target in ("nvidia:sm_90", "amd:gfx942"):
        (line,) = [line for line in out.splitlines() if f", for {target}: " in line]
        assert line.endswith("right") or "cannot be opened" in line


@pytest.mark.long
def test_a_program_in_cpp_calls_a_bundles_kernels(cpu: str, tmp_path: Path) -> None:
    if not all(map(shutil.which, ("g++", "cmake"))):
        pytest.skip("there is no C++ compiler, or no CMake")
    assert "(cpu:spirv64): right" in run("kernels_in_cpp", cpu, tmp_path, str(tmp_path / "out"))


@pytest.mark.long
def test_an_operator_of_torch_in_cpp(cpu: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if not all(map(shutil.which, ("g++", "cmake"))):
        pytest.skip("there is no C++ compiler, or no CMake")
    assert "on cpu: right" in run("torch_operator", cpu, tmp_path, str(tmp_path / "out"))


def test_examples_are_short() -> None:
    mains = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.c"), *EXAMPLES.glob("*.cpp")]
    assert len(mains) >= 7
    for file in mains:
        assert len(file.read_text(encoding="utf-8").splitlines()) < 60, file.name
