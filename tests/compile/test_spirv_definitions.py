"""The functions of the SPIR-V library, each by itself."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xtarget.targets._spirv.library import definitions, intrinsics, libdevice_amd
from xtarget.targets._spirv.llvm import bfloat

pytest.importorskip(
    "llvmlite.binding", reason="llvmlite is not installed, and it reads the rewritten text"
)

sys.path.insert(0, str(Path(__file__).parent))
import llvmlite.binding as llvm
from spirv_text import verified

_SUFFIXES = ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
_FLOATS = ("f16", "f32", "f64")
_CONTROLS = (0x1B, 0xE4, 0x101, 0x10F, 0x111, 0x118, 0x121, 0x140, 0x141, 0x150, 0x161, 0x16F)
NAMES = [
    *(f"xt.amdgcn.{n}" for n in (*intrinsics._TABLE, *intrinsics._NOTHING, *intrinsics._BARRIERS)),
    *(f"xt.amdgcn.workgroup.id.{axis}" for axis in "xyz"),
    "xt.amdgcn.workitem.id.x",
    "xt.amdgcn.wave.id",
    "xt.amdgcn.ballot.i32",
    "xt.amdgcn.ballot.i64",
    "xt.amdgcn.mbcnt.lo",
    "xt.amdgcn.mbcnt.hi",
    "xt.amdgcn.ds.bpermute",
    *(
        f"xt.amdgcn.{operation}.{suffix}"
        for operation in ("readlane", "readfirstlane", "permlanex16")
        for suffix in _SUFFIXES
    ),
    *(f"xt.dpp.{c}.15.15.1.i32" for c in _CONTROLS),
    *(f"xt.dpp.{c}.5.3.0.f64" for c in _CONTROLS),
    "__ockl_get_num_groups",
    *(f"__ocml_{n}_{t}" for n in (*libdevice_amd._ARITY, *libdevice_amd._RENAMED) for t in _FLOATS),
    *(f"__ocml_{n}_{t}" for n in (*libdevice_amd._TESTS, "ldexp", "ilogb") for t in _FLOATS),
    *(f"__ockl_{n}_u{w}" for n in ("clz", "ctz", "popcount", "mul_hi") for w in (32, 64)),
    *(f"xt.{n}.f{w}" for n in ("minimum", "maximum") for w in (16, 32, 64)),
    *(f"xt.bitreverse.i{w}" for w in (3, 8, 32, 33, 64)),
    *(
        f"xt.{n}.with.overflow.i{w}"
        for n in ("sadd", "ssub", "smul", "umul")
        for w in (8, 16, 32, 64)
    ),
    *(f"xt.bf16.{n}" for n in ("extend", "extend64", "truncate", "truncate64")),
    *(f"xt.bf16.{n}.v4" for n in ("extend", "extend64", "truncate", "truncate64")),
    "xt.fabs.bf16",
    "xt.is.fpclass.bf16",
    *(f"xt.{n}.bf16" for n in bfloat._COUNTS),
    *(
        f"xt.atomic.{operation}.{type_}.{space}"
        for operation in ("fadd", "fmax", "fmin", "xchg")
        for type_ in ("half", "float", "double")
        for space in (1, 3)
    ),
    *(f"xt.atomic.{n}.bf16.1" for n in ("fadd", "fmax", "fmin")),
    *(f"xt.atomic.{n}.i8.1" for n in ("add", "and", "or", "xor", "max", "min", "umax", "umin")),
    *(f"xt.atomic.cas.i{w}.3" for w in (8, 16)),
]


@pytest.mark.parametrize("warp_size", [8, 16, 32])
def test_every_definition_is_valid(warp_size: int) -> None:
    text, unknown = definitions.assemble(NAMES, warp_size, late=True)
    assert not unknown
    printed = verified(text)
    for name in NAMES:
        assert f"@{name}(" in printed


def test_each_definition_brings_what_it_calls() -> None:
    for name in NAMES:
        text, unknown = definitions.assemble([name], 16, late=True)
        assert not unknown
        module = llvm.parse_assembly(text)
        missing = [
            f.name for f in module.functions if f.is_declaration and definitions.is_ours(f.name)
        ]
        assert not missing, name


@pytest.mark.parametrize(
    "name",
    [
        "xt.amdgcn.s.memrealtime",
        "__ocml_erfinv_f16",
        "xt.is.fpclass.f16",
        "xt.atomic.fadd.v2f16.1",
        "xt.atomic.cas.i128.1",
        "xt.amdgcn.mfma.f32.32x32x8f16",
    ],
)
def test_what_nobody_defines_is_told(name: str) -> None:
    assert definitions.assemble([name], 16)[1] == [name]


def test_names_in_messages_are_tritons() -> None:
    assert definitions.original_name("xt.amdgcn.mfma") == "llvm.amdgcn.mfma"
    assert definitions.original_name("__ocml_j0_f32") == "__ocml_j0_f32"


def test_late_definitions_wait() -> None:
    early, unknown = definitions.assemble(["xt.bitreverse.i5"], 16)
    assert not unknown
    assert "declare i32 @xt.late.bitreverse.i32(i32)" in early


def _evaluate(name: str, code: str) -> Callable[[int, int], int]:
    """Compile helper `name` and `code`, which calls it, for this machine; gives `f` of `code`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text, unknown = definitions.assemble([name], 16, late=True)
    assert not unknown
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    wrapper = llvm.parse_assembly(code)
    wrapper.link_in(module)
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(wrapper, machine)
    engine.finalize_object()
    address = engine.get_function_address("f")
    call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(address)

    def made(a: int, b: int) -> int:
        assert engine  # the code lives as long as the engine
        return int(call(a, b))

    return made


def _caller(name: str, result: str, *types: str) -> str:
    """`f(u64, u64) -> u64` around a helper; floats travel as their bits."""
    bits = {"float": "i32", "double": "i64", "half": "i16"}

    def unpack(i: int, type_: str) -> str:
        word = bits.get(type_, type_)
        text = f"  %t{i} = trunc i64 %a{i} to {word}\n" if word != "i64" else ""
        source = f"%t{i}" if text else f"%a{i}"
        return text + f"  %v{i} = bitcast {word} {source} to {type_}\n"

    given = ", ".join(f"{t} %v{i}" for i, t in enumerate(types))
    body = "".join(unpack(i, t) for i, t in enumerate(types))
    word = bits.get(result, result)
    body += f"  %r = call {result} @{name}({given})\n  %b = bitcast {result} %r to {word}\n"
    body += f"  %z = zext {word} %b to i64\n" if word != "i64" else "  %z = add i64 %b, 0\n"
    declared = f"declare {result} @{name}({', '.join(types)})\n"
    return f"{declared}define i64 @f(i64 %a0, i64 %a1) {{\n{body}  ret i64 %z\n}}\n"


def _rounded_to_bfloat(value: float) -> int:
    """To nearest, ties to even, from the exact value of a double."""
    size = Fraction(abs(value))
    low, high = _neighbours(abs(value))
    below, above = size - Fraction(_of_pattern(low)), Fraction(_of_pattern(high)) - size
    pattern = low if below < above or (below == above and low % 2 == 0) else high
    return pattern | (0x8000 if math.copysign(1.0, value) < 0 else 0)


def _of_pattern(pattern: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", pattern << 16))[0]
    return value


def _neighbours(value: float) -> list[int]:
    """Patterns of the bfloat16 numbers around a positive double."""
    low, high = 0, 0x7F80
    while high - low > 1:
        middle = (low + high) // 2
        if _of_pattern(middle) <= value:
            low = middle
        else:
            high = middle
    return [low, high]


def test_the_class_of_every_kind_of_bfloat() -> None:
    name = "xt.is.fpclass.bf16"
    is_of = _evaluate(name, _caller(name, "i1", "i16", "i32"))
    # in the order of LLVM's bits: the smallest and the largest pattern of each class
    patterns = [(0x7F81, 0x7FBF), (0x7FC0, 0x7FFF), (0xFF80, 0xFF80), (0x8080, 0xFF7F)]
    patterns += [(0x8001, 0x807F), (0x8000, 0x8000), (0, 0), (1, 0x7F), (0x80, 0x7F7F)]
    patterns += [(0x7F80, 0x7F80)]
    for bit, ends in enumerate(patterns):
        for pattern in ends:
            found = [n for n in range(10) if is_of(pattern, 1 << n)]
            assert found == [bit], hex(pattern)
            assert is_of(pattern | 0x8000 if bit < 2 else pattern, 0x3FF)


@cache
def _truncate64() -> Callable[[int, int], int]:
    name = "xt.bf16.truncate64"
    return _evaluate(name, _caller(name, "i16", "double"))


@settings(deadline=None)  # the first one compiles
@given(st.floats(min_value=-3.0e38, max_value=3.0e38))
def test_double_to_bfloat_rounds_once(value: float) -> None:
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    assert _truncate64()(bits, 0) == _rounded_to_bfloat(value)


@pytest.mark.parametrize("width", [5, 8, 32, 33, 64])
def test_bitreverse(width: int) -> None:
    name = f"xt.bitreverse.i{width}"
    reverse = _evaluate(name, _caller(name, f"i{width}", f"i{width}"))
    for value in (0, 1, 0b10110, 2**width - 2, 0x123456789ABCDEF & (2**width - 1)):
        assert reverse(value, 0) == int(f"{value:0{width}b}"[::-1], 2)


@pytest.mark.parametrize("kind", ["sadd", "ssub", "smul", "umul"])
@pytest.mark.parametrize("width", [8, 32])
def test_overflow(kind: str, width: int) -> None:
    name, pair = f"xt.{kind}.with.overflow.i{width}", f"{{ i{width}, i1 }}"
    code = f"""
declare {pair} @{name}(i{width}, i{width})
define i64 @f(i64 %a, i64 %b) {{
  %x = trunc i64 %a to i{width}
  %y = trunc i64 %b to i{width}
  %p = call {pair} @{name}(i{width} %x, i{width} %y)
  %v = extractvalue {pair} %p, 0
  %o = extractvalue {pair} %p, 1
  %w = zext i{width} %v to i64
  %s = shl i64 %w, 1
  %z = zext i1 %o to i64
  %r = or i64 %s, %z
  ret i64 %r
}}"""
    call = _evaluate(name, code)
    edge = 1 << (width - 1)
    values = [0, 1, -1, 2, 15, 16, edge - 1, -edge, -edge + 1, edge // 2]
    signed = kind != "umul"
    for a, b in itertools.product(values, values):
        x, y = (a, b) if signed else (a % 2**width, b % 2**width)
        exact = {"add": x + y, "sub": x - y, "mul": x * y}[kind[1:]]
        low = -edge if signed else 0
        overflow = not low <= exact < low + 2**width
        expected = (exact % 2**width) << 1 | overflow
        got = call(x % 2**64, y % 2**64)
        assert got == expected, (kind, x, y)
