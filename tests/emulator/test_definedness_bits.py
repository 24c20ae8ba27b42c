"""No instruction loses an undefined bit, whatever its operands are.

Each instruction is executed several times on the same registers, of which some bits hold nothing:
these get other contents each time. A bit of the result that differs came of them, and has to hold
nothing too. That says nothing about false alarms; the second part of this file does.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import machine
import numpy as np
import pytest
from harness import ARCHS, SHORT_ARCHS

from xtarget_emulator.memory import Arena
from xtarget_emulator.scalar_rules import RULES
from xtarget_emulator.vector import ALU, COMPARE
from xtarget_emulator.waves import EXEC, SCC, SGPR, VCC, Group, Waves

_FILLINGS = 6
#: Operands and results are in v4 to v23, s4 to s23.
_ROOM = range(4, 24)
_MASKS = np.array(
    [0, 0, 0, 0xFFFFFFFF, 0xFFFF, 0xFFFF0000, 0xFF, 0xFF00, 0xFF000000, 1, 0x80000000, 0x00F00F00],
    np.uint32,
)


@cache
def _group(arch: str) -> Group:
    lanes = 64 if arch.startswith("gfx9") else 32
    scratch = np.zeros((_FILLINGS, lanes, 0), np.uint8)
    return Group(Arena(1 << 20), np.zeros((1, 3), np.int64), _FILLINGS, 64, scratch)


@cache
def _filled(arch: str, seed: int) -> Waves:
    """Waves with the same values and undefined bits, but for what is in these bits."""
    rng = np.random.default_rng(seed)
    lanes = 64 if arch.startswith("gfx9") else 32
    w = Waves.fresh(_group(arch), np.zeros(_FILLINGS, np.int64), _ROOM.stop, 0, lanes)
    shape = (len(_ROOM), 1, lanes)
    values = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    # some that are numbers, and small ones, which shift and select
    floats = (rng.standard_normal(shape) * 4).astype(np.float32).view(np.uint32)
    values = np.where(rng.random(shape) < 0.3, floats, values)
    values = np.where(rng.random(shape) < 0.2, values & np.uint32(31), values)
    nothing = rng.choice(_MASKS, shape)
    nothing[:, :, 0] = rng.choice(_MASKS, (len(_ROOM), 1))
    every = (len(_ROOM), _FILLINGS, lanes)
    noise = rng.integers(0, 1 << 32, every, dtype=np.uint64).astype(np.uint32)
    noise[:, 0], noise[:, 1] = 0, 0xFFFFFFFF
    filled = values & ~nothing | noise & nothing
    for row, register in enumerate(_ROOM):
        w.vu[register][...] = filled[row]
        w.su[register][...] = filled[row, :, :1]
        w.note_unknown(register, np.broadcast_to(nothing[row], (_FILLINGS, lanes)))
        w.note_unknown(SGPR + register, np.broadcast_to(nothing[row, :, :1], (_FILLINGS, 1)))
    masks = rng.integers(0, 1 << 32, 4, dtype=np.uint64).astype(np.uint32) | 1
    for number, mask in zip((VCC, VCC + 1, EXEC, EXEC + 1), masks, strict=True):
        w.su[number][...] = mask
        w.undefined.pop(SGPR + number, None)
    w.undefined.pop(SCC, None)
    w.set_exec()
    return w


def _waves(arch: str, seed: int) -> Waves:
    """Those of `_filled`, to be changed."""
    made = _filled(arch, seed)
    w = Waves(made.group, made.numbers, made.block, made.v.copy(), made.s.copy(), made.scc.copy())
    w.undefined, w.partly = dict(made.undefined), dict(made.partly)
    return w


def _lost(arch: str, code: bytes, seed: int) -> str:
    """Registers with bits that differ between fillings, and are called defined."""
    w = _waves(arch, seed)
    machine.execute(arch, w, code)
    for kind, first, found in (("v", 0, w.v), ("s", SGPR, w.s[:, :, None])):
        found = found[_ROOM.start : _ROOM.stop]
        differs = np.bitwise_or.reduce(found ^ found[:, :1], axis=1, keepdims=True)
        for row in np.flatnonzero(differs.any(axis=(1, 2))):
            unknown = w.unknown_of(first + _ROOM[row])
            missed = differs[row] if unknown is None else differs[row] & ~unknown
            if missed.any():
                wave, lane = np.argwhere(missed != 0)[0]
                bits = f"0x{int(missed[wave, lane]):x}"
                return f"{kind}{_ROOM[row]}, lane {lane}, bits {bits}"
    if (w.scc != w.scc[0]).any():
        nothing = w.undefined.get(SCC)
        if nothing is None or not nothing.all():
            return "scc"
    return ""


def _encodings(arch: str, name: str) -> list[bytes]:
    """The instruction in its forms: registers, scalar registers, halves."""
    pair = name.endswith("64") or "64_" in name
    forms: list[tuple[tuple[str, ...], dict[str, int]]] = []
    mask = "s[20:21]" if arch.startswith("gfx9") else "s20"
    if name.startswith("v_cmp_"):
        wide = ("v[8:9]", "v[12:13]") if name.endswith("64") else ("v8", "v12")
        opsels = range(4) if name.endswith("16") and not arch.startswith("gfx9") else (0,)
        forms = [((mask, *wide), {"opsel": o} if o else {}) for o in opsels]
    elif name.startswith(("s_cmp_", "s_bitcmp")):
        forms = [(("s8", "s12"), {}), (("s[8:9]", "s[12:13]"), {}), (("s[8:9]", "s12"), {})]
    elif "_co_" in name:
        forms = [(("v4", mask, "v8", "v12"), {}), (("v4", mask, "v8", "v12", mask), {})]
    elif name.startswith("s_"):
        for count in (1, 2, 3):
            wide = tuple(f"s[{8 + 4 * i}:{9 + 4 * i}]" for i in range(count))
            narrow = tuple(f"s{8 + 4 * i}" for i in range(count))
            for target, sources in itertools.product(("s4", "s[4:5]"), (wide, narrow)):
                forms.append(((target, *sources), {}))
            forms.append((("s[4:5]", "s[8:9]", "s12"), {}))
            forms.append((("s4", "s[8:9]", "s12"), {}))
    else:
        for count in (1, 2, 3):
            kinds = [(f"v[{8 + 4 * i}:{9 + 4 * i}]", f"v{8 + 4 * i}") for i in range(count)]
            for sources in itertools.product(*kinds) if pair else [tuple(k[1] for k in kinds)]:
                for target in ("v4", "v[4:5]"):
                    forms.append(((target, *sources), {}))
            plain = tuple(k[1] for k in kinds)
            forms += [(("v4", *plain), {"opsel": o}) for o in (1, 2, 5, 8, 15)]
            if name in ALU:
                forms.append((("v4", "s9", *plain[1:]), {}))
        if name.startswith("v_cndmask"):
            opsels = range(16) if name.endswith("16") else (0,)
            forms = [(("v4", "v8", "v12", mask), {"opsel": o}) for o in opsels]
    codes = []
    for operands, fields in forms:
        try:
            code = machine.encoded(arch, name, *operands, **fields)
        except Exception:  # tinygrad's encoder: an arch or a form without it
            continue
        codes.append(code)
    return list(dict.fromkeys(codes))


_OTHERS = [
    "v_cndmask_b32", "v_cndmask_b16", "v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16",
    "v_pk_add_f16", "v_pk_mul_f16", "v_pk_fma_f16", "v_pk_add_u16", "v_pk_lshlrev_b16",
    "v_pk_max_i16", "v_pk_min_f16", "v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32", "v_cvt_f32_fp8",
    "v_cvt_pk_f32_fp8", "v_cvt_sr_fp8_f32", "v_bitop3_b32", "v_bitop3_b16", "v_readfirstlane_b32",
    "v_swap_b32", "v_permlane64_b32", "v_swap_b16", "v_permlane16_b32", "v_permlanex16_b32",
    "v_pk_fma_f32", "v_pk_mov_b32", "v_pk_add_f32", "v_dot2_f32_f16", "v_dot2_f32_bf16",
    "v_mad_u64_u32", "v_mul_lo_u32", "v_mbcnt_lo_u32_b32", "v_add_co_u32", "v_sub_co_u32",
]  # fmt: skip


_OTHERS += [
    f"v_cmp_{relation}_{kind}{bits}"
    for relation in (*COMPARE, "class")
    for kind in "fiu"
    for bits in (16, 32, 64)
]
_OTHERS += [f"s_cmp_{relation}_{kind}" for relation in COMPARE for kind in (
    "i32", "u32", "u64", "f16", "f32")]  # fmt: skip
_OTHERS += [
    "s_bitcmp0_b32",
    "s_bitcmp1_b64",
    "s_cselect_b32",
    "s_cselect_b64",
    "s_addc_u32",
    "s_subb_u32",
]
_OTHERS += ["v_add_co_ci_u32", "v_sub_co_ci_u32", "v_subrev_co_u32", "v_subrev_co_ci_u32"]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "arch", [pytest.param(a, marks=() if a in SHORT_ARCHS else pytest.mark.long) for a in ARCHS]
)
def test_no_instruction_loses_an_undefined_bit(arch: str, seed: int) -> None:
    done, lost = 0, []
    for name in sorted({*ALU, *RULES, *_OTHERS}):
        for code in _encodings(arch, name):
            try:
                where = _lost(arch, code, seed)
            except Exception as error:
                if "does not execute" in str(error) or "ever written" in str(error):
                    continue
                raise AssertionError(f"{name} {code.hex()}: {error!r}") from error
            done += 1
            if where:
                lost.append(f"{name} {code.hex()}: {where}")
    assert not lost, f"{len(lost)} of {done}: " + "; ".join(lost[:20])
    assert done > 500, done


def _after(arch: str, vector: dict[int, int], name: str, *operands: Any, **fields: int) -> int:
    """The bits of v4 that hold nothing: those of `vector` did before, and no others."""
    w = machine.wave(arch)
    machine.put(w, {r: np.full(w.lanes, 0x01020304, np.uint32) for r in _ROOM})
    for register, bits in vector.items():
        w.note_unknown(register, np.full((1, w.lanes), bits, np.uint32))
    machine.execute(arch, w, machine.encoded(arch, name, *operands, **fields))
    found = w.unknown_of(4)
    return 0 if found is None else int(found[0, 3])


_EXACT = [
    ("v_and_b32", {8: 0xFFFF0000}, ("v4", 15, "v8"), 0),
    ("v_and_b32", {8: 0xFFFFFFFF}, ("v4", 15, "v8"), 15),
    ("v_or_b32", {8: 0xFF}, ("v4", -1, "v8"), 0),
    ("v_or_b32", {8: 0xFF}, ("v4", "v12", "v8"), 0xFB),
    ("v_xor_b32", {8: 0xFF}, ("v4", "v12", "v8"), 0xFF),
    ("v_mov_b32", {8: 0xFF00}, ("v4", "v8"), 0xFF00),
    ("v_lshlrev_b32", {8: 0xFFFF0000}, ("v4", 16, "v8"), 0),
    ("v_lshlrev_b32", {8: 0xFFFF}, ("v4", 16, "v8"), 0xFFFF0000),
    ("v_lshrrev_b32", {8: 0xFFFF0000}, ("v4", 16, "v8"), 0xFFFF),
    ("v_lshrrev_b32", {8: 0xFFFF}, ("v4", 16, "v8"), 0),
    ("v_lshrrev_b32", {12: 0xFFFFFFE0}, ("v4", "v12", "v8"), 0),
    ("v_ashrrev_i32", {8: 0x80000000}, ("v4", 24, "v8"), 0xFFFFFF80),
    ("v_bfe_u32", {8: 0xFFFF0000}, ("v4", "v8", 0, 16), 0),
    ("v_bfe_i32", {8: 0x8000}, ("v4", "v8", 0, 16), 0xFFFF8000),
    ("v_add_nc_u32", {8: 0xFFFF0000}, ("v4", "v8", "v12"), 0xFFFF0000),
    ("v_mul_lo_u32", {8: 0x100}, ("v4", "v8", "v12"), 0xFFFFFF00),
    ("v_add_f32", {8: 1}, ("v4", "v8", "v12"), 0xFFFFFFFF),
    ("v_cvt_f32_ubyte1", {8: 0xFFFF00FF}, ("v4", "v8"), 0),
    ("v_cvt_f32_f16", {8: 0xFFFF0000}, ("v4", "v8"), 0),
    ("v_cvt_f32_f16", {8: 0x8000}, ("v4", "v8"), 0xFFFFFFFF),
    ("v_pack_b32_f16", {8: 0xFFFF}, ("v4", "v8", "v12"), 0xFFFF),
    ("v_pack_b32_f16", {12: 1}, ("v4", "v8", "v12"), 0xFFFF0000),
    ("v_cvt_pk_rtz_f16_f32", {8: 0xFFFFFFFF}, ("v4", "v8", "v12"), 0xFFFF),
    ("v_cvt_pk_rtz_f16_f32", {12: 0xFFFFFFFF}, ("v4", "v8", "v12"), 0xFFFF0000),
    ("v_cvt_pk_u16_u32", {12: 0xFFFFFFFF}, ("v4", "v8", "v12"), 0xFFFF0000),
    ("v_lshl_or_b32", {8: 0xFFFF0000}, ("v4", "v8", 16, "v12"), 0),
    ("v_permlanex16_b32", {8: 0xFF00}, ("v4", "v8", 0, 0), 0xFF00),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "operands", "expected"), _EXACT)
def test_bits_that_do_not_depend_on_undefined_ones_are_defined(
    name: str, before: dict[int, int], operands: tuple[Any, ...], expected: int
) -> None:
    assert _after("gfx1100", before, name, *operands) == expected


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_halves_of_a_packed_operation_are_apart(arch: str) -> None:
    assert _after(arch, {8: 0xFFFF}, "v_pk_add_f16", "v4", "v8", "v12", opsel_hi=3) == 0xFFFF
    assert _after(arch, {8: 1 << 16}, "v_pk_add_f16", "v4", "v8", "v12", opsel_hi=3) == 0xFFFF0000
    both = _after(arch, {8: 1 << 16}, "v_pk_add_f16", "v4", "v8", "v12", opsel=1, opsel_hi=3)
    assert both == 0xFFFFFFFF


@pytest.mark.parametrize(("name", "left"), [("lo", 0xFFFF0000), ("hi", 0xFFFF)])
def test_the_other_half_of_a_result_stays_as_it_was(name: str, left: int) -> None:
    name = f"v_fma_mix{name}_f16"
    assert _after("gfx1100", {4: 0xFFFFFFFF}, name, "v4", "v8", "v12", "v16") == left
    assert _after("gfx1100", {8: 1}, name, "v4", "v8", "v12", "v16") == left ^ 0xFFFFFFFF
