"""The rest of Triton's language gives NumPy's results on every emulated arch."""

from __future__ import annotations

import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import SHORT_ARCHS, by_arch, run

_FILE = Path(__file__).with_name("language_kernels.py")
_WHOLE = {np.int32: "i32", np.int64: "i64", np.int8: "i8", np.int16: "i16", np.uint32: "u32"}


def _compiled(name: str, signature: str, arch: str, num_warps: int = 4, **how: Any) -> Any:
    stages = how.pop("num_stages", 2)
    return harness.compiled(
        name, signature, arch, num_warps, tuple(how.items()), num_stages=stages, path=_FILE
    )


def _rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def _floats(*shape: int, seed: int = 5) -> Any:
    return _rng(seed).standard_normal(shape).astype(np.float32)


def _near(found: Any, right: Any, relative: float = 1e-5, absolute: float = 1e-5) -> None:
    np.testing.assert_allclose(
        np.asarray(found, np.float64), np.asarray(right, np.float64), relative, absolute
    )


def reductions(arch: str, num_warps: int = 4) -> None:
    m, n = 16, 64
    x = _floats(m, n)
    code = _compiled("reductions", "x:*fp32 o:*fp32", arch, num_warps, m=m, n=n)
    out = run(code, (1,), x, np.zeros((8, m), np.float32))[1]
    whole = (x * 8).astype(np.int32)
    longest = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)[:, 0]
    right = (
        x.min(1), x.max(1), x.argmin(1), np.bitwise_xor.reduce(whole, 1), longest,
        np.bitwise_or.reduce(whole, 1), x.max(1) + x.argmax(1), (x > 0).sum(1),
    )  # fmt: skip
    for found, expected in zip(out, right, strict=True):
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def reductions_by_one_and_by_sixteen_warps(arch: str) -> None:
    reductions(arch, 1)
    reductions(arch, 16)


def reduced_columns(arch: str) -> None:
    m, n = 64, 16
    x = _floats(m, n)
    code = _compiled("reduced_columns", "x:*fp32 o:*fp32", arch, m=m, n=n)
    out = run(code, (1,), x, np.zeros(3 * n + 1, np.float32))[1]
    _near(out[:n], x.sum(0, dtype=np.float64))
    np.testing.assert_array_equal(out[n : 2 * n], x.max(0))
    np.testing.assert_array_equal(out[2 * n : 3 * n], x.argmax(0))
    _near(out[-1], x.sum(dtype=np.float64), 1e-4, 1e-4)


def scans(arch: str) -> None:
    m, n = 8, 64
    x = _floats(m, n)
    code = _compiled("scans", "x:*fp32 o:*fp32", arch, m=m, n=n)
    out = run(code, (1,), x, np.zeros((4, m, n), np.float32))[1]
    wide = x.astype(np.float64)
    _near(out[0], wide.cumsum(1), 1e-4, 1e-4)
    _near(out[1], wide[:, ::-1].cumsum(1)[:, ::-1], 1e-4, 1e-4)
    _near(out[2], (1 + wide * 0.01).cumprod(0))
    a, b = np.ones(m), np.zeros(m)
    for column in range(n):
        a, b = a * (1 - wide[:, column] * 0.1), b * (1 - wide[:, column] * 0.1) + wide[:, column]
        _near(out[3, :, column], a + b, 1e-4, 1e-4)


def batched_product(arch: str) -> None:
    s, m, n, k = 2, 32, 16, 32
    signature = "a:*{0} b:*{0} o:*fp32"
    for text, dtype, off in (("fp16", np.float16, 1e-5), ("fp32", np.float32, 1e-4)):
        a, b = (
            _rng(i).standard_normal((s, *t)).astype(dtype) for i, t in ((1, (m, k)), (2, (k, n)))
        )
        code = _compiled("batched_product", signature.format(text), arch, s=s, m=m, n=n, k=k)
        out = run(code, (1,), a, b, np.zeros((s, m, n), np.float32))[2]
        _near(out, a.astype(np.float64) @ b.astype(np.float64), off, off)


def long_integers(arch: str) -> None:
    n = 200
    rng = _rng()
    x = rng.integers(-(2**62), 2**62, n)
    y = rng.integers(1, 2**40, n) * rng.choice([-1, 1], n)
    y[:50] >>= 30
    y[y == 0] = 3
    x[50:60] = rng.integers(-100, 100, 10)
    code = _compiled("long_integers", "x:*i64 y:*i64 o:*i64 n:i32", arch, block=256)
    out = run(code, (1,), x, y, np.zeros((10, n), np.int64), n)[2]
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    quotient = [abs(a) // abs(b) * (1 if (a > 0) == (b > 0) else -1) for a, b in pairs]  # as C
    with np.errstate(over="ignore"):
        right = [
            x * y, quotient, x - np.array(quotient) * y, (x >> (y & 63)) ^ (x << (y & 31)),
            np.maximum(x, y) - np.minimum(x, y), x.astype(np.float64).astype(np.int64),
            [(a % 2**64 * (b % 2**64)) >> 64 for a, b in pairs],
            x.astype(np.float32).astype(np.int64), np.cumsum(x),
            (x.sum() + 56) + (x < y),
        ]  # fmt: skip
    right[6] = np.array(right[6], np.uint64).view(np.int64)
    for found, expected in zip(out, right, strict=True):
        np.testing.assert_array_equal(found, expected)


def unsigned_integers(arch: str) -> None:
    n = 256
    x = _rng(1).integers(0, 2**32, n).astype(np.uint32)
    y = _rng(2).integers(1, 2**20, n).astype(np.uint32)
    y[::3] = _rng(3).integers(2**31, 2**32, len(y[::3]))
    code = _compiled("unsigned_integers", "x:*u32 y:*u32 o:*u32", arch, block=n)
    out = run(code, (1,), x, y, np.zeros((7, n), np.uint32))[2]
    right = (
        x // y, x % y, (x.astype(np.uint64) * y) >> np.uint64(32), x >> (y & 31), np.maximum(x, y),
        x.astype(np.float32).view(np.uint32), np.where(x > y, x - y, ~x),
    )  # fmt: skip
    for found, expected in zip(out, right, strict=True):
        np.testing.assert_array_equal(found, expected)


def small_integers(arch: str) -> None:
    n = 256
    for dtype, text in ((np.int8, "i8"), (np.int16, "i16")):
        x = _rng().integers(-100, 100, n).astype(dtype)
        code = _compiled("small_integers", f"x:*{text} o:*{text}", arch, block=n)
        out = run(code, (1,), x, np.zeros((6, n), dtype))[1]
        right = (
            x + x, x * x, x >> 2, np.maximum(x, -x), (x.astype(np.float16) * 0.5).astype(dtype),
            np.where(x > 3, x // 3, np.fmod(x, 3) + 7),
        )  # fmt: skip
        for found, expected in zip(out, right, strict=True):
            np.testing.assert_array_equal(found, expected)


def functions(arch: str) -> None:
    n = 500
    for text, dtype, off in (("fp32", np.float32, 3e-6), ("fp64", np.float64, 1e-13)):
        x = (_rng().standard_normal(n) * 3).astype(dtype)
        x[:4] = 0, 40, -300, 1e5
        code = _compiled("functions", f"x:*{text} o:*{text} n:i32", arch, block=256)
        out = run(code, (2,), x, np.zeros((13, n), dtype), n)[1]
        w = x.astype(np.float64)
        with np.errstate(over="ignore"):
            right = [
                np.sin(w), np.cos(w), np.exp(w), np.log(abs(w) + 0.5), np.sqrt(abs(w)),
                1 / np.sqrt(abs(w) + 0.5), np.floor(w) + np.ceil(w), w * w + w,
                [math.erf(v) for v in w], w / (1 + abs(w)), np.clip(w, -1, 1), np.exp2(w),
                np.log2(abs(w) + 0.5),
            ]  # fmt: skip
            right = [np.asarray(r).astype(dtype) for r in right]
        for number, (found, expected) in enumerate(zip(out, right, strict=True)):
            try:
                _near(found, expected, off * 4, off)
            except AssertionError as error:
                raise AssertionError(f"function {number} of {text}: {error}") from error


def libdevice_functions(arch: str) -> None:
    n = 256
    names = ("tanh", "pow", "atan2", "log1p", "expm1", "tan", "asin", "atan", "trunc+nearbyint",
             "fmod", "erfc", "lgamma", "hypot", "sinh")  # fmt: skip
    for text, dtype, off in (("fp32", np.float32, 2e-6), ("fp64", np.float64, 1e-13)):
        x = np.clip(_rng().standard_normal(n) * 2, -6, 6).astype(dtype)
        code = _compiled("libdevice_functions", f"x:*{text} o:*{text}", arch, block=n)
        out = run(code, (1,), x, np.zeros((14, n), dtype))[1]
        w = x.astype(np.float64)
        right = [
            np.tanh(w), (abs(w) + 0.5) ** w, np.arctan2(w, (x + dtype(3)).astype(np.float64)),
            np.log1p(abs(w)), np.expm1(w), np.tan(w), np.arcsin(w / 8), np.arctan(w),
            np.trunc(w) + np.rint(w), np.fmod(w, 0.75),
            [math.erfc(v) for v in w], [math.lgamma(abs(v) + 0.5) for v in w], np.hypot(w, 2 + w),
            np.sinh(w),
        ]  # fmt: skip
        for name, found, expected in zip(names, out, right, strict=True):
            try:
                _near(found, expected, off * 8, off * 4)
            except AssertionError as error:
                raise AssertionError(f"{name} of {text}: {error}") from error


def shuffles(arch: str) -> None:
    n = 256
    for text, dtype in (
        ("fp32", np.float32),
        ("fp16", np.float16),
        ("i64", np.int64),
        ("i8", np.int8),
    ):
        x = _rng().integers(-3, 3, 2 * n).astype(dtype)
        a, b = x[:n], x[n:]
        code = _compiled("shuffles", f"x:*{text} o:*{text}", arch, block=n)
        out = run(code, (1,), x, np.zeros(8 * n + 1, dtype))[1]
        both = np.stack([a, b], 1)
        _near(out[:n], a - b)
        np.testing.assert_array_equal(out[n : 3 * n], both.reshape(-1))
        np.testing.assert_array_equal(out[3 * n : 4 * n], a[::-1])
        np.testing.assert_array_equal(out[4 * n :][:8], both.reshape(-1, 8).sum(0).astype(dtype))
        np.testing.assert_array_equal(out[5 * n : 6 * n], a.reshape(16, -1).T.reshape(-1))
        turned = a.reshape(4, 8, -1).transpose(2, 0, 1).reshape(-1)
        np.testing.assert_array_equal(out[6 * n : 7 * n], turned)
        spread = np.repeat(a.reshape(16, -1).sum(1), n // 16).astype(dtype)
        np.testing.assert_array_equal(out[7 * n : 8 * n], spread)
        assert out[8 * n] == x.sum().astype(dtype)


def gathers(arch: str) -> None:
    m, n = 16, 32
    x, index = _floats(m, n), _rng().integers(0, 1000, (m, n)).astype(np.int32)
    code = _compiled("gathers", "x:*fp32 index:*i32 o:*fp32", arch, m=m, n=n)
    out = run(code, (1,), x, index, np.zeros((2, m, n), np.float32))[2]
    np.testing.assert_array_equal(out[0], np.take_along_axis(x, index % n, 1))
    np.testing.assert_array_equal(out[1], np.take_along_axis(x, index % m, 0))


def orders(arch: str) -> None:
    m, n, k = 4, 64, 8
    for text, dtype in (("fp32", np.float32), ("i32", np.int32), ("fp16", np.float16)):
        x = (_rng().standard_normal((m, n)) * 50).astype(dtype)
        code = _compiled("orders", f"x:*{text} o:*{text}", arch, m=m, n=n, k=k)
        out = run(code, (1,), x, np.zeros(2 * m * n + m * k, dtype))[1]
        rising = np.sort(x, 1)
        np.testing.assert_array_equal(out[: m * n].reshape(m, n), rising)
        np.testing.assert_array_equal(out[m * n : 2 * m * n].reshape(m, n), rising[:, ::-1])
        np.testing.assert_array_equal(out[2 * m * n :].reshape(m, k), rising[:, ::-1][:, :k])


def _collatz(value: int) -> int:
    steps = 0
    while value > 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return steps


def loops(arch: str) -> None:
    n, many = 128, 37
    x = np.concatenate([_rng().integers(0, 60, n), [27] * (many - 1)]).astype(np.int32)
    x = np.resize(x, n + many)
    x[many] = 27
    code = _compiled("loops", "x:*i32 o:*i32 n:i32", arch, block=n)
    out = run(code, (1,), x, np.zeros(n + 2, np.int32), many)[1]
    np.testing.assert_array_equal(out[:n], [_collatz(int(v)) for v in x[:n]])
    assert out[n] == _collatz(27)
    assert out[n + 1] == 3 + sum(a * b for a in range(many) for b in range(a, many, 2))


def atomics_of_all_kinds(arch: str) -> None:
    n = 1000
    for text, dtype in (("i32", np.int32), ("i64", np.int64)):
        x = _rng().integers(-(2**20), 2**20, n).astype(dtype)
        begin = np.concatenate([np.zeros(48, dtype), np.full(16, -1, dtype), np.zeros(33, dtype)])
        code = _compiled("atomics_of_all_kinds", f"x:*{text} o:*{text} n:i32", arch, block=256)
        out = run(code, (4,), x, begin, n)[1]
        right = begin.copy()
        i = np.arange(n)
        place, x = (i % 16)[i % 3 != 0], x[i % 3 != 0]
        np.add.at(right, place, x)
        np.maximum.at(right, 16 + place, abs(x))
        np.minimum.at(right, 32 + place, -abs(x))
        np.bitwise_and.at(right, 48 + place, x)
        np.bitwise_or.at(right, 64 + place, x)
        np.bitwise_xor.at(right, 80 + place, x)
        right[96] = x.sum()
        names = ("add", "max", "min", "and", "or", "xor", "sum")
        for number, name in enumerate(names):
            each = slice(16 * number, 16 * number + 16)
            assert out[each].tolist() == right[each].tolist(), f"atomic {name} of {text}"


def atomic_answers(arch: str) -> None:
    if version("triton").startswith("3.6.") and arch in ("gfx942", "gfx950"):
        pytest.skip("Triton 3.6 calls llvm.amdgcn.raw.ptr.buffer.atomic.exch, which no LLVM has")
    n = 128
    x = _rng().integers(10, 50, n).astype(np.int32)
    begin = np.concatenate([np.arange(n), np.where(np.arange(n) % 4 == 0, 5, 6), [100]])
    code = _compiled("atomic_answers", "x:*i32 o:*i32 old:*i32", arch, block=n)
    _, out, old = run(code, (1,), x, begin.astype(np.int32), np.full(3 * n, -1, np.int32))
    even = np.arange(n) % 2 == 0
    np.testing.assert_array_equal(old[:n], np.where(even, np.arange(n), -1))
    np.testing.assert_array_equal(out[:n], np.where(even, x, np.arange(n)))
    np.testing.assert_array_equal(old[n : 2 * n], begin[n : 2 * n])
    np.testing.assert_array_equal(out[n : 2 * n], np.where(begin[n : 2 * n] == 5, x, 6))
    np.testing.assert_array_equal(np.sort(old[2 * n :]), np.arange(100, 100 + n))
    assert out[2 * n] == 100 + n


def exchanges(arch: str) -> None:
    n = 512
    for text, dtype in (("fp32", np.float32), ("i64", np.int64)):
        x = _rng().integers(-9, 9, n).astype(dtype)
        begin = np.arange(2 * n).astype(dtype)
        begin[::4] = x[::-2]  # every second cell has what its lane expects
        code = _compiled("exchanges", f"x:*{text} o:*{text} old:*{text}", arch, block=n)
        _, out, old = run(code, (1,), x, begin, np.zeros(n, dtype))
        right = begin.copy()
        right[::4] += 1
        np.testing.assert_array_equal(old, begin[::2][::-1])
        np.testing.assert_array_equal(out, right)


def atomics_of_floats(arch: str) -> None:
    n = 512
    for text, dtype in (("fp32", np.float32), ("fp64", np.float64)):
        x = (_rng().integers(-99, 99, n) / 4).astype(dtype)
        begin = np.zeros(24, dtype)
        code = _compiled("atomics_of_floats", f"x:*{text} o:*{text}", arch, block=256)
        out = run(code, (2,), x, begin)[1]
        i, right = np.arange(n), begin.copy()
        np.add.at(right, (i % 8)[i % 5 != 0], x[i % 5 != 0])
        np.maximum.at(right, 8 + i % 8, x)
        np.minimum.at(right, 16 + i % 8, x)
        np.testing.assert_array_equal(out, right)


def random_numbers(arch: str) -> None:
    n = 256
    code = _compiled("random_numbers", "seed:i32 o:*fp32", arch, block=n)
    out = run(code, (1,), 77, np.zeros((4, n), np.float32))[0]
    assert 0 <= out[0].min() < 0.05
    assert 0.95 < out[0].max() < 1
    assert abs(out[0].mean() - 0.5) < 0.06
    assert abs(out[1].mean()) < 0.2
    assert abs(out[1].std() - 1) < 0.2
    _SAME.setdefault("random", out)
    np.testing.assert_array_equal(out[[0, 2, 3]], _SAME["random"][[0, 2, 3]])
    _near(out[1], _SAME["random"][1])


#: What the first arch gave, where all have to give the same.
_SAME: dict[str, Any] = {}


def attention_backward(arch: str) -> None:
    m, n, d = 32, 64, 32
    scale = np.float32(0.2)
    for text, dtype, off in (("fp32", np.float32, 2e-5), ("fp16", np.float16, 2e-2)):
        q, do, k, v = (
            _rng(i).standard_normal((r, d)).astype(dtype) for i, r in enumerate((m, m, n, n))
        )
        arrays = " ".join(f"{a}:*{text}" for a in ("q", "k", "v", "do"))
        code = _compiled(
            "attention_backward",
            f"{arrays} dq:*fp32 dk:*fp32 dv:*fp32 scale:fp32",
            arch,
            m=m,
            n=n,
            d=d,
        )
        empty = [np.zeros((r, d), np.float32) for r in (m, n, n)]
        found = run(code, (1,), q, k, v, do, *empty, scale)[4:]
        q, k, v, do = (a.astype(np.float64) for a in (q, k, v, do))
        power = np.exp(q @ k.T * scale)
        share = power / power.sum(1, keepdims=True)
        delta = (share @ v * do).sum(1, keepdims=True)
        of_score = share * (do @ v.T - delta) * scale
        for one, right in zip(found, (of_score @ k, of_score.T @ q, share.T @ do), strict=True):
            _near(one, right, off, off)


def _product(arch: str, text: str, dtype: Any, off: float, warps: int, stages: int,
             precision: str = "ieee") -> None:  # fmt: skip
    m, n, k, bm, bn, bk = 70, 50, 90, 32, 32, 32
    a, b = (_rng(i).standard_normal(s).astype(dtype) for i, s in enumerate(((m, k), (k, n))))
    code = _compiled(
        "staged_product", f"a:*{text} b:*{text} o:*fp32 m:i32 n:i32 k:i32", arch, warps,
        num_stages=stages, bm=bm, bn=bn, bk=bk, precision=precision,
    )  # fmt: skip
    out = run(code, (6,), a, b, np.zeros((m, n), np.float32), m, n, k)[2]
    _near(out, a.astype(np.float64) @ b.astype(np.float64), off, off)


def staged_products(arch: str) -> None:
    for warps, stages in ((1, 1), (2, 3), (4, 3), (8, 4)):
        _product(arch, "fp16", np.float16, 1e-5, warps, stages)
    _product(arch, "bf16", ml_dtypes.bfloat16, 1e-5, 4, 3)
    _product(arch, "fp32", np.float32, 1e-4, 4, 3)


def precise_products(arch: str) -> None:
    """Of fp32, by several products of bf16."""
    _product(arch, "fp32", np.float32, 1e-3, 4, 2, "bf16x3")
    _product(arch, "fp32", np.float32, 1e-4, 4, 2, "bf16x6")


def row_softmax(arch: str) -> None:
    n = 1500
    for warps in (1, 2, 8, 16):
        x = _floats(3, n)
        code = _compiled("row_softmax", "x:*fp32 o:*fp32 n:i32", arch, warps, block=2048)
        out = run(code, (3,), x, x * 0, n)[1]
        power = np.exp(x.astype(np.float64))
        _near(out, power / power.sum(1, keepdims=True), 1e-5, 1e-7)


def welford(arch: str) -> None:
    x = _floats(4096) * 3 + 1
    code = _compiled("welford", "x:*fp32 o:*fp32 n:i32", arch, block=256)
    out = run(code, (1,), x, np.zeros(2, np.float32), 4096)[1]
    _near(out, [x.mean(dtype=np.float64), x.var(dtype=np.float64)], 1e-4, 1e-4)


def descriptors(arch: str) -> None:
    m, n = 40, 64
    x = _floats(m, n)
    code = _compiled("descriptors", "x:*fp32 o:*fp32 m:i32 n:i32", arch, bm=16, bn=32)
    out = run(code, (3,), x, np.zeros((m, n), np.float32), m, n)[1]
    np.testing.assert_array_equal(out, x * 2)


def conversions(arch: str) -> None:
    import triton.language as tl

    n = 256
    x = (_rng().standard_normal(n) * 4).astype(np.float32)
    x[:6] = 0, -0.0, 300, -1e-4, 1e-6, 12.5
    for text, kind, dtype in (
        ("fp16", tl.float16, np.float16), ("bf16", tl.bfloat16, ml_dtypes.bfloat16),
        ("fp64", tl.float64, np.float64), ("fp8e5", tl.float8e5, ml_dtypes.float8_e5m2),
        ("fp8e4nv", tl.float8e4nv, ml_dtypes.float8_e4m3fn), ("i32", tl.int32, np.int32),
        ("i16", tl.int16, np.int16), ("i64", tl.int64, np.int64),
    ):  # fmt: skip
        size = np.dtype(dtype).itemsize
        code = _compiled("conversions", f"x:*fp32 o:*fp32 small:*{text}", arch, block=n, kind=kind)
        data = np.zeros(n * size, np.uint8)
        _, out, small = run(code, (1,), x, x * 0, data)
        right = x.astype(dtype)
        wide = np.array(small.view(dtype), np.float64)
        inside = abs(x) < 250  # beyond that the formats of 8 bits differ in what they saturate to
        np.testing.assert_array_equal(wide[inside], right.astype(np.float64)[inside], str(text))
        np.testing.assert_array_equal(out[inside], right.astype(np.float32)[inside], str(text))


CASES = (
    reductions, reductions_by_one_and_by_sixteen_warps, reduced_columns, scans, batched_product,
    long_integers, unsigned_integers, small_integers, functions, libdevice_functions, shuffles,
    gathers, orders, loops, atomics_of_all_kinds, atomic_answers, exchanges,
    atomics_of_floats, random_numbers, attention_backward, staged_products, precise_products,
    row_softmax, welford, descriptors, conversions,
)  # fmt: skip


#: What takes seconds for each arch.
_LARGE = {staged_products, precise_products, attention_backward, orders, row_softmax,
          reductions_by_one_and_by_sixteen_warps, shuffles}  # fmt: skip


def _is_short(case: Any, arch: str) -> bool:
    return arch in SHORT_ARCHS and case not in _LARGE


@pytest.mark.sample(3, each=("case", "arch"))
@pytest.mark.parametrize(("case", "arch"), by_arch(CASES, _is_short))
def test_a_kernel_gives_numpys_result(case: Any, arch: str) -> None:
    case(arch)


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_gfx942_rounds_the_operands_of_a_tf32_product(precision: str) -> None:
    """xf32: 10 bits of mantissa, where the kernel asks for it and nowhere else."""
    m, n, k = 70, 50, 90
    a, b = (_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate(((m, k), (k, n))))
    code = _compiled(
        "staged_product", "a:*fp32 b:*fp32 o:*fp32 m:i32 n:i32 k:i32", "gfx942",
        bm=32, bn=32, bk=32, precision=precision,
    )  # fmt: skip
    out = run(code, (6,), a, b, np.zeros((m, n), np.float32), m, n, k)[2]
    off = np.abs(out - a.astype(np.float64) @ b.astype(np.float64)).max()
    low, high = (1e-3, 5e-2) if precision == "tf32" else (0, 1e-4)
    assert low < off < high
