"""Kernels with one race each, as people make them. All take floats `x` (256) and a larger `o`.

Some have the race with certain constants only: `_VARIANTS` of test_seeded_races.
"""

import triton
import triton.language as tl


@triton.jit
def overlapping_tiles(x, o, block: tl.constexpr):
    """Blocks that are a place too near to each other."""
    i = tl.arange(0, block)
    tl.store(o + tl.program_id(0) * (block - 1) + i, tl.load(x + i))


@triton.jit
def one_too_many(x, o, block: tl.constexpr):
    """A mask with <= for <."""
    i = tl.arange(0, 2 * block)
    tl.store(o + tl.program_id(0) * block + i, i * 1.0, mask=i <= block)


@triton.jit
def stencil_in_place(x, o, block: tl.constexpr):
    i = 1 + tl.program_id(0) * block + tl.arange(0, block)
    total = tl.load(o + i - 1) + tl.load(o + i + 1)
    tl.debug_barrier()
    tl.store(o + i, total)


@triton.jit
def stencil_in_place_of_one_block(x, o, block: tl.constexpr):
    i = 1 + tl.arange(0, block)
    tl.store(o + i, tl.load(o + i - 1) + tl.load(o + i + 1) + tl.load(x + i - 1))


@triton.jit
def scatter_with_duplicates(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + (i * 7) % 100, tl.load(x + i))


@triton.jit
def adds_without_atomics(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(o + i) + tl.load(x + i))


@triton.jit
def counts_without_atomics(x, o, block: tl.constexpr):
    """Lanes of one warp meet in a bin, with other values each."""
    i = tl.arange(0, block)
    place = o + i % 16
    tl.store(place, tl.load(place) + tl.load(x + i))


@triton.jit
def sets_a_counter_back(x, o, block: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o, 0.0)
    tl.atomic_add(o, 1.0)


@triton.jit
def does_not_wait_for_the_others(x, o, block: tl.constexpr):
    """The last block adds up what others may not have stored yet."""
    me, i = tl.program_id(0), tl.arange(0, block)
    tl.store(o + 1 + me, tl.sum(tl.load(x + i)) + me)
    if me == tl.num_programs(0) - 1:
        tl.store(o, tl.sum(tl.load(o + 1 + tl.arange(0, 2))))


@triton.jit
def transposes_in_place(x, o, block: tl.constexpr):
    n: tl.constexpr = 16
    row = tl.program_id(0)
    i = tl.arange(0, n)
    tl.store(o + i * n + row, tl.load(o + row * n + i) + row)


@triton.jit
def splits_without_atomics(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    part = tl.sum(tl.load(x + i)) * (1 + tl.program_id(0))
    tl.store(o, tl.load(o) + part)


@triton.jit
def reverses_in_memory(x, o, block: tl.constexpr):
    """Through global memory without a barrier."""
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i))
    tl.store(o + block + i, tl.load(o + block - 1 - i))


@triton.jit
def reads_behind_its_back(x, o, block: tl.constexpr):
    """The one value is read when others may have overwritten it."""
    i = tl.arange(0, block)
    tl.store(o + i, tl.exp(tl.load(x + i)))
    tl.store(o + block, tl.load(o + 100))


@triton.jit
def slots_in_turn(x, o, block: tl.constexpr):
    """More blocks than slots."""
    me, i = tl.program_id(0), tl.arange(0, block)
    tl.store(o + (me % 2) * block + i, tl.load(x + i) + me)


@triton.jit
def bytes_beside_words(x, o, block: tl.constexpr):
    """A block's byte lies in another one's word."""
    me = tl.program_id(0)
    if me == 0:
        tl.store(o + tl.arange(0, block), 1.0)
    else:
        tl.store(o.to(tl.pointer_type(tl.int8)) + 4 * me + 1, 7)


@triton.jit
def carries_through_memory(x, o, block: tl.constexpr):
    """A running sum of tiles whose last value is read back without a barrier."""
    i = tl.arange(0, block)
    for k in range(2):
        before = tl.load(o + k * block)
        tl.store(o + 1 + k * block + i, tl.cumsum(tl.load(x + i)) + before)


@triton.jit
def a_value_of_each_block(x, o, block: tl.constexpr):
    """A scalar that differs from block to block."""
    tl.store(o, tl.sum(tl.load(x + tl.arange(0, block))) + tl.program_id(0))


@triton.jit
def writes_what_others_still_read(x, o, block: tl.constexpr):
    """All read the first value, and one warp replaces it."""
    i = tl.arange(0, block)
    first = tl.load(o + i * 0)
    tl.store(o + i, tl.load(x + i) + first)


@triton.jit
def a_wide_store_over_narrow_ones(x, o, block: tl.constexpr):
    """Lanes' words of 64 bits that are 32 bits apart."""
    i = tl.arange(0, block).to(tl.int64)
    tl.store((o + 2 * (i // 2)).to(tl.pointer_type(tl.int64)), i)


@triton.jit
def hands_over(o, me, release: tl.constexpr, acquire: tl.constexpr, scope: tl.constexpr):
    """Block 0 says that it is ready, and returns at once; the others wait for it."""
    flag = o.to(tl.pointer_type(tl.int32)) + 1000
    tl.debug_barrier()
    if me == 0:
        tl.atomic_xchg(flag, 1, sem=release, scope=scope)
    else:
        while tl.atomic_add(flag, 0, sem=acquire, scope=scope) == 0:
            pass
    tl.debug_barrier()


@triton.jit
def message(
    x, o, block: tl.constexpr, release: tl.constexpr, acquire: tl.constexpr, scope: tl.constexpr
):
    """Block 0 stores values, which the others read."""
    me, i = tl.program_id(0), tl.arange(0, block)
    if me == 0:
        tl.store(o + i, tl.load(x + i))
    hands_over(o, me, release, acquire, scope)
    if me != 0:
        tl.store(o + me * block + i, tl.load(o + i))


@triton.jit
def overwritten_after_a_relaxed_flag(x, o, block: tl.constexpr):
    me, i = tl.program_id(0), tl.arange(0, block)
    if me == 0:
        tl.store(o + i, tl.load(x + i))
    hands_over(o, me, "relaxed", "relaxed", "gpu")
    if me != 0:
        tl.store(o + i, tl.load(x + i) + 1)


@triton.jit
def adds_under_a_lock(x, o, block: tl.constexpr, taken: tl.constexpr, given_back: tl.constexpr):
    lock = o.to(tl.pointer_type(tl.int32)) + 1000
    while tl.atomic_cas(lock, 0, 1, sem=taken) == 1:
        pass
    tl.debug_barrier()
    tl.store(o, tl.load(o) + tl.program_id(0) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem=given_back)


@triton.jit
def reads_a_counter_of_all(x, o, block: tl.constexpr):
    """A plain read of what the blocks count by atomic additions."""
    tl.atomic_add(o, 1.0)
    tl.debug_barrier()
    tl.store(o + 1 + tl.program_id(0), tl.load(o))


@triton.jit
def reads_before_others_add(x, o, block: tl.constexpr):
    """The read comes first, and nothing tells the others that it did."""
    i = tl.arange(0, block)
    if tl.program_id(0) == 0:
        tl.store(o + block + i, tl.load(o + i))
    else:
        tl.atomic_add(o + i, 1.0, sem="relaxed")


@triton.jit
def sums_without_waiting(x, o, block: tl.constexpr):
    """Blocks add to all sums, and the last one normalises them before the others are done."""
    i = tl.arange(0, block)
    tl.atomic_add(o + i % 64, tl.load(x + i), sem="relaxed")
    tl.debug_barrier()
    if tl.program_id(0) == tl.num_programs(0) - 1:
        sums = tl.load(o + tl.arange(0, 64))
        tl.store(o + 64 + tl.arange(0, 64), sums / tl.sum(sums))


@triton.jit
def sets_back_what_others_add_to(x, o, block: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.atomic_add(o, 1.0, sem="relaxed")
    else:
        tl.store(o, 0.0)


@triton.jit
def reads_sums_without_a_barrier(x, o, block: tl.constexpr):
    """The warps of one block."""
    i = tl.arange(0, block)
    tl.atomic_add(o + i, tl.load(x + i), sem="relaxed")
    tl.store(o + block + i, tl.load(o + block - 1 - i))


@triton.jit
def halves_a_sum(x, o, block: tl.constexpr, waits: tl.constexpr):
    """A tree in memory."""
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i))
    tl.debug_barrier()
    half = block // 2
    while half > 0:
        a = tl.load(o + i, mask=i < half)
        b = tl.load(o + half + i, mask=i < half)
        if waits:
            tl.debug_barrier()
        tl.store(o + i, a + b, mask=i < half)
        if waits:
            tl.debug_barrier()
        half = half // 2


@triton.jit
def to_and_fro(x, o, block: tl.constexpr, waits: tl.constexpr):
    """Block 0 fills a place again and again, and block 1 reads it each time.

    Args:
        waits: block 0 does, until it was read.
    """
    me, i = tl.program_id(0), tl.arange(0, block)
    full = o.to(tl.pointer_type(tl.int32)) + 1000
    empty = full + 1
    for k in range(3):
        if me == 0:
            if waits:
                while tl.atomic_add(empty, 0, sem="acquire") != k:
                    pass
                tl.debug_barrier()
            tl.store(o + i, tl.load(x + i) + k)
            tl.debug_barrier()
            tl.atomic_xchg(full, k + 1, sem="release")
        else:
            while tl.atomic_add(full, 0, sem="acquire") < k + 1:
                pass
            tl.debug_barrier()
            tl.store(o + 256 + i, tl.load(o + i))
            tl.debug_barrier()
            tl.atomic_xchg(empty, k + 1, sem="release")


@triton.jit
def looks_back(x, o, block: tl.constexpr, late: tl.constexpr):
    """Sums over all blocks up to each: it adds what the one before it has found.

    Args:
        late: the value is stored behind its flag.
    """
    me, i = tl.program_id(0), tl.arange(0, block)
    flag = o.to(tl.pointer_type(tl.int32)) + 1000
    total = tl.sum(tl.load(x + i))
    if me > 0:
        while tl.atomic_add(flag + me - 1, 0, sem="acquire") == 0:
            pass
        tl.debug_barrier()
        total += tl.load(o + me - 1)
    if not late:
        tl.store(o + me, total)
        tl.debug_barrier()
    tl.atomic_xchg(flag + me, 1, sem="release")
    if late:
        tl.debug_barrier()
        tl.store(o + me, total)


@triton.jit
def two_locks_for_one_sum(x, o, block: tl.constexpr):
    me = tl.program_id(0)
    lock = o.to(tl.pointer_type(tl.int32)) + 1000 + me % 2
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.debug_barrier()
    tl.store(o, tl.load(o) + me + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")


@triton.jit
def sets_a_ticket_back_too_early(x, o, block: tl.constexpr):
    """The last one of the grid is not the last one to come."""
    count = o.to(tl.pointer_type(tl.int32)) + 1000
    tl.atomic_add(count, 1, sem="relaxed")
    if tl.program_id(0) == tl.num_programs(0) - 1:
        tl.store(count, 0)


@triton.jit
def reads_what_the_winner_writes(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    if tl.atomic_cas(o.to(tl.pointer_type(tl.int32)) + 1000, 0, 1) == 0:
        tl.store(o + i, tl.load(x + i))
    else:
        tl.store(o + 256 + tl.program_id(0) * block + i, tl.load(o + i))


# --------------------------------------------------------------------------- and without a race


@triton.jit
def the_last_one_reads_all_sums(x, o, block: tl.constexpr):
    """The additions themselves may be relaxed: the ticket after them orders them."""
    i = tl.arange(0, block)
    tl.atomic_add(o + i % 64, tl.load(x + i), sem="relaxed")
    tl.debug_barrier()
    ticket = tl.atomic_add(o.to(tl.pointer_type(tl.int32)) + 1000, 1)
    if ticket == tl.num_programs(0) - 1:
        sums = tl.load(o + tl.arange(0, 64))
        tl.store(o + 64 + tl.arange(0, 64), sums / tl.sum(sums))


@triton.jit
def _stored_by_the_first(x, o, block: tl.constexpr):
    """The number of the block, its elements and the place of a flag; the first block has stored."""
    me, i = tl.program_id(0), tl.arange(0, block)
    if me == 0:
        tl.store(o + i, tl.load(x + i))
    tl.debug_barrier()
    return me, i, o.to(tl.pointer_type(tl.int32)) + 1000


@triton.jit
def passed_on(x, o, block: tl.constexpr):
    """Each block waits for the one before it; the last one reads what the first one stored."""
    me, i, flag = _stored_by_the_first(x, o, block)
    if me != 0:
        while tl.atomic_add(flag + me - 1, 0, sem="acquire") == 0:
            pass
    tl.debug_barrier()
    tl.atomic_xchg(flag + me, 1, sem="release")
    if me == tl.num_programs(0) - 1:
        tl.store(o + block + i, tl.load(o + i))


@triton.jit
def places_by_relaxed_tickets(x, o, block: tl.constexpr):
    """A ticket says where a block may store, and nothing of another one's is there."""
    i = tl.arange(0, block)
    ticket = tl.atomic_add(o.to(tl.pointer_type(tl.int32)) + 1000, 1, sem="relaxed")
    tl.store(o + ticket * block + i, tl.load(x + i) + tl.program_id(0))


@triton.jit
def halves_beside_each_other(x, o, block: tl.constexpr):
    """Additions to 16 bits are retried swaps of words; so are the largest of floats on some."""
    i = tl.arange(0, block)
    tl.atomic_add(o.to(tl.pointer_type(tl.float16)) + i % 63, tl.load(x + i).to(tl.float16))
    tl.atomic_max(o + 100 + i % 7, tl.load(x + i))


@triton.jit
def a_flag_that_is_looked_at(x, o, block: tl.constexpr):
    """Looked at by loads that pass by the caches, before it is acquired."""
    me, i, flag = _stored_by_the_first(x, o, block)
    if me == 0:
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        seen = tl.load(flag, cache_modifier=".cv")
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            seen += tl.load(flag, cache_modifier=".cv")
        tl.debug_barrier()
        tl.store(o + me * block + i, tl.load(o + i) + 0 * seen)


@triton.jit
def bytes_of_one_word(x, o, block: tl.constexpr):
    """Each block has one of the four in each word."""
    me, i = tl.program_id(0), tl.arange(0, block)
    tl.store(o.to(tl.pointer_type(tl.int8)) + 4 * i + me, (i + me).to(tl.int8))


@triton.jit
def sets_a_ticket_back(x, o, block: tl.constexpr):
    count = o.to(tl.pointer_type(tl.int32)) + 1000
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        tl.store(count, 0)


@triton.jit
def one_place_of_all_blocks(x, o, block: tl.constexpr):
    """All change the same places, and the last one to come reads them. Operations that the arch
    lacks are retried swaps, of what one scalar load has found."""
    i, me = tl.arange(0, block), tl.program_id(0)
    value = tl.max(tl.load(x + i), 0) + me
    tl.atomic_max(o + 100, value, sem="relaxed")
    tl.atomic_min(o + 101, value, sem="relaxed")
    tl.atomic_add((o + 102).to(tl.pointer_type(tl.float64)), value.to(tl.float64), sem="relaxed")
    tl.atomic_add((o + 104).to(tl.pointer_type(tl.float16)), value.to(tl.float16), sem="relaxed")
    tl.atomic_add((o + 105).to(tl.pointer_type(tl.bfloat16)), value.to(tl.bfloat16), sem="relaxed")
    tl.debug_barrier()
    if tl.atomic_add(o.to(tl.pointer_type(tl.int32)) + 1000, 1) == tl.num_programs(0) - 1:
        tl.store(o + 110 + tl.arange(0, 8), tl.load(o + 100 + tl.arange(0, 8)))
