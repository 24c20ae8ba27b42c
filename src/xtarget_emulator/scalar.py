"""Scalar ALU instructions: one value for each wave, waves x 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import scalar_floats
from .decode import Instruction
from .mask_logic import MaskLogic, Words, note_scc
from .memory import Array
from .operands import Source, plain, scalar_put, unsupported
from .scalar_rules import NONZERO, RULES, Rule, overflow
from .valu import Step
from .waves import EXEC, SCC, SGPR, Flow, Waves
from .words import flow

__all__ = ["build"]

_RELATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def build(ins: Instruction) -> Step | None:
    """The step of a scalar instruction; None when it is none of these."""
    if ins.format not in ("sop1", "sop2", "sopc", "sopk"):
        return None
    name = ins.mnemonic
    if ins.format == "sopk":
        return _short(ins)
    if name.startswith("s_cmp_"):
        return _compare(ins)
    if name.startswith("s_bitcmp"):
        return _bit(ins)
    if name.startswith(("s_cselect_", "s_cmov_")):
        return _choose(ins)
    if "_saveexec_" in name or "_wrexec_" in name:
        return _save_exec(ins)
    if name in ("s_addc_u32", "s_subb_u32"):
        return _with_carry(ins)
    rule = RULES.get(name)
    return None if rule is None else _general(ins, rule)


def _sources(ins: Instruction, kinds: tuple[str, ...]) -> list[Source]:
    codes = scalar_floats.codes(ins)
    return [plain(ins, code, kind) for code, kind in zip(codes, kinds, strict=False)]


def _operands(ins: Instruction, kinds: tuple[str, ...]) -> tuple[list[Any], tuple[int, ...]]:
    found = _sources(ins, kinds)
    return [s.get for s in found], tuple(r for s in found for r in s.reads)


def _made(ins: Instruction, found: list[Source], kind: str) -> Flow:
    """Return the operands that the destination, of that kind, depends on."""
    operands = [s.reads for s in found]
    return flow(ins.mnemonic, operands, _written(ins.fields["sdst"], kind))


def _written(register: int, kind: str) -> tuple[int, ...]:
    return (SGPR + register, SGPR + register + 1) if kind[1:] == "64" else (SGPR + register,)


def _flags(w: Waves, flag: Array) -> Array:
    """A condition for each wave, of one for each or one for all."""
    column: Array = flag[:, 0]
    return column if len(flag) == w.count else np.broadcast_to(column, (w.count,))


def _general(ins: Instruction, rule: Rule) -> Step:
    result, kinds, function, scc = rule
    found = _sources(ins, kinds)
    gets = [s.get for s in found]
    put = scalar_put(ins, ins.fields["sdst"], result)
    made = _made(ins, found, result)
    logic = MaskLogic.of(ins)
    reads = tuple(r for s in found for r in s.reads)
    target = ins.fields["sdst"]
    writes = _written(target, result)

    def step(w: Waves) -> None:
        unknown = None
        if logic is not None and w.undefined and any(r in w.undefined for r in reads):
            unknown = logic.unknown(w)
        values = [g(w) for g in gets]
        if scc is not None and scc is not NONZERO:
            # the destination may be a source, and the operands are views of registers
            values = [np.array(v) for v in values]
        value = function(*values)
        if scc is NONZERO:
            flag = value != 0
            put(w, value)
            w.scc = _flags(w, flag)
        elif scc is not None:
            put(w, value)
            w.scc = _flags(w, scc(*values, value))
        else:
            put(w, value)
        if not w.undefined:
            return
        if unknown is not None:
            if scc is not None:
                note_scc(w, _all_unknown(value, unknown))
            for register, bits in enumerate(unknown, target):
                w.set_unknown_bits(register, bits)
            return
        if scc is not None:
            note_scc(w, w.blank(reads))
        w.flowed(made)
        if target in (EXEC, EXEC + 1):
            w.demand(writes, "to decide which lanes go on", everywhere=True)

    return step


def _all_unknown(value: Array, unknown: list[Array | None]) -> Array | None:
    """Return where it is unknown whether a value is 0: none of its known bits is set."""
    some: Array | None = None
    known: Array = np.uint32(0)
    words = np.ascontiguousarray(value).view(np.uint32).reshape(len(value), -1)
    for i, bits in enumerate(unknown):
        word = words[:, i : i + 1]
        known = known | (word if bits is None else word & ~bits)
        if bits is not None:
            some = bits if some is None else some | bits
    return None if some is None else (some != 0) & (known == 0)


def _compare(ins: Instruction) -> Step:
    _, _, relation, kind = ins.mnemonic.split("_", 3)
    relations = scalar_floats.RELATIONS if kind in ("f16", "f32") else _RELATIONS
    function = relations.get(relation)
    if function is None or kind not in ("i32", "u32", "u64", "f16", "f32"):
        raise unsupported(ins)
    (a, b), reads = _operands(ins, (kind, kind))
    exact = relation in ("eq", "lg") and kind[0] in "iu"
    words = (
        [Words(ins, ins.fields[slot], int(kind[1:]) // 32) for slot in ("ssrc0", "ssrc1")]
        if exact
        else []
    )

    def step(w: Waves) -> None:
        w.scc = _flags(w, function(a(w), b(w)))
        if w.undefined:
            bad = w.blank(reads)
            note_scc(w, bad if bad is None or not exact else _undecided(w, *words))

    return step


def _undecided(w: Waves, a: Words, b: Words) -> Array | None:
    """Return where it is unknown whether two operands are equal: their known bits are equal."""
    some, differs = np.zeros((1, 1), bool), np.zeros((1, 1), bool)
    operands = zip(a.get(w), b.get(w), a.unknown(w), b.unknown(w), strict=True)
    for x, y, u, v in operands:
        unknown = (np.uint32(0) if u is None else u) | (np.uint32(0) if v is None else v)
        some = some | (unknown != 0)
        differs = differs | ((x ^ y) & ~unknown != 0)
    return some & ~differs


def _bit(ins: Instruction) -> Step:
    """s_bitcmp0_b32, s_bitcmp1_b32, and their 64-bit forms."""
    kind = "u64" if ins.mnemonic.endswith("64") else "u32"
    wanted = int(ins.mnemonic[8])
    (a, b), _ = _operands(ins, (kind, "u32"))
    bits = np.uint32(int(kind[1:]) - 1)
    words = Words(ins, ins.fields["ssrc0"], int(kind[1:]) // 32)
    number = plain(ins, ins.fields["ssrc1"], "u32")

    def step(w: Waves) -> None:
        value = a(w)
        place = b(w) & bits
        found = value >> place.astype(value.dtype) & value.dtype.type(1)
        w.scc = _flags(w, found == wanted)
        if w.undefined:
            bad = w.blank(number.reads)
            for i, unknown in enumerate(words.unknown(w)):
                if unknown is not None:
                    here = (unknown >> (place & np.uint32(31)) & np.uint32(1)) != 0
                    here = here & (place >> np.uint32(5) == i)
                    bad = here if bad is None else bad | here
            note_scc(w, bad)

    return step


def _choose(ins: Instruction) -> Step:
    """s_cselect, and s_cmov, which chooses between the operand and the destination as it is."""
    kind = "u" + ins.mnemonic[-2:]
    register = ins.fields["sdst"]
    found = _sources(ins, (kind, kind))
    if len(found) < 2:
        found.append(plain(ins, register, kind))
    a, b = found[0].get, found[1].get
    put = scalar_put(ins, register, kind)
    codes = (ins.fields["ssrc0"], ins.fields.get("ssrc1", register))
    words = [Words(ins, code, int(kind[1:]) // 32) for code in codes]

    def step(w: Waves) -> None:
        unknown = [_chosen_unknown(w, *parts) for parts in _parts(w, words)] if w.undefined else []
        put(w, np.where(w.scc[:, None], a(w), b(w)))
        for place, bits in enumerate(unknown, register):
            w.set_unknown_bits(place, bits)

    return step


def _parts(w: Waves, operands: list[Words]) -> Any:
    """For each word of two operands their values, and what of them holds nothing."""
    values, unknown = [o.get(w) for o in operands], [o.unknown(w) for o in operands]
    return zip(*values, *unknown, strict=True)


def _chosen_unknown(w: Waves, x: Array, y: Array, u: Array | None, v: Array | None) -> Array | None:
    """Return the bits that hold nothing, of x where SCC is set and of y elsewhere."""
    some, undecided = w.scc[:, None], w.undefined.get(SCC)
    if u is None and v is None and undecided is None:
        return None
    none = np.zeros((1, 1), np.uint32)
    u, v = (none if bits is None else bits for bits in (u, v))
    bits = np.where(some, u, v)
    if undecided is not None:
        bits = np.where(undecided, u | v | (x ^ y), bits)
    return np.broadcast_to(bits, (w.count, 1))


_SAVED: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "and_not1": lambda s, e: s & ~e,
    "or_not1": lambda s, e: s | ~e,
    "and_not0": lambda s, e: ~s & e,
    "or_not0": lambda s, e: ~s | e,
    "andn1": lambda s, e: ~s & e,
    "orn1": lambda s, e: ~s | e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
}
#: Which operation of `MaskLogic` each is, and whether EXEC is its first operand.
_SAVES_BY = {"and_not0": ("and_not1", True), "andn1": ("and_not1", True),
             "or_not0": ("or_not1", True), "orn1": ("or_not1", True)}  # fmt: skip


def _save_exec(ins: Instruction) -> Step:
    writes_new = "_wrexec_" in ins.mnemonic  # the register gets the new mask, not the old one
    operation, _, width = (
        ins.mnemonic[2:].replace("_wrexec_", "_saveexec_").partition("_saveexec_b")
    )
    function = _SAVED.get(operation)
    if function is None:
        raise unsupported(ins)
    kind = "u" + width
    (a,), reads = _operands(ins, (kind,))
    put = scalar_put(ins, ins.fields["sdst"], kind)
    put_exec = scalar_put(ins, EXEC, kind)
    exec_now = plain(ins, EXEC, kind).get
    writes = _written(ins.fields["sdst"], kind)
    plain_name, swapped = _SAVES_BY.get(operation, (operation, False))
    codes = (ins.fields["ssrc0"], EXEC)
    logic = MaskLogic(ins, plain_name, codes[::-1] if swapped else codes, int(width) // 32)

    def step(w: Waves) -> None:
        if w.undefined and any(r in w.undefined for r in reads):
            for register, bits in enumerate(logic.unknown(w), EXEC):
                w.set_unknown_bits(register, bits)
        saved = np.array(exec_now(w))
        new = function(np.array(a(w)), saved)
        put(w, new if writes_new else saved)
        put_exec(w, new)
        w.scc = _flags(w, new != 0)
        w.defined((), (*writes, SCC))

    return step


def _with_carry(ins: Instruction) -> Step:
    (a, b), reads = _operands(ins, ("u32", "u32"))
    register = ins.fields["sdst"]
    put, writes = scalar_put(ins, register, "u32"), _written(register, "u32")
    subtract = ins.mnemonic == "s_subb_u32"

    def step(w: Waves) -> None:
        x, y = a(w).astype(np.int64), b(w).astype(np.int64)
        carry = w.scc[:, None]
        total = x - y - carry if subtract else x + y + carry
        put(w, total.astype(np.uint32))
        w.scc = _flags(w, (total < 0) | (total >> 32 != 0))
        w.defined((*reads, SCC), (*writes, SCC))

    return step


def _short(ins: Instruction) -> Step | None:
    """SOPK: a 16-bit constant."""
    name, register = ins.mnemonic, ins.fields["sdst"]
    word = ins.fields["simm16"]
    signed = np.array([[word - (word >> 15 << 16)]], np.int32)
    old = plain(ins, register, "i32").get
    if name == "s_version":
        return lambda w: None
    if name in ("s_movk_i32", "s_cmovk_i32"):
        put = scalar_put(ins, register, "i32")
        always = name == "s_movk_i32"

        def move(w: Waves) -> None:
            put(w, signed if always else np.where(w.scc[:, None], signed, old(w)))
            w.defined(() if always else (SGPR + register, SCC), (SGPR + register,))

        return move
    if name in ("s_addk_i32", "s_mulk_i32"):
        put = scalar_put(ins, register, "i32")
        add = name == "s_addk_i32"

        def change(w: Waves) -> None:
            before = np.array(old(w))
            value = before + signed if add else before * signed
            put(w, value)
            w.defined((SGPR + register,), (SGPR + register,))
            if add:
                w.scc = overflow(before, signed, value)[:, 0]
                w.defined((SGPR + register,), (SCC,))

        return change
    if name.startswith("s_cmpk_"):
        _, _, relation, kind = name.split("_")
        function = _RELATIONS[relation]
        constant = signed if kind == "i32" else np.array([[word]], np.uint32)
        value_of = plain(ins, register, kind).get

        def compare(w: Waves) -> None:
            w.scc = function(value_of(w), constant)[:, 0]
            w.defined((SGPR + register,), (SCC,))

        return compare
    return None
