"""Dot products of the parts of a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from . import floats
from .decode import Instruction
from .memory import Array
from .operands import Source, plain, unsupported, vector_put
from .valu import Step, sources
from .waves import Waves

__all__ = ["build", "packed_step"]

_INTEGER = re.compile(r"^v_dot(2|4|8)(c?)_([iu])32_([iu]|iu)(16|8|4)$")


def packed_step(
    ins: Instruction, compute: Callable[[Waves], list[Array]], *reads: Iterable[int]
) -> Step:
    """A step that puts its results to registers from the destination on.

    Args:
        reads: the registers of each one's operands.
    """
    register = ins.fields["vdst"]
    made = tuple((tuple(r), (register + i,)) for i, r in enumerate(reads))

    def step(w: Waves) -> None:
        for i, value in enumerate(compute(w)):
            w.put(register + i, value)
        w.flowed(made)

    return step


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    match = _INTEGER.match(ins.mnemonic)
    if match is not None:
        return _integers(ins, match)
    if ins.mnemonic.startswith(("v_dot2c_", "v_dot2acc_")):
        return _accumulated(ins)
    if ins.mnemonic in ("v_dot2_f32_f16", "v_dot2_f32_bf16"):
        return _floats(ins)
    return None


def _integers(ins: Instruction, match: re.Match[str]) -> Step:
    """Of 2 to 8 signed or unsigned parts, plus the third operand or (`c`) the destination."""
    fields = ins.fields
    count, bits, accumulates = int(match[1]), int(match[5]), bool(match[2])
    signed = (match[4] == "i",) * 2
    if match[4] == "iu":
        signed = (bool(fields["neg"] & 1), bool(fields["neg"] & 2))
    elif fields.get("neg") or fields.get("neg_hi"):
        raise unsupported(ins, "a sign modifier")
    if ins.dpp is not None or ins.sdwa or fields.get("abs"):
        raise unsupported(ins, "modifiers")
    c: Source
    if accumulates:
        a, b = _two(ins)
        c = plain(ins, 256 + fields["vdst"], "i32")
    else:
        if fields["opsel"] or fields["opsel_hi"] != 3:
            raise unsupported(ins, "modifiers")
        a, b = (plain(ins, fields[f"src{i}"], "u32") for i in (0, 1))
        c = plain(ins, fields["src2"], "i32" if match[3] == "i" else "u32")
    kind = np.int32 if match[3] == "i" else np.uint32
    limits, clamps = np.iinfo(kind), bool(fields.get("clmp"))

    def part(word: Array, place: int, sign: bool) -> Array:
        value = (word >> np.uint32(bits * place) & np.uint32((1 << bits) - 1)).astype(np.int64)
        return value - ((value >> bits - 1) << bits) if sign else value

    def compute(w: Waves) -> list[Array]:
        x, y = a.get(w), b.get(w)
        total = c.get(w).astype(np.int64)
        for i in range(count):
            total = total + part(x, i, signed[0]) * part(y, i, signed[1])
        if clamps:
            total = np.clip(total, limits.min, limits.max)
        return [total.astype(np.uint32)]

    return packed_step(ins, compute, (*a.reads, *b.reads, *c.reads))


def _two(ins: Instruction) -> tuple[Source, Source]:
    """The two operands of a form whose third is the destination."""
    bare = {k: v for k, v in ins.fields.items() if k != "src2"}
    form = Instruction(ins.address, ins.size, ins.mnemonic, ins.format, ins.arch, bare, ins.literal)
    first, second = sources(form, ("u32", "u32"))
    return first, second


def _floats(ins: Instruction) -> Step:
    """v_dot2_f32_f16, v_dot2_f32_bf16."""
    fields = ins.fields
    if fields["neg"] or fields["neg_hi"]:
        raise unsupported(ins, "a sign modifier")
    if fields["clmp"] or fields["opsel"] or fields["opsel_hi"] != 3:
        raise unsupported(ins, "modifiers")
    a, b = (plain(ins, fields[f"src{i}"], "u32") for i in (0, 1))
    c = plain(ins, fields["src2"], "f32")

    def compute(w: Waves) -> list[Array]:
        return [_dot2(ins.mnemonic, a.get(w), b.get(w), c.get(w)).view(np.uint32)]

    return packed_step(ins, compute, (*a.reads, *b.reads, *c.reads))


def _dot2(name: str, a: Array, b: Array, c: Array) -> Array:
    def part(x: Array, shift: int) -> Array:
        half = x >> np.uint32(shift) & np.uint32(0xFFFF)
        if "bf16" in name:
            return floats.bf16_value(half).astype(np.float64)
        return half.astype(np.uint16).view(np.float16).astype(np.float64)

    total = part(a, 0) * part(b, 0) + part(a, 16) * part(b, 16)
    return (total + c).astype(np.float32)


def _accumulated(ins: Instruction) -> Step:
    """v_dot2c_f32_f16 and v_dot2c_f32_bf16: the destination is the third operand."""
    if ins.dpp is not None or ins.sdwa or ins.fields.get("neg") or ins.fields.get("abs"):
        raise unsupported(ins, "modifiers")
    name = ins.mnemonic
    if not name.endswith(("f32_f16", "f32_bf16")):
        raise unsupported(ins)
    a, b = _two(ins)
    register = ins.fields["vdst"]
    put = vector_put(ins, register, "f32")
    reads = (*a.reads, *b.reads, register)

    def step(w: Waves) -> None:
        put(w, _dot2(name, a.get(w), b.get(w), w.vf[register]))
        if w.undefined:
            w.defined(reads, (register,))

    return step
