"""Follow undefined values by the bit through instructions that move, select or combine bits.

Other instructions are followed by the register, as each step does itself: their result holds
nothing if a bit that they read does not. Where only some bits of an operand hold nothing, this
would be wrong in both ways. So the step of an instruction of these gets a second part, which finds
the bits of its result. It runs only where an operand has such bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from . import moves, packed, pairs
from .decode import Instruction
from .lds import build as lds_step
from .mask_logic import MaskLogic
from .memory import Array
from .operands import Source, plain, scalar_put, vector_put
from .scalar_floats import codes as scalar_codes
from .scalar_rules import RULES
from .shadow import partial, shadow, unknown_operand
from .transfer import Transfer, transfer
from .valu import Step, bitop_table, sources, unsigned, written
from .vector import ALU, KEEPS_HALF, Rule, bitop3
from .waves import ACC, EXEC, SGPR, VCC, Waves

__all__ = ["refined"]

#: Registers, and of each the bits that hold nothing after the instruction.
Found: TypeAlias = list[tuple[int, Array]]

#: What only moves values between lanes or registers: the operands that are moved, by their fields.
_MOVES = {
    "v_readfirstlane_b32": ("src0",),
    "v_readlane_b32": ("src0",),
    "v_writelane_b32": ("src0", "vdst"),
    "v_permlane16_b32": ("src0", "vdst"),
    "v_permlanex16_b32": ("src0", "vdst"),
    "v_permlane16_swap_b32": ("src0", "vdst"),
    "v_permlane32_swap_b32": ("src0", "vdst"),
    "v_permlane64_b32": ("src0", "vdst"),
    "v_swap_b32": ("src0", "vdst"),
    "v_swap_b16": ("src0", "vdst"),
    "v_accvgpr_read": ("src0", "vdst"),
    "v_accvgpr_read_b32": ("src0", "vdst"),
    "v_accvgpr_write": ("src0", "vdst"),
    "v_accvgpr_write_b32": ("src0", "vdst"),
    "v_accvgpr_mov_b32": ("src0", "vdst"),
    "v_pk_mov_b32": ("src0", "src1", "vdst"),
    "ds_bpermute_b32": ("data0", "vdst"),
    "ds_permute_b32": ("data0", "vdst"),
    "ds_swizzle_b32": ("addr", "vdst"),
}
_SCALAR_DESTINATION = ("v_readfirstlane_b32", "v_readlane_b32")
_SKIPPED = re.compile(r"^v_cmpx?_|^v_pk_|^v_fma_mix")


@dataclass(frozen=True, slots=True)
class _Part:
    """The second part of a step.

    Attributes:
        touched: registers on which it depends.
        always: it is needed wherever one of them holds nothing in some lane; else only where that
            is so of some of its bits.
        find: what the result's registers do not hold, before the instruction is executed.
    """

    touched: tuple[int, ...]
    always: bool
    find: Callable[[Waves], Found]

    def needed(self, w: Waves) -> bool:
        if self.always:
            return any(register in w.undefined for register in self.touched)
        return bool(w.partly) and partial(w, self.touched)


def refined(ins: Instruction, step: Step) -> Step:
    """Return the step with its second part, if it has one."""
    parts = [part for part in _parts(ins) if part is not None]
    if not parts:
        return step

    def both(w: Waves) -> None:
        if not w.undefined:
            step(w)
            return
        found = [pair for part in parts if part.needed(w) for pair in part.find(w)]
        step(w)
        for register, bits in found:
            w.note_unknown(register, bits)

    return both


def _parts(ins: Instruction) -> list[_Part | None]:
    if ins.format == "vopd":
        return [_vector(half) for half in pairs.halves(ins)]
    if ins.mnemonic in _MOVES:
        return [_moved(ins)]
    if ins.format in ("sop1", "sop2"):
        return [_scalar(ins)]
    return [_vector(ins)]


# --------------------------------------------------------------------------------------- computing


def _vector(ins: Instruction) -> _Part | None:
    if ins.mnemonic.startswith("v_cndmask_b"):
        return _choice(ins)
    if ins.format not in ("vop1", "vop2", "vop3") or _SKIPPED.match(ins.mnemonic):
        return None
    bare = unsigned(ins)
    if ins.mnemonic.startswith("v_bitop3_"):
        kind = "u16" if ins.mnemonic.endswith("16") else "u32"
        rule: Rule = (kind, (kind, kind, kind), bitop3(bitop_table(ins)))
    elif ins.mnemonic in ALU:
        rule = ALU[ins.mnemonic]
    else:
        return None
    result, kinds, function = rule
    if ins.mnemonic.startswith(("v_fmac", "v_mac")) and ins.format == "vop3":
        bare = replace(bare, fields={k: v for k, v in bare.fields.items() if k != "src2"})
    clamps = bool(ins.fields.get("clmp"))
    way = None if clamps else transfer(ins.mnemonic[2:], function)
    # what a way needs is integers, which have no signs to change
    found = sources(bare, kinds if way is not None and way.typed else _bits_of(kinds))
    register = ins.fields["vdst"]
    if ins.mnemonic.startswith("v_s_"):
        put = scalar_put(bare, register, "u32")
        writes: tuple[int, ...] = (SGPR + register,)
    else:
        put = vector_put(bare, register, _bits_of((result,))[0], ins.mnemonic in KEEPS_HALF)
        writes = written(bare, register, result)
    narrow = any(kind[1:] == "16" for kind in (result, *kinds)) or bool(ins.sdwa)
    if way is None and not narrow:
        return None
    return _part(found, writes, result, way, narrow, lambda s, bits, lanes: put(s, bits, lanes))


def _bits_of(kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple("u" + kind[1:] for kind in kinds)


def _part(
    found: list[Source],
    writes: tuple[int, ...],
    result: str,
    way: Transfer | None,
    narrow: bool,
    put: Callable[[Waves, Array, Array | None], None],
) -> _Part:
    reads = tuple(r for s in found for r in s.reads)
    dtype = np.dtype(f"u{int(result[1:]) // 8}")
    ones = dtype.type((1 << int(result[1:])) - 1)
    touched = (*reads, *writes) if narrow else reads
    scalar_result = writes[0] >= SGPR

    def find(w: Waves) -> Found:
        copy = shadow(w, (*reads, *writes))
        bits = [unknown_operand(w, copy, s) for s in found]
        if way is not None:
            values = [s.get(w) for s in found]
            unknown = way.find(values, bits)
        else:
            bad = bits[0] != 0
            for more in bits[1:]:
                bad = bad | (more != 0)
            unknown = np.where(bad, ones, dtype.type(0))
        shape = (w.count, 1 if scalar_result else w.lanes)
        first = found[0]
        lanes = first.lanes(w) if first.lanes is not None else None
        put(copy, np.broadcast_to(unknown.astype(dtype, copy=False), shape), lanes)
        return _taken(copy, writes)

    wide = result[1:] == "64"
    return _Part(touched, narrow or (way is not None and way.always and not wide), find)


def _taken(copy: Waves, writes: Sequence[int]) -> Found:
    return [(r, np.array(copy.su[r - SGPR] if r >= SGPR else copy.vu[r])) for r in writes]


def _choice(ins: Instruction) -> _Part | None:
    kind = "u16" if ins.mnemonic.endswith("16") else "u32"
    bare = unsigned(ins)
    a, b = sources(bare, (kind, kind))
    register = ins.fields["vdst"]
    put = vector_put(bare, register, kind)
    writes = written(bare, register, kind)
    code = VCC if ins.format == "vop2" or "src2" not in ins.fields else ins.fields["src2"]
    if code >= 128:
        return None
    reads = (*a.reads, *b.reads)

    def find(w: Waves) -> Found:
        chosen, undecided = w.read_mask(code), w.unknown_mask(code)
        copy = shadow(w, (*reads, *writes))
        u, v = unknown_operand(w, copy, a), unknown_operand(w, copy, b)
        unknown: Array = np.where(chosen, v, u)
        if undecided is not None:
            x, y = a.get(w), b.get(w)
            unknown = np.where(undecided, u | v | (x ^ y), unknown)
        lanes = a.lanes(w) if a.lanes is not None else None
        unknown = unknown.astype(f"u{int(kind[1:]) // 8}", copy=False)
        put(copy, np.broadcast_to(unknown, (w.count, w.lanes)), lanes)
        return _taken(copy, writes)

    return _Part((*reads, *writes) if kind == "u16" or ins.sdwa else reads, False, find)


def _scalar(ins: Instruction) -> _Part | None:
    rule = RULES.get(ins.mnemonic)
    if rule is None or MaskLogic.of(ins) is not None or ins.fields["sdst"] >= EXEC:
        return None
    result, kinds, function, _ = rule
    way = transfer(ins.mnemonic[2:], function)
    narrow = any(kind[1:] == "16" for kind in kinds)
    if way is None and not narrow:
        return None
    if way is None or not way.typed:
        kinds = _bits_of(kinds)
    found = [plain(ins, c, k) for c, k in zip(scalar_codes(ins), kinds, strict=False)]
    register = ins.fields["sdst"]
    put = scalar_put(ins, register, _bits_of((result,))[0])
    wide = result[1:] == "64"
    writes = tuple(SGPR + register + i for i in range(2 if wide else 1))
    return _part(found, writes, result, way, narrow, lambda s, bits, lanes: put(s, bits))


# ------------------------------------------------------------------------------------------ moving


def _moved(ins: Instruction) -> _Part | None:
    fields = dict(ins.fields)
    moved: list[int] = []
    for slot in _MOVES[ins.mnemonic]:
        code = fields[slot]
        count = 2 if ins.mnemonic == "v_pk_mov_b32" else 1
        if slot == "vdst":
            first = code + (ACC if "accvgpr_write" in ins.mnemonic else 0)
            first += ACC if "accvgpr_mov" in ins.mnemonic else 0
        elif slot in ("data0", "addr"):
            first = code
        elif code >= 256:
            first = code - 256
            if "accvgpr_read" in ins.mnemonic or "accvgpr_mov" in ins.mnemonic:
                first += ACC
        elif code < 128:
            first = SGPR + code
        else:
            fields[slot] = 128  # a constant's bits all hold something: move zeros
            continue
        if ins.mnemonic == "v_swap_b16":
            first &= 127
        moved.extend(range(first, first + count))
    again = replace(ins, fields=fields)
    step = lds_step(again) or moves.build(again) or packed.build(again)
    if step is None:
        return None
    run = step
    if ins.mnemonic in _SCALAR_DESTINATION:
        writes: tuple[int, ...] = (SGPR + ins.fields["vdst"],)
        if writes[0] >= SGPR + EXEC:
            return None
    elif "swap" in ins.mnemonic:
        writes = tuple(moved)
    else:
        writes = tuple(moved[-2:] if ins.mnemonic == "v_pk_mov_b32" else moved[-1:])
    selectors = tuple(_selectors(ins))

    def find(w: Waves) -> Found:
        copy = shadow(w, moved, [r for r in selectors if r not in moved])
        run(copy)
        return _taken(copy, writes)

    return _Part((*moved, *writes), ins.mnemonic == "v_swap_b16", find)


def _selectors(ins: Instruction) -> list[int]:
    """Registers that say from where to where values are moved."""
    found = []
    for slot in ("src1", "src2"):
        code = ins.fields.get(slot, 128)
        if slot not in _MOVES[ins.mnemonic] and code < 128:
            found.append(SGPR + code)
        elif slot not in _MOVES[ins.mnemonic] and code >= 256:
            found.append(code - 256)
    if "permute" in ins.mnemonic:
        found.append(ins.fields["addr"])
    return found
