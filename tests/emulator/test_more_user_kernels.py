"""Further kernels of users' kinds give NumPy's results in float64 on every emulated arch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
from harness import ARCHS, run

_FILE = Path(__file__).with_name("user_kernels_more.py")
_RNG = np.random.default_rng(3)


def _compiled(name: str, signature: str, arch: str, num_warps: int = 4, **constants: Any) -> Any:
    return harness.compiled(name, signature, arch, num_warps, tuple(constants.items()), path=_FILE)


def _floats(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def _near(found: Any, right: Any, off: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float64), right, rtol=off, atol=off)


def rotary(arch: str) -> None:
    positions, heads, half = 3, 2, 32
    x, angle = _floats(positions, heads, 2 * half), _floats(positions, half)
    cos, sin = np.cos(angle), np.sin(angle)
    signature = "x:*fp32 cos:*fp32 sin:*fp32 o:*fp32 heads:i32"
    code = _compiled("rotary", signature, arch, 1, half=half)
    out = run(code, (positions, heads), x, cos, sin, x * 0, heads)[3]
    first, second = x[..., :half].astype(np.float64), x[..., half:]
    c, s = cos[:, None], sin[:, None]
    _near(out, np.concatenate([first * c - second * s, second * c + first * s], -1))


def cross_entropy(arch: str) -> None:
    rows, n = 4, 150
    x, labels = _floats(rows, n) * 3, _RNG.integers(0, n, rows).astype(np.int32)
    signature = "logits:*fp32 labels:*i32 loss:*fp32 gradient:*fp32 n:i32"
    code = _compiled("cross_entropy", signature, arch, block=256)
    loss, gradient = run(code, (rows,), x, labels, np.zeros(rows, np.float32), x * 0, n)[2:]
    power = np.exp(x.astype(np.float64))
    share = power / power.sum(1, keepdims=True)
    _near(loss, -np.log(share[np.arange(rows), labels]))
    share[np.arange(rows), labels] -= 1
    _near(gradient, share)


def four_bit_product(arch: str) -> None:
    m, n, k, group = 16, 32, 64, 32
    x = _floats(m, k).astype(np.float16)
    weight = _RNG.integers(0, 16, (k, n))
    words = sum(weight.reshape(k // 8, 8, n)[:, i].astype(np.uint32) << 4 * i for i in range(8))
    scale = np.abs(_floats(k // group, n)) / 8
    code = _compiled(
        "four_bit_product", "x:*fp16 packed:*i32 scale:*fp32 o:*fp32", arch,
        m=m, n=n, k=k, group=group,
    )  # fmt: skip
    out = run(code, (1,), x, words.view(np.int32), scale, np.zeros((m, n), np.float32))[3]
    weights = ((weight - 8) * np.repeat(scale, group, 0)).astype(np.float16)
    _near(out, x.astype(np.float64) @ weights.astype(np.float64), 1e-4)


def paged_attention(arch: str) -> None:
    sequences, page, d, pages = 3, 16, 32, 4
    q, keys, values = _floats(sequences, d), _floats(16, page, d), _floats(16, page, d)
    table = _RNG.permutation(16)[: sequences * pages].reshape(sequences, pages).astype(np.int32)
    lengths = np.array([5, 33, 64], np.int32)
    code = _compiled(
        "paged_attention",
        "q:*fp32 keys:*fp32 values:*fp32 table:*i32 lengths:*i32 o:*fp32", arch,
        page=page, d=d, pages=pages,
    )  # fmt: skip
    out = run(code, (sequences,), q, keys, values, table, lengths, q * 0)[5]
    for s, length in enumerate(lengths):
        k, v = (x[table[s]].reshape(-1, d)[:length].astype(np.float64) for x in (keys, values))
        power = np.exp(k @ q[s].astype(np.float64))
        _near(out[s], power @ v / power.sum())


def state_space(arch: str) -> None:
    steps, channels = 64, 16
    decay, x = _RNG.uniform(0.5, 1, (steps, channels)).astype(np.float32), _floats(steps, channels)
    signature = "decay:*fp32 x:*fp32 o:*fp32"
    code = _compiled("state_space", signature, arch, steps=steps, channels=channels)
    out = run(code, (1,), decay, x, x * 0)[2]
    h, right = np.zeros(channels), []
    for t in range(steps):
        h = decay[t] * h + x[t]
        right.append(h)
    _near(out, right)


def fourier(arch: str) -> None:
    n, bits = 64, 6
    x = _floats(2, n)
    code = _compiled(
        "fourier", "real:*fp32 imaginary:*fp32 o_real:*fp32 o_imaginary:*fp32", arch, 1,
        n=n, bits=bits,
    )  # fmt: skip
    re, im = run(code, (1,), x[0], x[1], x[0] * 0, x[0] * 0)[2:]
    right = np.fft.fft(x[0].astype(np.float64) + 1j * x[1])
    _near(re, right.real, 1e-4)
    _near(im, right.imag, 1e-4)


def sparse_rows(arch: str) -> None:
    lengths = np.array([0, 3, 200, 64, 1, 65])
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column, value = _RNG.integers(0, 50, start[-1]).astype(np.int32), _floats(int(start[-1]))
    x = _floats(50)
    code = _compiled(
        "sparse_rows", "start:*i32 column:*i32 value:*fp32 x:*fp32 o:*fp32", arch, 2, block=64
    )
    out = run(code, (len(lengths),), start, column, value, x, np.zeros(len(lengths), np.float32))[4]
    products = value.astype(np.float64) * x[column]
    _near(out, [products[a:b].sum() for a, b in pairwise(start)])


def scatter_rows(arch: str) -> None:
    count, d = 40, 32
    index, gradient = _RNG.integers(0, 5, count).astype(np.int32), _floats(count, d)
    code = _compiled("scatter_rows", "index:*i32 gradient:*fp32 table:*fp32", arch, 1, d=d)
    out = run(code, (count,), index, gradient, np.zeros((5, d), np.float32))[2]
    right = np.zeros((5, d))
    np.add.at(right, index, gradient.astype(np.float64))
    _near(out, right)


def convolution(arch: str) -> None:
    channels, height, width, filters = 4, 8, 8, 16
    x, w = _floats(channels, height, width), _floats(channels, 3, 3, filters)
    code = _compiled(
        "convolution", "x:*fp32 w:*fp32 o:*fp32", arch,
        channels=channels, height=height, width=width, filters=filters,
    )  # fmt: skip
    out = run(code, (1,), x, w, np.zeros((height * width, filters), np.float32))[2]
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    right = np.zeros((height, width, filters))
    for i, j in np.ndindex(3, 3):
        window = padded[:, i : i + height, j : j + width]
        right += np.einsum("chw,cf->hwf", window, w[:, i, j])
    _near(out, right.reshape(-1, filters), 1e-4)


def split_product(arch: str) -> None:
    m, n, k, part = 16, 16, 150, 32
    a, b = _floats(m, k).astype(np.float16), _floats(k, n).astype(np.float16)
    signature = "a:*fp16 b:*fp16 o:*fp32 k:i32"
    code = _compiled("split_product", signature, arch, 2, m=m, n=n, part=part)
    out = run(code, (-(-k // part),), a, b, np.zeros((m, n), np.float32), k)[2]
    _near(out, a.astype(np.float64) @ b.astype(np.float64), 1e-4)


def whole_numbers(arch: str) -> None:
    n = 128
    x = _RNG.integers(-(2**62), 2**62, n)
    y = _RNG.integers(1, 2**40, n) * _RNG.choice([-1, 1], n)
    code = _compiled("whole_numbers", "x:*i64 y:*i64 o:*i64", arch, n=n)
    found = run(code, (1,), x, y, np.zeros((4, n), np.int64))[2]
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        high = (a % 2**64) * (b % 2**64) >> 64
        shifted = (a << (b & 63)) ^ (a >> (b & 31))
        right = [quotient, a - quotient * b, high, shifted]
        assert [int(v) % 2**64 for v in found[:, i]] == [v % 2**64 for v in right]


def best_of_row(arch: str) -> None:
    rows, n, k = 3, 128, 5
    x = _floats(rows, n)
    code = _compiled("best_of_row", "x:*fp32 o:*fp32 index:*i32", arch, n=n, k=k)
    out, index = run(
        code, (rows,), x, np.zeros((rows, k), np.float32), np.zeros((rows, k), np.int32)
    )[1:]
    right = np.argsort(-x, 1)[:, :k]
    np.testing.assert_array_equal(index, right)
    np.testing.assert_array_equal(out, np.take_along_axis(x, right, 1))


def grouped_product(arch: str) -> None:
    blocks, m, n, k = 4, 16, 16, 32
    x, w = _floats(blocks * m, k).astype(np.float16), _floats(3, k, n).astype(np.float16)
    expert = np.array([2, 0, 2, 1], np.int32)
    signature = "x:*fp16 w:*fp16 expert:*i32 o:*fp16"
    code = _compiled("grouped_product", signature, arch, 1, m=m, n=n, k=k)
    out = run(code, (blocks,), x, w, expert, np.zeros((blocks * m, n), np.float16))[3]
    right = np.matmul(x.reshape(blocks, m, k).astype(np.float64), w[expert].astype(np.float64))
    _near(out, right.reshape(-1, n), 5e-3)


def quantized(arch: str) -> None:
    rows, n = 3, 256
    x = _floats(rows, n)
    code = _compiled("quantized", "x:*fp32 o:*i8 scale:*fp32", arch, n=n)
    out, scale = run(code, (rows,), x, np.zeros((rows, n), np.int8), np.zeros(rows, np.float32))[1:]
    right = np.abs(x).max(1) / np.float32(127)
    _near(scale, right, 1e-6)
    assert np.abs(out - x / right[:, None]).max() < 0.5001


def group_norm(arch: str) -> None:
    groups, channels, pixels = 3, 4, 64
    x, w, b = _floats(groups, channels, pixels) * 2 + 1, _floats(channels), _floats(channels)
    code = _compiled(
        "group_norm", "x:*fp32 w:*fp32 b:*fp32 o:*fp32", arch, channels=channels, pixels=pixels
    )
    out = run(code, (groups,), x, w, b, x * 0)[3]
    wide = x.astype(np.float64)
    mean, variance = wide.mean((1, 2), keepdims=True), wide.var((1, 2), keepdims=True)
    _near(out, (wide - mean) / np.sqrt(variance + 1e-5) * w[:, None] + b[:, None], 1e-4)


CASES: tuple[Callable[[str], None], ...] = (
    rotary, cross_entropy, four_bit_product, paged_attention, state_space, fourier, sparse_rows,
    scatter_rows, convolution, split_product, whole_numbers, best_of_row, grouped_product,
    quantized, group_norm,
)  # fmt: skip


@pytest.mark.sample(3, each=("case", "arch"))
@pytest.mark.parametrize(
    ("case", "arch"),
    [
        pytest.param(
            case, arch, id=f"{case.__name__}-{arch}",
            marks=() if arch in ("gfx1100", "gfx942") else pytest.mark.long,
        )
        for case in CASES
        for arch in ARCHS
    ],
)  # fmt: skip
def test_a_users_kernel_gives_numpys_result(case: Callable[[str], None], arch: str) -> None:
    case(arch)
