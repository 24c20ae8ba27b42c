"""Vector instructions that move values between lanes or between kinds of registers; the trap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decode import Instruction
from .memory import Array, Fault
from .operands import plain, scalar_put, unsupported
from .valu import Step
from .waves import ACC, SGPR, Waves

__all__ = ["build"]


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    make = _MOVES.get(ins.mnemonic)
    return None if make is None else make(ins)


def _first_lane(ins: Instruction) -> Step:
    """v_readfirstlane: of the first active lane, or lane 0 when none is."""
    found = plain(ins, ins.fields["src0"], "u32")
    register = ins.fields["vdst"]
    put = scalar_put(ins, register, "u32")

    def step(w: Waves) -> None:
        value = np.broadcast_to(found.get(w), (w.count, w.lanes))
        lane = np.argmax(w.mask, axis=1)
        put(w, value[np.arange(w.count), lane][:, None])
        _lane_defined(w, found.reads, lane, register)

    return step


def _lane_defined(w: Waves, reads: tuple[int, ...], lane: Array, register: int) -> None:
    bad = None
    for read in reads:
        undefined = w.undefined.get(read)
        if undefined is not None:
            undefined = np.broadcast_to(undefined, (w.count, w.lanes))
            bad = undefined[np.arange(w.count), lane][:, None]
    if bad is None or not bad.any():
        w.undefined.pop(SGPR + register, None)
    else:
        w.undefined[SGPR + register] = bad


def _read_lane(ins: Instruction) -> Step:
    found = plain(ins, ins.fields["src0"], "u32")
    which = plain(ins, ins.fields["src1"], "u32")
    register = ins.fields["vdst"]
    put = scalar_put(ins, register, "u32")

    def step(w: Waves) -> None:
        w.demand(which.reads, "as a lane's number", everywhere=True)
        value = np.broadcast_to(found.get(w), (w.count, w.lanes))
        lane = np.broadcast_to(which.get(w), (w.count, 1))[:, 0] & np.uint32(w.lanes - 1)
        put(w, value[np.arange(w.count), lane][:, None])
        _lane_defined(w, found.reads, lane, register)

    return step


def _write_lane(ins: Instruction) -> Step:
    value = plain(ins, ins.fields["src0"], "u32")
    which = plain(ins, ins.fields["src1"], "u32")
    register = ins.fields["vdst"]

    def step(w: Waves) -> None:
        w.demand(which.reads, "as a lane's number", everywhere=True)
        lane = np.broadcast_to(which.get(w), (w.count, 1)) & np.uint32(w.lanes - 1)
        chosen = w.lane == lane
        np.copyto(w.vu[register], value.get(w), where=chosen)
        if w.undefined:
            w.defined(value.reads, (register,), chosen)

    return step


def _permute_rows(ins: Instruction) -> Step:
    """v_permlane16 and v_permlanex16: an arbitrary permutation within a row of 16, or from the
    other row of a pair. op_sel has "fetch inactive" and "bound control"."""
    found = plain(ins, ins.fields["src0"], "u32")
    low, high = (plain(ins, ins.fields[s], "u32") for s in ("src1", "src2"))
    register = ins.fields["vdst"]
    other = 16 if "x16" in ins.mnemonic else 0
    inactive, zero = ins.fields["opsel"] & 1, ins.fields["opsel"] >> 1 & 1

    def step(w: Waves) -> None:
        w.demand((*low.reads, *high.reads), "to select lanes", everywhere=True)
        place = (w.lane & 15).astype(np.uint32)
        select = np.where(
            place < 8, low.get(w) >> 4 * (place & 7), high.get(w) >> 4 * (place & 7)
        ) & np.uint32(15)
        origin = np.broadcast_to((w.lane & ~15 ^ other) | select, (w.count, w.lanes))
        rows = np.arange(w.count)[:, None]
        value = np.broadcast_to(found.get(w), (w.count, w.lanes))[rows, origin]
        lanes = w.mask
        if not inactive and not w.full:
            there = w.mask[rows, origin]
            if zero:
                value = np.where(there, value, np.uint32(0))
            else:
                lanes = lanes & there
        np.copyto(w.vu[register], value, where=lanes)
        bad = w.undefined.get(found.reads[0]) if found.reads else None
        if bad is not None:
            w.mark(np.broadcast_to(bad, w.mask.shape)[rows, origin], (register,), lanes)
        elif w.undefined:
            w.defined((), (register,), lanes)

    return step


def _swap_rows(ins: Instruction) -> Step:
    """v_permlane16_swap and v_permlane32_swap (gfx950): odd rows of the destination trade places
    with even rows of the source."""
    size = 16 if "16" in ins.mnemonic else 32
    first, second = ins.fields["vdst"], ins.fields["src0"] - 256
    if second < 0:
        raise unsupported(ins, "a scalar source")

    def step(w: Waves) -> None:
        if not w.full:
            raise unsupported(ins, "with inactive lanes")
        a, b = np.array(w.vu[first]), np.array(w.vu[second])
        odd = np.broadcast_to((w.lane & size) != 0, w.mask.shape)
        a_from_b, b_from_a = np.roll(b, size, axis=1), np.roll(a, -size, axis=1)
        np.copyto(w.vu[first], a_from_b, where=odd)
        np.copyto(w.vu[second], b_from_a, where=~odd)
        if first in w.undefined or second in w.undefined:
            none = np.zeros(w.mask.shape, bool)
            u, v = w.undefined.get(first, none), w.undefined.get(second, none)
            w.mark(np.where(odd, np.roll(v, size, axis=1), u), (first,))
            w.mark(np.where(odd, v, np.roll(u, -size, axis=1)), (second,))

    return step


def _count_mask(upper: bool) -> Callable[[Instruction], Step]:
    """v_mbcnt: bits of a mask below this lane, in its lower or upper half, plus src1."""

    def make(ins: Instruction) -> Step:
        mask, base = (
            plain(ins, ins.fields["src0"], "u32"),
            plain(ins, ins.fields.get("src1", ins.fields.get("vsrc1", 0) + 256), "u32"),
        )
        register = ins.fields["vdst"]

        def step(w: Waves) -> None:
            lane = w.lane.astype(np.int64) - (32 if upper else 0)
            below = ((np.int64(1) << np.clip(lane, 0, 32)) - 1).astype(np.uint32)
            count = np.bitwise_count(mask.get(w) & below).astype(np.uint32)
            np.copyto(w.vu[register], count + base.get(w), where=w.mask)
            if w.undefined:
                bad = w.blank(base.reads)
                if mask.reads and mask.reads[0] in w.undefined:
                    here = w.blank(mask.reads)
                    if mask.reads[0] >= SGPR:
                        bits = w.unknown_bits(mask.reads[0] - SGPR)
                        here = None if bits is None else bits & below != 0
                    bad = here if bad is None else bad | here
                w.mark(bad, (register,))

        return step

    return make


def _accumulator(ins: Instruction) -> Step:
    """v_accvgpr_read, v_accvgpr_write, v_accvgpr_mov."""
    name, register = ins.mnemonic, ins.fields["vdst"]
    code = ins.fields["src0"]
    if "read" in name or "mov" in name:
        found = plain(ins, code, "u32", acc=True)
    else:
        found = plain(ins, code, "u32")
    target = register if "read" in name else ACC + register

    def step(w: Waves) -> None:
        np.copyto(w.vu[target], found.get(w), where=w.mask)
        if w.undefined:
            w.defined(found.reads, (target,))

    return step


def _swap(ins: Instruction) -> Step:
    first, second = ins.fields["vdst"], ins.fields["src0"] - 256

    def step(w: Waves) -> None:
        a, b = np.array(w.vu[first]), np.array(w.vu[second])
        np.copyto(w.vu[first], b, where=w.mask)
        np.copyto(w.vu[second], a, where=w.mask)
        none = np.zeros(w.mask.shape, bool)
        u, v = w.undefined.get(first, none), w.undefined.get(second, none)
        w.mark(v, (first,))
        w.mark(u, (second,))

    return step


def _swap_halves(ins: Instruction) -> Step:
    """v_swap_b16: halves of registers 0 to 127; bit 7 is the upper one."""
    places = [
        (code & 127, 16 * (code >> 7 & 1)) for code in (ins.fields["vdst"], ins.fields["src0"])
    ]

    def step(w: Waves) -> None:
        values = [w.vu[r] >> np.uint32(s) & np.uint32(0xFFFF) for r, s in places]
        bad = [w.undefined.get(r) for r, _ in places]
        for (register, shift), value in zip(places, reversed(values), strict=True):
            rest = w.vu[register] & ~np.uint32(0xFFFF << shift)
            np.copyto(w.vu[register], rest | value << np.uint32(shift), where=w.mask)
        for (register, _), none in zip(places, reversed(bad), strict=True):
            if none is not None:
                w.mark(np.broadcast_to(none, w.mask.shape), (register,))

    return step


def _other_half(ins: Instruction) -> Step:
    """v_permlane64: lanes of the lower and the upper 32 trade values; of 32, it does nothing."""
    found = plain(ins, ins.fields["src0"], "u32")
    register = ins.fields["vdst"]

    def step(w: Waves) -> None:
        value = np.broadcast_to(found.get(w), w.mask.shape)
        if w.lanes == 64:
            value = np.roll(value, 32, axis=1)
        np.copyto(w.vu[register], value, where=w.mask)
        if w.undefined:
            w.defined(found.reads, (register,))

    return step


def _trap(ins: Instruction) -> Step:
    def step(w: Waves) -> None:
        if w.mask.any():
            raise Fault("ends the kernel, as a tl.device_assert does", int(np.argmax(w.mask)))

    return step


_MOVES: dict[str, Callable[[Instruction], Step]] = {
    "v_readfirstlane_b32": _first_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_permlane16_b32": _permute_rows,
    "v_permlanex16_b32": _permute_rows,
    "v_permlane16_swap_b32": _swap_rows,
    "v_permlane32_swap_b32": _swap_rows,
    "v_mbcnt_lo_u32_b32": _count_mask(False),
    "v_mbcnt_hi_u32_b32": _count_mask(True),
    "v_accvgpr_read": _accumulator,
    "v_accvgpr_read_b32": _accumulator,
    "v_accvgpr_write": _accumulator,
    "v_accvgpr_write_b32": _accumulator,
    "v_accvgpr_mov_b32": _accumulator,
    "v_swap_b32": _swap,
    "v_swap_b16": _swap_halves,
    "v_permlane64_b32": _other_half,
    "s_trap": _trap,
}
