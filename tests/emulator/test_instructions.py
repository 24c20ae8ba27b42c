"""Single instructions give what the instruction sets' books say, by formulas written anew here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import machine
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(11)
FLOATS = np.concatenate(
    [
        RNG.standard_normal(26).astype(np.float32) * 3,
        np.array([0, -0.0, math.inf, -math.inf, math.nan, 1e-40], np.float32),
    ]
)
WORDS = np.concatenate(
    [
        RNG.integers(0, 1 << 32, 26, dtype=np.uint64).astype(np.uint32),
        np.array([0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0xFFFF], np.uint32),
    ]
)


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def _float(word: int) -> float:
    return float(np.uint32(word).view(np.float32))


def _fewer(choose: Callable[..., float], *values: float) -> float:
    """The least or greatest; of a NaN and a number, the number."""
    numbers = [x for x in values if x == x]
    return choose(numbers) if numbers else math.nan


def _snorm(x: float, most: int, least: float) -> int:
    return round(max(least, min(1.0, 0.0 if x != x else x)) * most) & 0xFFFF


def _clip(value: float, low: int, high: int) -> int:
    if value != value:
        return 0
    return int(max(low, min(high, math.trunc(value) if math.isfinite(value) else value)))


def _byte(word: int, place: int) -> int:
    return word >> 8 * place & 255


def _sad(a: int, b: int, c: int) -> int:
    return sum(abs(_byte(a, i) - _byte(b, i)) for i in range(4)) + c


def _lerp(a: int, b: int, c: int) -> int:
    means = [(_byte(a, i) + _byte(b, i) + (c >> 8 * i & 1)) >> 1 for i in range(4)]
    return sum((mean & 255) << 8 * i for i, mean in enumerate(means))


def _dot(count: int, bits: int, signed: bool) -> Callable[[int, int, int], int]:
    def run(a: int, b: int, c: int) -> int:
        total = _signed(c) if signed else c
        for i in range(count):
            x, y = (v >> bits * i & (1 << bits) - 1 for v in (a, b))
            total += _signed(x, bits) * _signed(y, bits) if signed else x * y
        return total

    return run


def _words(low: int, high: int) -> int:
    return low & 0xFFFF | (high & 0xFFFF) << 16


_WHOLE: dict[str, tuple[tuple[str, ...], int, Callable[..., int]]] = {
    "v_maxmin_u32": (("rdna",), 3, lambda a, b, c: min(max(a, b), c)),
    "v_minmax_u32": (("rdna",), 3, lambda a, b, c: max(min(a, b), c)),
    "v_maxmin_i32": (("rdna",), 3, lambda a, b, c: min(max(*map(_signed, (a, b))), _signed(c))),
    "v_minmax_i32": (("rdna",), 3, lambda a, b, c: max(min(*map(_signed, (a, b))), _signed(c))),
    "v_mul_hi_u32_u24": (("rdna", "cdna"), 2,
                             lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "v_mul_hi_i32_i24": (("rdna", "cdna"), 2,
                             lambda a, b: _signed(a, 24) * _signed(b, 24) >> 32),
    "v_sad_u8": (("rdna", "cdna"), 3, _sad),
    "v_sad_hi_u8": (("rdna", "cdna"), 3, lambda a, b, c: (_sad(a, b, 0) << 16) + c),
    "v_sad_u16": (("rdna", "cdna"), 3, lambda a, b, c: c + sum(
        abs((a >> s & 0xFFFF) - (b >> s & 0xFFFF)) for s in (0, 16))),
    "v_msad_u8": (("rdna", "cdna"), 3, lambda a, b, c: c + sum(
        abs(_byte(a, i) - _byte(b, i)) for i in range(4) if _byte(b, i))),
    "v_lerp_u8": (("rdna", "cdna"), 3, _lerp),
    "v_cvt_pk_i16_i32": (("rdna", "cdna"), 2, lambda a, b: _words(
        _clip(_signed(a), -32768, 32767), _clip(_signed(b), -32768, 32767))),
    "v_prng_b32": (("cdna",), 1, lambda a: a << 1 & 0xFFFFFFFF ^ (0xC5 if a >> 31 else 0)),
    "v_cvt_off_f32_i4": (("rdna", "cdna"), 1, lambda a: _bits(_signed(a, 4) / 16)),
    "v_dot4_i32_i8": (("cdna",), 3, _dot(4, 8, True)),
    "v_dot2_i32_i16": (("cdna",), 3, _dot(2, 16, True)),
    "v_dot8_i32_i4": (("cdna",), 3, _dot(8, 4, True)),
    "v_dot4_u32_u8": (("cdna", "rdna"), 3, _dot(4, 8, False)),
    "v_dot8_u32_u4": (("cdna", "rdna"), 3, _dot(8, 4, False)),
    "v_dot2_u32_u16": (("cdna",), 3, _dot(2, 16, False)),
    "v_add_i32": (("cdna",), 2, lambda a, b: _signed(a) + _signed(b)),
}  # fmt: skip


def _cases(table: dict[str, Any]) -> list[tuple[str, str]]:
    archs = {"rdna": ("gfx1100",), "cdna": ("gfx950",)}
    return [
        (name, arch) for name, entry in table.items() for kind in entry[0] for arch in archs[kind]
    ]


def _run(arch: str, name: str, sources: list[Any], **fields: int) -> Any:
    w = machine.wave(arch)
    machine.put(w, dict(enumerate(sources, 1)))
    operands = ["v0", *(f"v{i}" for i in range(1, len(sources) + 1))]
    machine.execute(arch, w, machine.encoded(arch, name, *operands, **fields))
    assert 0 not in w.undefined
    return np.array(w.vu[0][0])


def _mixed(values: Any, count: int) -> list[Any]:
    return [RNG.permutation(values) for _ in range(count)]


@pytest.mark.parametrize(("name", "arch"), _cases(_WHOLE))
def test_an_operation_on_whole_numbers(name: str, arch: str) -> None:
    _, count, formula = _WHOLE[name]
    sources = _mixed(WORDS, count)
    found = _run(arch, name, sources)
    right = [formula(*map(int, row)) & 0xFFFFFFFF for row in zip(*sources, strict=True)]
    np.testing.assert_array_equal(found[: len(right)], right)


_REAL: dict[str, tuple[tuple[str, ...], int, Callable[..., float]]] = {
    "v_maxmin_f32": (("rdna",), 3,
                     lambda a, b, c: _fewer(min, _fewer(max, a, b), c)),
    "v_minmax_f32": (("rdna",), 3,
                     lambda a, b, c: _fewer(max, _fewer(min, a, b), c)),
    "v_med3_f32": (("rdna", "cdna"), 3, lambda a, b, c: (
        _fewer(min, a, b, c) if any(x != x for x in (a, b, c)) else sorted((a, b, c))[1])),
}  # fmt: skip


@pytest.mark.parametrize(("name", "arch"), _cases(_REAL))
def test_an_operation_on_floats(name: str, arch: str) -> None:
    _, count, formula = _REAL[name]
    sources = _mixed(FLOATS, count)
    found = _run(arch, name, sources).view(np.float32)
    right = np.array([formula(*map(float, row)) for row in zip(*sources, strict=True)], np.float32)
    np.testing.assert_array_equal(found[: len(right)], right)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("v_cvt_pk_i16_f32", -32768, 32767), ("v_cvt_pk_u16_f32", 0, 65535)],
)
def test_floats_become_halves_of_a_word(name: str, low: int, high: int) -> None:
    x, y = _mixed(np.concatenate([FLOATS[:24] * 9000, FLOATS[24:]]), 2)
    found = _run("gfx1100", name, [x, y])
    right = [
        _words(_clip(float(a), low, high), _clip(float(b), low, high))
        for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_array_equal(found[: len(right)], right)


@pytest.mark.parametrize(
    ("name", "most", "least"),
    [("v_cvt_pk_norm_i16_f32", 32767, -1.0), ("v_cvt_pk_norm_u16_f32", 65535, 0.0)],
)
def test_floats_become_fixed_point(name: str, most: int, least: float) -> None:
    x, y = _mixed(FLOATS, 2)
    found = _run("gfx1100", name, [x, y])
    right = [
        _words(_snorm(float(a), most, least), _snorm(float(b), most, least))
        for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_array_equal(found[: len(right)], right)


@pytest.mark.parametrize("name", ["v_add_i32", "v_sub_i32"])
def test_a_signed_sum_stays_in_its_range_where_that_is_asked(name: str) -> None:
    a, b = _mixed(WORDS, 2)
    found = _run("gfx942", name, [a, b], clmp=1).view(np.int32)
    sign = 1 if "add" in name else -1
    wide = a.view(np.int32).astype(np.int64) + sign * b.view(np.int32).astype(np.int64)
    np.testing.assert_array_equal(found[: len(a)], np.clip(wide, -(2**31), 2**31 - 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201"])
def test_to_a_packed_integer_operation_a_float_constant_is_its_float32(arch: str) -> None:
    """0.5 is 0x3F000000, of which op_sel takes the upper half twice."""
    w = machine.wave(arch)
    machine.put(w, {1: np.full(32, 0x00010002, np.uint32)})
    machine.execute(arch, w, machine.encoded(arch, "v_pk_add_u16", "v0", "v1", 0.5, opsel=2))
    assert int(w.vu[0][0, 0]) == 0x3F013F02


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("s_brev_b64", lambda a: int(f"{a:064b}"[::-1], 2)),
        ("s_bcnt0_i32_b64", lambda a: 64 - a.bit_count()),
        ("s_ff0_i32_b64", lambda a: next((i for i in range(64) if not a >> i & 1), 0xFFFFFFFF)),
        ("s_quadmask_b64", lambda a: sum((a >> 4 * i & 15 != 0) << i for i in range(16))),
        ("s_wqm_b64", lambda a: sum(15 << 4 * i for i in range(16) if a >> 4 * i & 15)),
    ],
)
@pytest.mark.parametrize(
    "value", [0, 1, 0xFFFFFFFFFFFFFFFF, 0x8000000000000000, 0x123456789ABCDEF0]
)
def test_a_scalar_operation_on_64_bits(name: str, formula: Any, value: int) -> None:
    arch = "gfx942"
    w = machine.wave(arch)
    machine.put(w, scalar={4: value & 0xFFFFFFFF, 5: value >> 32, 6: 0, 7: 0})
    wide = not name.startswith(("s_bcnt", "s_ff0"))
    target = "s[6:7]" if wide else "s6"
    machine.execute(arch, w, machine.encoded(arch, name, target, "s[4:5]"))
    found = int(w.s[6, 0]) | (int(w.s[7, 0]) << 32 if wide else 0)
    assert found == formula(value)


# ----------------------------------------------------------------------------- uninitialised values


def test_the_lower_half_of_a_sum_needs_the_lower_halves_alone() -> None:
    w = machine.wave("gfx942")
    machine.put(w, {1: WORDS, 2: WORDS}, {4: 3})  # v3, the addend's upper half, holds nothing
    code = machine.encoded("gfx942", "v_mad_u64_u32", "v[6:7]", "s[8:9]", "v1", "s4", "v[2:3]")
    machine.execute("gfx942", w, code)
    assert 6 not in w.undefined
    assert w.undefined[7].all()


@pytest.mark.parametrize(
    ("name", "known", "defined"),
    [
        ("s_and_b64", 0, True),
        ("s_and_b64", 0xFFFFFFFF, False),
        ("s_nor_b64", 0xFFFFFFFF, True),
        ("s_nor_b64", 0, False),
        ("s_or_b64", 0xFFFFFFFF, True),
        ("s_xor_b64", 0, False),
    ],
)
def test_a_known_mask_may_settle_what_an_unwritten_one_cannot(
    name: str, known: int, defined: bool
) -> None:
    w = machine.wave("gfx942")
    machine.put(w, scalar={4: known, 5: known})
    machine.execute("gfx942", w, machine.encoded("gfx942", name, "s[6:7]", "s[4:5]", "s[8:9]"))
    assert (machine.SGPR + 6 not in w.undefined) == defined
    assert (machine.SGPR + 7 not in w.undefined) == defined


# ---------------------------------------------------------------------------------- LDS


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_compare_and_swap_in_lds_takes_its_operands_in_the_order_of_the_arch(arch: str) -> None:
    w = machine.wave(arch)
    w.group.lds_views[4][0] = 7
    old, new = (("v2", 7), ("v3", 9)) if arch == "gfx942" else (("v3", 7), ("v2", 9))
    machine.put(w, {1: np.zeros(1, np.uint32)}, {machine.EXEC: 1, machine.EXEC + 1: 0})
    for register, value in (old, new):
        machine.put(w, {int(register[1:]): np.array([value], np.uint32)})
    name = "ds_cmpst_rtn_b32" if arch == "gfx942" else "ds_cmpstore_rtn_b32"
    machine.execute(arch, w, machine.encoded(arch, name, "v4", "v1", "v2", "v3"))
    assert int(w.vu[4][0, 0]) == 7
    assert int(w.group.lds_views[4][0]) == 9


@pytest.mark.parametrize(
    ("name", "bits", "words"),
    [("b64_tr_b4", 4, 2), ("b96_tr_b6", 6, 3), ("b64_tr_b8", 8, 2), ("b64_tr_b16", 16, 2)],
)
def test_a_transposed_load_gives_each_lane_a_column(name: str, bits: int, words: int) -> None:
    arch, w = "gfx950", machine.wave("gfx950")
    rows = 32 * words // bits
    tile = RNG.integers(0, 1 << bits, (rows, 16))
    as_bits = (tile[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(-1)
    data = np.packbits(as_bits, bitorder="little")
    w.group.lds[0, : data.size] = data
    address = np.arange(64, dtype=np.uint32) % 16 * (4 * words)  # the rows follow each other
    machine.put(w, {1: address})
    last = 4 + words - 1
    machine.execute(arch, w, machine.encoded(arch, f"ds_read_{name}", f"v[4:{last}]", "v1"))
    found = np.stack([w.vu[4 + i][0] for i in range(words)], -1)
    stream = np.unpackbits(found.view(np.uint8), axis=-1, bitorder="little")
    columns = stream.reshape(64, rows, bits) @ (1 << np.arange(bits))
    np.testing.assert_array_equal(columns[:16], tile.T)
    np.testing.assert_array_equal(columns[16:32], tile.T)


# -------------------------------------------------------------------------------- small floats

_TYPES = {
    ("fp8", "gfx942"): ml_dtypes.float8_e4m3fnuz,
    ("bf8", "gfx942"): ml_dtypes.float8_e5m2fnuz,
    ("fp8", "gfx950"): ml_dtypes.float8_e4m3fn,
    ("bf8", "gfx950"): ml_dtypes.float8_e5m2,
    ("fp8", "gfx1201"): ml_dtypes.float8_e4m3fn,
    ("bf8", "gfx1201"): ml_dtypes.float8_e5m2,
    ("fp4", "gfx950"): ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize(("name", "arch"), [k for k in _TYPES if k[0] != "fp4"])
def test_a_pair_of_floats_becomes_small_and_large_again(name: str, arch: str) -> None:
    x, y = _mixed((FLOATS[:28] * 20).astype(np.float32), 2)
    w = machine.wave(arch)
    machine.put(w, {0: np.full(64, 0x11223344, np.uint32), 1: x, 2: y})
    code = machine.encoded(arch, f"v_cvt_pk_{name}_f32", "v0", "v1", "v2", opsel=8)
    machine.execute(arch, w, code)
    word = np.array(w.vu[0][0][:28])
    kind = _TYPES[name, arch]
    pair = np.stack([x, y], -1).astype(kind)
    assert (word & 0xFFFF == 0x3344).all()
    np.testing.assert_array_equal((word >> 16).astype(np.uint16), pair.view(np.uint16)[:, 0])
    form = "v_cvt_pk_f32_" + name
    if arch == "gfx1201":
        code = machine.encoded(arch, form + "_e64", "v[4:5]", "v0", opsel=1)
    else:
        machine.put(w, {0: word >> 16})
        code = machine.encoded(arch, form, "v[4:5]", "v0")
    machine.execute(arch, w, code)
    back = np.stack([w.vf[4][0][:28], w.vf[5][0][:28]], -1)
    np.testing.assert_array_equal(back, pair.astype(np.float32))


@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_a_scaled_conversion_multiplies_by_the_scales_exponent(name: str) -> None:
    """2^(e - 127) of the scale's float32, whatever its mantissa is; and divides on the way back."""
    arch, w = "gfx950", machine.wave("gfx950")
    kind = _TYPES[name, arch]
    codes = RNG.integers(0, 16 if name == "fp4" else 120, 64).astype(np.uint8)
    values = codes.view(kind).astype(np.float32)
    word = codes.astype(np.uint32) << (4 if name == "fp4" else 8)
    scale = np.full(64, 5.5, np.float32)  # 4 counts
    machine.put(w, {1: word, 2: scale})
    form = machine.encoded(arch, f"v_cvt_scalef32_pk_f32_{name}", "v[4:5]", "v1", "v2")
    machine.execute(arch, w, form)
    np.testing.assert_array_equal(w.vf[5][0], values * 4)
    back = machine.encoded(arch, f"v_cvt_scalef32_pk_{name}_f32", "v6", "v4", "v5", "v2")
    machine.put(w, {6: np.zeros(64, np.uint32)})
    machine.execute(arch, w, back)
    np.testing.assert_array_equal(np.array(w.vu[6][0]), word)


@pytest.mark.parametrize("name", ["fp6", "bf6"])
def test_32_values_of_6_bits_follow_each_other_without_a_gap(name: str) -> None:
    arch, w = "gfx950", machine.wave("gfx950")
    kind = ml_dtypes.float6_e2m3fn if name == "fp6" else ml_dtypes.float6_e3m2fn
    codes = RNG.integers(0, 64, 32).astype(np.uint8)
    whole = sum(int(c) << 6 * i for i, c in enumerate(codes))
    machine.put(w, {10 + i: np.uint32([whole >> 32 * i & 0xFFFFFFFF]) for i in range(6)})
    machine.put(w, {16: np.float32([2.0])})
    code = machine.encoded(arch, f"v_cvt_scalef32_pk32_f32_{name}", "v[20:51]", "v[10:15]", "v16")
    machine.execute(arch, w, code)
    found = np.array([w.vf[20 + i][0, 0] for i in range(32)])
    np.testing.assert_array_equal(found, codes.view(kind).astype(np.float32) * 2)


@pytest.mark.parametrize("saturates", [False, True])
def test_in_the_overflow_mode_a_half_stays_finite_but_an_infinity_stays_one(
    saturates: bool,
) -> None:
    arch, w = "gfx942", machine.wave("gfx942")
    x = np.array([60000, 60000, 65504, np.inf], np.float16)
    y = np.array([60000, -100, 65504, 1], np.float16)
    machine.put(w, {1: x.view(np.uint16).astype(np.uint32), 2: y.view(np.uint16).astype(np.uint32)})
    machine.execute(arch, w, machine.encoded(arch, "v_add_f16", "v0", "v1", "v2"), saturates)
    found = np.array(w.vu[0][0][:4]).astype(np.uint16).view(np.float16)
    most = np.float16(65504) if saturates else np.float16(np.inf)
    np.testing.assert_array_equal(found, np.array([most, 59904, most, np.inf], np.float16))
