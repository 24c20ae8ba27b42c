"""`make demo`: its program, and the input that it ships."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from loading import load_file
from processes import run_python

import xtarget

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load_file(EXAMPLES / "make_insolation.py")


def test_the_shipped_input_is_what_its_program_makes(generator: ModuleType) -> None:
    shipped = np.load(EXAMPLES / "insolation.npy")
    assert (shipped.shape, shipped.dtype) == ((90, 365), np.float32)
    # libm differs in its last digit from machine to machine
    np.testing.assert_allclose(shipped, generator.insolation(), rtol=1e-5, atol=1e-2)
    assert (EXAMPLES / "insolation.npy").stat().st_size < 200_000


def test_the_input_is_physics(generator: ModuleType) -> None:
    sun = np.load(EXAMPLES / "insolation.npy").astype(np.float64)
    area = np.cos(np.radians(generator.LATITUDES))
    mean = (sun.mean(axis=1) * area).sum() / area.sum()
    # a disc catches what a sphere shares out; the mean over the ellipse adds 1 / sqrt(1 - e²)
    assert mean == pytest.approx(1361 / 4, rel=1e-3)
    assert sun[-1, 354] == 0  # the northern pole's night at the December solstice
    assert sun[0].max() > sun[-1].max()  # perihelion is in January, in the south's summer


def test_the_demo_runs_and_says_what_on() -> None:
    report = next(r for r in xtarget.probe() if r.vendor == "cpu")
    if not report.devices:
        pytest.skip(f"no CPU device: {report.reason}")
    device = report.devices[0]
    done = run_python(str(EXAMPLES / "demo.py"), seconds=300, XTARGET_DEVICE=device.name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"running on {device.name}: {device.product} ({device.runs_on})" in done.stdout
    assert done.stdout.count("   right") == 4
    assert "WRONG" not in done.stdout
