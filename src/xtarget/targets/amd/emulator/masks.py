"""Vector instructions that read or write a lane mask beside their values: choices, carries, and the
helpers of division."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import floats
from .decode import Instruction
from .memory import Array
from .operands import Source, plain, reads_vcc, unsupported, vector_put
from .valu import Step, sources, written
from .waves import SGPR, VCC, Waves
from .words import flow

__all__ = ["CHOOSES", "blank_choice", "build"]

CHOOSES = "to choose between two values"


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    make = _STEPS.get(ins.mnemonic)
    return None if make is None else make(ins)


def _mask_of(ins: Instruction, slot: str) -> tuple[Callable[[Waves], Array], tuple[int, ...]]:
    """A lane mask operand: in a scalar register (pair), or VCC."""
    if ins.format in ("vop2", "vopc") or slot not in ins.fields:
        return (lambda w: w.read_mask(VCC)), reads_vcc(ins)
    code = ins.fields[slot]
    if code >= 128:
        value = plain(ins, code, "u64" if ins.cdna else "u32")
        bits = int(value.get(None)[0, 0])  # type: ignore[arg-type]

        def fixed(w: Waves) -> Array:
            return np.array([[bool(bits >> lane & 1) for lane in range(w.lanes)]])

        return fixed, ()
    reads = (SGPR + code, SGPR + code + 1) if ins.cdna else (SGPR + code,)
    return (lambda w: w.read_mask(code)), reads


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
    mask, reads = _mask_of(ins, "src2")
    put = vector_put(ins, fields["vdst"], kind)
    writes = written(ins, fields["vdst"], kind)
    get_a, get_b = a.get, b.get

    def step(w: Waves) -> None:
        chosen = mask(w)
        lanes = a.lanes(w) if a.lanes else None
        bad = blank_choice(w, a, b, chosen) if w.undefined else None
        put(w, np.where(chosen, get_b(w), get_a(w)), lanes)
        if w.undefined:
            w.demand(reads, CHOOSES)
            w.mark(bad, writes, lanes)

    return step


def blank_choice(w: Waves, a: Source, b: Source, chosen: Array) -> Array | None:
    """The lanes for which the one of two operands that they take holds nothing."""
    result = None
    for found, those in ((a, ~chosen), (b, chosen)):
        bad = found.blank(w) if found.blank is not None else w.blank(found.reads)
        if bad is not None:
            result = bad & those if result is None else result | bad & those
    return result


def _carry(ins: Instruction) -> Step:
    """Add and subtract with carry out, and in."""
    name = ins.mnemonic
    a, b = sources(ins, ("u32", "u32"))
    if "rev" in name:
        a, b = b, a
    takes = "_ci_" in name
    mask, mask_reads = _mask_of(ins, "src2")
    put = vector_put(ins, ins.fields["vdst"], "u32")
    carry_out = ins.fields["sdst"] if ins.format == "vop3sd" else VCC
    subtract = name.startswith("v_sub")
    reads = a.reads + b.reads + (mask_reads if takes else ())
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
        put(w, total.astype(np.uint32), lanes)
        w.write_mask(carry_out, over)
        if w.undefined:
            w.defined(reads, writes, lanes)

    return step


def _operation(
    ins: Instruction, kinds: tuple[str, ...], result: str
) -> tuple[Callable[[Waves], list[Array]], Callable[[Waves, Array], None]]:
    """How to get the operands, and to put the result, of an instruction without lane masks."""
    found = sources(ins, kinds)
    register = ins.fields["vdst"]
    put = vector_put(ins, register, result)
    made = flow(ins.mnemonic, [s.reads for s in found], written(ins, register, result))

    def finish(w: Waves, value: Array) -> None:
        put(w, value)
        w.flowed(made)

    return (lambda w: [s.get(w) for s in found]), finish


def _div_scale(ins: Instruction) -> Step:
    kind, flag = ins.mnemonic[-3:], ins.fields["sdst"]
    operands, finish = _operation(ins, (kind, kind, kind), kind)

    def step(w: Waves) -> None:
        scaled, back = floats.div_scale(*operands(w))
        finish(w, scaled)
        w.write_mask(flag, back & w.mask)

    return step


def _div_fmas(ins: Instruction) -> Step:
    kind = ins.mnemonic[-3:]
    operands, finish = _operation(ins, (kind, kind, kind), kind)
    fma, shift = (floats.fma64, 64) if kind == "f64" else (floats.fma32, 32)

    def step(w: Waves) -> None:
        value = fma(*operands(w))
        finish(w, np.where(w.read_mask(VCC), np.ldexp(value, shift), value))

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
        finish(w, total)
        w.write_mask(flag, np.broadcast_to(over, w.mask.shape) & w.mask)

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
