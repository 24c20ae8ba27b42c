"""gfx950's products of floats of 8, 6 and 4 bits, with a scale for every 32 elements or without.

Products are summed in float64 and rounded once.
Source: AMD, "CDNA4" ISA, "Matrix Arithmetic Instructions", V_MFMA_SCALE_F32_16X16X128_F8F6F4 and
V_MFMA_SCALE_F32_32X32X64_F8F6F4.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from . import products
from .decode import Instruction
from .memory import Array
from .operands import constant, plain, unsupported
from .small_floats import FORMATS, Format, decoded, scale_of
from .valu import Step
from .waves import ACC, Waves

__all__ = ["build", "places"]

_NAME = re.compile(r"^v_mfma_(scale_)?f32_(\d+)x\d+x(\d+)_f8f6f4$")
#: By the number in cbsz (first operand) and blgp (second).
_OPERANDS = ("fp8", "bf8", "fp6", "bf6", "fp4")
#: Elements that a lane has of an operand; as many have one scale.
_EACH = 32


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    match = _NAME.match(ins.mnemonic)
    if match is None:
        return None
    scaled, m, k = bool(match[1]), int(match[2]), int(match[3])
    fields = ins.fields
    if max(fields["cbsz"], fields["blgp"]) >= len(_OPERANDS) or (fields["abid"] and not scaled):
        raise unsupported(ins, "an unknown format")
    a, a_reads = _operand(ins, 0, FORMATS[_OPERANDS[fields["cbsz"]]], m, k, scaled)
    b, b_reads = _operand(ins, 1, FORMATS[_OPERANDS[fields["blgp"]]], m, k, scaled)
    target = fields["vdst"] + (ACC if fields["acc_cd"] else 0)
    words, code = m * m // 64, fields["src2"]
    first = code - 256 + (ACC if fields["acc_cd"] else 0) if code >= 256 else None
    fixed = None if first is not None else constant(code, "f32", ins.literal).astype(np.float64)
    row, column, _ = places(m, m, 1, words)

    def blank_rows(w: Waves, reads: tuple[int, ...]) -> Array | None:
        lanes = products.blank(w, reads)
        return None if lanes is None else lanes.reshape(w.count, 64 // m, m).any(axis=1)

    def unknown(w: Waves) -> Array | None:
        left, right = blank_rows(w, a_reads), blank_rows(w, b_reads)
        return products.either(
            None if left is None else left[:, row],
            None if right is None else right[:, column],
            None if first is None else products.parts(w, first, words, 4),
        )

    def step(w: Waves) -> None:
        nothing = unknown(w) if w.undefined else None
        found = np.matmul(a(w), b(w).transpose(0, 2, 1))[:, row, column]
        if first is None:
            total = found + fixed
        else:
            total = found + np.stack(w.vf[first : first + words], axis=-1)
        rounded = np.ascontiguousarray(total.astype(np.float32)).view(np.uint32)
        for i in range(words):
            w.vu[target + i][...] = rounded[..., i]
        if w.undefined:
            products.note(w, nothing, target, words)

    return step


def places(
    m: int, n: int, blocks: int, per_result: int, double: bool = False
) -> tuple[Array, Array, Array]:
    """Row, column and block of each lane's results, lanes x results."""
    lane, r = np.arange(64)[:, None], np.arange(per_result)[None, :]
    zero = np.zeros((64, per_result), int)
    if m == 4:
        return zero + r, zero + lane % 4, zero + lane // 4
    each = per_result // blocks
    block, r = r // each, r % each
    if double:
        row = 4 * r + lane // 16
    elif m == 16:
        row = 4 * (lane // 16) + r
    else:
        row = 8 * (r // 4) + 4 * (lane // 32) + r % 4
    return zero + row, zero + lane % n, zero + block


def _operand(
    ins: Instruction, number: int, form: Format, m: int, k: int, scaled: bool
) -> tuple[Callable[[Waves], Array], tuple[int, ...]]:
    """An operand's matrix, waves x rows x k, and the registers that it is made of."""
    fields = ins.fields
    register = fields[f"src{number}"] - 256 + (ACC if fields["acc"] >> number & 1 else 0)
    words = _EACH * form.bits // 32
    groups = 64 // m
    lane_group, element = np.arange(groups)[:, None], np.arange(_EACH)[None, :]
    if form.bits == 8:  # two pieces of 16; the lanes' first ones come before all second ones
        where = 16 * lane_group + element % 16 + 16 * groups * (element // 16)
    else:
        where = _EACH * lane_group + element
    registers = tuple(range(register, register + words))
    scale, scale_reads = _scale(ins, number, groups) if scaled else (None, ())

    def matrix(w: Waves) -> Array:
        codes = _codes(np.stack(w.vu[register : register + words], axis=-1), form.bits)
        found = np.empty((w.count, m, k))
        found[:, :, where] = (
            decoded(codes, form).reshape(w.count, groups, m, _EACH).transpose(0, 2, 1, 3)
        )
        if scale is not None:
            blocks = found.reshape(w.count, m, groups, _EACH)
            blocks *= scale(w).reshape(w.count, groups, m).transpose(0, 2, 1)[..., None]
        return found

    return matrix, (*registers, *scale_reads)


def _codes(words: Array, bits: int) -> Array:
    """Words (waves x lanes x words) as waves x lanes x elements of `bits` bits."""
    raw = np.ascontiguousarray(words).view(np.uint8)
    if bits == 8:
        return raw
    each = np.unpackbits(raw, axis=-1, bitorder="little").reshape(*raw.shape[:2], _EACH, bits)
    return each @ (1 << np.arange(bits))


def _scale(
    ins: Instruction, number: int, groups: int
) -> tuple[Callable[[Waves], Array], tuple[int, ...]]:
    """Each lane's scale: a byte of a register, which op_sel and op_sel_hi choose."""
    fields = ins.fields
    found = plain(ins, fields[f"scale_src{number}"], "u32")
    byte = (fields["opsel"] >> number & 1) | (fields["opsel_hi"] >> number & 1) << 1

    def scale(w: Waves) -> Array:
        exponent = found.get(w) >> np.uint32(8 * byte) & np.uint32(0xFF)
        return np.broadcast_to(scale_of(exponent), (w.count, w.lanes))

    return scale, found.reads
