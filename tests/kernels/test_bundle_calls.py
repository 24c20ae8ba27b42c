"""Calls that a bundle alone serves: a process without Triton, an empty cache, any sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundles import printed_with

import xtarget
from xtarget import Target
from xtarget._bundle.builder.build import Order, build

CALLS = """
import sys

sys.modules["triton"] = None  # an import of it fails
import numpy as np

import xtarget

rng = np.random.default_rng(7)


def size(least, most):
    return int(np.exp(rng.uniform(np.log(least), np.log(most))))


def softmax(x):
    power = np.exp(x - x.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


wanted = {"relu": lambda x: np.maximum(x, 0), "softmax": softmax}
for number in range(200):
    name = ("relu", "softmax")[number % 2]
    m, n = size(1, 300), size(16, 3000)
    if number % 3:
        n = max(16, n // 16 * 16)
    # an array that begins anywhere
    start = int(rng.integers(0, 5)) if number % 5 == 0 else 0
    x = rng.standard_normal(m * n + start, dtype=np.float32)[start:].reshape(m, n)
    got = xtarget.run(name, x, device="cpu")
    np.testing.assert_allclose(got, wanted[name](x.astype(np.float64)), rtol=2e-5, atol=1e-6)
assert not any(name.startswith("triton.") for name in sys.modules)
print("served")
"""


def test_random_calls_are_served_by_the_bundle_alone(tmp_path: Path) -> None:
    if not any(info.vendor == "cpu" for info in xtarget.devices()):
        pytest.skip("no OpenCL CPU run time")
    path = tmp_path / "cpu.xtb"
    order = Order(("relu", "softmax"), ("float32",), (Target("cpu", "spirv64"),))
    report = build(order, path, workers=2, seconds=300)
    assert not report.errors
    assert build(order, path, workers=1, seconds=300).up_to_date
    assert printed_with(path, tmp_path, CALLS) == "served\n"
