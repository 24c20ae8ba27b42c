"""The rewrites of LLVM IR, each by itself."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtarget.targets._spirv.library import (
    arithmetic,
    crosslane,
    definitions,
)
from xtarget.targets._spirv.llvm import atomics, bfloat
from xtarget.targets._spirv.llvm.aggregates import (
    scalarize_vectors_of_one,
    split_struct_phis,
    use_multiply_high,
)
from xtarget.targets._spirv.llvm.literals import in_old_style
from xtarget.targets._spirv.llvm.passes import RETARGET, run_passes
from xtarget.targets._spirv.llvm.printer import printed
from xtarget.targets._spirv.llvm.printf import lower_printf
from xtarget.targets._spirv.llvm.text import UnsupportedError
from xtarget.targets._spirv.llvm.words import split_list

pytest.importorskip(
    "llvmlite.binding", reason="llvmlite is not installed, and it reads the rewritten text"
)

sys.path.insert(0, str(Path(__file__).parent))
from spirv_text import body, draft, verified

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
