"""Products with matrices of few bits and with one matrix for each part of rows; blocks that share a
power of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import own, sample
from oracle import check, expected
from refusals import refused

import xtarget


def f(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return sample(dtype, *shape, seed=seed)


def words(*shape: int, seed: int = 0) -> Any:
    """Any bytes."""
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape).astype(np.uint8)


@examples(6)
@given(
    m=st.integers(1, 9),
    n=st.integers(1, 20),
    groups=st.integers(1, 3),
    each=st.integers(1, 40),
    zeros=st.sampled_from(("", "float32", "int8", "uint8")),
    dtype=st.sampled_from(("float32", "float16", "float64")),
)
def test_weights_of_few_bits(
    device: str, m: int, n: int, groups: int, each: int, zeros: str, dtype: str
) -> None:
    k = groups * each
    x, scales = f(m, k, dtype=dtype), np.abs(f(n, groups, seed=1)) + np.float32(0.1)
    more = [words(n, groups).astype(zeros)] if zeros else []
    for weight in (words(n, k), words(n, k).view(np.int8)[::-1]):
        check("linear_int8", x, weight, scales, *more, device=device)
    check("linear_int4", x, words(n, -(-k // 2)), scales, *more, device=device)
    check("linear_int4", x[0], words(n, -(-k // 2)), scales, *more, device=device)


def test_a_scale_that_is_infinite(device: str) -> None:
    """A weight of 0 is nan by it, whichever tile it is in; others are infinite."""
    x, weight = f(3, 64), words(4, 64)
    weight[:, :] = np.where(weight == 128, 129, weight)
    weight[0, 40] = 128
    scales = f(4, 2, seed=1)
    scales[0, 1], scales[1, 0], scales[2, 1] = np.inf, -np.inf, np.nan
    x[0] = np.abs(x[0])
    weight[1] = 200
    check("linear_int8", x, weight, scales, device=device)


@examples(5)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    before=st.integers(0, 3),
    k=st.integers(0, 20),
    n=st.integers(1, 20),
    dtype=st.sampled_from(("float32", "float16", "float64")),
)
def test_a_matrix_for_each_part(
    device: str, lengths: Any, before: int, k: int, n: int, dtype: str
) -> None:
    """Rows of no part give 0."""
    starts = np.cumsum([before, *lengths])
    x = f(int(starts[-1]) + 2, k, dtype=dtype)[::-1]
    weight = f(len(lengths), n, k, seed=1, dtype=dtype).swapaxes(1, 2)
    check("grouped_matmul", x, weight, starts, device=device)


@pytest.mark.large
def test_starts_that_are_none_reach_nothing_outside(device: str) -> None:
    x, weight = f(25, 17), f(4, 17, 9)
    for wild in ([9, -100, 3000, 2, 10**6], [30, 20, 10, 5, 1]):
        found = xtarget.run("grouped_matmul", x, weight, np.array(wild), device=device)
        assert np.abs(found).max() < 100


def finite(bits: Any, kind: str) -> Any:
    """Without nan and inf."""
    most = 0x7E if kind == "e4m3" else 0x5F  # of e5m2, whose squares overflow
    return np.where((bits & 127) > most, bits & 128, bits).astype(np.uint8)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [
        (("e4m3", "e4m3"), "float32"),
        pytest.param(("e5m2", "e4m3"), "bfloat16", marks=pytest.mark.large),
        pytest.param(("e5m2", "e5m2"), "float32", marks=pytest.mark.large),
    ],
)
def test_floating_numbers_of_8_bits(device: str, kinds: tuple[str, str], dtype: str) -> None:
    a, b = finite(words(9, 40), kinds[0]), finite(words(11, 40), kinds[1]).T
    options = {"format_a": kinds[0], "format_b": kinds[1], "dtype": dtype}
    for scales in ((f(9), f(11, seed=2)), (f(1), np.float32([0.5]))):
        check("fp8_matmul", a, b, *scales, device=device, **options)


def hard(dtype: str) -> Any:
    """Ties, subnormal numbers, what overflows, nan and inf."""
    x = np.concatenate([f(3, 64), f(3, 64) * 1e-38, f(3, 64) * 1e30, np.zeros((1, 64))])
    x[0, 5], x[4, 40] = np.nan, np.inf
    x[2, :10] = [0, -0.0, 448, 464, 480, 1e-9, -3, 2.5, 1.25, -0.75]
    with np.errstate(all="ignore"):
        return x.astype(np.float32).astype(dtype)


@pytest.mark.sample(3, each=("kind",))
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("mxfp4", "float32"),
        *(
            pytest.param(*case, marks=pytest.mark.large)
            for case in (("mxfp8_e4m3", "float32"), ("mxfp8_e5m2", "float32"), ("mxfp4", "float16"))
        ),
    ],
)
def test_blocks_that_share_a_power_of_two(device: str, kind: str, dtype: str) -> None:
    x = hard(dtype)
    bits, scale = xtarget.run("mx_quantize", x, format=kind, device=device)
    right = expected("mx_quantize", [x], {"format": kind})
    np.testing.assert_array_equal(scale, right[1])
    there = np.repeat(scale != 255, bits.shape[-1] // scale.shape[-1], -1)  # else nan, whatever
    np.testing.assert_array_equal(bits[there], right[0][there])
    for result in ("float32", "bfloat16"):
        options = {"format": kind, "dtype": result}
        check("mx_dequantize", bits, scale, device=device, **options)


@pytest.mark.large
@pytest.mark.parametrize("kind", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp4"])
def test_all_bits_and_all_scales(device: str, kind: str) -> None:
    bits = np.broadcast_to(np.arange(256, dtype=np.uint8), (256, 256))
    wide = 2 if kind == "mxfp4" else 1
    scale = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (256, 8 * wide))
    options = {"format": kind, "dtype": "float64"}
    check("mx_dequantize", bits, scale, device=device, **options)


def test_the_reference_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.concatenate([f(31, seed=s) for s in range(40)]).reshape(40, 31)
    x = np.concatenate([x, np.full((40, 1), 256.0)], 1)  # a scale of 1 for e4m3
    bits, scale = own()["mx_quantize"].reference(x)
    assert (scale == 127).all()
    np.testing.assert_array_equal(bits, x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


X, W, S = f(4, 64), words(8, 64), f(8)
WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("linear_int8", [X, W[:, :9], S], {}, r"shape \(columns, 64\)"),
    ("linear_int8", [X, W, f(8, 3)], {}, "groups that divides 64"),
    ("linear_int8", [X, W, W[:, 0]], {}, "scales are uint8, not floating"),
    ("linear_int4", [X, W, S], {}, r"shape \(columns, 32\), two numbers a byte"),
    ("linear_int4", [X, W[:, :32], S, S[:2]], {}, "numbers of the scales' shape"),
    ("grouped_matmul", [X, f(2, 64, 3), np.zeros(2, np.int32)], {}, "those of 1 parts"),
    ("grouped_matmul", [X, f(2, 63, 3), np.zeros(3, np.int32)], {}, "columns"),
    ("fp8_matmul", [W, W, S, S], {}, "do not fit"),
    ("fp8_matmul", [W, W.T, S[:3], S], {}, r"a_scale is float32 of shape \(3,\)"),
    ("fp8_matmul", [W, W.T, S, S], {"format_a": "e3m4"}, "format_a is 'e3m4'"),
    ("mx_quantize", [f(3, 33)], {}, "multiple of 32"),
    ("mx_quantize", [X], {"format": "nvfp4"}, "format is 'nvfp4'"),
    ("mx_dequantize", [W, W], {}, "one for each 32 numbers"),
]


test_what_does_not_fit_is_said = refused(WRONG)
