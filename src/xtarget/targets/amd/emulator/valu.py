"""Vector ALU instructions as steps: a step changes the state of some waves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from . import floats
from .decode import Instruction
from .memory import Array
from .operands import Put, Source, plain, reads_vcc, scalar_put, source, unsupported, vector_put
from .vector import ALU, COMPARE, KEEPS_HALF, bitop3
from .waves import EXEC, SGPR, VCC, Waves

__all__ = ["Step", "build", "pair_of"]

Step: TypeAlias = Callable[[Waves], None]

_FORMATS = ("vop1", "vop2", "vop3", "vop3sd", "vopc")


def build(ins: Instruction) -> Step | None:
    """The step of a vector instruction on single values; None when it is none of these."""
    if ins.format not in _FORMATS:
        return None
    name = ins.mnemonic
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _compare(ins)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(ins)
    if name.startswith("v_bitop3_"):
        kind = "u16" if name.endswith("16") else "u32"
        control = _bitop_table(ins)
        # the low bits of the table stand where a plain instruction has modifiers
        bare = Instruction(
            ins.address, ins.size, name, ins.format, ins.arch,
            {**ins.fields, "abs": 0, "neg": 0, "omod": 0}, ins.literal, ins.dpp,
        )  # fmt: skip
        return _alu(bare, kind, (kind, kind, kind), bitop3(control))
    rule = ALU.get(name)
    return None if rule is None else _alu(ins, *rule)


def _bitop_table(ins: Instruction) -> int:
    """The truth table of v_bitop3: 8 bits spread over modifier fields (gfx950)."""
    return ins.fields["neg"] | ins.fields["abs"] << 3 | ins.fields["omod"] << 6


def sources(ins: Instruction, kinds: tuple[str, ...]) -> list[Source]:
    """The operands in the order of the formula."""
    names = ["src0", "vsrc1" if "vsrc1" in ins.fields else "src1", "src2"][: len(kinds)]
    found = [source(ins, n, k) for n, k in zip(names, kinds, strict=True) if n in ins.fields]
    if len(found) < len(kinds):
        found = _third(ins, found, kinds[-1])
    return found


def _third(ins: Instruction, found: list[Source], kind: str) -> list[Source]:
    """The third operand of a two-operand form: the literal, or the destination."""
    name = ins.mnemonic
    if "mk_" in name or "ak_" in name:
        literal = plain(ins, 255, kind)
        return [found[0], literal, found[1]] if "mk_" in name else [*found, literal]
    if "mac_" in name or "dot2c" in name or "dot2acc" in name:
        register, high = ins.fields["vdst"], False
        if kind == "f16" and not ins.cdna and register >= 128 and ins.format == "vop2":
            register, high = register - 128, True
        return [*found, plain(ins, 256 + register, kind, high)]
    raise unsupported(ins, "a form with too few operands")


def _alu(
    ins: Instruction, result: str, kinds: tuple[str, ...], function: Callable[..., Array]
) -> Step:
    if ins.mnemonic.startswith(("v_fmac", "v_mac")) and ins.format == "vop3":
        bare = {k: v for k, v in ins.fields.items() if k != "src2"}
        ins = Instruction(
            ins.address, ins.size, ins.mnemonic, ins.format, ins.arch, bare, ins.literal, ins.dpp
        )
    found = sources(ins, kinds)
    register = ins.fields["vdst"]
    function = _output(ins, result, function)
    if ins.mnemonic.startswith("v_s_"):  # gfx12: a scalar unit's transcendental
        put = scalar_put(ins, register, result)
        writes: tuple[int, ...] = (SGPR + register,)
    else:
        put = vector_put(ins, register, result, ins.mnemonic in KEEPS_HALF)
        writes = written(ins, register, result)
    return step_of(found, put, writes, function)


def written(ins: Instruction, register: int, kind: str) -> tuple[int, ...]:
    """The vector registers of a result."""
    if kind[1:] == "64":
        return register, register + 1
    if kind[1:] == "16" and not ins.cdna and ins.format in ("vop1", "vop2"):
        return (register & 127,)
    return (register,)


def step_of(
    found: list[Source], put: Put, writes: tuple[int, ...], function: Callable[..., Array]
) -> Step:
    """A step that puts the function of the operands."""
    reads = tuple(r for s in found for r in s.reads)
    gets = [s.get for s in found]
    first = found[0]
    if first.lanes is not None or first.blank is not None:
        return _moved_step(found, put, writes, function)
    if len(gets) == 1:
        (a,) = gets

        def one(w: Waves) -> None:
            put(w, function(a(w)))
            if w.undefined:
                w.defined(reads, writes)

        return one
    if len(gets) == 2:
        a, b = gets

        def two(w: Waves) -> None:
            put(w, function(a(w), b(w)))
            if w.undefined:
                w.defined(reads, writes)

        return two
    a, b, c = gets

    def three(w: Waves) -> None:
        put(w, function(a(w), b(w), c(w)))
        if w.undefined:
            w.defined(reads, writes)

    return three


def _moved_step(
    found: list[Source], put: Put, writes: tuple[int, ...], function: Callable[..., Array]
) -> Step:
    """A step whose first operand comes from other lanes (DPP)."""
    gets = [s.get for s in found]
    first = found[0]
    rest = tuple(r for s in found[1:] for r in s.reads)

    def moved(w: Waves) -> None:
        lanes = first.lanes(w) if first.lanes is not None else None
        bad = first.blank(w) if first.blank is not None else None
        put(w, function(*(g(w) for g in gets)), lanes)
        if bad is not None:
            for register in rest:
                other = w.undefined.get(register)
                bad = bad if other is None else bad | other
            w.mark(np.broadcast_to(bad, w.mask.shape), writes, lanes)
        elif w.undefined:
            w.defined(rest, writes, lanes)

    return moved


def _output(ins: Instruction, kind: str, function: Callable[..., Array]) -> Callable[..., Array]:
    """With output modifiers: a factor, and clamping."""
    omod, clamp = ins.fields.get("omod", 0), ins.fields.get("clmp", 0)
    if ins.format not in ("vop3", "vop3sd") and not ins.sdwa:
        return function
    if omod:
        if kind[0] != "f":
            raise unsupported(ins, "output modifier")
        inner, factor = function, {1: 2.0, 2: 4.0, 3: 0.5}[omod]
        function = lambda *a: inner(*a) * inner(*a).dtype.type(factor)  # noqa: E731
    if clamp:
        if kind[0] != "f":
            if ins.mnemonic.startswith(("v_add_nc_u", "v_sub_nc_u")):
                return _saturated(ins.mnemonic)
            if ins.mnemonic.startswith(("v_max", "v_min")):
                return function
            raise unsupported(ins, "clamp on an integer")
        plain_result = function
        function = lambda *a: np.clip(np.nan_to_num(plain_result(*a)), 0, 1)  # noqa: E731
    return function


def _saturated(name: str) -> Callable[..., Array]:
    if name.startswith("v_sub"):
        return lambda a, b: np.where(a > b, a - b, a.dtype.type(0))
    return lambda a, b: np.where(
        a + b < a, a.dtype.type(-1 & (1 << a.dtype.itemsize * 8) - 1), a + b
    )


# ------------------------------------------------------------------------------------- comparisons


def _compare(ins: Instruction) -> Step:
    x = ins.mnemonic.startswith("v_cmpx_")
    _, relation, kind = ins.mnemonic[2:].split("_")
    if relation == "class":
        function: Callable[..., Array] = floats.classify
        kinds = (kind, "u32")
    else:
        function, kinds = COMPARE[relation], (kind, kind)
    a, b = sources(ins, kinds)
    if a.lanes is not None and ins.dpp is not None and not ins.dpp.zero:
        raise unsupported(ins, "a comparison with DPP and without bound_ctrl")
    get_a, get_b = a.get, b.get
    if ins.format == "vopc":
        register = VCC
        if ins.sdwa and ins.fields.get("sd"):
            register = ins.fields["sdst"]
    else:
        register = ins.fields["vdst"]
    targets = [register]
    if x:
        targets = [EXEC] if not ins.cdna else [register, EXEC]

    def step(w: Waves) -> None:
        bits = function(get_a(w), get_b(w))
        if not w.full:
            bits = bits & w.mask
        for target in targets:
            w.write_mask(target, bits)

    return step


# ------------------------------------------------------------------- with carry, masks, two results


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
            w.defined(reads, writes)

    return step


def _nothing(ins: Instruction) -> Step:
    return lambda w: None


def pair_of(ins: Instruction) -> Step:
    """VOPD: two operations that read before either writes."""
    halves = []
    for half, name in (("x", ins.mnemonic), ("y", ins.second)):
        register = ins.fields["vdst" + half]
        if half == "y":
            register = register << 1 | (ins.fields["vdstx"] & 1 ^ 1)
        fields = {
            "src0": ins.fields["src" + half + "0"],
            "vsrc1": ins.fields["vsrc" + half + "1"],
            "vdst": register,
        }
        one = Instruction(ins.address, ins.size, name, "vop2", ins.arch, fields, ins.literal)
        halves.append(_half_of_pair(one))
    (compute_x, put_x, reads_x, write_x), (compute_y, put_y, reads_y, write_y) = halves

    def step(w: Waves) -> None:
        x, y = compute_x(w), compute_y(w)
        put_x(w, x)
        put_y(w, y)
        if w.undefined:
            before = w.undefined.copy()
            w.defined(reads_x, write_x)
            after = w.undefined
            w.undefined = before
            w.defined(reads_y, write_y)
            for register in write_x:
                if register in after:
                    w.undefined[register] = after[register]
                else:
                    w.undefined.pop(register, None)

    return step


def _half_of_pair(
    ins: Instruction,
) -> tuple[Callable[[Waves], Array], Put, tuple[int, ...], tuple[int, ...]]:
    register = ins.fields["vdst"]
    if ins.mnemonic == "v_cndmask_b32":
        a, b = sources(ins, ("u32", "u32"))
        put = vector_put(ins, register, "u32")

        def choose(w: Waves) -> Array:
            return np.where(w.read_mask(VCC), b.get(w), a.get(w))

        return choose, put, (*a.reads, *b.reads), (register,)
    rule = ALU.get(ins.mnemonic)
    if rule is None:
        raise unsupported(ins, "as half of a dual instruction")
    result, kinds, function = rule
    found = sources(ins, kinds)
    put = vector_put(ins, register, result)

    def compute(w: Waves) -> Array:
        # copied, as it may be a view of the register that the other half writes
        return np.array(function(*(s.get(w) for s in found)))

    return compute, put, tuple(r for s in found for r in s.reads), (register,)


_SPECIAL: dict[str, Callable[[Instruction], Step]] = {
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
