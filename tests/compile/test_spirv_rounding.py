"""libdevice's arithmetic that rounds towards zero, down or up, against exact fractions."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case, empty
from spirv_run import run, written

BLOCK, BLOCKS = 64, 64
WAYS = ("rz", "rd", "ru")
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "rcp": 1, "sqrt": 1, "fma": 3}
TYPES = {"fp32": np.float32, "fp64": np.float64}


def rounded(exact: Fraction, way: str, dtype: Any, *, root: bool = False) -> Any:
    """The number (or its square root) in this precision, what is too large or small included."""
    about = np.finfo(dtype)
    negative, size = exact < 0, abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= size < Fraction(2) ** power
    power = power // 2 if root else power
    unit = Fraction(2) ** (max(power, int(about.minexp)) - about.nmant)
    if root:
        count = math.isqrt(size // unit**2)
        is_exact = (count * unit) ** 2 == size
    else:
        count = size // unit
        is_exact = count * unit == size
    away = way == ("rd" if negative else "ru")
    value = (count + (away and not is_exact)) * unit
    if value > Fraction(float(about.max)):
        number = dtype(np.inf) if away else about.max
    else:
        number = dtype(float(value))
    return -number if negative else number


def expected(name: str, way: str, dtype: Any, given: tuple[Any, ...]) -> Any:
    """Where a zero, an infinity or NaN takes part, NumPy's nearest is exact."""
    a, b, c = given
    if name == "rcp":
        a, b = dtype(1), a
    if name == "sqrt":
        if not (np.isfinite(a) and a > 0):
            return np.sqrt(a)
        return rounded(Fraction(float(a)), way, dtype, root=True)
    used = (a, b, c) if name == "fma" else (a, b)
    if not np.isfinite(used).all() or (name in ("rcp", "div") and b == 0):
        if name == "fma":
            return (
                dtype(np.float64(a) * np.float64(b) + np.float64(c))
                if dtype is np.float32 or (not np.isfinite([a, b]).all())
                else c
            )
        return {"add": a + b, "sub": a - b, "mul": a * b}.get(
            name, a / b if name in ("div", "rcp") else None
        )
    x, y, z = (Fraction(float(v)) for v in (a, b, c))
    exact = {
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "fma": lambda: x * y + z,
        "div": lambda: x / y,
        "rcp": lambda: x / y,
    }[name]()
    if exact:
        return rounded(exact, way, dtype)
    signs = np.signbit(a), np.signbit(b), np.signbit(c)
    if name in ("mul", "div", "rcp"):
        return dtype(-0.0) if signs[0] != signs[1] else dtype(0.0)
    parts = {
        "add": (signs[0], signs[1]),
        "sub": (signs[0], not signs[1]),
        "fma": (signs[0] != signs[1], signs[2]),
    }[name]
    negative = all(parts) or (any(parts) and way == "rd")
    return dtype(-0.0) if negative else dtype(0.0)


def numbers(dtype: Any) -> tuple[Any, ...]:
    """Three columns: random bits, like sizes, cancellations, the ends and the specials."""
    rng = np.random.default_rng(7)
    word = np.uint32 if dtype is np.float32 else np.uint64
    about = np.finfo(dtype)
    count = BLOCK * BLOCKS
    columns = [rng.integers(0, np.iinfo(word).max, count, dtype=word).view(dtype) for _ in "abc"]
    part = slice(0, count // 2)
    for column in columns:  # numbers of like size, in few bits or in all of them
        column[part] = rng.standard_normal(count // 2) * 2.0 ** rng.integers(-9, 9, count // 2)
    a, b, c = columns
    with np.errstate(all="ignore"):
        quarter = slice(count // 4, count // 2)
        c[quarter] = -(a[quarter] * b[quarter])
        eighth = slice(count // 4, count // 4 + count // 8)
        c[eighth] = np.nextafter(c[eighth], dtype(0))
        b[count // 8 : count // 4] = np.round(b[count // 8 : count // 4] * 4) / 4
        tiny = slice(count // 2, count // 2 + count // 8)  # products and quotients near the ends
        a[tiny] = rng.standard_normal(count // 8) * 2.0 ** (
            about.minexp // 2 + rng.integers(-30, 30, count // 8).astype(float)
        )
        b[tiny] = rng.standard_normal(count // 8) * 2.0 ** (
            about.minexp // 2 + rng.integers(-30, 30, count // 8).astype(float)
        )
        c[tiny] = (rng.standard_normal(count // 8) * 8).astype(dtype) * about.tiny
    ends = [
        0.0,
        1.0,
        np.inf,
        np.nan,
        about.max,
        about.tiny,
        about.smallest_subnormal,
        1 + about.eps,
    ]
    ends += [-v for v in ends]
    grid = np.array(np.meshgrid(ends, ends, ends[:2] + ends[4:10])).reshape(3, -1).astype(dtype)
    size = grid.shape[1]
    for column, some in zip(columns, grid, strict=True):
        column[-size:] = some
    return a, b, c


@pytest.mark.sample(3, each=("name", "type_"))
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", OPERANDS)
def test_arithmetic_in_a_direction(tmp_path: Path, name: str, type_: str) -> None:
    lines = [
        "i = tl.program_id(0) * B + tl.arange(0, B)",
        "x, y, z = tl.load(a + i), tl.load(b + i), tl.load(c + i)",
    ]
    given = ", ".join("xyz"[: OPERANDS[name]])
    for row, way in enumerate(WAYS):
        call = f"tl.extra.cuda.libdevice.{name}_{way}({given})"
        lines.append(f"tl.store(o + {row} * N + i, {call})")
    parameters = "a, b, c, o, N, B: tl.constexpr"
    kernel = written(tmp_path / "rounding_kernel.py", parameters, *lines)
    dtype = TYPES[type_]
    columns = numbers(dtype)
    count = BLOCK * BLOCKS
    out = empty(3, count, dtype=dtype)
    signature = dict.fromkeys("abco", "*" + type_) | {"N": "i32"}
    case = Case(
        kernel,
        signature,
        {"B": BLOCK},
        lambda: [*columns, out, count],
        grid=(BLOCKS, 1, 1),
        num_warps=4,
    )
    run(case)
    with np.errstate(all="ignore"):
        for way, got in zip(WAYS, out, strict=True):
            want = np.array([expected(name, way, dtype, v) for v in zip(*columns, strict=True)])
            same = ((got == want) & (np.signbit(got) == np.signbit(want))) | (
                np.isnan(got) & np.isnan(want)
            )
            wrong = np.flatnonzero(~same)
            shown = [(*(k[i] for k in columns), got[i], want[i]) for i in wrong[:4]]
            assert not wrong.size, f"{way}: {wrong.size} of {count} wrong: {shown}"
