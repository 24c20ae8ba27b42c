"""How near results are, over all of a function's range: in units of the last place of the result,
subnormal results and arguments too."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle import FLOATS

import xtarget
from xtarget._arrays.dtypes import numpy_dtype


def _places(found: Any, right: Any) -> Any:
    """The error in units of the last place that the dtype has at the right value."""
    info = np.finfo(found.dtype)
    exponent = np.maximum(np.frexp(np.abs(right))[1], info.minexp + 1) - info.nmant - 1
    with np.errstate(all="ignore"):
        apart = np.abs(found.astype(np.longdouble) - right) / np.ldexp(np.longdouble(1), exponent)
    over = np.isinf(found) & (np.abs(right) > info.max)
    return np.where(over & (np.sign(found) == np.sign(right)), 0, apart)


def _patterns(dtype: Any, count: int, seed: int) -> Any:
    """Random bits; of every other the exponent is 0."""
    rng = np.random.default_rng(seed)
    word = np.dtype(f"u{dtype.itemsize}")
    bits = rng.integers(0, np.iinfo(word).max, count, dtype=word, endpoint=True)
    bits[::2] &= ~np.array(np.inf, dtype).view(word)
    return bits.view(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_is_within_2_units_wherever_it_is_finite(device: str, dtype: str) -> None:
    low, high = {"float32": (-104.5, 88.8), "float64": (-746.0, 709.9)}[dtype]
    ends = np.array([88.7226, 88.72283, -87.33655, -103.97, 0.0, -0.0, 1e-40, -1e-40])
    x = np.concatenate([np.linspace(low, high, 20_000), ends]).astype(dtype)
    found = xtarget.run("exp", x, device=device)
    with np.errstate(all="ignore"):
        right = np.exp(x.astype(np.longdouble))
    assert _places(found, right).max() <= 2


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_every_size_and_sign(device: str, approximate: str) -> None:
    """A small result for x < 0 is a number, not -0.0, as far as float32 reaches."""
    around = np.linspace(-13.5, -12.5, 500)  # the result becomes subnormal there
    x = np.concatenate([np.linspace(-15, 15, 1501), around, np.geomspace(1e-44, 1, 50)])
    x = np.concatenate([x, -x[-50:]]).astype(np.float32)
    found = xtarget.run("gelu", x, approximate=approximate, device=device)
    right = np.array([_gelu(float(v), approximate) for v in x])
    assert _places(found, right).max() <= 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_of_what_is_no_size(device: str, dtype: str) -> None:
    large = float(np.finfo(dtype).max)
    x = np.array([np.inf, large, 64.0, 70.0, 0.0, -0.0, -64.0, -70.0, -large, -np.inf, np.nan])
    found = xtarget.run("gelu", x.astype(dtype), device=device)
    right = np.array([np.inf, large, 64.0, 70.0, *[0.0] * 5, np.nan, np.nan])
    np.testing.assert_array_equal(found, right.astype(dtype))
    np.testing.assert_array_equal(np.signbit(found[4:9]), [False, True, True, True, True])


def test_gelu_of_float64_in_its_tail(device: str) -> None:
    """The rounding of x / sqrt(2) alone would cost 10 bits there."""
    x = np.concatenate([np.linspace(-37.4, -3, 700), [-38.4, -1e30, -1e300]])
    found = xtarget.run("gelu", x, device=device)
    right = np.array([float(_gelu_tail(float(v))) for v in x])
    assert _places(found, right).max() <= 16
    assert not found[-2:].any()


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("length", [64, 100_000])
def test_rows_whose_variance_is_subnormal(device: str, name: str, length: int) -> None:
    """A square root that takes subnormals for 0 gives inf here."""
    x = np.full((3, length), 1e-20, np.float32)
    x[:, ::2] = -1e-20
    found = xtarget.run(name, x, eps=0.0, device=device)
    # the variance itself, about 1e-40, has 16 bits
    np.testing.assert_allclose(found, np.sign(x), rtol=2.0**-14)


def _gelu_tail(x: float) -> Decimal:
    """x Phi(x) for x <= -3, by the continued fraction of Mills' ratio."""
    with localcontext() as context:
        context.prec, context.Emin = 40, -(10**6)
        size = Decimal(-x)
        if size > 40:
            return Decimal(0)
        below = size
        for k in range(200, 0, -1):
            below = size + k / below
        pi = Decimal("3.14159265358979323846264338327950288419717")
        return -size * (-size * size / 2).exp() / (2 * pi).sqrt() / below


def _gelu(x: float, approximate: str) -> float:
    """In a form that does not cancel, so that float64's rounding does not matter here."""
    if approximate == "tanh":
        return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_subnormals_are_numbers_like_others(device: str, dtype: str) -> None:
    kind = numpy_dtype(dtype)
    x, y = _patterns(kind, 4000, 1), np.roll(_patterns(kind, 4000, 2), 1)
    wide = np.float64
    word = np.dtype(f"u{kind.itemsize}")
    for name, args in {
        "add": (x, y), "sub": (x, y), "mul": (x, y), "div": (x, y), "maximum": (x, y),
        "relu": (x,), "where": (~np.signbit(x), x, y),
    }.items():  # fmt: skip
        found = xtarget.run(name, *args, device=device)
        reference = xtarget.catalog()[name].reference
        assert reference is not None
        with np.errstate(all="ignore"):
            right = np.asarray(reference(*(a if a.dtype == bool else a.astype(wide) for a in args)))
            right = right.astype(kind)
        same = (found.view(word) == right.view(word)) | (np.isnan(found) & np.isnan(right))
        same |= (found == 0) & (right == 0) if name in ("maximum", "relu") else False
        assert same.all(), name


@pytest.mark.parametrize(
    ("dtype", "digits"), [("float16", 11), ("bfloat16", 8)], ids=["float16", "bfloat16"]
)
def test_a_python_number_is_rounded_to_half_precision_once(
    device: str, dtype: str, digits: int
) -> None:
    """As float32 it would lie in the middle between two halves."""
    kind = numpy_dtype(dtype)
    x = np.ones(5, kind)
    half = 2.0**-digits
    smallest = float(ml_dtypes.finfo(kind).smallest_subnormal)
    for number, right in (
        (1 + half + 2.0**-40, 1 + 2 * half),
        (1 + 3 * half - 2.0**-40, 1 + 2 * half),
        (-1 - half - 2.0**-40, -1 - 2 * half),
        (1 + half, 1.0),
        (smallest * (0.5 + 2.0**-30), smallest),
        (0.1, float(kind.type(0.1))),
        (1e39, np.inf),
    ):
        found = xtarget.run("mul", x, number, device=device)
        assert found.dtype == kind
        np.testing.assert_array_equal(found.astype(np.float64), right)
        whole = xtarget.run("maximum", np.full(5, -np.inf, kind), number, device=device)
        np.testing.assert_array_equal(whole.astype(np.float64), right)


# ------------------------------------------------------------------------- long sums


def _off(found: Any, right: Any) -> float:
    return float(np.max(np.abs(np.asarray(found, np.float64) - right) / np.abs(right)))


#: Of float32, whatever the length: 64 (or so) additions in turn round the same way at worst.
_MOST = 4e-6
_TENTH = np.float32(0.1)


def _count(device: str, most: int) -> int:
    return most if not device.startswith("emu") else most // 100


@pytest.mark.large
@pytest.mark.parametrize("shape", [(1, -1), (4, -1), (-1, 16), (-1, 100)])
def test_the_error_of_a_sum_does_not_grow_with_its_length(
    device: str, shape: tuple[int, int]
) -> None:
    """The same number again and again: every addition rounds the same way."""
    x = np.full(_count(device, 10_000_000) // 400 * 400, _TENTH).reshape(shape)
    axis = x.shape.index(max(x.shape))
    right = float(_TENTH) * x.shape[axis]
    assert _off(xtarget.run("sum", x, axis=axis, device=device), right) < _MOST
    whole = xtarget.run("sum", x[:, ::-1], device=device)
    assert _off(whole, float(_TENTH) * x.size) < _MOST


@pytest.mark.large
def test_a_long_sum_of_infinities(device: str) -> None:
    x = np.ones((4, _count(device, 2_000_000)), np.float32)
    x[0, 5], x[1, -5], x[2, 7], x[2, -7] = np.inf, -np.inf, np.inf, -np.inf
    found = xtarget.run("sum", x, axis=1, device=device)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, x.shape[1]])
    x[...] = 3e38
    assert xtarget.run("sum", x, device=device) == np.inf


@pytest.mark.sample(3)
@pytest.mark.large
@pytest.mark.parametrize(("m", "n"), [(3, 5), (1, 5), (3, 1), (1, 1), (33, 40)])
def test_the_error_of_a_product_does_not_grow_with_k(device: str, m: int, n: int) -> None:
    k = _count(device, 1_000_000 if m * n < 100 else 50_000)
    a, b = np.full((m, k), _TENTH), np.full((k, n), _TENTH)
    found = xtarget.run("matmul", a, b, device=device)
    most = 4e-5 if device.startswith(("emu", "nvidia", "amd")) else _MOST  # 1024 in turn
    assert _off(found, k * float(_TENTH) ** 2) < most


@pytest.mark.large
def test_the_errors_of_rows_do_not_grow_with_their_length(device: str) -> None:
    n = _count(device, 1_000_000)
    x = np.full((2, n), _TENTH)
    x[:, ::2] = 3
    wide = x.astype(np.float64)
    root = np.sqrt(np.square(wide).mean(1, keepdims=True) + 1e-6)
    assert _off(xtarget.run("rms_norm", x, device=device), wide / root) < _MOST
    apart = wide - wide.mean(1, keepdims=True)
    root = np.sqrt(np.square(apart).mean(1, keepdims=True) + 1e-5)
    assert _off(xtarget.run("layer_norm", x, device=device), apart / root) < _MOST
    for axis in (0, 1):
        rising = np.linspace(0, 20, n, dtype=np.float32).reshape((1, n) if axis else (n, 1))
        power = np.exp(rising.astype(np.float64))
        found = xtarget.run("softmax", rising, axis=axis, device=device)
        assert _off(found, power / power.sum()) < _MOST
