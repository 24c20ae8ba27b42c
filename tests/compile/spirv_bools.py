"""Kernels over tensors of bits, which LLVM's optimiser packs. Cases as in `spirv_kernels`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from spirv_cases import Case, rng

CASES: dict[str, Case] = {}


@triton.jit
def read(p, M: tl.constexpr, N: tl.constexpr):
    return tl.load(p + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])


@triton.jit
def write(p, value, M: tl.constexpr, N: tl.constexpr):
    tl.store(p + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], value)


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def differ(a, b):
    return a ^ b


@triton.jit
def both_ways(a, b, c, d):
    return a | c, b & d


@triton.jit
def transposed(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    write(o, tl.trans(read(a, M, N)), N, M)


@triton.jit
def compared(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    x, y = read(a, M, N), read(b, M, N)
    other = tl.trans(tl.reshape(x, [N, M]))
    write(o, tl.trans((x & ~other) | (x < y)), N, M)


@triton.jit
def chosen(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    x, y = read(a, M, N), read(b, M, N)
    write(o, tl.reshape(tl.trans(tl.where(x, y, ~x)), [M, N]), M, N)


@triton.jit
def largest(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    tl.store(o + tl.arange(0, N if A == 0 else M), tl.max(read(a, M, N), A))


@triton.jit
def reduced(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    x, y = tl.reduce((read(a, M, N), read(b, M, N)), A, both_ways)
    tl.store(o + tl.arange(0, N if A == 0 else M), x & ~y)


@triton.jit
def scanned(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    write(o, tl.associative_scan(read(a, M, N), A, differ, reverse=True), M, N)


@triton.jit
def gathered(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    places = read(b, M, N).to(tl.int32) * (3 if A else 2) + 1
    write(o, tl.gather(read(a, M, N), places, A), M, N)


@triton.jit
def joined(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    pairs = tl.join(read(a, M, N), read(b, M, N))
    x, y = tl.split(pairs)
    write(o, tl.reshape(tl.permute(pairs, (2, 0, 1)), [2 * M, N]), 2 * M, N)
    write(o + 2 * M * N, x ^ y, M, N)


@triton.jit
def looped(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    total = tl.zeros([M, N], tl.int1)
    for step in range(3):
        total ^= read(a, M, N) if step % 2 else read(b, M, N)
    write(o, tl.trans(total), N, M)


@triton.jit
def masked_rows(a, b, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    rows = tl.load(a + tl.arange(0, M) * N)
    mask = (rows | (tl.arange(0, M) > M // 2))[:, None] & tl.load(b + tl.arange(0, N))[None, :]
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + at, tl.load(a + at, mask, other=True), ~mask)


def _flipped(a: Any, axis: int) -> Any:
    return np.flip(np.logical_xor.accumulate(np.flip(a, axis), axis), axis)


def _rows(a: Any, b: Any, o: Any) -> Any:
    m = len(a)
    mask = (a[:, 0] | (np.arange(m) > m // 2))[:, None] & b[0][None]
    return np.where(~mask, np.where(mask, a, True), o)


_EXPECTED: dict[str, tuple[Any, Callable[..., Any]]] = {
    "transposed": (transposed, lambda a, b, o, axis: a.T),
    "compared": (
        compared,
        lambda a, b, o, axis: ((a & ~a.reshape(a.shape[::-1]).T) | (a < b)).T,
    ),
    "chosen": (chosen, lambda a, b, o, axis: np.where(a, b, ~a).T.reshape(a.shape)),
    "largest": (largest, lambda a, b, o, axis: a.max(axis)),
    "reduced": (reduced, lambda a, b, o, axis: a.any(axis) & ~b.all(axis)),
    "scanned": (scanned, lambda a, b, o, axis: _flipped(a, axis)),
    "gathered": (
        gathered,
        lambda a, b, o, axis: np.take_along_axis(a, b.astype(np.int64) * (2 + axis) + 1, axis),
    ),
    "joined": (joined, lambda a, b, o, axis: np.concatenate([a, b, a ^ b])),
    "looped": (looped, lambda a, b, o, axis: a.T),
    "masked_rows": (masked_rows, lambda a, b, o, axis: _rows(a, b, o)),
}
_BOTH_AXES = ("largest", "reduced", "scanned", "gathered")


def _case(name: str, axis: int, m: int, n: int) -> Case:
    fn, result = _EXPECTED[name]

    def expect(a: Any, b: Any, o: Any) -> Any:
        value = result(a, b, o[: m * n].reshape(m, n), axis).reshape(-1)
        return [(2, np.concatenate([value, o[value.size :]]))]

    def arguments() -> list[Any]:
        bits = rng.integers(0, 2, (2, m, n)).astype(bool)
        return [bits[0], bits[1], np.zeros(3 * m * n, bool)]

    signature = {"a": "*i1", "b": "*i1", "o": "*i1"}
    return Case(fn, signature, {"M": m, "N": n, "A": axis}, arguments, expect)


for _name in _EXPECTED:
    for _axis in (0, 1) if _name in _BOTH_AXES else (0,):
        for _m, _n in ((16, 16), (64, 32), (32, 128)):
            CASES[f"{_name}_{_axis}_{_m}x{_n}"] = _case(_name, _axis, _m, _n)
