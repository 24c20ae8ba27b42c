"""Scalar ALU instructions: one value for each wave, waves x 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from . import scalar_floats, scalar_rare
from .decode import Instruction
from .mask_logic import MaskLogic, Words, note_scc
from .memory import Array
from .operands import Source, plain, scalar_put, unsupported
from .valu import Step
from .vector import ALU
from .waves import EXEC, SCC, SGPR, Flow, Waves
from .words import flow

__all__ = ["build"]

#: Kind of the result, kinds of the sources, function, and what SCC becomes: nothing, "nonzero", or
#: a function of (sources..., result).
_Rule: TypeAlias = tuple[str, tuple[str, ...], Callable[..., Array], Any]
_RULES: dict[str, _Rule] = {}
_NONZERO = "nonzero"


def _rule(
    names: str, result: str, sources: str, function: Callable[..., Array], scc: Any = None
) -> None:
    for name in names.split():
        _RULES["s_" + name] = (result, tuple(sources.split()), function, scc)


def _carry(a: Array, b: Array, r: Array) -> Array:
    return r < a


def _overflow(a: Array, b: Array, r: Array) -> Array:
    return ((a ^ r) & (b ^ r)) < 0


def _sub_overflow(a: Array, b: Array, r: Array) -> Array:
    return ((a ^ b) & (a ^ r)) < 0


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        return function(a, (b & np.uint32(a.dtype.itemsize * 8 - 1)).astype(a.dtype))

    return run


def _field(a: Array, control: Array) -> Array:
    """s_bfe: offset in bits 4:0 (5:0), width in bits 22:16."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    offset = control & np.uint32(bits - 1)
    width = control >> np.uint32(16) & np.uint32(0x7F)
    kept = np.minimum(width, bits - offset)
    left = np.where(kept == 0, 0, bits - offset - kept).astype(a.dtype)
    right = np.where(kept == 0, 0, bits - kept).astype(a.dtype)
    return np.where(kept == 0, kind(0), a << left >> right)


def _lshl_add(n: int) -> Callable[[Array, Array], Array]:
    return lambda a, b: (a << np.uint32(n)) + b


def _lshl_carry(n: int) -> Callable[[Array, Array, Array], Array]:
    return lambda a, b, r: (a.astype(np.uint64) << np.uint64(n)) + b > np.uint64(0xFFFFFFFF)


for _w in ("32", "64"):
    _u, _i = "u" + _w, "i" + _w
    _rule(f"mov_b{_w}", _u, _u, lambda a: a)
    _rule(f"not_b{_w}", _u, _u, np.invert, _NONZERO)
    _rule(f"and_b{_w}", _u, f"{_u} {_u}", np.bitwise_and, _NONZERO)
    _rule(f"or_b{_w}", _u, f"{_u} {_u}", np.bitwise_or, _NONZERO)
    _rule(f"xor_b{_w}", _u, f"{_u} {_u}", np.bitwise_xor, _NONZERO)
    _rule(f"and_not1_b{_w}", _u, f"{_u} {_u}", lambda a, b: a & ~b, _NONZERO)
    _rule(f"or_not1_b{_w}", _u, f"{_u} {_u}", lambda a, b: a | ~b, _NONZERO)
    _rule(f"nand_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a & b), _NONZERO)
    _rule(f"nor_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a | b), _NONZERO)
    _rule(f"xnor_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a ^ b), _NONZERO)
    _rule(f"lshl_b{_w}", _u, f"{_u} u32", _shift(np.left_shift), _NONZERO)
    _rule(f"lshr_b{_w}", _u, f"{_u} u32", _shift(np.right_shift), _NONZERO)
    _rule(f"ashr_i{_w}", _i, f"{_i} u32", _shift(np.right_shift), _NONZERO)
    _rule(f"bfe_u{_w}", _u, f"{_u} u32", _field, _NONZERO)
    _rule(f"bfe_i{_w}", _i, f"{_i} u32", _field, _NONZERO)
    _rule(f"bcnt1_i32_b{_w}", "u32", _u, lambda a: np.bitwise_count(a).astype(np.uint32), _NONZERO)
_one = np.uint32(1)
_RULES["s_bfm_b32"] = (
    "u32", ("u32", "u32"),
    lambda a, b: ((_one << (a & np.uint32(31))) - _one) << (b & np.uint32(31)), None,
)  # fmt: skip
_rule("add_u32", "u32", "u32 u32", np.add, _carry)
_rule("sub_u32", "u32", "u32 u32", np.subtract, lambda a, b, r: b > a)
_rule("add_i32", "i32", "i32 i32", np.add, _overflow)
_rule("sub_i32", "i32", "i32 i32", np.subtract, _sub_overflow)
_rule("add_nc_u64 add_u64", "u64", "u64 u64", np.add)
_rule("sub_nc_u64 sub_u64", "u64", "u64 u64", np.subtract)
_rule("mul_i32", "u32", "u32 u32", np.multiply)
_rule("mul_u64", "u64", "u64 u64", np.multiply)
_rule("mul_hi_u32", "u32", "u32 u32", ALU["v_mul_hi_u32"][2])
_rule("mul_hi_i32", "i32", "i32 i32", ALU["v_mul_hi_i32"][2])
for _k in ("u32", "i32"):
    _rule(f"min_{_k}", _k, f"{_k} {_k}", np.minimum, lambda a, b, r: a < b)
    _rule(f"max_{_k}", _k, f"{_k} {_k}", np.maximum, lambda a, b, r: a >= b)
for _n in (1, 2, 3, 4):
    _rule(f"lshl{_n}_add_u32", "u32", "u32 u32", _lshl_add(_n), _lshl_carry(_n))
_rule("abs_i32", "i32", "i32", np.abs, _NONZERO)
_rule("absdiff_i32", "i32", "i32 i32", lambda a, b: np.abs(a - b), _NONZERO)
_rule("brev_b32", "u32", "u32", ALU["v_bfrev_b32"][2])
_rule("ff1_i32_b32 ctz_i32_b32", "u32", "u32", ALU["v_ctz_i32_b32"][2])
_rule("flbit_i32_b32 clz_i32_u32", "u32", "u32", ALU["v_clz_i32_u32"][2])
_rule("flbit_i32 cls_i32", "u32", "i32", ALU["v_cls_i32"][2])
_rule("ff1_i32_b64 ctz_i32_b64", "u32", "u64", ALU["v_ctz_i32_b32"][2])
_rule("flbit_i32_b64 clz_i32_u64", "u32", "u64", ALU["v_clz_i32_u32"][2])
_rule("flbit_i32_i64 cls_i32_i64", "u32", "i64", ALU["v_cls_i32"][2])
_rule("sext_i32_i8", "i32", "u32", lambda a: a.astype(np.int8).astype(np.int32))
_rule("sext_i32_i16", "i32", "u32", lambda a: a.astype(np.int16).astype(np.int32))
_rule("pack_ll_b32_b16", "u32", "u32 u32", lambda a, b: a & np.uint32(0xFFFF) | b << 16)
_rule("pack_lh_b32_b16", "u32", "u32 u32",
      lambda a, b: a & np.uint32(0xFFFF) | b & np.uint32(0xFFFF0000))  # fmt: skip
_rule("pack_hh_b32_b16", "u32", "u32 u32", lambda a, b: a >> 16 | b & np.uint32(0xFFFF0000))
_rule("pack_hl_b32_b16", "u32", "u32 u32", lambda a, b: a >> 16 | b << 16)
_RULES |= scalar_floats.RULES | scalar_rare.RULES

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
    rule = _RULES.get(name)
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


def _general(ins: Instruction, rule: _Rule) -> Step:
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
        if scc is not None and scc is not _NONZERO:
            # the destination may be a source, and the operands are views of registers
            values = [np.array(v) for v in values]
        value = function(*values)
        if scc is _NONZERO:
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
                w.scc = _overflow(before, signed, value)[:, 0]
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
