"""Constants that Python calls equal, and others that look alike, are other kernels; and a zero
keeps its sign. By `xtarget.run`, and by Triton's own launching on our back end."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import xtarget
from xtarget.spec import dtype_constant

pytest.importorskip("triton", reason="Triton is not installed here")

import triton
import triton.language as tl


class Level(enum.IntEnum):
    ONE = 1


class Pair(NamedTuple):
    first: float


@dataclass(frozen=True)
class Config:
    first: float


@triton.jit
def sign_of(x, out, K: tl.constexpr):
    """+inf for 0.0, -inf for -0.0."""
    tl.store(out, tl.load(x) + 1.0 / tl.full((), K, tl.float32))


@triton.jit
def sign_of_first(x, out, K: tl.constexpr):
    tl.store(out, tl.load(x) + 1.0 / tl.full((), K[0], tl.float32))


@triton.jit
def sign_of_field(x, out, K: tl.constexpr):
    tl.store(out, tl.load(x) + 1.0 / tl.full((), K.first, tl.float32))


@triton.jit
def sign_of_argument(x, out, K):
    tl.store(out, tl.load(x) + 1.0 / tl.full((), K[0], tl.float32))


@triton.jit
def wraps(x, out, K: tl.constexpr):
    """-2^31 where K is a whole number 1, and 2^31 where it is a float."""
    tl.store(out, (tl.load(x).to(tl.int32) + 2147483647 + K).to(tl.float32))


@triton.jit
def named(x, out, K: tl.constexpr):
    if K == "fp32":
        tl.store(out, tl.load(x) + 1.0)
    elif K == "1":
        tl.store(out, tl.load(x) + 2.0)
    else:
        tl.store(out, tl.load(x) + 3.0)


@triton.jit
def scaled(x, out, K: tl.constexpr):
    tl.store(out, tl.load(x) + K)


TOP = float(2**31)
ALIKE: dict[str, tuple[Any, list[tuple[Any, float]]]] = {
    "zeros": (sign_of, [(0.0, math.inf), (-0.0, -math.inf), (0, math.inf), (-0.0, -math.inf)]),
    "zeros in tuples": (
        sign_of_first,
        [((0.0, 1), math.inf), ((-0.0, 1), -math.inf), ((0.0, 1), math.inf)],
    ),
    "kinds of one": (wraps, [(1, -TOP), (1.0, TOP), (True, -TOP), (1.0, TOP)]),
    "texts": (named, [("fp32", 1.0), ("1", 2.0), (1, 3.0), ("", 3.0)]),
    "not a number": (scaled, [(math.nan, math.nan), (1.0, 1.0), (float("nan"), math.nan)]),
    "large": (scaled, [(2**62, 2.0**62), (2.0**62, 2.0**62), (2**30, 2.0**30)]),
}
#: What `@xtarget.kernel` and Triton's own launching write differently, or only one takes.
OURS = {"dtypes": (named, [("fp32", 1.0), (dtype_constant("float32"), 3.0), ("fp32", 1.0)])}
TRITONS: dict[str, tuple[Any, list[tuple[Any, float]]]] = {
    "dtypes": (named, [("fp32", 1.0), (tl.float32, 3.0), ("fp32", 1.0)]),
    "enums": (wraps, [(1.0, TOP), (Level.ONE, -TOP), (1.0, TOP)]),
    "scalars of NumPy": (wraps, [(1, -TOP), (np.float32(1), TOP), (np.int32(1), -TOP)]),
    "named tuples": (sign_of_field, [(Pair(0.0), math.inf), (Pair(-0.0), -math.inf)]),
    "dataclasses": (sign_of_field, [(Config(0.0), math.inf), (Config(-0.0), -math.inf)]),
    "constants in arguments": (
        sign_of_argument,
        [((tl.constexpr(0.0), 3), math.inf), ((tl.constexpr(-0.0), 3), -math.inf)],
    ),
}


@pytest.mark.parametrize("what", [*ALIKE, *OURS])
def test_constants_that_look_alike(device: str, what: str) -> None:
    function, cases = {**ALIKE, **OURS}[what]
    x = np.zeros(1, np.float32)
    for constant, expected in cases:
        xtarget.kernel(
            inputs=("x",),
            outputs={"out": "x"},
            constants={"K": constant},
            grid=lambda c: 1,
            name="test.alike",
        )(function)
        (result,) = xtarget.run("test.alike", x, device=device)
        np.testing.assert_array_equal(result, np.float32(expected), str(constant))


@pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")
@pytest.mark.parametrize("what", [*ALIKE, *TRITONS])
def test_constants_that_look_alike_to_tritons_launching(what: str) -> None:
    function, cases = {**ALIKE, **TRITONS}[what]
    x, out = np.zeros(1, np.float32), np.zeros(1, np.float32)
    for constant, expected in cases:
        function[(1,)](x, out, constant)
        np.testing.assert_array_equal(out[0], np.float32(expected), str(constant))


@pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")
def test_a_constant_that_is_no_number_is_looked_up_once() -> None:
    x, out = np.zeros(1, np.float32), np.zeros(1, np.float32)
    for _ in range(3):
        scaled[(1,)](x, out, float("nan"))
    (_, keys, *_), *_ = scaled.device_caches.values()
    assert sum(1 for key in keys if "nan" in repr(key)) == 1


MINUS_ZERO = tl.constexpr(-0.0)


@triton.jit
def zeros(x, out):
    i = tl.arange(0, 16)
    v = tl.load(x + i)
    v = tl.where(i == 0, -v, v)
    v = tl.where(i == 1, -0.0, v)
    v = tl.where(i == 2, v * -0.0, v)
    v = tl.where(i == 3, MINUS_ZERO, v)
    v = tl.where(i == 4, tl.full((16,), -0.0, tl.float16).to(tl.float32), v)
    v = tl.where(i == 5, (-(v.to(tl.float16))).to(tl.float32), v)
    negative = -v
    v = tl.where(i == 6, -negative, v)
    v = tl.where(i == 7, (-(v.to(tl.bfloat16))).to(tl.float32), v)
    tl.store(out + i, v)


def test_a_zero_keeps_its_sign(device: str) -> None:
    """Triton 3.6 to 3.8 lose that of constants, and 3.6 and 3.7 that of `-x`."""
    xtarget.kernel(
        inputs=("x",), outputs={"out": "x"}, grid=lambda c: 1, name="test.zeros", num_warps=1
    )(zeros)
    result = xtarget.run("test.zeros", np.zeros(16, np.float32), device=device)
    expected = [True] * 6 + [False, True] + [False] * 8
    np.testing.assert_array_equal(np.signbit(result), expected)
    np.testing.assert_array_equal(result, np.zeros(16))


@pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")
def test_a_zero_keeps_its_sign_in_tritons_launching() -> None:
    out = np.zeros(16, np.float32)
    zeros[(1,)](np.zeros(16, np.float32), out)
    np.testing.assert_array_equal(np.signbit(out), [True] * 6 + [False, True] + [False] * 8)


@triton.jit
def differences(x, out, COUNT: tl.constexpr):
    i = tl.arange(0, 16)
    now = tl.load(x + i)
    last = now
    least, before_last = last, (now, last)
    for step in range(COUNT):
        least = before_last[1]
        before_last = (last, last)
        last = now
        now += step + 1
    number, same = now, now
    step = 0
    while step < COUNT:
        same = number
        number += 1
        step += 1
    tl.store(out + i, (now - last) + 10 * (last - least) + 100 * (number - same))


@pytest.mark.parametrize(("count", "right"), [(0, 0), (1, 101), (4, 154)])
def test_names_of_one_value_before_a_loop_are_two_in_it(
    device: str, count: int, right: int
) -> None:
    """Triton 3.6 to 3.9 give the first value to one that takes another's in each step."""
    xtarget.kernel(
        inputs=("x",), outputs={"out": "x"}, grid=1, constants={"COUNT": count},
        name=f"test.differences{count}", num_warps=1,
    )(differences)  # fmt: skip
    x = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run(f"test.differences{count}", x, device=device), right)
