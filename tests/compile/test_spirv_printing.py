"""device_print on the CPU: what every kind of value looks like."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from spirv_cases import Case
from spirv_run import run


@triton.jit
def everything(x, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_print("f: ", v, v.to(tl.float64), v.to(tl.float16), v.to(tl.bfloat16))
    tl.device_print("i8: ", i.to(tl.int8) - 3)
    tl.device_print("u8 in hex: ", i.to(tl.uint8) - 3, hex=True)
    tl.device_print("i16: ", i.to(tl.int16) - 3)
    tl.device_print("wide: ", (i.to(tl.int64) - 1) << 40, (i.to(tl.uint64) << 63) + 5)
    tl.device_print("bit: ", v > 1)
    tl.device_print("alone")
    tl.device_print("whole: ", tl.sum(i, 0))


@triton.jit
def many(x, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_print("v: ", tl.load(x + i).to(tl.int32))


@triton.jit
def pointers(x, B: tl.constexpr):
    tl.device_print("at: ", x + tl.arange(0, B))


@triton.jit
def no_formats(x, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.device_print("50% done ", v)
    tl.device_print("%s %d %% {v} %n", v)
    tl.device_print("C:\\dir 'q'", v)


def printed(fn: Any, count: int, capfd: pytest.CaptureFixture[str]) -> tuple[set[str], Any]:
    x = np.arange(count, dtype=np.float32) / 2
    run(Case(fn, {"x": "*fp32"}, {"B": count}, lambda: [x], num_warps=1))
    return set(capfd.readouterr().out.splitlines()), x


def test_every_format(capfd: pytest.CaptureFixture[str]) -> None:
    lines, _ = printed(everything, 4, capfd)
    at = "pid (0, 0, 0) idx ({}) "
    expected = {"pid (0, 0, 0) alone", "pid (0, 0, 0) idx () whole: 6"}
    for i in range(4):
        many_of_f = [f"f: (operand {k}) {i / 2:.6f}" for k in range(4)]
        wide = [f"wide: (operand 0) {(i - 1) << 40}", f"wide: (operand 1) {((i & 1) << 63) + 5}"]
        said = [f"i8: {i - 3}", f"u8 in hex: 0x{(i - 3) % 256:02x}", f"i16: {i - 3}"]
        expected |= {at.format(i) + text for text in (*many_of_f, *wide, *said, f"bit: {i // 3}")}
    assert lines == expected


def test_indices_have_one_width(capfd: pytest.CaptureFixture[str]) -> None:
    lines, _ = printed(many, 128, capfd)
    assert lines == {f"pid (0, 0, 0) idx ({i:3}) v: {i // 2}" for i in range(128)}


def test_words_are_no_formats(capfd: pytest.CaptureFixture[str]) -> None:
    lines, _ = printed(no_formats, 4, capfd)
    texts = ("50% done", "%s %d %% {v} %n", "C:\\dir 'q'")
    assert lines == {
        f"pid (0, 0, 0) idx ({i}) {text}: {i / 2:.6f}" for i in range(4) for text in texts
    }


def test_pointers(capfd: pytest.CaptureFixture[str]) -> None:
    lines, x = printed(pointers, 4, capfd)
    address = x.ctypes.data
    assert lines == {f"pid (0, 0, 0) idx ({i}) at: 0x{address + 4 * i:x}" for i in range(4)}
