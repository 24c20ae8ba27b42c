"""Conversions from and to floats of 8, 6 and 4 bits, with a scale (gfx950) or without.

Source: AMD, "CDNA3", "CDNA4" and "RDNA4" ISA, V_CVT_*FP8*, V_CVT_*BF8*, V_CVT_SCALEF32_*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import floats, shadow
from .decode import Instruction
from .memory import Array
from .operands import Source, plain, source, unsupported
from .small_floats import Format, decoded, encoded, format_of, scale_of
from .valu import Step, unsigned
from .waves import Waves

__all__ = ["build"]

_SMALL = "(fp8|bf8|fp6|bf6|fp4)"
_WIDE = "(f32|f16|bf16)"
_WIDEN = re.compile(rf"^v_cvt_(scalef32_)?(pk_|pk32_)?{_WIDE}_{_SMALL}$")
_NARROW = re.compile(rf"^v_cvt_(scalef32_)?(pk_|pk32_|2xpk16_)?{_SMALL}_{_WIDE}$")
_STOCHASTIC = re.compile(r"^v_cvt_sr_(fp8|bf8)_f32$")
#: The byte that op_sel[1:0] selects where there is no scale.
_REVERSED = (0, 2, 1, 3)


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    if ins.format not in ("vop1", "vop3"):
        return None
    if match := _WIDEN.match(ins.mnemonic):
        return _widen(ins, *match.groups())
    if match := _NARROW.match(ins.mnemonic):
        return _narrow(ins, *match.groups())
    if match := _STOCHASTIC.match(ins.mnemonic):
        return _stochastic(ins, format_of(match[1], ins.arch))
    return None


def _step(
    ins: Instruction,
    found: Sequence[Source],
    words: int,
    compute: Callable[[Waves], Sequence[Array]],
    part: tuple[int, int] | None = None,
) -> Step:
    """A step that writes registers.

    Args:
        part: the first bit, and how many, that change of a register; None for all.
    """
    if any(s.lanes is not None or s.blank is not None for s in found):
        raise unsupported(ins, "moved operands")
    register = ins.fields["vdst"]
    writes = tuple(range(register, register + words))

    def step(w: Waves) -> None:
        bad = shadow.blank_of(w, found) if w.undefined else None
        for i, value in enumerate(compute(w)):
            w.put(register + i, value)
        if part is not None:
            shadow.mark_part(w, bad, register, ((1 << part[1]) - 1) << part[0])
        elif w.undefined:
            w.mark(bad, writes)

    return step


def _part(
    register: int, shift: int, bits: int, code: Callable[[Waves], Array]
) -> Callable[[Waves], Sequence[Array]]:
    """The register's new value, of which `bits` from `shift` on change."""
    mask = np.uint32(((1 << bits) - 1) << shift)
    return lambda w: [w.vu[register] & ~mask | code(w) << np.uint32(shift)]


def _no_scale(waves: Waves) -> Array:
    return np.ones((1, 1))


def _scale(ins: Instruction, slot: str) -> tuple[Callable[[Waves], Array], Source]:
    """The factor: the exponent of a float32."""
    read = source(ins, slot, "f32").get

    def scale(w: Waves) -> Array:
        return scale_of(np.ascontiguousarray(read(w)).view(np.uint32) >> np.uint32(23) & 0xFF)

    return scale, source(unsigned(ins), slot, "f32")


def _bits_of(value: Array, kind: str, saturates: bool) -> Array:
    """float64 as the bits of `kind`, uint32."""
    with np.errstate(over="ignore"):
        if kind == "f32":
            return value.astype(np.float32).view(np.uint32)
        if kind == "bf16":
            return floats.bf16_bits(value.astype(np.float32)).astype(np.uint32)
        half = floats.bounded(value.astype(np.float16), value) if saturates else value
        return half.astype(np.float16).view(np.uint16).astype(np.uint32)


def _values_of(words: Array, kind: str) -> Array:
    """float64 of the bits of `kind` in the lower part of words."""
    if kind == "f32":
        return words.view(np.float32).astype(np.float64)
    half = words.astype(np.uint16)
    if kind == "bf16":
        return floats.bf16_value(half).astype(np.float64)
    return half.view(np.float16).astype(np.float64)


def _widen(ins: Instruction, scaled: str | None, pack: str | None, kind: str, name: str) -> Step:
    form = format_of(name, ins.arch)
    count = {None: 1, "pk_": 2, "pk32_": 32}[pack]
    fields = ins.fields
    found, shift = source(ins, "src0", "u32"), 0
    opsel = fields.get("opsel", 0)
    if ins.format == "vop3" and not ins.sdwa and count < 32:
        bits = count * form.bits
        picked = opsel & (1 if bits == 16 else 3)
        if bits == 8 and not scaled:
            picked = _REVERSED[picked] if not ins.cdna else 0
        shift = picked * bits
    upper = bool(scaled and pack is None and opsel >> 3 & 1)
    used = [found if count == 32 else _picked(found, shift, count * form.bits)]
    scale: Callable[[Waves], Array] = _no_scale
    if scaled:
        scale, by = _scale(ins, "src1")
        used.append(by)
    words_in = count * form.bits // 32 if count == 32 else 1
    first = fields["src0"] - 256
    if words_in > 1:
        used += [plain(ins, fields["src0"] + i, "u32") for i in range(1, words_in)]

    def codes(w: Waves) -> list[Array]:
        if words_in == 1:
            word = found.get(w) >> np.uint32(shift)
            mask = np.uint32((1 << form.bits) - 1)
            return [word >> np.uint32(i * form.bits) & mask for i in range(count)]
        return _stream(w.vu[first : first + words_in], form.bits, count)

    def compute(w: Waves) -> list[Array]:
        factor = scale(w)
        parts = [_bits_of(decoded(c, form) * factor, kind, ins.saturates) for c in codes(w)]
        if kind == "f32":
            return parts
        if count == 1:
            row = w.vu[fields["vdst"]]
            if upper:
                return [parts[0] << np.uint32(16) | row & np.uint32(0xFFFF)]
            return [parts[0] | row & np.uint32(0xFFFF0000)]
        return [low | high << np.uint32(16) for low, high in zip(*[iter(parts)] * 2, strict=True)]

    words_out = count if kind == "f32" else max(1, count // 2)
    half = (16 * upper, 16) if kind != "f32" and count == 1 else None
    return _step(ins, used, words_out, compute, half)


def _picked(found: Source, shift: int, bits: int) -> Source:
    """The operand, as far as it is read."""
    get, mask = found.get, np.uint32((1 << bits) - 1)
    return Source(
        lambda w: get(w) >> np.uint32(shift) & mask, found.reads, found.lanes, found.blank
    )


def _stream(words: Sequence[Array], bits: int, count: int) -> list[Array]:
    """`count` codes that follow each other in words without a gap."""
    whole = [w.astype(np.uint64) for w in (*words, np.zeros_like(words[0]))]
    result = []
    for i in range(count):
        word, shift = divmod(i * bits, 32)
        both = whole[word] | whole[word + 1] << np.uint64(32)
        result.append((both >> np.uint64(shift) & np.uint64((1 << bits) - 1)).astype(np.uint32))
    return result


def _joined(codes: Sequence[Array], bits: int) -> list[Array]:
    """Codes as words without a gap."""
    words: list[Any] = [np.uint64(0)] * (len(codes) * bits // 32 + 1)
    for i, code in enumerate(codes):
        word, shift = divmod(i * bits, 32)
        both = code.astype(np.uint64) << np.uint64(shift)
        words[word] = words[word] | both & np.uint64(0xFFFFFFFF)
        words[word + 1] = words[word + 1] | both >> np.uint64(32)
    return [w.astype(np.uint32) for w in words[:-1]]


def _narrow(ins: Instruction, scaled: str | None, pack: str | None, name: str, kind: str) -> Step:
    form = format_of(name, ins.arch)
    if pack is None or (kind != "f32" and not scaled):
        raise unsupported(ins)
    fields = ins.fields
    many = pack != "pk_"
    slots = ("src0", "src1") if kind == "f32" else ("src0",)
    if many:
        words_in = 16
        used = [plain(ins, fields[s] + i, "u32") for s in slots for i in range(words_in)]
    else:
        used = [source(ins, s, "f32" if kind == "f32" else "u32") for s in slots]
    scale: Callable[[Waves], Array] = _no_scale
    reads = used if many else [source(unsigned(ins), s, "u32") for s in slots]
    reads = list(reads)
    if scaled:
        scale, by = _scale(ins, "src2" if kind == "f32" else "src1")
        reads.append(by)

    def values(w: Waves) -> list[Array]:
        words = [np.ascontiguousarray(s.get(w)).view(np.uint32) for s in used]
        if kind == "f32":
            if many:  # the elements of both operands by turns
                words = [x for both in zip(words[:16], words[16:], strict=True) for x in both]
            return [_values_of(x, kind) for x in words]
        return [_values_of(x >> np.uint32(s), kind) for x in words for s in (0, 16)]

    def codes(w: Waves) -> list[Array]:
        factor = scale(w)
        return [encoded(v / factor, form, ins.saturates) for v in values(w)]

    if many:
        return _step(ins, reads, 32 * form.bits // 32, lambda w: _joined(codes(w), form.bits))
    opsel, bits = fields.get("opsel", 0), 2 * form.bits
    shift = (opsel >> 3 & 1) * 16 if bits == 16 else (opsel >> 2 & 3) * 8

    def both(w: Waves) -> Array:
        low, high = codes(w)
        return low | high << np.uint32(form.bits)

    put = _part(fields["vdst"], shift, bits, both)
    return _step(ins, reads, 1, put, (shift, bits))


def _stochastic(ins: Instruction, form: Format) -> Step:
    """A random number is added below the mantissa's last bits, and the rest rounded."""
    x, noise = source(ins, "src0", "f32"), source(ins, "src1", "u32")
    shift = 8 * (ins.fields["opsel"] >> 2 & 3)

    def code(w: Waves) -> Array:
        bits = np.ascontiguousarray(x.get(w)).view(np.uint32)
        mantissa = (bits & np.uint32(0x7FFFFF)) + (noise.get(w) >> np.uint32(12))
        moved = bits & np.uint32(0xFF800000) | mantissa & np.uint32(0x7FFFFF)
        return encoded(moved.view(np.float32).astype(np.float64), form, ins.saturates)

    put = _part(ins.fields["vdst"], shift, 8, code)
    return _step(ins, [source(unsigned(ins), "src0", "u32"), noise], 1, put, (shift, 8))
