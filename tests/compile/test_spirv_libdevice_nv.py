"""The functions of libdevice that AMD's module does not have, against NumPy."""

from __future__ import annotations

import inspect
import math
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import load_file

from xtarget._values.errors import CompileError

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from spirv_cases import Case, empty
from spirv_elements import write_rows
from spirv_run import assert_close, compiled, run
from triton.language.extra import libdevice

from xtarget.targets._spirv.frontend import backend
from xtarget.targets._spirv.library import definitions

#: What is refused by name: an approximation by NVIDIA's hardware.
REFUSED = {"rcp64h"}
COUNT = 64


@triton.jit
def floating(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    c = libdevice.abs(b)
    write_rows(o, i, B, (
        libdevice.fma_rn(a, b, a), libdevice.add_rn(a, b), libdevice.sub_rn(a, b),
        libdevice.mul_rn(a, b), libdevice.div_rn(a, b), libdevice.rcp_rn(b), libdevice.sqrt_rn(c),
        libdevice.sinpi(a), libdevice.cospi(a), libdevice.exp10(a), libdevice.cbrt(a),
        libdevice.rcbrt(a), libdevice.rhypot(a, b), libdevice.norm3d(a, b, c),
        libdevice.rnorm3d(a, b, c), libdevice.norm4d(a, b, c, a), libdevice.rnorm4d(a, b, c, a),
        libdevice.normcdf(a), libdevice.tgamma(c + 1), libdevice.logb(a), libdevice.fdim(a, b),
        libdevice.remainder(a, b), libdevice.scalbn(a, i % 9 - 4),
    ))  # fmt: skip


def floating_by_numpy(a: Any, b: Any, i: Any) -> list[Any]:
    c, exact = np.abs(b), np.array([Fraction(float(p)) for p in a])
    fused = np.array([float(p * Fraction(float(q)) + p) for p, q in zip(exact, b, strict=True)])
    quotient = [math.remainder(p, q) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    three, four = np.sqrt(a * a + 2 * b * b), np.sqrt(2 * a * a + 2 * b * b)
    return [
        fused, a + b, a - b, a * b, a / b, 1 / b, np.sqrt(c),
        np.sin(np.pi * a), np.cos(np.pi * a), 10.0**a, np.cbrt(a), 1 / np.cbrt(a),
        1 / np.hypot(a, b), three, 1 / three, four, 1 / four,
        [math.erfc(-v / math.sqrt(2)) / 2 for v in a], [math.gamma(v + 1) for v in c],
        np.floor(np.log2(np.abs(a))), np.maximum(a - b, 0), quotient, np.ldexp(a, i % 9 - 4),
    ]  # fmt: skip


#: Those that are rounded once, so have NumPy's bits.
ROUNDED = (0, 1, 2, 3, 4, 5, 6, 19, 20, 21, 22)


@pytest.mark.parametrize(
    ("type_", "dtype", "tolerance"), [("fp32", np.float32, 4e-6), ("fp64", np.float64, 1e-13)]
)
def test_floating(type_: str, dtype: Any, tolerance: float) -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(COUNT) * 2).astype(dtype)
    y = (rng.standard_normal(COUNT) + 0.125).astype(dtype)
    out = empty(23 * COUNT, dtype=dtype)
    signature = dict.fromkeys("xyo", "*" + type_)
    run(Case(floating, signature, {"B": COUNT}, lambda: [x, y, out], num_warps=1))
    wide = floating_by_numpy(x.astype(np.float64), y.astype(np.float64), np.arange(COUNT))
    for row, (got, expected) in enumerate(zip(out.reshape(23, COUNT), wide, strict=True)):
        limit = 0 if row in ROUNDED else tolerance
        assert_close(got, np.asarray(expected).astype(dtype), limit, f"row {row}")


@triton.jit
def whole(x, y, o, w, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    u = a.to(tl.uint32, bitcast=True)
    v = b.to(tl.uint32, bitcast=True)
    write_rows(o, i, B, (
        libdevice.mulhi(a, b), libdevice.mulhi(u, v).to(tl.int32, bitcast=True),
        libdevice.mul24(a, b), libdevice.mul24(u, v).to(tl.int32, bitcast=True),
        libdevice.brev(a), libdevice.sad(a, b, u),
        libdevice.sad(u, v, u).to(tl.int32, bitcast=True), libdevice.hadd(a, b),
        libdevice.hadd(u, v).to(tl.int32, bitcast=True), libdevice.rhadd(a, b),
        libdevice.rhadd(u, v).to(tl.int32, bitcast=True), libdevice.ffs(a & (a - 1)),
        libdevice.byte_perm(a, b, u.to(tl.int32, bitcast=True) >> 3),
        libdevice.ffs(a.to(tl.int64) << 32),
    ))  # fmt: skip
    wide = (a.to(tl.int64) << 32) + b
    tl.store(w + i, libdevice.mulhi(wide, wide + 1))
    tl.store(w + B + i, libdevice.brev(wide))


def test_whole_numbers() -> None:
    rng = np.random.default_rng(6)
    x, y = (rng.integers(-(2**31), 2**31, COUNT).astype(np.int32) for _ in range(2))
    x[:3] = (0, 1, -1)
    out, wide = empty(14 * COUNT, dtype=np.int32), empty(2 * COUNT, dtype=np.int64)
    signature = {"x": "*i32", "y": "*i32", "o": "*i32", "w": "*i64"}
    run(Case(whole, signature, {"B": COUNT}, lambda: [x, y, out, wide], num_warps=1))
    for k in range(COUNT):
        a, b = int(x[k]), int(y[k])
        u, v = a % 2**32, b % 2**32
        expected = [
            a * b >> 32, u * v >> 32, signed24(u) * signed24(v), (u % 2**24) * (v % 2**24),
            reverse(u, 32), abs(a - b) + u, abs(u - v) + u, a + b >> 1, u + v >> 1,
            a + b + 1 >> 1, u + v + 1 >> 1, first(u & u - 1), permuted(u, v, a >> 3),
            first(u << 32),
        ]  # fmt: skip
        got = [n % 2**32 for n in out[k::COUNT].tolist()]
        assert got == [n % 2**32 for n in expected], k
        long = (a << 32) + b
        long = (long + 2**63) % 2**64 - 2**63
        assert int(wide[k]) == long * (long + 1) >> 64
        assert int(wide[COUNT + k]) % 2**64 == reverse(long % 2**64, 64)


def signed24(value: int) -> int:
    return (value + 2**23) % 2**24 - 2**23


def reverse(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


def first(value: int) -> int:
    return (value & -value).bit_length()


def permuted(u: int, v: int, selector: int) -> int:
    data = (u | v << 32).to_bytes(8, "little")
    return int.from_bytes([data[selector >> 4 * i & 7] for i in range(4)], "little")


@triton.jit
def converted(x, o, w, r, B: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    if WIDE:
        near, zero = libdevice.double2int_rn(a), libdevice.double2int_rz(a)
        down, up = libdevice.double2uint_rd(a), libdevice.double2uint_ru(a)
        write_rows(o, i, B, (near, zero, down, up))
        near, up = libdevice.double2ll_rn(a), libdevice.double2ll_ru(a)
        write_rows(w, i, B, (near, up, libdevice.double2ull_rz(a), libdevice.llround(a)))
        high = libdevice.double2hiint(a)
        low = libdevice.double2loint(a)
        tl.store(r + i, libdevice.hiloint2double(high, low))
        bits = libdevice.double_as_longlong(a)
        tl.store(r + B + i, libdevice.longlong_as_double(bits))
        tl.store(r + 2 * B + i, libdevice.ll2double_rn(bits))
        tl.store(r + 3 * B + i, libdevice.double2float_rn(a).to(tl.float64))
    else:
        near, zero = libdevice.float2int_rn(a), libdevice.float2int_rz(a)
        down, up = libdevice.float2uint_rd(a), libdevice.float2uint_ru(a)
        write_rows(o, i, B, (near, zero, down, up))
        near, up = libdevice.float2ll_rn(a), libdevice.float2ll_ru(a)
        write_rows(w, i, B, (near, up, libdevice.float2ull_rz(a), libdevice.llround(a)))
        bits = libdevice.float_as_int(a)
        tl.store(r + i, libdevice.int_as_float(bits))
        tl.store(r + B + i, libdevice.saturatef(a))
        tl.store(r + 2 * B + i, libdevice.int2float_rn(bits))
        tl.store(r + 3 * B + i, libdevice.fast_powf(libdevice.fast_sinf(a), a - a + 2))


@pytest.mark.parametrize(("type_", "dtype"), [("fp32", np.float32), ("fp64", np.float64)])
def test_conversions(type_: str, dtype: Any) -> None:
    numbers = [0.5, 1.5, 2.5, -0.5, -1.5, -2.75, 1e9, 3e9, 5e9, -3e9, 1e19, 2e19, -1e19, np.nan]
    x = np.resize(np.array([*numbers, np.inf, -np.inf, 0.25, 7.0], dtype), COUNT)
    out, wide = empty(4 * COUNT, dtype=np.int32), empty(4 * COUNT, dtype=np.int64)
    real = empty(4 * COUNT, dtype=dtype)
    signature = {"x": "*" + type_, "o": "*i32", "w": "*i64", "r": "*" + type_}
    constants = {"B": COUNT, "WIDE": type_ == "fp64"}
    run(Case(converted, signature, constants, lambda: [x, out, wide, real], num_warps=1))
    away = [math.copysign(math.floor(abs(v) + 0.5), v) if np.isfinite(v) else v for v in x.tolist()]
    into = [
        (np.rint(x), 32, True), (np.trunc(x), 32, True), (np.floor(x), 32, False),
        (np.ceil(x), 32, False), (np.rint(x), 64, True), (np.ceil(x), 64, True),
        (np.trunc(x), 64, False), (away, 64, True),
    ]  # fmt: skip
    found = [*out.reshape(4, COUNT), *wide.reshape(4, COUNT)]
    for row, (values, width, is_signed) in enumerate(into):
        expected = [nearest(v, width, is_signed) % 2**width for v in values]
        assert [int(n) % 2**width for n in found[row]] == expected, row
    rows = real.reshape(4, COUNT)
    integers = x.view(np.int64 if type_ == "fp64" else np.int32)
    assert np.array_equal(rows[0], x, equal_nan=True)
    assert np.array_equal(rows[2], integers.astype(dtype))
    if type_ == "fp64":
        assert np.array_equal(rows[1], x, equal_nan=True)
        with np.errstate(over="ignore"):
            assert np.array_equal(rows[3], x.astype(np.float32), equal_nan=True)
    else:
        assert np.array_equal(rows[1], np.clip(np.nan_to_num(x, nan=0.0), 0, 1))
        small = np.abs(x) < 8
        assert_close(rows[3][small], np.sin(x[small]) ** 2, 1e-5, "powers")


def nearest(value: float, width: int, is_signed: bool) -> int:
    if np.isnan(value):
        return 0
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if is_signed else (0, 2**width)
    return low if value < low else high - 1 if value >= high else int(value)


@triton.jit
def high_word(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, libdevice.rcp64h(tl.load(x + i)))


def test_what_is_refused_names_the_line() -> None:
    case = Case(high_word, {"x": "*fp64", "o": "*fp64"}, {"B": 16})
    with pytest.raises(CompileError, match=r"__nv_rcp64h \(test_spirv_libdevice_nv\.py:\d+: "):
        compiled(case)


#: NVIDIA's functions that AMD's module has too, reached by `tl.extra.cuda.libdevice`, and the same
#: in NumPy or Python.
OF_ONE = {
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    **{name: getattr(np, name) for name in
       ("floor", "ceil", "trunc", "rint", "abs", "sqrt", "exp2", "exp", "expm1", "sin", "cos",
        "tan", "sinh", "cosh", "tanh", "log", "log2", "log10", "log1p")},
    **{name: getattr(np, "arc" + name[1:]) for name in
       ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "nearbyint": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    **{name: np.vectorize(getattr(math, name)) for name in ("erf", "erfc", "lgamma")},
    "isnan": np.isnan,
    "isinf": np.isinf,
    "signbit": np.signbit,
    "llrint": np.rint,
    "llround": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
OF_TWO = {
    "pow": lambda x, y: np.float_power(np.abs(x), y),
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
}
#: What is as it is in NumPy to the bit, zeros' signs aside.
SAME = "round floor ceil trunc rint abs nearbyint isnan isinf signbit llrint llround fmod"
INSIDE = ("asin", "acos", "atanh")  # for what lies in [-1, 1]
TIES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.49999997, 8388607.5, -0.0, 0.0, 1e30]
ENDS = [np.nan, np.inf, -np.inf]


def arguments(name: str, dtype: Any) -> Any:
    rng = np.random.default_rng(3)
    some = rng.standard_normal(COUNT) * (0.4 if name in INSIDE else 3)
    if name in ("sqrt", "rsqrt", "acosh", "lgamma", "pow") or name.startswith("log"):
        some = np.abs(some) + 1.0
    if name in SAME.split():
        ends = ENDS if not name.startswith(("ll", "fmod")) else []
        some = np.concatenate([TIES, ends, some])[:COUNT]
        some = np.where(np.abs(some) > 1e29, 1e9, some) if name.startswith(("ll", "fmod")) else some
    if name in ("isnan", "isinf"):
        some[:3] = ENDS
    return some.astype(dtype)


@pytest.mark.parametrize(("type_", "tolerance"), [("float32", 4e-6), ("float64", 1e-13)])
def test_names_that_amd_has_too_by_nvidias_module(
    tmp_path: Path, type_: str, tolerance: float
) -> None:
    """Inference servers write `tl.extra.cuda.libdevice.round`."""
    dtype = np.dtype(type_)
    file = tmp_path / "by_nvidias_module.py"
    lines = ["import triton", "import triton.language as tl", "", "", "@triton.jit"]
    lines += ["def kernel(x, y, o, B: tl.constexpr):", "    i = tl.arange(0, B)"]
    names = [*OF_ONE, *OF_TWO]
    for row, name in enumerate(names):
        given = f"tl.load(x + {row} * B + i)" + f", tl.load(y + {row} * B + i)" * (name in OF_TWO)
        lines.append(f"    v{row} = tl.extra.cuda.libdevice.{name}({given})")
        lines.append(f"    tl.store(o + {row} * B + i, v{row})")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    module = load_file(file)
    x = np.stack([arguments(name, dtype) for name in names])
    y = (np.random.default_rng(4).standard_normal(x.shape) + 0.125).astype(dtype)
    out = empty(len(names), COUNT, dtype=dtype)
    signature = dict.fromkeys("xyo", "*fp32" if dtype.itemsize == 4 else "*fp64")
    run(Case(module.kernel, signature, {"B": COUNT}, lambda: [x, y, out], num_warps=1))
    for name, a, b, got in zip(names, x, y, out, strict=True):
        wide = a if name == "nextafter" else a.astype(np.float64)
        other = b if name == "nextafter" else b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            expected = OF_TWO[name](wide, other) if name in OF_TWO else OF_ONE[name](wide)
        limit = 0 if name in SAME.split() or name == "nextafter" else tolerance
        assert_close(got, np.asarray(expected).astype(dtype), limit, name)


@triton.jit
def integers_by_nvidia(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, tl.extra.cuda.libdevice.clz(a))
    tl.store(o + B + i, tl.extra.cuda.libdevice.popc(a))
    tl.store(o + 2 * B + i, tl.extra.cuda.libdevice.abs(a))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_by_nvidias_module(dtype: Any) -> None:
    bits = np.dtype(dtype).itemsize * 8
    rng = np.random.default_rng(9)
    x = rng.integers(-(2**31), 2**31, COUNT).astype(dtype) * 3
    x[:4] = 0, -1, 1, np.iinfo(dtype).min + 1
    out = empty(3, COUNT, dtype=dtype)
    signature = dict.fromkeys("xo", f"*i{bits}")
    run(Case(integers_by_nvidia, signature, {"B": COUNT}, lambda: [x, out], num_warps=1))
    plain = [int(v) % 2**bits for v in x]
    assert out[0].tolist() == [bits - v.bit_length() for v in plain]
    assert out[1].tolist() == [v.bit_count() for v in plain]
    assert out[2].tolist() == np.abs(x).tolist()


def test_every_function_of_nvidias_module_is_defined_or_refused_for_a_reason() -> None:
    from triton.language.extra.cuda import libdevice as nvidia

    source = inspect.getsource(nvidia)
    bodies = dict(re.findall(r"^def (\w+)\((.*?)(?=^@core.extern|\Z)", source, re.M | re.S))
    missing = {
        name
        for name, body in bodies.items()
        if definitions.assemble(re.findall(r'"(__nv_\w+)"', body), 16)[1]
    }
    assert len(bodies) > 150
    assert missing == REFUSED
    module = backend._libdevice()
    assert all(hasattr(module, name) for name in bodies)
