"""Floats of 8 bits in fused functions: casts within elementwise launches and before products, and
what moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._arrays.dtypes import numpy_dtype

pytest.importorskip("ml_dtypes")
run = xtarget.run
KIND = "float8_e4m3fn"
#: All codes but nan, which has no order.
CODES = np.arange(256, dtype=np.uint8)[np.arange(256) % 128 != 127].reshape(2, 127)
X = CODES.view(numpy_dtype(KIND))
SCALE = np.linspace(0.5, 2, 127).astype(np.float32)


def dequantized(x: Any, s: Any) -> Any:
    return run("cast", x, dtype="float32") * s


def quantized(x: Any, s: Any) -> Any:
    return run("cast", run("cast", x, dtype="float32") / s, dtype=KIND)


def chosen(x: Any, s: Any) -> Any:
    return run("where", s > 1, x, run("cast", s, dtype=KIND))


def of_a_view(x: Any, s: Any) -> Any:
    return run("cast", x.T, dtype="float32") + 1


def of_rows(x: Any, s: Any) -> Any:
    return run("softmax", run("cast", x, dtype="float32") * s)


def moved(x: Any, s: Any) -> Any:
    return run("concat", x, run("flip", x, axis=1), axis=0), run("reshape", x.T, shape=(-1,))


@pytest.mark.parametrize(
    ("function", "launches"),
    [(dequantized, 1), (quantized, 1), (chosen, 1), (of_a_view, 1), (of_rows, 2), (moved, 3)],
)
def test_it_gives_what_the_operators_give(function: Callable[..., Any], launches: int) -> None:
    fused = xtarget.fuse(function)
    found, wanted = fused(X, SCALE), function(X, SCALE)
    for one, other in zip(_each(found), _each(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.astype("f4"), other.astype("f4"), rtol=1e-6, atol=1e-20)
    assert f"Launches: {launches}," in fused.explain(X, SCALE)


def _each(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_it_compiles_where_triton_has_no_such_floats() -> None:
    made = xtarget.fuse(quantized).compile(X, SCALE, target="nvidia:sm_80")
    assert [one.target for one in made] == [xtarget.Target.parse("nvidia:sm_80")]


def weights(x: Any, w: Any, s: Any) -> Any:
    return run("gelu", run("linear", x, run("cast", w, dtype="float32") * s))


def first_factor(x: Any, w: Any, s: Any) -> Any:
    return run("matmul", run("cast", w, dtype="float32") * s, x.T)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("function", [weights, first_factor])
def test_they_give_a_factor_of_a_product(function: Callable[..., Any], kind: str) -> None:
    random = np.random.default_rng(8)
    x, w = random.normal(size=(5, 48)).astype("f4"), random.normal(size=(33, 48))
    args = x, w.astype(numpy_dtype(kind)), random.uniform(0.5, 2, (33, 1)).astype("f4")
    fused = xtarget.fuse(function)
    np.testing.assert_allclose(fused(*args), function(*args), rtol=1e-5, atol=1e-5)
    assert "Launches: 1, of which 1 are fused" in fused.explain(*args)


def test_weights_of_them_compile_into_the_product_on_nvidia() -> None:
    half, kind = numpy_dtype("bfloat16"), numpy_dtype(KIND)
    args = np.ones((16, 256), half), np.ones((256, 256), kind), np.ones((256, 1), half)

    @xtarget.fuse
    def linear(x: Any, w: Any, s: Any) -> Any:
        return run("linear", x, run("cast", w, dtype="bfloat16") * s)

    (made,) = linear.compile(*args, target="nvidia:sm_90")
    assert made.binary[:4] == b"\x7fELF"
