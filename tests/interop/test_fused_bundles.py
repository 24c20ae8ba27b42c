"""Fused functions run from a bundle, where there is no Triton."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from processes import run_python

import xtarget
from xtarget import ArgumentError
from xtarget._cli.main import cli
from xtarget.spec import ArrayType, Example

pytest.importorskip("triton")

LAYERS = """
import numpy as np
import xtarget
from xtarget.spec import Example

run = xtarget.run

@xtarget.fuse(ahead=[Example(((48, 32), (32,), None))])
def scaled(x, b, scale):
    y = run("relu", x + b) * scale
    return run("flip", y * y, axis=0)

@xtarget.fuse
def silent(x):
    return x * 2 + 1

@xtarget.fuse(ahead=[Example(((64, 48), (32,), (48,)), dtypes=(None, "int64"))])
def tokens(table, index, row):
    return run("embedding", index, table) * 2 + row

@xtarget.fuse(ahead=[Example(((32, 48),))])
def turned(x):
    half = x.reshape(-1, 2, 24)[:, 1:] * 2
    return run("permute", half.squeeze(1)) - 1

@xtarget.fuse(ahead=[Example(((32, 48), (48, 32), (32,)))])
def dense(a, b, c):
    return run("relu", run("gemm", a, b, c, alpha=0.5, beta=2)) + c

@xtarget.fuse(ahead=[Example(((32, 48),))])
def sums(x):
    return np.mean(x * x) + x[None].sum(axis=-1)

@xtarget.fuse(ahead=[Example(((32, 48), (32, 48)))])
def running(x, r):
    return run("maximum", run("cumsum", x, axis=1) - r, 0)

@xtarget.fuse(ahead=[Example(((2, 3, 8, 8), (4, 3, 3, 3), (4, 1, 1)))])
def layer(x, w, scale):
    return run("relu", run("conv2d", x, w) * scale - 1)
"""

USE = """
import sys
sys.modules["triton"] = None
import numpy as np
from layers import scaled
x, b = (np.ones(s, np.float32) for s in ((48, 32), (32,)))
assert (scaled(x, b, 0.5) == 1).all()
assert (scaled(x[:47, :31].copy(), b[:31].copy(), 2.0) == 16).all()
"""


BEGIN = """
import sys
sys.modules["triton"] = None
import numpy as np
import layers
shapes = (64, 48), (48, 32), (48,), (32,)
x, w, b, c = (np.arange(np.prod(s), dtype=np.float32).reshape(s) % 7 for s in shapes)
y, z = x[:32], x[:31, :47].copy()
"""

#: By function, what it has to give.
MORE = {
    "tokens": """
for table, row, count in ((x, b, 32), (x[:63, :47].copy(), b[:47].copy(), 31)):
    at = np.arange(count) * 2 - 5
    np.testing.assert_array_equal(layers.tokens(table, at, row), table[at] * 2 + row)
""",
    "turned": """
np.testing.assert_array_equal(layers.turned(y), (y[:, 24:] * 2).T - 1)
""",
    "dense": """
for m in (32, 31):
    wanted = np.maximum(y[:m] @ w * 0.5 + c * 2, 0) + c
    np.testing.assert_array_equal(layers.dense(y[:m].copy(), w, c), wanted)
""",
    "sums": """
for own in (y, z):
    wanted = (own * own).mean() + own[None].sum(axis=-1)
    np.testing.assert_allclose(layers.sums(own), wanted, rtol=1e-6)
""",
    "running": """
for own in (y, z):
    wanted = np.maximum(own.cumsum(1) - own, 0)
    np.testing.assert_array_equal(layers.running(own, own), wanted)
""",
    "layer": """
shapes = (2, 3, 8, 8), (4, 3, 3, 3)
x, w = (np.arange(np.prod(s), dtype=np.float32).reshape(s) % 5 for s in shapes)
scale = np.arange(4, dtype=np.float32).reshape(4, 1, 1)
for own in (x, x[:, :, :7, :7].copy()):
    windows = np.lib.stride_tricks.sliding_window_view(own, (3, 3), (2, 3))
    wanted = np.maximum(np.einsum("nchwij,ocij->nohw", windows, w) * scale - 1, 0)
    np.testing.assert_allclose(layers.layer(own, w, scale), wanted, rtol=1e-6)
""",
}


def build(folder: Path, *more: str) -> Result:
    output = str(folder / "f.xtb")
    arguments = ["bundle", "build", "-o", output, "--target", "cpu", *more]
    return CliRunner().invoke(cli, arguments, obj={"debug": False})


def test_a_fused_function_runs_from_a_bundle(tmp_path: Path) -> None:
    if not any(one.name.startswith("cpu") for one in xtarget.devices()):
        pytest.skip("no CPU device: there is nothing to run the bundle on")
    layers = tmp_path / "layers.py"
    layers.write_text(LAYERS)
    result = build(tmp_path, "--fuse", f"{layers}:scaled")
    assert result.exit_code == 0, result.output
    script = tmp_path / "use.py"
    script.write_text(USE)
    common = {"XTARGET_DEVICE": "cpu", "XTARGET_ROUTES": "triton,strict"}
    common |= {"XTARGET_CACHE_DIR": str(tmp_path / "cache")}
    without = run_python(script, **common)
    assert "no compiler is installed" in without.stderr
    found = run_python(script, **common, XTARGET_BUNDLES=str(tmp_path / "f.xtb"))
    assert found.returncode == 0, found.stderr
    again = build(tmp_path, "--fuse", f"{layers}:scaled")
    assert "is up to date" in again.output


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long][name == "tokens" :]) for name in MORE]
)
def test_gathers_views_products_and_methods_run_from_a_bundle(
    tmp_path: Path, a_cpu: None, name: str
) -> None:
    layers = tmp_path / "layers.py"
    layers.write_text(LAYERS)
    result = build(tmp_path, "--fuse", f"{layers}:{name}")
    assert result.exit_code == 0, result.output
    script = tmp_path / "use.py"
    script.write_text(BEGIN + MORE[name])
    common = {"XTARGET_DEVICE": "cpu", "XTARGET_ROUTES": "triton,strict"}
    common |= {"XTARGET_CACHE_DIR": str(tmp_path / "cache")}
    found = run_python(script, **common, XTARGET_BUNDLES=str(tmp_path / "f.xtb"))
    assert found.returncode == 0, found.stderr


def test_a_function_of_fixed_lengths_is_built_for_these() -> None:
    @xtarget.fuse(ahead=[Example(((32, 48),))])
    def halves(x: np.ndarray) -> np.ndarray:
        return x.reshape(32, 2, 24) * 2

    (call,) = halves.ahead_calls("float32")
    assert [arg.shape for arg in call[1] if isinstance(arg, ArrayType)] == [(32, 48)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layers.py:silent", "silent does not say for which calls it is built ahead of time"),
        ("layers.py:run", "that is not a fused function"),
        ("layers.py", "that is not a fused function"),
        ("nowhere.py:f", "nowhere.py cannot be imported: FileNotFoundError"),
        ("no_such_module:f", "no_such_module cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_no_fused_function_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    monkeypatch.chdir(tmp_path)
    result = build(tmp_path, "--fuse", text)
    assert result.exit_code == 1
    assert said in str(result.exception)


def test_an_example_that_does_not_fit_is_said() -> None:
    @xtarget.fuse(ahead=[Example(((3, 4), (5, 6)))])
    def f(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x @ y * 2

    with pytest.raises(ArgumentError, match=r"do not fit"):
        f.ahead_calls("float32")
