"""Divisions of what was loaded under a mask: LLVM takes an undefined divisor for a proof that the
mask is true, and a store then went past the end of its array."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
from spirv_run import check, compiled, run

from xtarget.targets._spirv.llvm.divisors import define_divisors

COUNT, BLOCK = 100, 256


@triton.jit
def quotients(a, b, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i < n
    tl.store(o + i, tl.load(a + i, mask) // tl.load(b + i, mask), mask)


@triton.jit
def remainders(a, b, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i < n
    tl.store(o + i, tl.load(a + i, mask) % tl.load(b + i, mask), mask)


def case(kernel: Any, dtype: str, num_warps: int, *, zeros: bool = False) -> Case:
    name = dtype.replace("uint", "u").replace("int", "i")

    def given() -> list[Any]:
        divisors = np.arange(COUNT) % (2 if zeros else 7) + (0 if zeros else 1)
        values = [np.arange(COUNT).astype(dtype), divisors.astype(dtype)]
        return [*values, empty(BLOCK, dtype=dtype), COUNT]

    def expect(a: Any, b: Any, o: Any, n: int) -> list[tuple[int, Any]]:
        right = empty(BLOCK, dtype=dtype)
        right[:n] = a // b if kernel is quotients else a % b
        return [(2, right)]

    return Case(
        kernel,
        {"a": f"*{name}", "b": f"*{name}", "o": f"*{name}", "n": "i32"},
        {"B": BLOCK},
        given,
        None if zeros else expect,
        num_warps=num_warps,
    )


@pytest.mark.sample(3, each=("kernel", "dtype", "num_warps"))
@pytest.mark.parametrize("num_warps", [1, 2])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("kernel", [quotients, remainders], ids=["quotient", "remainder"])
def test_what_a_mask_leaves_out_is_not_written(kernel: Any, dtype: str, num_warps: int) -> None:
    own = case(kernel, dtype, num_warps)
    check(own, compiled(own), dtype)


@pytest.mark.parametrize("num_warps", [1, 2])
def test_a_divisor_of_zero_ends_no_process(num_warps: int) -> None:
    arguments = run(case(quotients, "int32", num_warps, zeros=True))
    np.testing.assert_array_equal(arguments[2][1:COUNT:2], np.arange(COUNT)[1::2])
    assert (arguments[2][COUNT:] == 77).all()


def function(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"define i32 @k(ptr %p, i32 %n, <2 x i32> %v) {{\n{body}\n  ret i32 %r\n}}\n"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["%r = sdiv i32 %n, 7"], id="constant"),
        pytest.param(["%r = urem i32 7, %n"], id="argument"),
        pytest.param(["%m = add i32 %n, 3", "%r = srem i32 7, %m"], id="of_an_argument"),
    ],
)
def test_divisors_that_are_defined_stay_as_they_are(lines: list[str]) -> None:
    assert passed(function(*lines), define_divisors) == function(*lines)


@pytest.mark.parametrize("operation", ["sdiv", "udiv", "srem", "urem"])
def test_a_loaded_divisor_is_fixed_and_not_zero(operation: str) -> None:
    text = function("%d = load i32, ptr %p, align 4", f"%r = {operation} i32 %n, %d")
    after = passed(text, define_divisors)
    llvm.parse_assembly(after).verify()
    assert "freeze i32 %d" in after
    assert f"{operation} i32 %n, %d" not in after


def test_divisors_in_a_vector_are_fixed_one_by_one() -> None:
    text = function(
        "%d = load <2 x i32>, ptr %p, align 8", "%q = sdiv <2 x i32> %v, %d",
        "%r = extractelement <2 x i32> %q, i64 0",
    )  # fmt: skip
    after = passed(text, define_divisors)
    llvm.parse_assembly(after).verify()
    assert "select <2 x i1>" in after
