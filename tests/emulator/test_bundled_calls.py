"""Calls that a bundle alone serves on a GPU's code: a process without Triton, an empty cache, any
shapes and layouts. Few binaries serve them all (`Call.general`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundles import printed_with

from xtarget import Target
from xtarget._bundle.builder.build import Order, build

CALLS = """
import sys

sys.modules["triton"] = None  # an import of it fails
import numpy as np

import xtarget

rng = np.random.default_rng(int(sys.argv[2]))
names = sys.argv[1].split(",")


def size(most):
    n = int(np.exp(rng.uniform(0, np.log(most))))
    return max(16, n // 16 * 16) if rng.random() < 0.4 else n


def laid(x):
    how = rng.integers(6)
    if how == 0:
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == 1:
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if how == 2:
        return np.concatenate([x, x[..., :1]], axis=-1)[..., :-1]
    return x


def softmax(x, axis):
    power = np.exp(x - x.max(axis=axis, keepdims=True))
    return power / power.sum(axis=axis, keepdims=True)


def call(name):
    shape = [(size(60), size(400)), (size(12), size(12), size(40))][int(rng.random() < 0.3)]
    if name == "matmul":
        shape = (size(90), size(300))
    x = laid(rng.standard_normal(shape, dtype=np.float32))
    wide = x.astype(np.float64)
    axis = int(rng.integers(x.ndim))
    if name == "add":
        other = tuple(1 if rng.random() < 0.3 else n for n in shape)
        y = rng.standard_normal(other, dtype=np.float32)
        forms = ((x, y), (x, 2.5), (0.5, x))
        a, b = forms[min(2, int(rng.integers(6)))]
        return (a, b), {}, np.asarray(a, np.float64) + b
    if name == "matmul":
        y = laid(rng.standard_normal((shape[1], size(90)), dtype=np.float32))
        return (x, y), {}, wide @ y
    return (x,), {"axis": axis}, softmax(wide, axis) if name == "softmax" else wide.sum(axis)


for number in range(20 * len(names)):
    name = names[number % len(names)]
    args, options, wanted = call(name)
    got = xtarget.run(name, *args, **options, device="emu:gfx942")
    assert got.shape == wanted.shape
    scale = np.abs(wanted).max() if name == "matmul" else 1
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5 * max(1, scale))
assert not any(name.startswith("triton.") for name in sys.modules)
print("served")
"""


@pytest.mark.parametrize(
    "names", ["add", pytest.param("add,softmax,sum,matmul", marks=pytest.mark.long)]
)
def test_random_calls_are_served_by_the_bundle_alone(tmp_path: Path, names: str) -> None:
    path = tmp_path / "gfx942.xtb"
    order = Order(tuple(names.split(",")), ("float32",), (Target("amd", "gfx942"),))
    assert not build(order, path, workers=2, seconds=300).errors
    assert printed_with(path, tmp_path, CALLS, names, "7") == "served\n"
