"""Kernels of the kinds that users write and the catalog does not have."""

import triton
import triton.language as tl


@triton.jit
def copy(x, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def beyond(x, o, n, block: tl.constexpr):
    """Stores one element too many."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n + 1)


@triton.jit
def endless(x, o, n):
    while tl.load(x) < n:
        tl.atomic_add(o, 1)


@triton.jit
def total(x, o, block: tl.constexpr):
    tl.store(o, tl.sum(tl.load(x + tl.arange(0, block)), 0))


@triton.jit
def attention(q, k, v, o, scale, n, d: tl.constexpr, m: tl.constexpr, bn: tl.constexpr):
    rows, inner = tl.arange(0, m)[:, None], tl.arange(0, d)[None, :]
    query = tl.load(q + rows * d + inner)
    best = tl.full((m,), -float("inf"), tl.float32)
    norm = tl.zeros((m,), tl.float32)
    result = tl.zeros((m, d), tl.float32)
    for start in range(0, n, bn):
        at = start + tl.arange(0, bn)[:, None]
        key = tl.load(k + at * d + inner)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        new = tl.maximum(best, tl.max(score, 1))
        power = tl.exp(score - new[:, None])
        old = tl.exp(best - new)
        norm = norm * old + tl.sum(power, 1)
        value = tl.load(v + at * d + inner)
        weighted = tl.dot(power.to(value.dtype), value, input_precision="ieee")
        result = result * old[:, None] + weighted
        best = new
    tl.store(o + rows * d + inner, result / norm[:, None])


@triton.jit
def argmax(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    values = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    tl.store(o + tl.program_id(0), tl.argmax(values, 0))


@triton.jit
def sort(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.sort(tl.load(x + i)))


@triton.jit
def cumsum(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.cumsum(tl.load(x + i), 0))


@triton.jit
def atomics(x, o, block: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * block + tl.arange(0, block))
    place = tl.abs(value) % 8
    tl.atomic_add(o + place, value)
    tl.atomic_max(o + 8 + place, tl.abs(value))
    tl.atomic_cas(o + 16, 0, 7)


@triton.jit
def atomic_max_of_all(x, o, old, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(old + i, tl.atomic_max(o + i % 8, tl.load(x + i)))


@triton.jit
def atomic_min_of_all(x, o, old, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(old + i, tl.atomic_min(o + i % 8, tl.load(x + i)))


@triton.jit
def atomics_float(x, o, block: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * block + tl.arange(0, block))
    tl.atomic_add(o + tl.arange(0, block) % 4, value)


@triton.jit
def dropout(x, o, seed, p, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    keep = tl.rand(seed, i) > p
    tl.store(o + i, tl.where(keep, tl.load(x + i) / (1 - p), 0.0))


@triton.jit
def divmod(x, y, q, r, block: tl.constexpr):
    i = tl.arange(0, block)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(q + i, a // b)
    tl.store(r + i, a % b)


@triton.jit
def transpose(x, o, m: tl.constexpr, n: tl.constexpr):
    value = tl.load(x + tl.arange(0, m)[:, None] * n + tl.arange(0, n)[None, :])
    tl.store(o + tl.arange(0, n)[:, None] * m + tl.arange(0, m)[None, :], tl.trans(value))


@triton.jit
def gather(x, index, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(index + i), 0))


@triton.jit
def histogram(x, o, block: tl.constexpr):
    tl.store(o + tl.arange(0, 16), tl.histogram(tl.load(x + tl.arange(0, block)), 16))


@triton.jit
def product(a, b, o, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr, kind: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    x = tl.load(a + rows[:, None] * k + inner[None, :])
    y = tl.load(b + inner[:, None] * n + columns[None, :])
    result = tl.dot(x, y, out_dtype=kind, input_precision="ieee")
    tl.store(o + rows[:, None] * n + columns[None, :], result)


@triton.jit
def last_writer_wins(x, o):
    """Every program stores to the same place."""
    tl.store(o, tl.load(x + tl.program_id(0)))


@triton.jit
def through_memory(x, o, block: tl.constexpr):
    """Turns a row around by way of global memory, with a barrier in between."""
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i))
    tl.debug_barrier()
    value = tl.load(o + block - 1 - i)
    tl.debug_barrier()
    tl.store(o + i, value)


@triton.jit
def last_one_adds_up(x, partial, count, o, block: tl.constexpr):
    """Each program leaves a sum; the last one to come adds the sums up."""
    pid, n = tl.program_id(0), tl.num_programs(0)
    tl.store(partial + pid, tl.sum(tl.load(x + pid * block + tl.arange(0, block)), 0))
    if tl.atomic_add(count, 1) == n - 1:
        i = tl.arange(0, 16)
        tl.store(o, tl.sum(tl.load(partial + i, mask=i < n, other=0.0), 0))


@triton.jit
def reads_what_others_write(x, o):
    """Each program reads the place of the next one, which that one writes."""
    pid = tl.program_id(0)
    tl.store(o + pid, tl.load(o + (pid + 1) % tl.num_programs(0)) + tl.load(x + pid))


@triton.jit
def _over_a_barrier(x, o, block, barrier: tl.constexpr):
    i = tl.arange(0, block)
    value = tl.inline_asm_elementwise(
        "v_readfirstlane_b32 s20, $1\ns_cmp_lt_u32 s20, 32\n" + barrier + "v_mov_b32 $0, $1",
        "=v,v,~{s20},~{scc}",
        [tl.load(x + i)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(o + i, value)


@triton.jit
def part_of_a_barrier(x, o, block: tl.constexpr):
    """The warp with the small numbers jumps over a barrier."""
    _over_a_barrier(x, o, block, "s_cbranch_scc1 1\ns_barrier\n")


@triton.jit
def part_of_a_split_barrier(x, o, block: tl.constexpr):
    """The same on gfx12, where a barrier is two instructions."""
    _over_a_barrier(x, o, block, "s_cbranch_scc1 2\ns_barrier_signal -1\ns_barrier_wait -1\n")


@triton.jit
def pairs(x, o, block: tl.constexpr):
    """Two neighbours add to one place each, and to another one together."""
    i = tl.arange(0, block)
    tl.atomic_add(o + i // 2, tl.load(x + i))


@triton.jit
def many_values(x, o, n, m: tl.constexpr, k: tl.constexpr):
    """More values at once than one warp has registers for."""
    place = tl.arange(0, m)[:, None] * k + tl.arange(0, k)[None, :]
    a, b = tl.load(x + place), tl.load(x + m * k + place)
    s = tl.zeros((m,), tl.float32)
    for _ in range(n):
        a = a * 1.5 + b
        b = b * 0.25 + a
        s += tl.sum(a * b, 1)
    tl.store(o + place, a + b + s[:, None])


@triton.jit
def prints(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    value = tl.load(x + i)
    tl.device_print("value", value)
    tl.store(o + i, value)


@triton.jit
def waits_for_another(flag, o):
    """The first program waits for what the last one writes."""
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag, 0) == 0:
            pass
        tl.store(o, 1)
    else:
        if tl.program_id(0) == tl.num_programs(0) - 1:
            tl.atomic_add(flag, 1)


@triton.jit
def all_sums(x, partial, count, o, n: tl.constexpr, block: tl.constexpr):
    """Each program sums its own part, waits for all others, and adds up what all of them left."""
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.sum(tl.load(x + pid * block + tl.arange(0, block)), 0))
    tl.debug_barrier()
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < n:
        pass
    tl.debug_barrier()
    tl.store(o + pid, tl.sum(tl.load(partial + tl.arange(0, n)), 0))


@triton.jit
def one_value_by_all(x, o, block: tl.constexpr):
    """Lanes of all warps store the same value to a place, and read it back."""
    i = tl.arange(0, block)
    tl.store(o + i % 8, tl.load(x))
    tl.store(o + 8 + i, tl.load(o + i % 8))


@triton.jit
def lanes_disagree(x, o, block: tl.constexpr):
    """Two neighbours, of one warp, store different values to a place."""
    i = tl.arange(0, block)
    tl.store(o + i // 2, tl.load(x + i))


@triton.jit
def one_value_then_others(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i % 8, tl.load(x))
    tl.store(o + i % 8, tl.load(x + i))
