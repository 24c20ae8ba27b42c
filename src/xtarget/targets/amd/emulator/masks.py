"""Vector instructions that read or write a lane mask beside their values: choices, carries, and the
helpers of division."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import floats
from .decode import Instruction
from .memory import Array
from .operands import plain, reads_vcc, unsupported, vector_put
from .valu import Step, low_reads, sources, written
from .waves import SGPR, VCC, Waves

__all__ = ["build"]


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
        put(w, np.where(chosen, get_b(w), get_a(w)), a.lanes(w) if a.lanes else None)
        if w.undefined:
            w.demand(reads, "to choose between two values")
            bad = np.zeros(w.mask.shape, bool)
            for found, those in ((a, ~chosen), (b, chosen)):
                for register in found.reads:
                    lanes = w.undefined.get(register)
                    if lanes is not None:
                        bad |= lanes & those
            w.mark(bad, writes)

    return step


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


def _div_scale(ins: Instruction) -> Step:
    kind = ins.mnemonic[-3:]
    found = sources(ins, (kind, kind, kind))
    put = vector_put(ins, ins.fields["vdst"], kind)
    reads = tuple(r for s in found for r in s.reads)
    writes = written(ins, ins.fields["vdst"], kind)
    flag = ins.fields["sdst"]

    def step(w: Waves) -> None:
        scaled, back = floats.div_scale(*(s.get(w) for s in found))
        put(w, scaled)
        w.write_mask(flag, back & w.mask)
        if w.undefined:
            w.defined(reads, writes)

    return step


def _div_fmas(ins: Instruction) -> Step:
    kind = ins.mnemonic[-3:]
    found = sources(ins, (kind, kind, kind))
    put = vector_put(ins, ins.fields["vdst"], kind)
    reads = tuple(r for s in found for r in s.reads)
    writes = written(ins, ins.fields["vdst"], kind)
    fma, shift = (floats.fma64, 64) if kind == "f64" else (floats.fma32, 32)

    def step(w: Waves) -> None:
        value = fma(*(s.get(w) for s in found))
        put(w, np.where(w.read_mask(VCC), np.ldexp(value, shift), value))
        if w.undefined:
            w.defined(reads, writes)

    return step


def _multiply_wide(ins: Instruction) -> Step:
    signed = "_i64" in ins.mnemonic
    narrow, wide = ("i32", "i64") if signed else ("u32", "u64")
    found = sources(ins, (narrow, narrow, wide))
    put = vector_put(ins, ins.fields["vdst"], wide)
    reads = tuple(r for s in found for r in s.reads)
    low = low_reads(found)
    writes = written(ins, ins.fields["vdst"], wide)
    flag = ins.fields["sdst"]
    dtype = np.int64 if signed else np.uint64

    def step(w: Waves) -> None:
        a, b, c = (s.get(w) for s in found)
        product = a.astype(dtype) * b.astype(dtype)
        total = product + c
        over = ((c < 0) != (total < product)) if signed else total < product
        put(w, total)
        w.write_mask(flag, np.broadcast_to(over, w.mask.shape) & w.mask)
        if w.undefined:
            w.defined_by_halves(low, reads, writes)

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
