"""Matrix instructions: MFMA (CDNA) and WMMA (RDNA).

Products are summed in float64 and rounded once, so a result may differ from the hardware's in its
last digits.
Source: AMD, "CDNA3" and "CDNA4" ISA, "Matrix Arithmetic Instructions", and the AMD Matrix
Instruction Calculator for the places of elements; "RDNA3" and "RDNA4" ISA, "WMMA".
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from . import floats, products, scaled
from .decode import Instruction
from .memory import Array, Fault
from .operands import constant, unsupported
from .scaled import places
from .valu import Step
from .waves import ACC, Waves

__all__ = ["build"]

_MFMA = re.compile(
    r"^v_mfma_([fi]\d+)_(\d+)x(\d+)x(\d+)_(?:(\d+)b_)?([a-z0-9]+?)(?:_([a-z0-9]+))?$"
)
_WMMA = re.compile(r"^v_wmma_([a-z]+\d+)_16x16x16_([a-z0-9]+?)(?:_([a-z0-9]+))?$")
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "xf32": 32, "f64": 64, "i8": 8, "iu8": 8,
         "fp8": 8, "bf8": 8}  # fmt: skip
#: The 8-bit floats: CDNA3's have no negative zero and another bias; the others are OCP's.
_OCP: dict[str, Any] = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
_FNUZ: dict[str, Any] = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}


_LANE = np.arange(64)
#: By the number in blgp: the lane whose second operand each lane takes.
_LANES_OF_B = (
    _LANE,
    _LANE % 32,
    _LANE % 32 + 32,
    (_LANE + 16) % 64,
    *(_LANE % 16 + 16 * i for i in range(4)),
)


def build(ins: Instruction) -> Step | None:
    """The step of a matrix instruction; None when it is none of these."""
    if "_f8f6f4" in ins.mnemonic:
        return scaled.build(ins)
    if match := _MFMA.match(ins.mnemonic):
        return _mfma(ins, match)
    if match := _WMMA.match(ins.mnemonic):
        return _wmma(ins, match)
    return None


def _elements(w: Waves, register: int, words: int, kind: str, arch: str, signed: bool) -> Array:
    """An operand as waves x lanes x elements of float64 (or int64)."""
    raw = np.ascontiguousarray(np.stack(w.vu[register : register + words], axis=-1))
    if kind in ("i8", "iu8"):
        return raw.view(np.int8 if signed else np.uint8).astype(np.int64)
    if kind == "f16":
        return raw.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return floats.bf16_value(raw.view(np.uint16)).astype(np.float64)
    if kind in _OCP:
        return raw.view((_FNUZ if arch == "gfx942" else _OCP)[kind]).astype(np.float64)
    if kind == "xf32":  # 10 bits of mantissa, by truncation
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return raw.view(np.float64 if kind == "f64" else np.float32).astype(np.float64)


def _mfma(ins: Instruction, match: re.Match[str]) -> Step:
    result, m_text, n_text, k_text, blocks_text, kind_a, kind_b = match.groups()
    m, n, k = int(m_text), int(n_text), int(k_text)
    kind_b = kind_b or kind_a
    blocks = int(blocks_text or 1)
    fields, blgp = ins.fields, ins.fields["blgp"]
    double = result == "f64"
    if double and (fields["cbsz"] or fields["abid"] or blgp):
        raise unsupported(ins, "a sign modifier")
    if (
        m != n
        or kind_a not in _BITS
        or kind_b not in _BITS
        or (ins.arch == "gfx90a" and "8" in kind_a and kind_a != "i8")
    ):
        raise unsupported(ins)
    groups = 64 // (m * blocks)
    per_lane = k // groups
    if not groups or per_lane * groups != k:
        raise unsupported(ins, "this shape")
    words_in = max(1, per_lane * _BITS[kind_a] // 32)
    padded = per_lane * _BITS[kind_a] < 32
    used = (1 << per_lane * _BITS[kind_a]) - 1 if padded else 0xFFFFFFFF
    a_register = fields["src0"] - 256 + (ACC if fields["acc"] & 1 else 0)
    b_register = fields["src1"] - 256 + (ACC if fields["acc"] & 2 else 0)
    per_result = m * n * blocks // 64
    words_out = per_result * (2 if double else 1)
    target = fields["vdst"] + (ACC if fields["acc_cd"] else 0)
    code = fields["src2"]
    c_register = code - 256 + (ACC if fields["acc_cd"] else 0) if code >= 256 else None
    kind_c = "f64" if double else "i32" if result == "i32" else "f32"
    dtype = {"f64": np.float64, "i32": np.int32, "f32": np.float32}[kind_c]
    fixed: Array = None if c_register is not None else constant(code, kind_c, ins.literal)
    row, column, block = places(m, n, blocks, per_result, double)
    arch = ins.arch

    origin = _LANES_OF_B[blgp]
    every = 1 << fields["cbsz"]  # so many blocks share one of them as their first operand
    shared = np.arange(blocks) // every * every + fields["abid"]

    def operand(w: Waves, register: int, kind: str, permuted: bool) -> Array:
        found = _elements(w, register, words_in, kind, arch, True)
        if permuted:
            found = found[:, origin]
        if padded:
            found = found[..., :per_lane]
        # lanes are (group of k, block, row): waves x groups x blocks x rows x per_lane
        shaped = found.reshape(w.count, groups, blocks, m, per_lane)
        return shaped.transpose(0, 2, 3, 1, 4).reshape(w.count, blocks, m, k)

    def blank_rows(w: Waves, register: int, permuted: bool) -> Array | None:
        lanes = products.blank(w, range(register, register + words_in), used)
        if lanes is None:
            return None
        if permuted:
            lanes = lanes[:, origin]
        return lanes.reshape(w.count, groups, blocks, m).any(axis=1)

    def unknown(w: Waves) -> Array | None:
        a, b = blank_rows(w, a_register, False), blank_rows(w, b_register, bool(blgp))
        c = None if c_register is None else products.parts(w, c_register, words_out, 4 + 4 * double)
        if a is not None:
            a = (a[:, shared] if every > 1 else a)[:, block, row]
        return products.either(a, None if b is None else b[:, block, column], c)

    def step(w: Waves) -> None:
        nothing = unknown(w) if w.undefined else None
        a, b = operand(w, a_register, kind_a, False), operand(w, b_register, kind_b, bool(blgp))
        if every > 1:
            a = a[:, shared]
        product = np.matmul(a, b.transpose(0, 1, 3, 2))
        found = product[:, block, row, column]  # waves x lanes x per_result
        if c_register is None:
            total = found + fixed.astype(found.dtype)[..., None]
        else:
            raw = np.ascontiguousarray(
                np.stack(w.vu[c_register : c_register + words_out], axis=-1)
            ).view(dtype)
            total = found + raw.astype(found.dtype)
        rounded = np.ascontiguousarray(total.astype(dtype)).view(np.uint32)
        for i in range(words_out):
            w.vu[target + i][...] = rounded[..., i]
        if w.undefined:
            products.note(w, nothing, target, words_out)

    return step


def _halves(total: Array, saturates: bool) -> Array:
    half = total.astype(np.float16)
    return floats.bounded(half, total) if saturates else half


def _wmma(ins: Instruction, match: re.Match[str]) -> Step:
    result, kind_a, kind_b = match.groups()
    kind_b = kind_b or kind_a
    fields = ins.fields
    new = ins.arch == "gfx1201"
    if kind_a not in _BITS or kind_b not in _BITS or result not in ("f32", "f16", "bf16", "i32"):
        raise unsupported(ins)
    integer = result == "i32"
    signed = (bool(fields["neg"] & 1), bool(fields["neg"] & 2)) if integer else (True, True)
    if (not integer and (fields["neg"] or fields["neg_hi"])) or (fields["clmp"]):
        raise unsupported(ins, "modifiers")
    half = result in ("f16", "bf16")
    upper = bool(fields["opsel"] >> 2 & 1) if half and not new else False
    per_lane = 8 if new else 16
    words_in = per_lane * _BITS[kind_a] // 32
    words_out = 4 if half and new else 8
    a_register, b_register = fields["src0"] - 256, fields["src1"] - 256
    target, code = fields["vdst"], fields["src2"]
    c_register = code - 256 if code >= 256 else None
    kind_c = {"f32": "f32", "i32": "i32"}.get(result, "f16")
    fixed: Array = None if c_register is not None else constant(code, kind_c, ins.literal)
    if fixed is not None and result == "bf16" and fixed.any():
        raise unsupported(ins, "a constant")
    lane, r = np.arange(32)[:, None], np.arange(8)[None, :]
    row = r + 8 * (lane // 16) if new else 2 * r + lane // 16
    column = np.broadcast_to(lane % 16, row.shape)
    arch = ins.arch

    def operand(w: Waves, register: int, kind: str, sign: bool) -> Array:
        found = _elements(w, register, words_in, kind, arch, sign)
        if new:  # lanes 16 to 31 have the upper half of k
            shaped = found.reshape(w.count, 2, 16, per_lane)
            return shaped.transpose(0, 2, 1, 3).reshape(w.count, 16, 16)
        low, high = found[:, :16], found[:, 16:]
        if not np.array_equal(low, high, equal_nan=not integer):
            raise Fault("multiplies a matrix whose copy in lanes 16 to 31 differs")
        return low

    def accumulator(w: Waves) -> Array:
        if c_register is None:
            return fixed.astype(np.int64 if integer else np.float64)[..., None]
        words = np.stack(w.vu[c_register : c_register + words_out], axis=-1)
        raw = np.ascontiguousarray(words)
        if half:
            parts = raw.view(np.uint16)
            if not new:
                parts = np.ascontiguousarray(parts[..., int(upper) :: 2])
            if result == "bf16":
                return floats.bf16_value(parts).astype(np.float64)
            return parts.view(np.float16).astype(np.float64)
        return raw.view(np.int32).astype(np.int64) if integer else raw.view(np.float32)

    def blank_rows(w: Waves, register: int, rows: Array) -> Array | None:
        lanes = products.blank(w, range(register, register + words_in))
        return None if lanes is None else lanes.reshape(w.count, 2, 16).any(axis=1)[:, rows]

    def unknown(w: Waves) -> Array | None:
        c = None
        if c_register is not None:
            c = products.parts(w, c_register, words_out, 2 if half else 4)
            if c is not None and half and not new:
                c = c[..., int(upper) :: 2]
        return products.either(blank_rows(w, a_register, row), blank_rows(w, b_register, column), c)

    def step(w: Waves) -> None:
        nothing = unknown(w) if w.undefined else None
        a, b = operand(w, a_register, kind_a, signed[0]), operand(w, b_register, kind_b, signed[1])
        total = np.matmul(a, b.transpose(0, 2, 1))[:, row, column] + accumulator(w)
        if half:
            narrow = (
                floats.bf16_bits(total.astype(np.float32))
                if result == "bf16"
                else _halves(total, ins.saturates).view(np.uint16)
            )
            if new:
                words = np.ascontiguousarray(narrow).view(np.uint32)
            else:
                old = np.stack(w.vu[target : target + 8], axis=-1)
                new_half = narrow.astype(np.uint32)
                words = (
                    new_half << 16 | old & np.uint32(0xFFFF)
                    if upper
                    else new_half | old & np.uint32(0xFFFF0000)
                )
        else:
            words = total.astype(np.int32 if integer else np.float32).view(np.uint32)
        for i in range(words_out):
            w.vu[target + i][...] = words[..., i]
        if w.undefined and half and not new:
            products.note_halves(w, nothing, target, upper)
        elif w.undefined:
            products.note(w, nothing, target, words_out)

    return step
