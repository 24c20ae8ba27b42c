"""Floating operations give NumPy's results for any bit patterns: every exponent, subnormals,
infinities, NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
from harness import ARCHS

_FILE = Path(__file__).with_name("float_kernels.py")
_TYPES: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def _bits(dtype: Any) -> Any:
    return np.dtype(f"u{np.dtype(dtype).itemsize}").type


def patterns(dtype: Any, count: int, seed: int) -> Any:
    """Random bits, of which every fourth is a subnormal or next to the ends of the range."""
    rng = np.random.default_rng(seed)
    word = _bits(dtype)
    bits = rng.integers(0, np.iinfo(word).max, count, dtype=word, endpoint=True)
    field = np.asarray(np.inf, dtype).view(word)
    sign = word(1 << 8 * word(0).itemsize - 1)
    bits[::16] &= ~field  # subnormal
    bits[1::16] |= field & ~(field & -field).astype(word)  # the largest
    bits[2::32] &= sign  # zeros
    bits[18::32] = bits[18::32] & sign | field  # infinities
    bits[3::16] &= sign | word(7)  # the smallest
    return bits.view(dtype)


def distance(found: Any, right: Any) -> Any:
    """By how many representable values they are apart; huge where only one is NaN."""
    word = _bits(found.dtype)
    top = word(1 << 8 * word(0).itemsize - 1)
    places = []
    for x in (found, right):
        bits = x.view(word)
        size = (bits & ~top).astype(np.int64)
        places.append(np.where(bits & top, -size, size).astype(np.float64))
    apart = np.abs(places[0] - places[1])
    nans = np.isnan(found), np.isnan(right)
    return np.where(nans[0] & nans[1], 0, np.where(nans[0] | nans[1], np.inf, apart))


@pytest.mark.sample(3, each=("arch", "kind", "exactly"))
@pytest.mark.parametrize(
    ("kind", "exactly"), [("fp16", False), ("fp32", False), ("fp32", True), ("fp64", False)]
)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_quotient_is_rounded_once_whatever_the_exponents(
    arch: str, kind: str, exactly: bool
) -> None:
    code = harness.compiled(
        "divide",
        f"x:*{kind} y:*{kind} o:*{kind}",
        arch,
        constants=(("block", 1024), ("exactly", exactly)),
        path=_FILE,
    )
    x, y = patterns(_TYPES[kind], 4096, 1), np.roll(patterns(_TYPES[kind], 4096, 2), 1)
    found = harness.run(code, (4,), x, y, np.zeros_like(x))[2]
    with np.errstate(all="ignore"):
        right = x / y
    np.testing.assert_array_equal(distance(found, right), 0)
    zero = found == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(right[zero]))


_FUNCTIONS: tuple[tuple[Any, int], ...] = (
    (np.exp, 1), (np.exp2, 1), (np.log, 1), (np.log2, 1), (np.sqrt, 0),
    (lambda x: 1 / np.sqrt(x), 1), (np.floor, 0), (np.ceil, 0), (np.rint, 0), (np.trunc, 0),
)  # fmt: skip


@pytest.mark.sample(3, each=("arch", "kind"))
@pytest.mark.parametrize("kind", ["fp32", "fp64"])
@pytest.mark.parametrize("arch", ARCHS)
def test_functions_are_near_whatever_the_exponent(arch: str, kind: str) -> None:
    """Subnormal arguments and results too: libdevice's functions scale what the hardware's
    approximations flush to zero."""
    block = 1024
    code = harness.compiled(
        "functions", f"x:*{kind} o:*{kind} n:i32", arch, constants=(("block", block),), path=_FILE
    )
    x = patterns(_TYPES[kind], block, 3)
    reach = 1.1 * abs(np.log2(np.finfo(x.dtype).smallest_subnormal))
    x[4::2] = np.linspace(-reach, reach, x[4::2].size)
    count = len(_FUNCTIONS)
    found = harness.run(code, (1,), x, np.zeros((count, block), x.dtype), block)[1]
    for row, (function, most) in zip(found, _FUNCTIONS, strict=True):
        with np.errstate(all="ignore"):
            wide = np.longdouble if kind == "fp64" else np.float64
            right = function(x.astype(wide)).astype(x.dtype)
        # one more where the scaled result is rounded again to a subnormal
        small = np.abs(right) < np.finfo(x.dtype).smallest_normal
        assert (distance(row, right) <= most + (most > 0) * small).all(), function
