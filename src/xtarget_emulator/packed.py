"""Packed instructions (VOP3P but matrices): two halves, or two floats, at a time; mixed FMA."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from . import dots, floats, shadow
from .decode import Instruction
from .dots import packed_step
from .memory import Array
from .operands import FLOATS, KINDS, Source, constant, plain, unsupported
from .valu import Step, clamped, saturating, sources
from .vector import ALU
from .waves import Waves

__all__ = ["build"]

_LOW, _HIGH = 0xFFFF, 0xFFFF0000


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    name = ins.mnemonic
    if name.startswith("v_dot") and (step := dots.build(ins)) is not None:
        return step
    if name == "v_pk_fmac_f16":
        return _accumulated_halves(ins)
    if ins.format != "vop3p":
        return None
    if name in ("v_pk_mov_b32", "v_pk_fma_f32", "v_pk_mul_f32", "v_pk_add_f32"):
        return _pair(ins)
    if name.startswith("v_fma_mix"):
        return _mixed(ins)
    if name.startswith("v_pk_"):
        return _halves(ins)
    return None


def _selects(ins: Instruction, number: int) -> tuple[int, int]:
    """op_sel and op_sel_hi of an operand."""
    fields = ins.fields
    high = fields["opsel_hi2"] if number == 2 else fields["opsel_hi"] >> number & 1
    return fields["opsel"] >> number & 1, high


def _signs(ins: Instruction, number: int) -> tuple[int, int]:
    return ins.fields["neg"] >> number & 1, ins.fields["neg_hi"] >> number & 1


def _pair(ins: Instruction) -> Step:
    """Two 32-bit operations on register pairs; op_sel picks each half's register."""
    name = ins.mnemonic
    kind = "u32" if name == "v_pk_mov_b32" else "f32"
    if ins.fields["clmp"]:
        raise unsupported(ins, "clamp")
    count = 3 if "fma" in name else 2
    gets: list[list[Callable[[Waves], Array]]] = []
    reads: tuple[list[int], list[int]] = ([], [])
    for number in range(count):
        code = ins.fields[f"src{number}"]
        halves = []
        for pick, negate, used in zip(
            _selects(ins, number), _signs(ins, number), reads, strict=True
        ):
            found = plain(ins, code + pick if code < 128 or code >= 256 else code, kind)
            if pick and 128 <= code < 256:  # a constant has nothing but zeros above its 32 bits
                zero = np.zeros((1, 1), found.get(None).dtype)  # type: ignore[arg-type]  # reads no waves
                halves.append(_negated(lambda w, zero=zero: zero, negate))  # type: ignore[misc]  # a default
            else:
                halves.append(_negated(found.get, negate))
                used.extend(found.reads)
        gets.append(halves)
    if kind == "u32":
        # the low result is of the first operand, the high one of the second, each as op_sel says
        first = plain(ins, _shifted(ins.fields["src0"], _selects(ins, 0)[0]), "u32")
        second = plain(ins, _shifted(ins.fields["src1"], _selects(ins, 1)[0]), "u32")

        def move(w: Waves) -> list[Array]:
            return [np.array(first.get(w)), np.array(second.get(w))]

        return packed_step(ins, move, first.reads, second.reads)
    functions: dict[str, Callable[..., Array]] = {
        "v_pk_fma_f32": floats.fma32,
        "v_pk_mul_f32": np.multiply,
        "v_pk_add_f32": np.add,
    }
    function = functions[name]

    def compute(w: Waves) -> list[Array]:
        values = [function(*(g[half](w) for g in gets)) for half in (0, 1)]
        return [v.view(np.uint32) for v in values]

    return packed_step(ins, compute, *reads)


def _shifted(code: int, pick: int) -> int:
    return code + pick if code < 128 or code >= 256 else code


def _negated(get: Callable[[Waves], Array], negate: int) -> Callable[[Waves], Array]:
    return (lambda w: -get(w)) if negate else get


def _half(
    ins: Instruction, number: int, kind: str, pick: int, negate: int
) -> tuple[Callable[[Waves], Array], Source]:
    """A half of an operand, and the same without a change of its sign."""
    code = ins.fields[f"src{number}"]
    if kind[0] != "f" and code in FLOATS:  # to integers it is the float32, of which this is a half
        word = constant(code, "u32", None) >> np.uint32(16 * pick)
        half = word.astype(np.uint16).view(KINDS[kind])
        return (lambda w: half), Source(lambda w: half, ())
    found = plain(ins, code, kind, bool(pick))
    return _negated(found.get, negate if kind[0] == "f" else 0), found


def _halves(ins: Instruction) -> Step:
    """The 16-bit operation of that name on both halves."""
    base = ins.mnemonic.removeprefix("v_pk_")
    name = "v_" + re.sub(r"^(add|sub)_([ui]16)$", r"\1_nc_\2", base)
    rule = ALU.get(name)
    if rule is None or any(k[1:] != "16" for k in (rule[0], *rule[1])):
        raise unsupported(ins)
    _, kinds, function = rule
    if ins.fields["clmp"]:
        limited = clamped(name) or (_unit(function) if rule[0] == "f16" else None)
        if limited is None:
            raise unsupported(ins, "clamp")
        function = limited
    if ins.saturates and rule[0] == "f16":
        function = saturating(function)
    gets: list[list[Callable[[Waves], Array]]] = [[], []]
    read: tuple[list[Source], list[Source]] = ([], [])
    for number, kind in enumerate(kinds):
        for half in (0, 1):
            pick, negate = _selects(ins, number)[half], _signs(ins, number)[half]
            get, used = _half(ins, number, kind, pick, negate)
            gets[half].append(get)
            read[half].append(used)

    def compute(w: Waves) -> list[Array]:
        low, high = (function(*(g(w) for g in gets[half])) for half in (0, 1))
        both = low.view(np.uint16).astype(np.uint32)
        return [both | high.view(np.uint16).astype(np.uint32) << 16]

    return _by_parts(ins, compute, [(_LOW, read[0]), (_HIGH, read[1])])


def _by_parts(
    ins: Instruction,
    compute: Callable[[Waves], list[Array]],
    parts: list[tuple[int, list[Source]]],
) -> Step:
    """A step that puts a register's new value.

    Args:
        parts: bits of the result that are made, and the operands of each. Others stay.
    """
    register = ins.fields["vdst"]

    def step(w: Waves) -> None:
        bad = [shadow.blank_of(w, read) for _, read in parts] if w.undefined else []
        (value,) = compute(w)
        w.put(register, value)
        for blank, (bits, _) in zip(bad, parts, strict=False):
            shadow.mark_part(w, blank, register, bits)

    return step


def _accumulated_halves(ins: Instruction) -> Step:
    """v_pk_fmac_f16: both halves, with the destination as the addend."""
    if ins.dpp is not None or ins.sdwa:
        raise unsupported(ins, "moved operands")
    register = ins.fields["vdst"]
    a, b = sources(replace(ins, mnemonic="v_pk_mul"), ("u32", "u32"))

    def compute(w: Waves) -> list[Array]:
        words = (a.get(w), b.get(w), w.vu[register])
        low, high = (
            floats.fma16(
                *((x >> np.uint32(s)).astype(np.uint16).view(np.float16) for x in words)
            ).view(np.uint16)
            for s in (0, 16)
        )
        return [low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)]

    return packed_step(ins, compute, (*a.reads, *b.reads, register))


def _unit(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function, brought to 0 to 1 (clamp on floats)."""
    return lambda *operands: np.clip(np.nan_to_num(function(*operands)), 0, 1).astype(np.float16)


def _mixed(ins: Instruction) -> Step:
    """v_fma_mix: each operand is float32, or a half as float16; neg_hi means absolute value."""
    gets: list[Callable[[Waves], Array]] = []
    read: list[Source] = []
    for number in range(3):
        pick, is_half = _selects(ins, number)
        kind = "f16" if is_half else "f32"
        found = plain(ins, ins.fields[f"src{number}"], kind, bool(pick and is_half))
        gets.append(_as_float(found.get, *_signs(ins, number)))
        read.append(found)
    register, name = ins.fields["vdst"], ins.mnemonic
    clamp = ins.fields["clmp"]
    high = "mixhi" in name

    def compute(w: Waves) -> list[Array]:
        value = floats.fma32(*(g(w) for g in gets))
        if clamp:
            value = np.clip(np.nan_to_num(value), 0, 1)
        if name == "v_fma_mix_f32":
            return [value.view(np.uint32)]
        short = value.astype(np.float16)
        if ins.saturates:
            short = floats.bounded(short, value)
        half = short.view(np.uint16).astype(np.uint32)
        row = w.vu[register]
        if high:
            return [half << 16 | row & np.uint32(0xFFFF)]
        return [half | row & np.uint32(0xFFFF0000)]

    made = _LOW | _HIGH if name == "v_fma_mix_f32" else _HIGH if high else _LOW
    return _by_parts(ins, compute, [(made, read)])


def _as_float(
    get: Callable[[Waves], Array], negate: int, absolute: int
) -> Callable[[Waves], Array]:
    def run(w: Waves) -> Array:
        value = get(w).astype(np.float32)
        if absolute:
            value = np.abs(value)
        return -value if negate else value

    return run
