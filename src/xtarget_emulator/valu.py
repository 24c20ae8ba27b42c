"""Vector ALU instructions as steps: a step changes the state of some waves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from . import floats, shadow, vector_rare  # noqa: F401 - completes the table
from .decode import Instruction
from .memory import Array
from .operands import Put, Source, plain, scalar_put, source, unsupported, vector_put
from .vector import ALU, COMPARE, KEEPS_HALF, bitop3, packed_halves
from .waves import EXEC, SGPR, VCC, Waves
from .words import flow

__all__ = [
    "Step",
    "bitop_table",
    "build",
    "clamped",
    "saturating",
    "sources",
    "unsigned",
    "unsigned_sources",
    "written",
]

Step: TypeAlias = Callable[[Waves], None]

_INTEGER_SUM = re.compile(r"^v_(add|sub|subrev)_nc_[ui](16|32)$")
_FORMATS = ("vop1", "vop2", "vop3", "vop3sd", "vopc")


def build(ins: Instruction) -> Step | None:
    """The step of a vector instruction on single values; None when it is none of these."""
    if ins.format not in _FORMATS:
        return None
    name = ins.mnemonic
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _compare(ins)
    if name.startswith("v_bitop3_"):
        kind = "u16" if name.endswith("16") else "u32"
        control = bitop_table(ins)
        # the low bits of the table stand where a plain instruction has modifiers
        bare = Instruction(
            ins.address, ins.size, name, ins.format, ins.arch,
            {**ins.fields, "abs": 0, "neg": 0, "omod": 0}, ins.literal, ins.dpp,
        )  # fmt: skip
        return _alu(bare, kind, (kind, kind, kind), bitop3(control))
    rule = ALU.get(name)
    return None if rule is None else _alu(ins, *rule)


def bitop_table(ins: Instruction) -> int:
    """The truth table of v_bitop3: 8 bits spread over modifier fields (gfx950)."""
    return ins.fields["neg"] | ins.fields["abs"] << 3 | ins.fields["omod"] << 6


def sources(ins: Instruction, kinds: tuple[str, ...]) -> list[Source]:
    """The operands in the order of the formula."""
    names = ["src0", "vsrc1" if "vsrc1" in ins.fields else "src1", "src2"][: len(kinds)]
    found = [source(ins, n, k) for n, k in zip(names, kinds, strict=True) if n in ins.fields]
    if len(found) < len(kinds):
        found = _third(ins, found, kinds[-1])
    return found


def unsigned(ins: Instruction) -> Instruction:
    """The instruction without what changes the signs of operands, or the result's range."""
    plain_fields = ("neg", "abs", "omod", "clmp", "src0_neg", "src0_abs", "src1_neg", "src1_abs")
    fields = {k: 0 if k in plain_fields else v for k, v in ins.fields.items()}
    dpp = None if ins.dpp is None else replace(ins.dpp, negate=0, absolute=0)
    return replace(ins, fields=fields, dpp=dpp)


def unsigned_sources(ins: Instruction, kinds: tuple[str, ...]) -> list[Source]:
    """The operands' bits, to ask which of them hold nothing."""
    return sources(unsigned(ins), tuple("u" + kind[1:] for kind in kinds))


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
    if ins.saturates and result == "f16" and not ins.mnemonic.startswith("v_div_fixup"):
        function = saturating(function)
    if ins.saturates and ins.mnemonic == "v_cvt_pk_f16_f32":
        function = packed_halves
    if ins.mnemonic.startswith("v_s_"):  # gfx12: a scalar unit's transcendental
        put = scalar_put(ins, register, result)
        writes: tuple[int, ...] = (SGPR + register,)
    else:
        put = vector_put(ins, register, result, ins.mnemonic in KEEPS_HALF)
        writes = written(ins, register, result)
    return _step_of(ins, found, put, writes, function)


def saturating(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function with `floats.bounded` results."""
    return lambda *operands: floats.bounded(function(*operands), *operands)


def written(ins: Instruction, register: int, kind: str) -> tuple[int, ...]:
    """The vector registers of a result."""
    if kind[1:] == "64":
        return register, register + 1
    if kind[1:] == "16" and not ins.cdna and ins.format in ("vop1", "vop2"):
        return (register & 127,)
    return (register,)


def _step_of(
    ins: Instruction,
    found: list[Source],
    put: Put,
    writes: tuple[int, ...],
    function: Callable[..., Array],
) -> Step:
    """A step that puts the function of the operands."""
    gets = [s.get for s in found]
    first = found[0]
    if first.lanes is not None or first.blank is not None:
        return _moved_step(found, put, writes, function)
    made = flow(ins.mnemonic, [s.reads for s in found], writes)
    if len(gets) == 1:
        (a,) = gets

        def one(w: Waves) -> None:
            put(w, function(a(w)))
            w.flowed(made)

        return one
    if len(gets) == 2:
        a, b = gets

        def two(w: Waves) -> None:
            put(w, function(a(w), b(w)))
            w.flowed(made)

        return two
    a, b, c = gets

    def three(w: Waves) -> None:
        put(w, function(a(w), b(w), c(w)))
        w.flowed(made)

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
        function = _times(function, {1: 2.0, 2: 4.0, 3: 0.5}[omod])
    if clamp:
        if kind[0] != "f":
            found = clamped(ins.mnemonic)
            if found is not None:
                return found
            if ins.mnemonic.startswith(("v_max", "v_min")):
                return function
            raise unsupported(ins, "clamp on an integer")
        return lambda *a: np.clip(np.nan_to_num(function(*a)), 0, 1)
    return function


def _times(function: Callable[..., Array], factor: float) -> Callable[..., Array]:
    def product(*operands: Any) -> Array:
        result = function(*operands)
        return result * result.dtype.type(factor)

    return product


def clamped(name: str) -> Callable[..., Array] | None:
    """The sum or difference of integers that stays in their range; None for other instructions."""
    match = _INTEGER_SUM.match(name)
    if match is None:
        return None
    subtracts, reverses = match[1] != "add", match[1] == "subrev"

    def run(a: Array, b: Array) -> Array:
        if reverses:
            a, b = b, a
        info = np.iinfo(a.dtype)
        x, y = a.astype(np.int64), b.astype(np.int64)
        return np.clip(x - y if subtracts else x + y, info.min, info.max).astype(a.dtype)

    return run


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

    read = unsigned_sources(ins, kinds)

    def step(w: Waves) -> None:
        bits = function(get_a(w), get_b(w))
        if not w.full:
            bits = bits & w.mask
        unknown = shadow.blank_of(w, read) if w.undefined else None
        if unknown is not None:
            unknown = unknown & w.mask
        for target in targets:
            w.write_mask(target, bits, unknown)

    return step
