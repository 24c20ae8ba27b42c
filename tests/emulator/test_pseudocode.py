"""Instructions do what the pseudocode of AMD's books says, for random operands."""

from __future__ import annotations

import importlib
import re
import zlib
from functools import cache
from typing import Any

import machine
import numpy as np
import pytest
from pseudocode import Bits, Unknown, execute
from test_floats import distance, patterns

from xtarget_emulator.decode import GENERATIONS
from xtarget_emulator.operands import KINDS
from xtarget_emulator.vector import ALU, COMPARE

ARCHS = ("gfx1100", "gfx1201", "gfx90a", "gfx942", "gfx950")
_LANES = 32
_NEAR = re.compile(r"^v_(rcp|rsq|sqrt|exp|log)_")
#: Where the text is not what the hardware does, and why.
_KNOWN = {
    r"v_fract_f(16|32)": "x - floor(x) rounds to 1; the result is below it, as LLVM relies on",
    r"v_frexp_exp_i(16|32)_f\d+": "0 has the exponent 0, and a subnormal its own, as frexp says",
    r"v_rndne_f\d+": "floor(x + 0.5) loses the sign of zero",
    r"v_trig_preop_f64": "2/pi as an integer of 1201 bits is written as a division",
    r"v_(sin|cos)_f(16|32)": "the product with 2 pi would be rounded",
}
#: What the interpreter does not read.
_UNREAD = {
    "v_cvt_off_f32_i4", "v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32", "v_perm_b32", "v_sad_hi_u8",
}  # fmt: skip


@cache
def texts(generation: str) -> dict[str, str]:
    """The pseudocode by mnemonic."""
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{generation}.str_pcode")
    found: dict[str, str] = {}
    for operation, text in module.PCODE.items():
        found.setdefault(re.sub(r"_e(32|64)$", "", operation.name.lower()), text)
    return found


def rules(generation: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Kinds of the result and of the sources, by mnemonic, of what has pseudocode."""
    found = {name: (rule[0], rule[1]) for name, rule in ALU.items()}
    for relation in COMPARE:
        for kind in ("f16", "f32", "f64", "i16", "i32", "i64", "u16", "u32", "u64"):
            found[f"v_cmp_{relation}_{kind}"] = ("mask", (kind, kind))
    for kind in ("f16", "f32", "f64"):
        found[f"v_cmp_class_{kind}"] = ("mask", (kind, "u32"))
    for name in ("add", "mul", "fma", "min", "max", "min_num", "max_num", "minimum", "maximum"):
        found[f"v_pk_{name}_f16"] = ("u32", ("u32",) * (3 if name == "fma" else 2))
    for name in ("add", "sub", "min", "max", "mad"):
        for kind in ("i16", "u16"):
            found[f"v_pk_{name}_{kind}"] = ("u32", ("u32",) * (3 if name == "mad" else 2))
    for name in ("mul_lo_u16", "lshlrev_b16", "lshrrev_b16", "ashrrev_i16"):
        found[f"v_pk_{name}"] = ("u32", ("u32",) * 2)
    known = texts(generation)
    return {
        name: rule
        for name, rule in found.items()
        if name in known and not re.search(r"mac_|mk_|ak_|^v_s_|dot2", name)
    }


def _operand(kind: str, seed: int) -> Any:
    """Bits of that kind; quiet NaNs only, as NumPy makes others quiet on the way."""
    dtype = KINDS[kind]
    if kind[0] == "f":
        x = patterns(dtype, _LANES, seed)
        near = np.random.default_rng(seed).integers(-40, 40, _LANES) / 8
        x = np.where(np.arange(_LANES) % 4 == 1, near.astype(dtype), x)
        return np.where(np.isnan(x), dtype(np.nan), x).view(f"u{dtype(0).itemsize}")
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, np.iinfo(word).max, _LANES, dtype=word, endpoint=True)
    bits[::3] &= word.type(31)
    bits[1::8] = word.type(np.iinfo(word).max)
    return bits


def _packed(seeds: Any) -> Any:
    """Pairs of halves, none of them a NaN that signals."""
    halves = seeds.view(np.float16)
    return np.where(np.isnan(halves), np.float16(np.nan), halves).view(np.uint32)


def _run(arch: str, name: str, result: str, sources: list[Any]) -> Any:
    w = machine.wave(arch)
    operands, words = [], {}
    for i, bits in enumerate(sources):
        first = 2 * i + 2
        whole = bits.astype(np.uint64)
        words[first] = whole.astype(np.uint32)
        words[first + 1] = (whole >> np.uint64(32)).astype(np.uint32)
        wide = bits.dtype.itemsize == 8
        operands.append(f"v[{first}:{first + 1}]" if wide else f"v{first}")
    machine.put(w, {0: np.zeros(_LANES, np.uint32), 1: np.zeros(_LANES, np.uint32), **words})
    if result == "mask":
        target = "s[4:5]" if w.lanes == 64 else "s4"
        code = machine.encoded(arch, name + "_e64", target, *operands)
    else:
        target = "v[0:1]" if result.endswith("64") else "v0"
        fields = {"opsel_hi": 3, "opsel_hi2": 1} if name.startswith("v_pk_") else {}
        code = machine.encoded(arch, name, target, *operands, **fields)
    machine.execute(arch, w, code)
    if result == "mask":
        return int(w.s[4, 0]) >> np.arange(_LANES) & 1
    low = np.array(w.vu[0][0][:_LANES]).astype(np.uint64)
    if result.endswith("64"):
        low |= np.array(w.vu[1][0][:_LANES]).astype(np.uint64) << np.uint64(32)
    word = np.dtype(f"u{int(result[1:]) // 8}")
    return low.astype(word)


def _said(text: str, result: str, sources: list[Any], arch: str) -> Any:
    found = []
    for lane in range(_LANES):
        names: dict[str, Any] = {
            f"S{i}": Bits(int(bits[lane]), 8 * bits.dtype.itemsize)
            for i, bits in enumerate(sources)
        }
        names |= {"D0": Bits(0, 64), "laneId": lane, "WAVE_MODE": {"IEEE": int(arch != "gfx1201")}}
        names |= {"OPSEL": Bits(0, 4), "OPSEL_HI": Bits(7, 3), "ROUND_MODE": 0}
        names |= {"ROUND_NEAREST_EVEN": 0, "UNDERFLOW_F64": 0.0, "OVERFLOW_F64": np.inf}
        names |= {"UNDERFLOW_F32": np.float32(0), "OVERFLOW_F32": np.float32(np.inf)}
        after = execute(text, names)["D0"]
        bits = after.value if isinstance(after, Bits) else int(after)
        found.append(bits >> lane & 1 if result == "mask" else bits)
    if result == "mask":
        return np.array(found)
    width = int(result[1:])
    return np.array([f & (1 << width) - 1 for f in found], f"u{width // 8}")


def differ(arch: str, name: str, result: str, kinds: tuple[str, ...]) -> Any:
    """The lanes in which the emulator and the text give other results, and what those are."""
    packed = name.startswith("v_pk_") and name.endswith("f16")
    sources = [_operand(k, zlib.crc32(f"{name}{i}".encode())) for i, k in enumerate(kinds)]
    if packed:
        sources = [_packed(x) for x in sources]
    if "ldexp" in name:
        sources[1] = (sources[1] % 8).astype(sources[1].dtype)
    right = _said(texts(GENERATIONS[arch])[name], result, sources, arch)
    found = _run(arch, name, result, sources)
    if result[0] == "f":
        kind = KINDS[result]
        apart = distance(found.view(kind), right.view(kind))
        zero = (found.view(kind) == 0) & (found != right)
        bad = (apart > (1 if _NEAR.match(name) else 0)) | zero & ~np.isnan(right.view(kind))
        if _NEAR.match(name):  # subnormals are flushed
            tiny = np.finfo(kind).smallest_normal
            bad &= (np.abs(sources[0].view(kind)) >= tiny) & (np.abs(right.view(kind)) >= tiny)
    elif packed:
        halves = (x.view(np.float16).reshape(-1, 2) for x in (found, right))
        bad = (distance(*halves) != 0).any(1)
    else:
        bad = found != right
    return bad, found, right, sources


@pytest.mark.sample(3)
@pytest.mark.parametrize("arch", ARCHS)
def test_instructions_do_what_the_books_say(arch: str) -> None:
    wrong, unread, agree = [], set(), 0
    for name, (result, kinds) in sorted(rules(GENERATIONS[arch]).items()):
        try:
            bad, found, right, sources = differ(arch, name, result, kinds)
        except Unknown:
            unread.add(name)
            continue
        if not bad.any():
            agree += 1
        elif not any(re.fullmatch(pattern, name) for pattern in _KNOWN):
            lane = int(np.flatnonzero(bad)[0])
            operands = ", ".join(hex(int(x[lane])) for x in sources)
            wrong.append(f"{name}({operands}): {int(found[lane]):#x}, not {int(right[lane]):#x}")
    assert not wrong
    assert unread <= _UNREAD
    assert agree > 240


def _fraction(x: Any) -> Any:
    return np.minimum(x - np.floor(x), np.nextafter(x.dtype.type(1), x.dtype.type(0)))


def _exponent(x: Any) -> Any:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0)


def _circle(function: Any) -> Any:
    return lambda x: function(2 * np.pi * np.remainder(x.astype(np.float64), 1.0))


_NUMPY: dict[str, Any] = {
    "v_rndne": np.rint, "v_fract": _fraction, "v_frexp_exp": _exponent,
    "v_sin": _circle(np.sin), "v_cos": _circle(np.cos),
}  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS)
def test_what_the_books_leave_open_is_as_numpy_has_it(arch: str) -> None:
    checked = set()
    for name, (result, kinds) in sorted(rules(GENERATIONS[arch]).items()):
        if not any(re.fullmatch(pattern, name) for pattern in _KNOWN) or "trig" in name:
            continue
        bits = _operand(kinds[0], 7)
        start = next(key for key in _NUMPY if name.startswith(key))
        if start in ("v_sin", "v_cos"):  # subnormals are flushed, and there is a largest angle
            x = np.random.default_rng(1).uniform(-250, 250, _LANES).astype(KINDS[kinds[0]])
            bits = x.view(bits.dtype)
        x = bits.view(KINDS[kinds[0]])
        found = _run(arch, name, result, [bits]).view(KINDS[result])
        with np.errstate(all="ignore"):
            right = _NUMPY[start](x).astype(KINDS[result])
        if start in ("v_sin", "v_cos"):
            most = np.finfo(right.dtype).eps
            np.testing.assert_allclose(found.astype(float), right.astype(float), 2 * most, 2 * most)
        else:
            np.testing.assert_array_equal(found, right)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(right))
        checked.add(start)
    assert checked == set(_NUMPY)
