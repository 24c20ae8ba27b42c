"""From an operand's code to a function that reads it from, or writes it to, the waves' state.

Everything that can be known before the kernel runs is: an operand becomes a closure once. A value
is an array of waves x lanes, or broadcasts to it (waves x 1 for scalar registers, 1 x 1 for
constants).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .decode import Instruction
from .lanes import moved
from .memory import Array
from .operand import Get, Source, unsupported
from .waves import ACC, SCC, SGPR, Waves

__all__ = [
    "FLOATS",
    "KINDS",
    "Put",
    "Source",
    "constant",
    "scalar_put",
    "source",
    "unsupported",
    "vector_put",
]

Put: TypeAlias = Callable[..., None]

#: Element kinds: how the bits of an operand are read.
KINDS: dict[str, Any] = {
    "u16": np.uint16,
    "i16": np.int16,
    "f16": np.float16,
    "u32": np.uint32,
    "i32": np.int32,
    "f32": np.float32,
    "u64": np.uint64,
    "i64": np.int64,
    "f64": np.float64,
}
#: Inline constants by their code.
FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
FLOATS[248] = 0.15915494309189532  # 1 / (2 pi)
_SLOTS = {"src0": 0, "src1": 1, "vsrc1": 1, "src2": 2, "ssrc0": 0, "ssrc1": 1}
_LITERAL = 255


def constant(code: int, kind: str, literal: int | None) -> Array:
    """The value of an inline constant or a literal, 1 x 1.

    Source: RDNA3 ISA, "Source operands": integers are sign-extended, floats have the operand's own
    size; a literal of a 64-bit float is its upper half.
    """
    width = int(kind[1:])
    if code == _LITERAL:
        assert literal is not None
        value = literal
        if width == 64:
            if kind == "f64":
                value <<= 32
            elif kind == "i64":
                value -= (value & 1 << 31) << 1
    elif code in FLOATS:
        form = {16: "<e", 32: "<f", 64: "<d"}[width]
        value = int.from_bytes(struct.pack(form, FLOATS[code]), "little")
    else:
        value = code - 128 if code <= 192 else 192 - code
    value &= (1 << width) - 1
    return np.array([[value]], f"u{width // 8}").view(KINDS[kind])


def _half(words: Get, dtype: Any, high: bool) -> Get:
    """The 16 bits at one end of a register."""
    if high:
        return lambda w: (words(w) >> 16).astype(np.uint16).view(dtype)
    return lambda w: words(w).astype(np.uint16).view(dtype)


def _vector(register: int, kind: str, high: bool) -> Get:
    def wide(w: Waves) -> Array:
        both = np.empty((w.count, w.lanes, 2), np.uint32)
        both[..., 0] = w.vu[register]
        both[..., 1] = w.vu[register + 1]
        return both.view(np.uint64)[..., 0]

    whole: dict[str, Get] = {
        "u32": lambda w: w.vu[register],
        "i32": lambda w: w.vi[register],
        "f32": lambda w: w.vf[register],
    }
    return _of_kind(kind, whole, wide, high)


def _scalar(register: int, kind: str, high: bool) -> Get:
    def wide(w: Waves) -> Array:
        low = w.su[register].astype(np.uint64)
        return low | w.su[register + 1].astype(np.uint64) << np.uint64(32)

    whole: dict[str, Get] = {
        "u32": lambda w: w.su[register],
        "i32": lambda w: w.si[register],
        "f32": lambda w: w.sf[register],
    }
    return _of_kind(kind, whole, wide, high)


def _of_kind(kind: str, whole: dict[str, Get], wide: Get, high: bool) -> Get:
    """A register as a value of a kind.

    Args:
        whole: its reader for each kind of 32 bits.
        wide: reads it and the next one as 64 bits.
        high: of the halves of the register the upper one.
    """
    if kind in whole:
        return whole[kind]
    dtype = KINDS[kind]
    if kind in ("u64", "i64", "f64"):
        return lambda w: wide(w).view(dtype)
    return _half(whole["u32"], dtype, high)


def plain(ins: Instruction, code: int, kind: str, high: bool = False, acc: bool = False) -> Source:
    """An operand without modifiers, by its 9-bit code."""
    pair = kind[1:] == "64"
    if code >= 256:
        register = code - 256 + (ACC if acc else 0)
        reads = (register, register + 1) if pair else (register,)
        return Source(_vector(register, kind, high), reads)
    if code < 128:
        null = 125 if ins.cdna else 124
        if code == null and not ins.cdna:
            zero = np.zeros((1, 1), KINDS[kind])
            return Source(lambda w: zero, ())
        if code == null:
            raise unsupported(ins, "reserved register")
        reads = (SGPR + code, SGPR + code + 1) if pair else (SGPR + code,)
        return Source(_scalar(code, kind, high), reads)
    if code == 253:
        return Source(lambda w: w.scc[:, None].astype(KINDS[kind]), (SCC,))
    if code == _LITERAL and high:
        assert ins.literal is not None
        value = constant(code, kind, ins.literal >> 16)
    elif 128 <= code <= 208 or code in FLOATS or code == _LITERAL:
        value = constant(code, kind, ins.literal)
        if high and code != _LITERAL:  # the upper half of a 32-bit constant
            fill = np.uint16(0xFFFF if 193 <= code <= 208 else 0)
            value = np.array([[fill]]).view(KINDS[kind])
    else:
        raise unsupported(ins, f"operand {code}")
    return Source(lambda w: value, ())


def _true16(ins: Instruction, code: int, kind: str) -> tuple[int, bool]:
    """RDNA's short encodings name halves of VGPRs 0 to 127: bit 7 is the upper half."""
    short = ins.format in ("vop1", "vop2", "vopc") and not ins.cdna
    if short and kind[1:] == "16" and code >= 256 + 128:
        return code - 128, True
    return code, False


def source(ins: Instruction, slot: str, kind: str) -> Source:
    """A vector instruction's operand, with its modifiers."""
    fields = ins.fields
    code = fields[slot]
    number = _SLOTS[slot]
    if slot == "vsrc1":
        code += 256
    if ins.sdwa:
        return _sdwa(ins, number, code, kind)
    negate = fields.get("neg", 0) >> number & 1
    absolute = fields.get("abs", 0) >> number & 1
    if ins.dpp is not None and number == 0:
        code = 256 + ins.dpp.register
    if ins.dpp is not None:
        negate |= ins.dpp.negate >> number & 1
        absolute |= ins.dpp.absolute >> number & 1
    code, high = _true16(ins, code, kind)
    if ins.format == "vop3" and kind[1:] == "16":
        high = bool(fields.get("opsel", 0) >> number & 1)
    found = plain(ins, code, kind, high)
    if ins.dpp is not None and number == 0:
        found = moved(ins, found)
    return _modified(ins, found, kind, bool(negate), bool(absolute))


def _modified(ins: Instruction, found: Source, kind: str, negate: bool, absolute: bool) -> Source:
    if not (negate or absolute):
        return found
    if kind[0] != "f":
        raise unsupported(ins, "a sign modifier on an integer")
    inner = found.get

    def get(w: Waves) -> Array:
        value = np.abs(inner(w)) if absolute else inner(w)
        return -value if negate else value

    return Source(get, found.reads, found.lanes, found.blank)


def _sdwa(ins: Instruction, number: int, code: int, kind: str) -> Source:
    """CDNA's sub-dword addressing: a byte or word of a register."""
    fields = ins.fields
    if number == 0:
        code = fields["vsrc0"] + (0 if fields["s0"] else 256)
    elif fields["s1"]:
        code -= 256
    select = fields[f"src{number}_sel"]
    extend = fields[f"src{number}_sext"]
    whole = plain(ins, code, "u32")
    read = whole.get
    if select == 6:
        get: Get = read
    else:
        shift = np.uint32(8 * select if select < 4 else 16 * (select - 4))
        parts: list[Any] = [np.int8, np.uint8] if select < 4 else [np.int16, np.uint16]
        dtype = parts[0] if extend else parts[1]

        def get(w: Waves) -> Array:
            return (read(w) >> shift).astype(dtype).astype(np.int32).view(np.uint32)

    width = kind[1:]
    if width == "64":
        raise unsupported(ins, "a 64-bit operand in SDWA")
    wanted = KINDS[kind]

    def typed(w: Waves) -> Array:
        part = get(w)
        return (part.astype(np.uint16) if width == "16" else part).view(wanted)

    return _modified(
        ins,
        Source(typed, whole.reads),
        kind,
        bool(fields[f"src{number}_neg"]),
        bool(fields[f"src{number}_abs"]),
    )


# ------------------------------------------------------------------------------------ destinations


def vector_put(ins: Instruction, register: int, kind: str, keeps: bool = False) -> Put:
    """`put(waves, value, lanes)`: to active lanes of a VGPR, or to `lanes` of it.

    Args:
        keeps: a 16-bit result leaves the other half alone, on CDNA too (RDNA's always does).
    """
    width = kind[1:]
    if width == "16" and not ins.sdwa:
        return _half_put(ins, register, keeps)
    if ins.sdwa:
        return _sdwa_put(ins, register, kind)
    if width == "64":

        def put_pair(w: Waves, value: Array, lanes: Array | None = None) -> None:
            words = (
                np.ascontiguousarray(np.broadcast_to(value, (w.count, w.lanes)))
                .view(np.uint32)
                .reshape(w.count, w.lanes, 2)
            )
            if lanes is None and w.full:
                w.vu[register][...] = words[..., 0]
                w.vu[register + 1][...] = words[..., 1]
            else:
                lanes = w.mask if lanes is None else lanes
                np.copyto(w.vu[register], words[..., 0], where=lanes)
                np.copyto(w.vu[register + 1], words[..., 1], where=lanes)

        return put_pair
    name = {"u32": "vu", "i32": "vi", "f32": "vf"}[kind]

    def put(w: Waves, value: Array, lanes: Array | None = None) -> None:
        if lanes is None and w.full:
            getattr(w, name)[register][...] = value
        else:
            lanes = w.mask if lanes is None else lanes
            np.copyto(getattr(w, name)[register], value, where=lanes)

    return put


def _half_put(ins: Instruction, register: int, keeps: bool) -> Put:
    high = False
    if ins.format == "vop3":
        high = bool(ins.fields.get("opsel", 0) >> 3 & 1)
    elif not ins.cdna and ins.format in ("vop1", "vop2") and register >= 128:
        register, high = register - 128, True
    zeroes = ins.cdna and not high and not keeps

    def put_half(w: Waves, value: Array, lanes: Array | None = None) -> None:
        word = value.view(np.uint16).astype(np.uint32)
        row = w.vu[register]
        if high:
            word = word << 16 | row & 0xFFFF
        elif not zeroes:
            word = word | row & np.uint32(0xFFFF0000)
        if lanes is None and w.full:
            row[...] = word
        else:
            np.copyto(row, word, where=w.mask if lanes is None else lanes)

    return put_half


def _sdwa_put(ins: Instruction, register: int, kind: str) -> Put:
    select, unused = ins.fields["dst_sel"], ins.fields["dst_unused"]
    half = kind[1:] == "16"

    def put_part(w: Waves, value: Array, lanes: Array | None = None) -> None:
        word = value.view(np.uint16).astype(np.uint32) if half else value.view(np.uint32)
        row = w.vu[register]
        if select != 6:
            bits, shift = (8, 8 * select) if select < 4 else (16, 16 * (select - 4))
            ones = np.uint32((1 << bits) - 1)
            word = (word & ones) << np.uint32(shift)
            if unused == 2:
                word = word | row & ~(ones << np.uint32(shift))
            elif unused == 1:
                left = np.uint32(32 - bits - shift)
                word = ((word << left).view(np.int32) >> left.view(np.int32)).view(np.uint32)
        np.copyto(row, word, where=w.mask if lanes is None else lanes)

    return put_part


def scalar_put(ins: Instruction, register: int, kind: str) -> Put:
    """`put(waves, value)`: to a scalar register (pair); EXEC takes effect at once."""
    if register == 124 and not ins.cdna:
        return lambda w, value, lanes=None: None
    if register >= 128 or (register == 125 and ins.cdna):
        raise unsupported(ins, f"scalar destination {register}")
    executes = register in (126, 127)
    pair = kind[1:] == "64"

    def put(w: Waves, value: Array, lanes: Array | None = None) -> None:
        if pair:  # one value for each wave, or one for all of them
            words = np.ascontiguousarray(value).view(np.uint32).reshape(-1, 2)
            w.s[register] = words[:, 0]
            w.s[register + 1] = words[:, 1]
        else:
            w.s[register] = value[:, 0].view(np.uint32)
        if executes:
            w.set_exec()

    return put
