"""The rewrites of LLVM IR and the library, each by itself."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xtarget.targets._spirv.library import (
    arithmetic,
    crosslane,
    definitions,
    intrinsics,
    libdevice_amd,
)
from xtarget.targets._spirv.llvm import atomics, bfloat
from xtarget.targets._spirv.llvm.aggregates import (
    scalarize_vectors_of_one,
    split_struct_phis,
    use_multiply_high,
)
from xtarget.targets._spirv.llvm.ir import Module
from xtarget.targets._spirv.llvm.literals import in_old_style
from xtarget.targets._spirv.llvm.passes import RETARGET, run_passes
from xtarget.targets._spirv.llvm.printer import printed
from xtarget.targets._spirv.llvm.printf import lower_printf
from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.llvm.text import Layout, UnsupportedError
from xtarget.targets._spirv.llvm.words import split_list

llvm = pytest.importorskip(
    "llvmlite.binding", reason="llvmlite is not installed, and it reads the rewritten text"
)
LAYOUT = Layout(num_warps=2, warp_size=16, shared_bytes=64)


def draft(text: str, entry: str = "k") -> Module:
    """The module of a text, or of lines of a function."""
    text = text.strip("\n")
    if "define " not in text:
        lines = [line for line in text.split("\n") if line.startswith("  ")]
        others = [line for line in text.split("\n") if not line.startswith("  ")]
        text = "\n".join(["define void @k() {", "e:", *lines, "}", *others])
    return read(text, entry, LAYOUT)


def body(module: Module) -> list[str]:
    return [one.text for one in module.code()]


def verified(text: str) -> str:
    """The text as llvmlite prints it; LLVM's verifier has accepted it."""
    module = llvm.parse_assembly(text)
    module.verify()
    return str(module)


# --------------------------------------------------------------------------------------- library

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


# -------------------------------------------------------------------------------------- literals


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("fadd float %x, f0x3FB8AA3B", "fadd float %x, 0x3FF7154760000000"),
        ("fmul double f0x3FF71547652B82FE, %x", "fmul double 0x3FF71547652B82FE, %x"),
        ("select i1 %c, half +qnan, half f0x3C00", "select i1 %c, half 0xH7E00, half 0xH3C00"),
        ("ret bfloat -inf", "ret bfloat 0xRFF80"),
        ("ret bfloat 1.000000e+00", "ret bfloat 0xR3F80"),
        ("fcmp ogt float %5, +inf", "fcmp ogt float %5, 0x7FF0000000000000"),
        ("phi float [ 1.000000e-07, %5 ]", "phi float [ 0x3E7AD7F2A0000000, %5 ]"),
        ("{ float -inf, i32 1 }", "{ float 0xFFF0000000000000, i32 1 }"),
        ("add i32 %a.1.5, 7", "add i32 %a.1.5, 7"),
        ('@s = constant [9 x i8] c"float 1.5"', '@s = constant [9 x i8] c"float 1.5"'),
    ],
)
def test_literals(new: str, old: str) -> None:
    assert in_old_style(new) == old


@given(st.floats(width=32, allow_nan=False))
def test_decimal_floats_keep_their_value(value: float) -> None:
    written = in_old_style(f"ret float {value!r}" if "." in repr(value) else "ret float 0.0")
    bits = int(written.rpartition(" ")[2], 16) if "0x" in written else 0
    read = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    assert read == (value if "." in repr(value) else 0.0)


# -------------------------------------------------------------------------------------- rewrites


def test_lists() -> None:
    assert split_list("i32 %a, <2 x i8> <i8 1, i8 2>, { i1, i2 } %c, f(i1 0, i1 1)") == [
        "i32 %a",
        "<2 x i8> <i8 1, i8 2>",
        "{ i1, i2 } %c",
        "f(i1 0, i1 1)",
    ]
    assert split_list("") == []


def test_struct_phis_are_split() -> None:
    given = draft("""
define void @k(i1 %c) {
a:
  br label %b
b:
  %p = phi { float, i32 } [ { float 1.000000e+00, i32 2 }, %a ], [ %q, %b ]
  %n = phi i32 [ 0, %a ], [ 1, %b ]
  %f = extractvalue { float, i32 } %p, 0
  %q = insertvalue { float, i32 } %p, float %f, 0
  br i1 %c, label %b, label %e
e:
  ret void
}""")
    split_struct_phis(given)
    text = verified(printed(given))
    assert "phi { float" not in text
    assert text.count(" = phi ") == 3


def test_a_block_that_comes_twice_gives_one_value() -> None:
    given = draft("""
define void @k(i32 %c, { i32, i32 } %v) {
a:
  switch i32 %c, label %b [
    i32 1, label %b
    i32 2, label %b
  ]
b:
  %p = phi { i32, i32 } [ %v, %a ], [ %v, %a ], [ %v, %a ]
  ret void
}""")
    split_struct_phis(given)
    verified(printed(given))


def test_vectors_of_one() -> None:
    given = draft("""
define <2 x float> @k(ptr addrspace(1) %p, float %x, <2 x float> %w) {
a:
  %l = load <1 x float>, ptr addrspace(1) %p, align 4
  %e = extractelement <1 x float> %l, i32 0
  %i = insertelement <1 x float> undef, float %e, i32 0
  store <1 x float> %i, ptr addrspace(1) %p, align 4
  store <1 x float> <float 2.000000e+00>, ptr addrspace(1) %p, align 4
  store <1 x float> splat (float 3.000000e+00), ptr addrspace(1) %p, align 4
  store <1 x ptr addrspace(1)> zeroinitializer, ptr addrspace(1) %p, align 8
  %s = shufflevector <1 x float> %i, <1 x float> %l, <2 x i32> <i32 1, i32 0>
  %t = shufflevector <2 x float> %s, <2 x float> %w, <1 x i32> <i32 3>
  store <1 x float> %t, ptr addrspace(1) %p, align 4
  ret <2 x float> %s
}""")
    scalarize_vectors_of_one(given)
    assert "<1 x" not in verified(printed(given))


def test_multiply_high() -> None:
    given = draft("""
define i64 @k(i64 %a, i64 %b) {
e:
  %x = zext i64 %a to i128
  %y = zext i64 %b to i128
  %m = mul i128 %x, %y
  %h = lshr i128 %m, 64
  %r = trunc i128 %h to i64
  ret i64 %r
}""")
    use_multiply_high(given)
    assert "call i64 @__ockl_mul_hi_u64(i64 %a, i64 %b)" in verified(printed(given))


@pytest.mark.parametrize(
    "line", ["%r = add i128 %x, %y", "%r = mul i128 %x, %y\n  %l = trunc i128 %r to i64"]
)
def test_other_wide_arithmetic_is_refused(line: str) -> None:
    with pytest.raises(UnsupportedError, match="128-bit integer"):
        use_multiply_high(draft(f"  %x = zext i64 %a to i128\n  {line}"))


def test_names_that_look_like_types_are_left_alone() -> None:
    given = draft("  %i128 = add i32 %a, 1")
    use_multiply_high(given)
    assert body(given) == ["  %i128 = add i32 %a, 1"]


def test_bfloat_is_gone() -> None:
    given = draft("""
define i1 @k(bfloat %a, <2 x bfloat> %v, ptr addrspace(1) %p, half %h) {
e:
  %s = fadd contract bfloat %a, 0xR3F80
  %n = fneg bfloat %s
  %f = fpext bfloat %n to float
  %d = fpext bfloat %n to double
  %t = fptrunc double %d to bfloat
  %i = fptosi bfloat %t to i32
  %j = sitofp i32 %i to bfloat
  %w = fmul <2 x bfloat> %v, %v
  %x = fpext <2 x bfloat> %w to <2 x float>
  %y = fptrunc <2 x float> %x to <2 x bfloat>
  %z = fneg <2 x bfloat> %y
  store <2 x bfloat> %z, ptr addrspace(1) %p, align 4
  %o = select i1 true, bfloat %j, bfloat 0xRFF80
  %c = fcmp uno bfloat %o, 0xR0000
  %g = fpext bfloat %o to float
  %u = fptrunc float %g to half
  %q = fcmp oeq half %u, %h
  %r = and i1 %c, %q
  ret i1 %r
}""")
    bfloat.lower_bfloat(given)
    text = verified(printed(given))
    assert "bfloat" not in text
    assert "call <2 x float> @xt.bf16.extend.v2(<2 x i16>" in text


def test_unknown_bfloat_operations_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="an operation on bfloat16"):
        bfloat.lower_bfloat(draft("  %r = cmpxchg ptr %p, bfloat %a, bfloat %b acq_rel acquire"))


def test_atomics_that_spirv_has_stay() -> None:
    lines = [
        '  %a = atomicrmw add ptr addrspace(1) %p, i32 %v syncscope("device") acq_rel, align 4',
        '  %b = atomicrmw fadd ptr addrspace(1) %p, float %x syncscope("device") acq_rel, align 4',
        "  %c = cmpxchg ptr addrspace(1) %p, i16 %x, i16 %y acq_rel monotonic, align 2",
    ]
    given = draft("\n".join(lines))
    atomics.lower_atomics(given)
    after = body(given)
    assert after[0] == lines[0]
    assert "@xt.atomic.fadd.float.1(ptr addrspace(1) %p, float %x)" in after[1]
    assert "@xt.atomic.cas.i16.1(ptr addrspace(1) %p, i16 %x, i16 %y)" in after[2]


def test_vector_atomics_are_refused() -> None:
    line = "  %a = atomicrmw fadd ptr addrspace(1) %p, <2 x half> %v acq_rel, align 4"
    with pytest.raises(UnsupportedError, match="an atomic operation"):
        atomics.lower_atomics(draft(line))


def test_dpp_gets_its_constants_into_the_name() -> None:
    given = draft(
        "  %r = call i32 @xt.amdgcn.update.dpp.i32(i32 %o, i32 %v, i32 280, i32 15, i32 15, "
        "i1 true)\n"
        "declare i32 @xt.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1)"
    )
    crosslane.specialize_dpp(given)
    assert body(given) == ["  %r = call i32 @xt.dpp.280.15.15.1.i32(i32 %o, i32 %v)"]
    assert list(given.declarations) == ["xt.dpp.280.15.15.1.i32"]
    assert not list(given.lines("declare"))


def test_an_unknown_dpp_control_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="control 0x142"):
        crosslane.define("xt.dpp.322.15.15.1.i32", 16)


@pytest.mark.parametrize(("width", "said"), [("4", "%4lu"), ("%n", "%lu")])
def test_printf(width: str, said: str) -> None:
    given = draft(
        r"""
@f = internal constant [13 x i8] c"x %f %*u %%\0A\00"
define void @k(i64 %x, i64 %n, ptr %q) {
e:
  %a = call i64 @__ockl_printf_begin(i64 0)
  %b = call i64 @__ockl_printf_append_string_n(i64 %a, ptr @f, i64 13, i32 0)
  %c = call i64 @__ockl_printf_append_args(i64 %b, i32 3, i64 %x, i64 WIDTH, i64 %n, i32 1)
  ret void
}
declare i64 @__ockl_printf_begin(i64)""".replace("WIDTH", width)
    )
    lower_printf(given)
    text = verified(printed(given))
    assert f'c"x %f {said} %%\\0A\\00"' in text
    assert "double %" in text.partition("@printf(")[2]


def test_a_whole_kernel() -> None:
    given = draft("""
; ModuleID = 'k'
source_filename = "k"
target triple = "amdgcn"
@global_smem = external addrspace(3) global [0 x i8], align 16
define amdgpu_kernel void @k(ptr addrspace(1) align 16 %p, i1 %f, i8 %c, half %h) #0 !dbg !4 {
entry:
  %a = alloca i32, align 4, addrspace(5)
  fence syncscope("workgroup") release
  call void @xt.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  fence syncscope("agent-one-as") acquire, !dbg !5
  %s = select i1 %f, i32 1, i32 0
  store i32 %s, ptr addrspace(5) %a, align 4
  ret void
}
declare void @xt.amdgcn.s.barrier()
attributes #0 = { noinline nounwind }
!4 = !{}""")
    run_passes(given, RETARGET)
    assert given.parameters == ("ptr", "i8", "i8", "half")
    text = verified(printed(given))
    assert "define spir_kernel void @k(ptr addrspace(1) %p, i8 %f.given, i8 %c, half %h)" in text
    assert text.count("fence") == 1
    assert 'fence syncscope("device") acquire' in text
    assert "!0 = !{i32 32, i32 1, i32 1}" in text
    assert "internal addrspace(3) global [64 x i8]" in text


def test_an_unknown_scope_is_refused() -> None:
    given = draft('define void @k() {\ne:\n  fence syncscope("cluster") acquire\n  ret void\n}')
    with pytest.raises(UnsupportedError, match="scope 'cluster'"):
        run_passes(given, RETARGET)


def test_renaming_covers_what_the_library_defines() -> None:
    for name in ("minimum.f32", "bitreverse.i7", "smul.with.overflow.i64"):
        assert arithmetic.NEEDS_DEFINITION.fullmatch("llvm." + name)
        assert definitions.assemble(["xt." + name], 16)[1] == []
    assert not arithmetic.NEEDS_DEFINITION.match("llvm.minnum.f32")
