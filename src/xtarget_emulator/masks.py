"""Vector instructions that read or write a lane mask in addition to their values: choices, carries,
and the helpers of division."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import division
from .decode import Instruction
from .memory import Array
from .operands import Source, plain, unsupported, vector_put
from .valu import Step, sources, written
from .waves import VCC, Waves
from .words import flow

__all__ = ["blank_choice", "build"]


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    make = _STEPS.get(ins.mnemonic)
    return None if make is None else make(ins)


def _mask_of(
    ins: Instruction, slot: str
) -> tuple[Callable[[Waves], Array], Callable[[Waves], Array | None]]:
    """Return readers of a lane mask operand, in a scalar register (pair) or VCC, and of the lanes
    for which it holds nothing."""
    if ins.format in ("vop2", "vopc") or slot not in ins.fields:
        return (lambda w: w.read_mask(VCC)), (lambda w: w.unknown_mask(VCC))
    code = ins.fields[slot]
    if code >= 128:
        value = plain(ins, code, "u64" if ins.cdna else "u32")
        bits = int(value.get(None)[0, 0])  # type: ignore[arg-type]  # a constant reads no waves

        def fixed(w: Waves) -> Array:
            return np.array([[bool(bits >> lane & 1) for lane in range(w.lanes)]])

        return fixed, (lambda w: None)
    return (lambda w: w.read_mask(code)), (lambda w: w.unknown_mask(code))


def _select(ins: Instruction) -> Step:
    fields = ins.fields
    signs = fields.get("neg", 0) | fields.get("abs", 0)
    if ins.dpp is not None:
        signs |= ins.dpp.negate | ins.dpp.absolute
    if ins.sdwa:
        signs |= fields["src0_neg"] | fields["src1_neg"]
    half = ins.mnemonic.endswith("16")
    kind = ("f" if signs else "u") + ("16" if half else "32")
    a, b = sources(ins, (kind, kind))
    mask, undecided = _mask_of(ins, "src2")
    put = vector_put(ins, fields["vdst"], kind)
    writes = written(ins, fields["vdst"], kind)
    get_a, get_b = a.get, b.get

    def step(w: Waves) -> None:
        chosen = mask(w)
        lanes = a.lanes(w) if a.lanes else None
        bad = blank_choice(w, a, b, chosen, undecided(w)) if w.undefined else None
        put(w, np.where(chosen, get_b(w), get_a(w)), lanes)
        if w.undefined:
            w.mark(bad, writes, lanes)

    return step


def blank_choice(
    w: Waves, a: Source, b: Source, chosen: Array, undecided: Array | None
) -> Array | None:
    """Return the lanes whose chosen operand, of two, holds nothing. Also the lanes where it is
    unknown which operand is chosen, and the choice makes a difference."""
    result = None
    if undecided is not None:
        x, y = a.get(w), b.get(w)
        result = undecided & (x.view(f"u{x.itemsize}") != y.view(f"u{y.itemsize}"))
        result = np.broadcast_to(result, w.mask.shape)
    for found, those in ((a, ~chosen), (b, chosen)):
        bad = found.blank(w) if found.blank is not None else w.blank(found.reads)
        if bad is not None:
            if undecided is not None:
                those = those | undecided
            result = bad & those if result is None else result | bad & those
    return result


def _carry(ins: Instruction) -> Step:
    """Add and subtract with carry out, and in."""
    name = ins.mnemonic
    a, b = sources(ins, ("u32", "u32"))
    if "rev" in name:
        a, b = b, a
    takes = "_ci_" in name
    mask, undecided = _mask_of(ins, "src2")
    put = vector_put(ins, ins.fields["vdst"], "u32")
    carry_out = ins.fields["sdst"] if ins.format == "vop3sd" else VCC
    subtract = name.startswith("v_sub")
    reads = a.reads + b.reads
    writes = (ins.fields["vdst"],)
    if ins.fields.get("clmp"):
        raise unsupported(ins, "clamp")
    first = a if a.lanes is not None else b

    def step(w: Waves) -> None:
        x, y = a.get(w).astype(np.int64), b.get(w).astype(np.int64)
        total = x - y if subtract else x + y
        if takes:
            carry = mask(w)
            total = total - carry if subtract else total + carry
        lanes = first.lanes(w) if first.lanes is not None else None
        over = ((total < 0) | (total >> 32 > 0)) & w.mask
        bad = _either(w.blank(reads), undecided(w) if takes else None)
        put(w, total.astype(np.uint32), lanes)
        w.write_mask(carry_out, over, None if bad is None else bad & w.mask)
        if w.undefined:
            w.mark(bad, writes, lanes)

    return step


def _either(a: Array | None, b: Array | None) -> Array | None:
    return a if b is None else b if a is None else a | b


def _operation(
    ins: Instruction, kinds: tuple[str, ...], result: str
) -> tuple[Callable[[Waves], list[Array]], Callable[[Waves, Array], Array | None]]:
    """Return functions that get the operands and put the result of an instruction without lane
    masks. The second returns the active lanes in which an operand held nothing."""
    found = sources(ins, kinds)
    register = ins.fields["vdst"]
    put = vector_put(ins, register, result)
    made = flow(ins.mnemonic, [s.reads for s in found], written(ins, register, result))
    reads = tuple(r for s in found for r in s.reads)

    def finish(w: Waves, value: Array) -> Array | None:
        bad = w.blank(reads)
        put(w, value)
        w.flowed(made)
        return None if bad is None else bad & w.mask

    return (lambda w: [s.get(w) for s in found]), finish


def _div_scale(ins: Instruction) -> Step:
    kind, flag = ins.mnemonic[-3:], ins.fields["sdst"]
    operands, finish = _operation(ins, (kind, kind, kind), kind)

    def step(w: Waves) -> None:
        scaled, back = division.div_scale(*operands(w))
        bad = finish(w, scaled)
        w.write_mask(flag, back & w.mask, bad)

    return step


def _div_fmas(ins: Instruction) -> Step:
    kind = ins.mnemonic[-3:]
    operands, finish = _operation(ins, (kind, kind, kind), kind)
    writes = written(ins, ins.fields["vdst"], kind)

    def step(w: Waves) -> None:
        a, b, c = operands(w)
        undecided = w.unknown_mask(VCC)
        finish(w, division.div_fmas(a, b, c, w.read_mask(VCC)))
        if undecided is not None and (undecided & w.mask).any():
            w.mark(_either(w.blank(writes), undecided), writes)

    return step


def _multiply_wide(ins: Instruction) -> Step:
    signed = "_i64" in ins.mnemonic
    narrow, wide = ("i32", "i64") if signed else ("u32", "u64")
    operands, finish = _operation(ins, (narrow, narrow, wide), wide)
    dtype, flag = (np.int64 if signed else np.uint64), ins.fields["sdst"]

    def step(w: Waves) -> None:
        a, b, c = operands(w)
        product = a.astype(dtype) * b.astype(dtype)
        total = product + c
        over = ((c < 0) != (total < product)) if signed else total < product
        bad = finish(w, total)
        w.write_mask(flag, np.broadcast_to(over, w.mask.shape) & w.mask, bad)

    return step


def _nothing(ins: Instruction) -> Step:
    return lambda w: None


_STEPS: dict[str, Callable[[Instruction], Step]] = {
    "v_nop": _nothing,
    "v_cndmask_b32": _select,
    "v_cndmask_b16": _select,
    "v_div_scale_f32": _div_scale,
    "v_div_scale_f64": _div_scale,
    "v_div_fmas_f32": _div_fmas,
    "v_div_fmas_f64": _div_fmas,
    "v_mad_u64_u32": _multiply_wide,
    "v_mad_i64_i32": _multiply_wide,
    "v_add_co_u32": _carry,
    "v_sub_co_u32": _carry,
    "v_subrev_co_u32": _carry,
    "v_add_co_ci_u32": _carry,
    "v_sub_co_ci_u32": _carry,
    "v_subrev_co_ci_u32": _carry,
}
