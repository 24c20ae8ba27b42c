"""Values that are negated before a barrier and used behind it: Intel's CPU compiler breaks them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
import llvmlite.binding as llvm
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case, empty
from spirv_passes import passed
from spirv_requests import request
from spirv_run import check, compiled, run
from triton.language.extra import libdevice

from xtarget._values.types import Target
from xtarget.targets import cpu, intel
from xtarget.targets._spirv.llvm.signs import flip_signs_in_integers
from xtarget.targets._spirv.llvm.text import UnsupportedError

TYPES = {
    "fp16": (tl.float16, tl.int16, np.float16),
    "fp32": (tl.float32, tl.int32, np.float32),
    "fp64": (tl.float64, tl.int64, np.float64),
}
N = 128


@triton.jit
def softmin_shift(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = -tl.load(x + i)
    tl.store(o + i, v - tl.max(v, axis=0))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def across(v, KIND: tl.constexpr):
    """Something that every element depends on, over a barrier."""
    if KIND == "max":
        m = tl.max(v, axis=0)
    elif KIND == "sum":
        m = tl.sum(v, axis=0)
    elif KIND == "scan":
        m = tl.associative_scan(v, 0, larger)
    else:
        s = tl.reshape(v, (16, 16))
        m = tl.reshape(tl.dot(s, s, input_precision="ieee"), (256,)).to(v.dtype)
    return m


@triton.jit
def operations(x, o, N: tl.constexpr, KIND: tl.constexpr, T: tl.constexpr, W: tl.constexpr):
    """Every operation's result is used behind the barrier of the first one's reduction. The
    elements are integers.
    """
    i = tl.arange(0, N)
    a = tl.load(x + i)
    k = a.to(tl.int32)
    bits = a.to(W, bitcast=True)
    sign = tl.full((N,), 1, W) << (a.dtype.primitive_bitwidth - 1)
    v0 = -a
    v1 = a * -1.0
    v2 = -tl.abs(a)
    v3 = (-(a * 2.0)).to(tl.int32)
    v4 = tl.floor((-(a * 2.0)).to(tl.float32))
    v5 = tl.where(a > 2, -a, a)
    v6 = (bits ^ sign).to(T, bitcast=True)
    v7 = ((a + 1).to(W, bitcast=True) | sign).to(T, bitcast=True)
    v8 = tl.abs(a)
    v9 = -k
    v10 = ~k
    v11 = k ^ -2147483648
    v12 = tl.abs(k)
    v13 = 0.0 - a
    v14 = a.to(tl.int8)
    v15 = tl.minimum(-a, 3.0)
    m = across(v0, KIND)
    tl.store(o + i, v0 - m)
    tl.store(o + N + i, v1 - m)
    tl.store(o + 2 * N + i, v2 - m)
    tl.store(o + 3 * N + i, v3 - m)
    tl.store(o + 4 * N + i, v4 - m)
    tl.store(o + 5 * N + i, v5 - m)
    tl.store(o + 6 * N + i, v6 - m)
    tl.store(o + 7 * N + i, v7 - m)
    tl.store(o + 8 * N + i, v8 - m)
    tl.store(o + 9 * N + i, v9 - m)
    tl.store(o + 10 * N + i, v10 - m)
    tl.store(o + 11 * N + i, (v11 >> 24) - m)
    tl.store(o + 12 * N + i, v12 - m)
    tl.store(o + 13 * N + i, v13 - m)
    tl.store(o + 14 * N + i, v14 - m)
    tl.store(o + 15 * N + i, v15 - m)


def expected(a: np.ndarray, kind: str) -> np.ndarray:
    a = a.astype(np.float64)
    k = a.astype(np.int32)
    square = -a[:256].reshape(16, -1)
    m = {
        "max": lambda: (-a).max(),
        "sum": lambda: (-a).sum(),
        "scan": lambda: np.maximum.accumulate(-a),
        "dot": lambda: (square @ square).reshape(-1),
    }[kind]()
    values = [-a, -a, -abs(a), -2 * k, -2 * a, np.where(a > 2, -a, a), -a, -abs(a + 1), abs(a), -k,
              ~k, (k ^ -(2**31)) >> 24, abs(k), -a, k, np.minimum(-a, 3)]  # fmt: skip
    return np.stack([value - m for value in values])


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_a_negated_value_is_right_behind_a_reduction(warps: int) -> None:
    x = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    case = Case(
        softmin_shift,
        {"x": "*fp32", "o": "*fp32"},
        {"N": N},
        lambda: [x, np.zeros_like(x)],
        lambda x, _: [(1, -x - (-x).max())],
        num_warps=warps,
    )
    check(case, compiled(case), f"{warps} warps")


def operations_case(kind: str, dtype: str, warps: int) -> Case:
    real, word, numpy_type = TYPES[dtype]
    size = 256 if kind == "dot" else N
    x = np.random.default_rng(1).integers(-4, 5, size).astype(numpy_type)
    return Case(
        operations,
        {"x": f"*{dtype}", "o": f"*{dtype}"},
        {"N": size, "KIND": kind, "T": real, "W": word},
        lambda: [x, np.full((16, size), 77, numpy_type)],
        lambda x, _: [(1, expected(x, kind))],
        num_warps=warps,
    )


@pytest.mark.sample(3, each=("kind", "warps"))
@pytest.mark.parametrize("kind", ["max", "sum", "scan", "dot"])
@pytest.mark.parametrize(
    ("dtype", "warps"),
    [
        ("fp32", 2),
        ("fp32", 4),
        ("fp32", 8),
        pytest.param("fp16", 4, marks=pytest.mark.long),
        pytest.param("fp64", 4, marks=pytest.mark.long),
        pytest.param("fp64", 16, marks=pytest.mark.long),
    ],
)
def test_what_an_operation_gives_is_right_behind_a_barrier(
    kind: str, dtype: str, warps: int
) -> None:
    case = operations_case(kind, dtype, warps)
    check(case, compiled(case), f"{kind}, {dtype}, {warps} warps")


@pytest.mark.parametrize("vendor", ["cpu", "intel"])
def test_no_negation_reaches_a_device_in_a_kernel_with_barriers(vendor: str) -> None:
    """Intel's GPUs get the same: their SPIR-V runs on CPUs too."""
    compiler = cpu.create_compiler() if vendor == "cpu" else intel.create_compiler()
    made = compiler.compile(
        request(operations_case("max", "fp32", 4)), Target(vendor, "spirv64"), keep_stages=True
    )
    llir = str(made.texts["llir"])
    assert "@_Z7barrierj(i32 " in llir
    assert " = fneg " not in llir
    assert "xor i32" in llir


def function(line: str, type_: str, barrier: str = "  call void @_Z7barrierj(i32 3)\n") -> str:
    return f"""\
define {type_} @k({type_} %a) {{
entry:
  %v = {line}
{barrier}  ret {type_} %v
}}

declare void @_Z7barrierj(i32)
"""


@pytest.mark.parametrize(
    ("line", "mask"),
    [
        ("fneg float %a", "i32"),
        ("fneg nnan ninf contract float %a", "i32"),
        ("fneg half %a", "i16"),
        ("fneg double %a", "i64"),
        ("fneg <4 x float> %a", "i32.4"),
        ("fneg fast <2 x half> %a", "i16.2"),
        ("xor i32 %a, -2147483648", "i32"),
        ("or disjoint i16 %a, -32768", "i16"),
        ("or i64 %a, -9223372036854775808", "i64"),
        ("xor <2 x i64> %a, splat (i64 -9223372036854775808)", "i64.2"),
    ],
)
def test_signs_are_flipped_by_a_mask_that_nobody_knows(line: str, mask: str) -> None:
    type_ = line.partition(" %a")[0]
    type_ = type_[type_.index("<") :] if "<" in type_ else type_.rpartition(" ")[2]
    text = passed(function(line, type_), flip_signs_in_integers)
    module = llvm.parse_assembly(text)
    module.verify()
    assert "fneg" not in text
    masked = (part for part in text.splitlines() if f", %xt.sign.{mask}" in part)
    operation = next(part for part in masked if " = shuffle" not in part)
    assert " xor " in operation or " or " in operation
    assert "@_Z14get_num_groupsj" in text


@triton.jit
def smaller_of_negated(a, b):
    return -tl.maximum(-a, -b)


@triton.jit
def both_signs(x):
    return -x, x


@triton.jit
def siblings(x, s, o, B: tl.constexpr):
    """Signs by copysign, selects, tuples, a function of a scan's, and a sort."""
    i = tl.arange(0, B)
    v = tl.load(x + i)
    sign = tl.load(s + i)
    turned = libdevice.copysign(v, -sign)
    tl.store(o + i, turned - tl.max(turned, axis=0))
    chosen = tl.where(sign > 0, v, -v)
    tl.store(o + B + i, chosen - tl.max(chosen, axis=0))
    first, second = both_signs(v)
    for _ in range(2):
        first, second = -second, -first
    tl.store(o + 2 * B + i, first - tl.max(second, axis=0))
    scanned = tl.associative_scan(-v, 0, smaller_of_negated)
    tl.store(o + 3 * B + i, -v - scanned)
    tl.store(o + 4 * B + i, tl.sort(-v) - (-v))


@pytest.mark.sample(3)
@pytest.mark.parametrize("num_warps", [2, 8, 32])
def test_other_ways_to_a_sign(num_warps: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-16, 16, 256).astype(np.float32)
    sign = rng.choice(np.array([-1, 1], np.float32), 256)
    out = empty(5, 256)
    signature = dict.fromkeys("xso", "*fp32")
    run(Case(siblings, signature, {"B": 256}, lambda: [x, sign, out], num_warps=num_warps))
    turned, chosen = np.copysign(x, -sign), np.where(sign > 0, x, -x)
    scanned = -x - np.minimum.accumulate(-x)
    rows = [turned - turned.max(), chosen - chosen.max(), -x - x.max(), scanned, np.sort(-x) + x]
    np.testing.assert_array_equal(out, np.stack(rows))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(function("fneg float %a", "float", ""), id="no_barrier"),
        pytest.param(function("xor i32 %a, -2", "i32"), id="another_mask"),
        pytest.param(function("and i32 %a, -2147483648", "i32"), id="and"),
        pytest.param(function("xor i8 %a, -128", "i8"), id="no_float_is_as_narrow"),
    ],
)
def test_the_rest_stays_as_it_is(text: str) -> None:
    assert passed(text, flip_signs_in_integers) == text


def test_a_negation_in_another_form_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="negation"):
        passed(function("fneg float 0x7FF0000000000000", "float"), flip_signs_in_integers)
