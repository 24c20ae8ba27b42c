"""How long the first call of a user's kernel takes on the CPU, Triton's compiling and the JIT.

    TRITON_DEFAULT_BACKEND=spirv python benchmarks/bench_first_call.py

Kernels whose lanes exchange much: sorts, and flash attention. Nothing is cached before. Behind it
the least of 20 further calls.
"""

from __future__ import annotations

import os
import tempfile
import time
import timeit
from typing import Any

import numpy as np
import triton
import triton.language as tl


@triton.jit
def sort(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def three_sorts(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    up = tl.sort(tl.load(x + at))
    down = tl.sort(up, descending=True)
    tl.store(out + at, tl.sort(down + up))


@triton.jit
def attention(q, k, v, out, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    batch = tl.program_id(1) * length * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d, n = tl.arange(0, D), tl.arange(0, N)
    x = tl.load(q + batch + rows[:, None] * D + d[None, :])
    largest = tl.full([M], -float("inf"), tl.float32)
    weight = tl.zeros([M], tl.float32)
    total = tl.zeros([M, D], tl.float32)
    for start in range(0, length, N):
        y = tl.load(k + batch + (start + n)[None, :] * D + d[:, None])
        score = tl.dot(x, y) * scale
        now = tl.maximum(largest, tl.max(score, 1))
        p = tl.exp(score - now[:, None])
        old = tl.exp(largest - now)
        weight = weight * old + tl.sum(p, 1)
        z = tl.load(v + batch + (start + n)[:, None] * D + d[None, :])
        total = tl.dot(p.to(z.dtype), z, total * old[:, None])
        largest = now
    tl.store(out + batch + rows[:, None] * D + d[None, :], total / weight[:, None])


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3 * 1024, dtype=np.float32)
    q, k, v = (rng.standard_normal((4, 512, 64), dtype=np.float32) for _ in range(3))
    cases: list[tuple[str, Any, tuple[int, ...], tuple[Any, ...], dict[str, int]]] = [
        ("sort of 512, 1 warp", sort, (3,), (x, x.copy()), {"N": 512, "num_warps": 1}),
        ("sort of 1024, 4 warps", sort, (3,), (x, x.copy()), {"N": 1024, "num_warps": 4}),
        ("3 sorts of 512, 1 warp", three_sorts, (3,), (x, x.copy()), {"N": 512, "num_warps": 1}),
    ]
    for m in (64, 128):
        blocks = {"M": m, "N": 64, "D": 64, "num_warps": 4}
        call = (q, k, v, np.empty_like(q), 512, 0.125)
        cases.append((f"attention {m} x 64, 4 warps", attention, (512 // m, 4), call, blocks))
    for name, kernel, grid, arguments, options in cases:
        began = time.perf_counter()
        kernel[grid](*arguments, **options)
        first = time.perf_counter() - began
        least = min(timeit.repeat(lambda: kernel[grid](*arguments, **options), number=1, repeat=20))  # noqa: B023
        print(f"{name:26} first call {first:6.2f} s, then {least * 1e3:8.3f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(XTARGET_CACHE_DIR=f"{folder}/x", TRITON_CACHE_DIR=f"{folder}/t")
        main()
