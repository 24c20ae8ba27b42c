"""More of the table of `strange_kernels`: loops that end by their data, locks, programs."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl
from collatz import steps_of
from strange_kernels import Rng, case, long_case, power, warps

# ---------------------------------------------------------------------------------------- control


@triton.jit
def _collatz(x, out):
    p = tl.program_id(0)
    tl.store(out + p, steps_of(tl.load(x + p)))


@triton.jit
def _collatz_block(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value, steps = tl.load(x + i), tl.zeros((N,), tl.int32)
    while tl.max((value != 1).to(tl.int32), 0) > 0:
        live = value != 1
        next_ = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        value = tl.where(live, next_, value)
        steps += live.to(tl.int32)
    tl.store(out + i, steps)


@case
def loops_end_when_their_data_say_so(rng: Rng) -> None:
    count = power(rng, 0, 9)
    x, out, block = rng.integers(1, 10**5, count), np.zeros(count, np.int32), np.zeros(count, "i4")
    _collatz[(count,)](x, out)
    _collatz_block[(1,)](x, block, count, num_warps=warps(rng))

    def steps(value: int) -> int:
        made = 0
        while value != 1:
            value, made = (value // 2 if value % 2 == 0 else 3 * value + 1), made + 1
        return made

    assert out.tolist() == block.tolist() == [steps(int(value)) for value in x]


@triton.jit
def _branches(x, out, n, N: tl.constexpr):
    p = tl.program_id(0)
    if p >= n:
        return
    i = tl.arange(0, N)
    values, total = tl.load(x + p * N + i), 0
    for k in range(10, 0, -3):
        if k % 2 == 0:
            values += k
        else:
            values -= 1
            if p % 2 == 1:
                total += k
    for k in tl.static_range(3):
        total += k
    pair = (values, total)
    while pair[1] > 5:
        pair = (pair[0] + 1, pair[1] - 4)
    values, total = pair
    if p == 0:
        values = values * 2
    elif p == 1:
        values = values * 3
    else:
        values = values * 5 + total
    tl.store(out + p * N + i, values)


@case
def branches_loops_and_early_ends(rng: Rng) -> None:
    x = rng.integers(-9, 9, (8, 32)).astype(np.int32)
    out, n = np.zeros_like(x), int(rng.integers(3, 8))
    _branches[(8,)](x, out, n, 32, num_warps=warps(rng))
    for p in range(n):
        values, total = x[p] + 10 - 1 + 4 - 1, 3 + (7 + 1) * (p % 2)
        while total > 5:
            values, total = values + 1, total - 4
        wanted = values * 2 if p == 0 else values * 3 if p == 1 else values * 5 + total
        np.testing.assert_array_equal(out[p], wanted)
    assert not out[n:].any()


@triton.jit
def _in_turn(lock, total, n):
    for _ in range(n):
        while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
            pass
        tl.store(total, tl.load(total, volatile=True) + 1)
        tl.atomic_xchg(lock, 0, sem="release")


@case
def a_lock_lets_one_block_in(rng: Rng) -> None:
    for size in (1, 4):
        lock, total = np.zeros(1, np.int32), np.zeros(1, np.int64)
        _in_turn[(32,)](lock, total, 40, num_warps=size)
        assert total[0] == 32 * 40
        assert lock[0] == 0


@triton.jit
def _unlike(a, b):
    if a > b:
        made = a - b
    elif a == b:
        made = a * 0 + 100
    else:
        made = b * 2
    return made


@triton.jit
def _each(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(_unlike, tl.load(x + i), tl.load(y + i)))


@case
def branches_for_each_element(rng: Rng) -> None:
    x, y = rng.integers(0, 9, (2, 128)).astype(np.int32)
    out = np.zeros_like(x)
    _each[(1,)](x, y, out, 128, num_warps=warps(rng))
    np.testing.assert_array_equal(out, np.where(x > y, x - y, np.where(x == y, 100, 2 * y)))


# ---------------------------------------------------------------------------------- whole programs


@triton.jit
def _grouped(lefts, rights, outs, sizes, groups, BLOCKS: tl.constexpr, T: tl.constexpr):
    """Products of several pairs, by tables of addresses; each block takes every n-th tile."""
    tile, before = tl.program_id(0), 0
    for g in range(groups):
        m, n, k = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        wide = tl.cdiv(n, T)
        tiles = tl.cdiv(m, T) * wide
        while (tile >= before) and (tile < before + tiles):
            a = tl.load(lefts + g).to(tl.pointer_type(tl.float16))
            b = tl.load(rights + g).to(tl.pointer_type(tl.float16))
            c = tl.load(outs + g).to(tl.pointer_type(tl.float32))
            row = (tile - before) // wide * T + tl.arange(0, T)[:, None]
            column = (tile - before) % wide * T + tl.arange(0, T)[None, :]
            total = tl.zeros((T, T), tl.float32)
            for start in range(0, k, T):
                across, down = start + tl.arange(0, T)[None, :], start + tl.arange(0, T)[:, None]
                x = tl.load(a + row * k + across, (row < m) & (across < k), other=0.0)
                y = tl.load(b + down * n + column, (down < k) & (column < n), other=0.0)
                total = tl.dot(x, y, total)
            tl.store(c + row * n + column, total, (row < m) & (column < n))
            tile += BLOCKS
        before += tiles


@case
def products_by_tables_of_addresses(rng: Rng) -> None:
    sizes = rng.integers(1, 80, (4, 3)).astype(np.int32)
    lefts = [rng.integers(-4, 5, (m, k)).astype(np.float16) for m, n, k in sizes]
    rights = [rng.integers(-4, 5, (k, n)).astype(np.float16) for m, n, k in sizes]
    outs = [np.zeros((m, n), np.float32) for m, n, k in sizes]
    tables = [np.array([x.ctypes.data for x in row], np.uint64) for row in (lefts, rights, outs)]
    _grouped[(5,)](*tables, sizes, 4, BLOCKS=5, T=16, num_warps=2)
    for a, b, c in zip(lefts, rights, outs, strict=True):
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@triton.jit
def _attention(q, k, v, out, scale, n, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
               CAUSAL: tl.constexpr):  # fmt: skip
    base = tl.program_id(1) * n * D
    row, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    x = tl.load(q + base + row[:, None] * D + d[None, :], row[:, None] < n, other=0.0)
    most = tl.full((M,), -float("inf"), tl.float32)
    weight, total = tl.zeros((M,), tl.float32), tl.zeros((M, D), tl.float32)
    end = tl.minimum(n, (tl.program_id(0) + 1) * M) if CAUSAL else n
    for start in range(0, end, N):
        column = start + tl.arange(0, N)
        there = column < n
        keys = tl.load(k + base + column[None, :] * D + d[:, None], there[None, :], other=0.0)
        score = tl.dot(x, keys) * (scale * 1.4426950408889634)
        seen = there[None, :]
        if CAUSAL:
            seen = seen & (column[None, :] <= row[:, None])
        score = tl.where(seen, score, -1.0e6)
        above = tl.maximum(most, tl.max(score, 1))
        powers, fading = tl.exp2(score - above[:, None]), tl.exp2(most - above)
        values = tl.load(v + base + column[:, None] * D + d[None, :], there[:, None], other=0.0)
        total = tl.dot(powers.to(values.dtype), values, total * fading[:, None])
        weight, most = weight * fading + tl.sum(powers, 1), above
    place = out + base + row[:, None] * D + d[None, :]
    tl.store(place, total / weight[:, None], row[:, None] < n)


@case
def attention_in_one_pass(rng: Rng) -> None:
    heads, n, wide = 2, int(rng.integers(20, 70)), 16
    causal = bool(rng.integers(2))
    dtype, off = ((np.float32, 1e-4), (np.float16, 5e-3))[int(rng.integers(2))]
    q, k, v = rng.standard_normal((3, heads, n, wide)).astype(dtype)
    out = np.zeros((heads, n, wide), np.float32)
    grid = (triton.cdiv(n, 16), heads)
    _attention[grid](q, k, v, out, 0.25, n, wide, 16, 32, causal, num_warps=warps(rng))
    score = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.25
    if causal:
        score[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    powers = np.exp(score - score.max(2, keepdims=True))
    wanted = powers / powers.sum(2, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out, wanted, atol=off, err_msg=str((dtype, n, causal)))


@triton.jit
def _weights(x, dy, dw, lock, n, GROUPS: tl.constexpr, N: tl.constexpr):
    """Rows add to one of several rows of sums, under its lock; the first one finds it unset."""
    row, c = tl.program_id(0), tl.arange(0, N)
    mine = lock + row % GROUPS
    place = dw + (row % GROUPS) * n + c
    part = tl.load(x + row * n + c, c < n, other=0.0) * tl.load(dy + row * n + c, c < n, other=0.0)
    while tl.atomic_cas(mine, 0, 1) == 1:
        pass
    if tl.load(mine + GROUPS) == 0:
        tl.atomic_xchg(mine + GROUPS, 1)
    else:
        part += tl.load(place, c < n)
    tl.store(place, part, c < n)
    tl.debug_barrier()
    tl.atomic_xchg(mine, 0)


@case
def sums_under_locks(rng: Rng) -> None:
    rows, n, groups = 40, int(rng.integers(1, 200)), 8
    x, dy = rng.integers(-9, 9, (2, rows, n)).astype(np.float32)
    sums, lock = np.full((groups, n), np.nan, np.float32), np.zeros(2 * groups, np.int32)
    block = triton.next_power_of_2(n)
    _weights[(rows,)](x, dy, sums, lock, n, groups, block, num_warps=warps(rng))
    np.testing.assert_array_equal(sums.sum(0), (x * dy).sum(0))


@triton.jit
def _split_k(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    start = tl.program_id(0) * (K // PARTS)
    x = tl.load(a + m * K + start + tl.arange(0, K // PARTS)[None, :])
    y = tl.load(b + (start + tl.arange(0, K // PARTS)[:, None]) * N + n)
    tl.atomic_add(c + m * N + n, tl.dot(x, y, input_precision="ieee"))


@case
def a_product_in_parts_that_are_added(rng: Rng) -> None:
    for dtype in (np.float32, np.float16, np.int8):
        m, n, parts = power(rng, 0, 6), power(rng, 0, 6), power(rng, 0, 3)
        k = parts * power(rng, 0, 5)
        a, b = rng.integers(-4, 5, (m, k)).astype(dtype), rng.integers(-4, 5, (k, n)).astype(dtype)
        c = np.zeros((m, n), np.int32 if dtype == np.int8 else np.float32)
        _split_k[(parts,)](a, b, c, m, n, k, parts, num_warps=warps(rng))
        wanted = a.astype(np.int64) @ b.astype(np.int64)
        np.testing.assert_array_equal(c, wanted, err_msg=str((dtype, m, n, k, parts)))


@triton.jit
def _far(x, out, offset):
    tl.store(out, tl.load(x + offset))


@long_case
def elements_beyond_what_32_bits_count(rng: Rng) -> None:
    x, out = np.zeros(2**32 + 16, np.int8), np.zeros(1, np.int8)  # pages that nobody touches
    for offset in (2**31 + 5, 2**32 + 7):
        x[offset] = rng.integers(1, 99)
        _far[(1,)](x, out, offset)
        assert out[0] == x[offset]
