"""Dots of random shapes, types and blocks, alone, one after the other and in batches.

The numbers are small integers, so every sum is exact and has to be right to the last bit, whatever
its order. `XTARGET_DOT_SEED` and `XTARGET_DOT_CASES` choose others (long tests).
"""

from __future__ import annotations

import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case
from spirv_run import check, compiled, device

from xtarget.targets._spirv.frontend.cpu_options import CPU_OPTIONS, PLAIN_OPTIONS

SEED = int(os.environ.get("XTARGET_DOT_SEED", "1"))
CASES = int(os.environ.get("XTARGET_DOT_CASES", "40"))
#: Operand, sum: names in signatures, NumPy's types, Triton's type of the sum.
TYPES = (
    ("fp32", "fp32", np.float32, np.float32, tl.float32),
    ("fp16", "fp32", np.float16, np.float32, tl.float32),
    ("fp16", "fp16", np.float16, np.float16, tl.float16),
    ("bf16", "fp32", ml_dtypes.bfloat16, np.float32, tl.float32),
    ("fp64", "fp64", np.float64, np.float64, tl.float64),
    ("i8", "i32", np.int8, np.int32, tl.int32),
    ("fp8e5", "fp32", ml_dtypes.float8_e5m2, np.float32, tl.float32),
    ("fp8e4nv", "fp32", ml_dtypes.float8_e4m3fn, np.float32, tl.float32),
)
PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
#: Multiply-adds of one thread above which unrolled code takes the run time's compiler too long.
UNROLLED = 512


@triton.jit
def product(a, b, e, c, Z: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
            P: tl.constexpr, TA: tl.constexpr, TB: tl.constexpr, CHAIN: tl.constexpr,
            D: tl.constexpr):  # fmt: skip
    """a (M, K) times b (K, N), each stored transposed or not, on top of c."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if Z > 1:
        z = tl.arange(0, Z)[:, None, None]
        x = tl.load(a + z * M * K + m[None, :, None] * K + k[None, None, :])
        y = tl.load(b + z * K * N + k[None, :, None] * N + n[None, None, :])
        place = z * M * N + m[None, :, None] * N + n[None, None, :]
        tl.store(c + place, tl.dot(x, y, tl.load(c + place), input_precision=P, out_dtype=D))
    else:
        if TA:
            x = tl.trans(tl.load(a + k[:, None] * M + m[None, :]))
        else:
            x = tl.load(a + m[:, None] * K + k[None, :])
        if TB:
            y = tl.trans(tl.load(b + n[:, None] * K + k[None, :]))
        else:
            y = tl.load(b + k[:, None] * N + n[None, :])
        place = m[:, None] * N + n[None, :]
        total = tl.dot(x, y, tl.load(c + place), input_precision=P, out_dtype=D)
        if CHAIN:  # small numbers again, which every type holds
            small = tl.where(total > 2, 2, tl.where(total < -2, -2, total)).to(x.dtype)
            w = tl.load(e + n[:, None] * N + n[None, :])
            total = tl.dot(small, w, input_precision=P, out_dtype=D)
        tl.store(c + place, total)


@dataclass(frozen=True)
class Drawn:
    """A case that was drawn."""

    types: tuple[Any, ...]
    z: int
    m: int
    n: int
    k: int
    precision: str
    trans: tuple[bool, bool]
    chain: bool
    num_warps: int
    warp_size: int
    loops: bool

    def __str__(self) -> str:
        how = "chain" if self.chain else "".join("nt"[flag] for flag in self.trans)
        shape = f"{self.z}x{self.m}x{self.n}x{self.k}"
        kinds = f"{self.types[0]}-{self.types[1]}-{self.precision}"
        way = "loops" if self.loops else "unrolled"
        return f"{shape}-{kinds}-{how}-{self.num_warps}x{self.warp_size}-{way}"


def draw(number: int) -> Drawn:
    """The case of a number; the same for one seed."""
    dice = random.Random(f"{SEED} {number}")
    while True:
        types = dice.choice(TYPES)
        one = Drawn(
            types,
            dice.choice((1, 1, 1, 2, 4)),
            *(dice.choice((16, 32, 64, 128, 256)) for _ in range(3)),
            dice.choice(PRECISIONS) if types[0] == "fp32" else "ieee",
            (dice.random() < 0.4, dice.random() < 0.4),
            dice.random() < 0.3 and types[0] != "i8",
            dice.choice((1, 2, 4, 8)),
            dice.choice((16, 16, 32)),
            dice.random() < 0.75,
        )
        threads = one.num_warps * one.warp_size
        work = one.z * one.m * one.n * one.k // threads
        elements = one.z * max(one.m * one.k, one.k * one.n, one.m * one.n) // threads
        # what is held in threads is unrolled in any case, and takes long to compile
        if elements > 128 or (one.chain and (one.z > 1 or one.n > 64)):
            continue
        wide = 8 if types[0] == "fp64" else 4
        nbytes = wide * one.z * (one.m * one.k + one.k * one.n + one.m * one.n)
        if work > UNROLLED and (not one.loops or nbytes > CPU_OPTIONS["dot_bytes"]):
            continue
        if types[1] == "fp16" and not one.loops:
            continue  # unrolled sums in half precision take it minutes, however small
        if one.precision.startswith("bf16x") and work > 8 * UNROLLED:
            continue
        return one


def _expected(one: Drawn, a: Any, b: Any, e: Any, c: Any) -> Any:
    x, y, w = (value.astype(np.float64) for value in (a, b, e))
    x = x.reshape(one.k, one.m).T if one.trans[0] and one.z == 1 else x.reshape(-1, one.m, one.k)
    y = y.reshape(one.n, one.k).T if one.trans[1] and one.z == 1 else y.reshape(-1, one.k, one.n)
    total = x @ y + c.astype(np.float64).reshape(-1, one.m, one.n)
    if one.chain:
        total = np.clip(total, -2, 2) @ w.reshape(one.n, one.n)
    return [(3, total)]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "number", [pytest.param(i, marks=() if i < 4 else pytest.mark.long) for i in range(CASES)]
)
def test_random_dots(number: int, mark_ran_on: Any) -> None:
    one = draw(number)
    operand, total, dtype, out, triton_type = one.types
    rng = np.random.default_rng([SEED, number])

    def arguments() -> list[Any]:
        sizes = (one.z * one.m * one.k, one.z * one.k * one.n, one.n * one.n)
        made = [rng.integers(-2, 3, size).astype(dtype) for size in sizes]
        return [*made, rng.integers(-9, 10, one.z * one.m * one.n).astype(out)]

    case = Case(
        product,
        {"a": "*" + operand, "b": "*" + operand, "e": "*" + operand, "c": "*" + total},
        {"Z": one.z, "M": one.m, "N": one.n, "K": one.k, "P": one.precision, "TA": one.trans[0],
         "TB": one.trans[1], "CHAIN": one.chain, "D": triton_type},
        arguments,
        lambda a, b, e, c: _expected(one, a, b, e, c),
        num_warps=one.num_warps,
        warp_size=one.warp_size,
    )  # fmt: skip
    options = CPU_OPTIONS if one.loops else PLAIN_OPTIONS
    artifact = compiled(case, **options)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, artifact, str(one))
