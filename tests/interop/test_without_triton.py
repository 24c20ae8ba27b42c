"""A bundle alone: no Triton, no LLVM and no C compiler, emulated by hiding them from a process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import xtarget
from xtarget import Target
from xtarget._bundle.builder.build import Order, build
from xtarget._kernels import libraries
from xtarget.spec import Example

EXAMPLES = {
    "relu": [Example(((n,),)) for n in (4096, 4095)],
    "softmax": [Example(((1024, 64),)), Example(((1023, 63),))],
    "matmul": [Example(((512, 64), (64, 512))), Example(((15, 63), (63, 17)))],
}

SCRIPT = """
import sys

for hidden in ("triton", "llvmlite", "setuptools", "distutils"):
    sys.modules[hidden] = None
import numpy as np
import xtarget

random, device = np.random.default_rng(0), sys.argv[1]


def numbers(*shape):
    return random.standard_normal(shape, dtype=np.float32)


x = numbers(999)
np.testing.assert_array_equal(xtarget.run("relu", x, device=device), np.maximum(x, 0))
np.testing.assert_array_equal(xtarget.run("relu", x[1:], device=device), np.maximum(x[1:], 0))
for n in (64, 50):
    y = numbers(1000, n)
    power = np.exp(y)
    right = power / power.sum(1, keepdims=True)
    np.testing.assert_allclose(xtarget.run("softmax", y, device=device), right, rtol=1e-4)
a, b = numbers(512, 64), numbers(64, 512)
np.testing.assert_allclose(xtarget.run("matmul", a, b, device=device), a @ b, rtol=1e-3, atol=1e-3)
try:
    xtarget.run("exp", x, device=device)
except xtarget.NoCompilerError as error:
    print(error)
"""


def test_a_bundle_runs_without_triton_llvm_or_a_c_compiler(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = xtarget.device(device).info.target
    xtarget.catalog()
    path = tmp_path / "kernels.xtb"
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(libraries, "_kernels", dict(libraries._kernels))
    for name, examples in EXAMPLES.items():
        kernel = libraries.find(name)
        spec = replace(kernel.spec, ahead=lambda full, examples=examples: examples)
        libraries._kernels[name] = kernel.of(spec)
    order = Order(tuple(EXAMPLES), ("float32",), (Target.parse(target),))
    assert not build(order, path, workers=2, seconds=100).errors
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, device],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PATH": "/nowhere",
            "XTARGET_BUNDLES": str(path),
            "XTARGET_ROUTES": "triton",  # OpenCL C would serve more than the bundle
            "XTARGET_CACHE_DIR": str(tmp_path / "empty"),
        },
    )
    assert done.returncode == 0, done.stderr
    assert f"{path} does not serve it ({target}: it has no exp)" in done.stdout
