"""Races that were put into kernels are found, all of them, on every arch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import ARCHS, SHORT_ARCHS, by_arch, compiled, run
from test_races import _without_barriers

from xtarget import KernelFault
from xtarget._values.types import Artifact

_HERE = Path(__file__).parent
_BLOCK = 256
_X = np.random.default_rng(3).standard_normal(_BLOCK).astype(np.float32) + 2
#: Kernel to the number of its blocks.
_RACES = {
    "overlapping_tiles": 2,
    "one_too_many": 2,
    "stencil_in_place": 2,
    "stencil_in_place_of_one_block": 1,
    "scatter_with_duplicates": 1,
    "adds_without_atomics": 2,
    "counts_without_atomics": 1,
    "sets_a_counter_back": 2,
    "does_not_wait_for_the_others": 2,
    "transposes_in_place": 16,
    "splits_without_atomics": 2,
    "reverses_in_memory": 1,
    "reads_behind_its_back": 1,
    "slots_in_turn": 3,
    "bytes_beside_words": 2,
    "carries_through_memory": 1,
    "a_value_of_each_block": 2,
    "writes_what_others_still_read": 1,
    "a_wide_store_over_narrow_ones": 1,
    "relaxed_on_both_sides": 2,
    "never_acquired": 2,
    "never_released": 2,
    "handed_over_within_a_block_only": 2,
    "overwritten_after_a_relaxed_flag": 2,
    "a_lock_that_orders_nothing": 2,
    "reads_a_counter_of_all": 2,
    "reads_before_others_add": 2,
    "sums_without_waiting": 2,
    "sets_back_what_others_add_to": 2,
    "reads_sums_without_a_barrier": 1,
    "halves_a_sum_without_its_barriers": 1,
    "fills_again_what_nobody_has_read": 2,
    "says_so_before_it_is_there": 4,
    "two_locks_for_one_sum": 4,
    "sets_a_ticket_back_too_early": 3,
    "reads_what_the_winner_writes": 3,
}
#: The waits and cache operations of these archs do not show it: they are a release's.
_AS_ORDERED = {("never_released", "gfx1100"), ("never_released", "gfx1201")}
#: Like those, without a race.
_ORDERED = {
    "released_and_acquired": 3,
    "both_at_once": 3,
    "for_the_whole_system": 3,
    "a_lock": 3,
    "the_last_one_reads_all_sums": 4,
    "passed_on": 4,
    "places_by_relaxed_tickets": 3,
    "halves_beside_each_other": 4,
    "a_flag_that_is_looked_at": 3,
    "halves_a_sum": 1,
    "fills_what_was_read": 2,
    "says_so_when_it_is_there": 4,
    "bytes_of_one_word": 4,
    "sets_a_ticket_back": 3,
    "one_place_of_all_blocks": 4,
}
_TWO, _INTS = "x:*fp32 o:*fp32", "x:*i32 o:*i32"
_ONE_BLOCK = (("block", _BLOCK),)
#: The kernel of a name that is not a kernel's own, and its constants after the block.
_VARIANTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "relaxed_on_both_sides": ("message", ("relaxed", "relaxed", "gpu")),
    "never_acquired": ("message", ("release", "relaxed", "gpu")),
    # gfx11 and gfx12 wait for the stores at the barrier, which is all that a release is there
    "never_released": ("message", ("relaxed", "acquire", "gpu")),
    "handed_over_within_a_block_only": ("message", ("acq_rel", "acq_rel", "cta")),
    "released_and_acquired": ("message", ("release", "acquire", "gpu")),
    "both_at_once": ("message", ("acq_rel", "acq_rel", "gpu")),
    "for_the_whole_system": ("message", ("release", "acquire", "sys")),
    "a_lock_that_orders_nothing": ("adds_under_a_lock", ("relaxed", "relaxed")),
    "a_lock": ("adds_under_a_lock", ("acquire", "release")),
    "halves_a_sum_without_its_barriers": ("halves_a_sum", (False,)),
    "halves_a_sum": ("halves_a_sum", (True,)),
    "fills_again_what_nobody_has_read": ("to_and_fro", (False,)),
    "fills_what_was_read": ("to_and_fro", (True,)),
    "says_so_before_it_is_there": ("looks_back", (True,)),
    "says_so_when_it_is_there": ("looks_back", (False,)),
}
#: Names of the constants after the block.
_CONSTANTS = {
    "message": ("release", "acquire", "scope"),
    "adds_under_a_lock": ("taken", "given_back"),
    "halves_a_sum": ("waits",),
    "to_and_fro": ("waits",),
    "looks_back": ("late",),
}
_MATRIX = np.random.default_rng(4).standard_normal((32, 32)).astype(np.float32)
_ROW = "x:*fp32 o:*fp32 n:i32"
#: Kernels that use shared memory, without their barriers: file, signature, constants, arguments.
_BARRED: dict[str, tuple[str, str, Any, tuple[Any, ...]]] = {
    "total": ("emulator", _TWO, _ONE_BLOCK, (_X, _X[:1])),
    "sort": ("emulator", _TWO, _ONE_BLOCK, (_X, _X * 0)),
    "cumsum": ("emulator", _INTS, _ONE_BLOCK, (_X.astype(np.int32), np.zeros(_BLOCK, np.int32))),
    "argmax": (
        "emulator", "x:*fp32 o:*i32 n:i32", _ONE_BLOCK, (_X, np.zeros(1, np.int32), _BLOCK)),
    "through_memory": ("emulator", _TWO, _ONE_BLOCK, (_X, _X * 0)),
    "softmax": ("third_party", _ROW, _ONE_BLOCK, (_X, _X * 0, _BLOCK)),
    "running_sum": ("third_party", _ROW, (("block", 128),), (_X, _X * 0, _BLOCK)),
    "transposed": (
        "third_party", "x:*fp32 o:*fp32 m:i32 n:i32", (("block", 32),),
        (_MATRIX, _MATRIX * 0, 32, 32)),
    "split_k": (
        "third_party", "a:*fp32 b:*fp32 o:*fp32 k:i32", (("m", 32), ("n", 32), ("bk", 32)),
        (_MATRIX, _MATRIX, _MATRIX * 0, 32)),
    "sorted_rows": ("third_party", _ROW, _ONE_BLOCK, (_X, _X * 0, _BLOCK)),
}  # fmt: skip
_SHORT = {
    "scatter_with_duplicates", "overlapping_tiles", "reverses_in_memory", "sort", "split_k",
    "relaxed_on_both_sides", "never_acquired", "reads_a_counter_of_all", "released_and_acquired",
    "the_last_one_reads_all_sums", "one_place_of_all_blocks", "fills_again_what_nobody_has_read",
}  # fmt: skip


def _is_short(name: str, arch: str) -> bool:
    return name in _SHORT and arch in SHORT_ARCHS


def _racing(name: str, arch: str) -> Artifact:
    kernel, values = _VARIANTS.get(name, (name, ()))
    constants = (*_ONE_BLOCK, *zip(_CONSTANTS.get(kernel, ()), values, strict=True))
    return compiled(kernel, _TWO, arch, constants=constants, path=_HERE / "racing_kernels.py")


@pytest.fixture(autouse=True)
def _looked_for(look_for_races: Callable[[int], None]) -> None:
    look_for_races(10**10)


def test_there_are_enough_of_them() -> None:
    count = len(_RACES) + len(_BARRED)
    print(f"{count} seeded races on {len(ARCHS)} archs")
    assert count >= 20


@pytest.mark.sample(3, each=("name", "arch"))
@pytest.mark.parametrize(
    ("name", "arch"), [p for p in by_arch(_RACES, _is_short) if p.values not in _AS_ORDERED]
)
def test_a_race_in_global_memory_is_found(name: str, arch: str) -> None:
    code = _racing(name, arch)
    words = rf"^{code.entry} on {arch}, block .*\(a data race\)"
    with pytest.raises(KernelFault, match=words):
        run(code, (_RACES[name],), _X, np.zeros(1024, np.float32))


@pytest.mark.sample(3, each=("name", "arch"))
@pytest.mark.parametrize(("name", "arch"), by_arch(_ORDERED, _is_short))
def test_what_atomic_operations_order_is_no_race(name: str, arch: str) -> None:
    code = _racing(name, arch)
    out = run(code, (_ORDERED[name],), _X, np.zeros(1024 + 8, np.float32))[1]
    if name in ("released_and_acquired", "both_at_once", "for_the_whole_system"):
        np.testing.assert_array_equal(out[_BLOCK : 3 * _BLOCK], np.tile(_X, 2))


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_said_of_a_relaxed_flag(arch: str) -> None:
    code = _racing("relaxed_on_both_sides", arch)
    words = r"reads byte .* which block \(0, 0, 0\) of this launch wrote, .*are they relaxed"
    with pytest.raises(KernelFault, match=words):
        run(code, (2,), _X, np.zeros(1024, np.float32))


@pytest.mark.sample(3, each=("name", "arch"))
@pytest.mark.parametrize(("name", "arch"), by_arch(_BARRED, _is_short))
def test_a_barrier_that_is_missing_is_found(name: str, arch: str) -> None:
    file, signature, constants, arguments = _BARRED[name]
    path = _HERE / f"{file}_kernels.py"
    code = compiled(name, signature, arch, constants=constants, path=path)
    run(code, (1,), *arguments)
    with pytest.raises(KernelFault, match=rf"^{name} on {arch}, block .*\(a data race\)"):
        run(_without_barriers(code), (1,), *arguments)
