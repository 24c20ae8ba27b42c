"""Rules that authors of Triton's kernels take for granted: strides of a function without
annotations, heuristics that decide what the caller or a constant gives, functions for names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget.spec import In, Out, Stride

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402


@triton.jit
def shifted(x, out, M, N, row, column, out_row, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + m * row + i * column, i < N)
    tl.store(out + m * out_row + i, v + SHIFT, i < N)


SHIFTED: dict[str, Any] = {
    "inputs": {"x": In["float32", "M", "N"]},
    "outputs": {"out": "x"},
    "flags": {"SHIFT": 1},
    "constants": {"BLOCK": 16},
    "grid": "M",
}
STRIDES = {"row": Stride["x", 0], "column": Stride["x", 1], "out_row": Stride["out", 0]}


def test_sizes_are_strides_of_a_function_without_annotations(device: str) -> None:
    xtarget.kernel(name="test.shifted", sizes=STRIDES, **SHIFTED)(shifted)
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    for view in (x, x[:, ::2], x[::2], x.T):
        np.testing.assert_array_equal(xtarget.run("test.shifted", view), view + 1)
    assert (xtarget.run("test.shifted", x, SHIFT=3) == x + 3).all()


def test_a_dimension_without_a_stride_among_the_sizes_is_contiguous(device: str) -> None:
    sizes = {"row": Stride["x", 0], "column": lambda c: 1, "out_row": "N"}
    xtarget.kernel(name="test.rows", sizes=sizes, **SHIFTED)(shifted)
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    np.testing.assert_array_equal(xtarget.run("test.rows", x[::2]), x[::2] + 1)
    with pytest.raises(xtarget.ArgumentError, match=r'Stride\["x", 1\]'):
        # of the device's own arrays: those of the host are copied, and copies have no gaps
        xtarget.run("test.rows", xtarget.asarray(x, device=device)[:, ::2])


@pytest.mark.parametrize(
    ("stride", "says"),
    [
        (Stride["y", 0], r"its parameter 'row' .* is Stride\[\"y\", 0\], and 'y' is none of its"),
        (Stride["x", 2], "and x has 2 dimensions"),
    ],
)
def test_sizes_that_are_strides_of_nothing(stride: Any, says: str) -> None:
    sizes = {**STRIDES, "row": stride}
    with pytest.raises(xtarget.ArgumentError, match=says):
        xtarget.kernel(name="test.shifted", sizes=sizes, **SHIFTED)(shifted)


FACTOR = 1


@triton.heuristics({"CAP": lambda a: bool(a["CAP"]), "TIMES": lambda a: a["TIMES"] * FACTOR})
@triton.jit
def capped(x, out, N, CAP: tl.constexpr, LIMIT: tl.constexpr, TIMES: tl.constexpr):
    i = tl.arange(0, 16)
    v = tl.load(x + i, i < N) * TIMES
    if CAP:
        v = tl.minimum(v, LIMIT)
    tl.store(out + i, v, i < N)


CAPPED: dict[str, Any] = {
    "inputs": {"x": In["float32", "N"]},
    "outputs": {"out": Out["x"]},
    "grid": "1",
}


def test_a_heuristic_decides_from_the_flag_that_the_caller_gives(device: str) -> None:
    """As in Triton, where it sees the argument of its own name and replaces it."""
    flags = {"CAP": 0.0, "LIMIT": 0.0, "TIMES": 1}  # a float is no condition in a kernel
    xtarget.kernel(name="test.capped", flags=flags, **CAPPED)(capped)
    x = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run("test.capped", x), x)
    np.testing.assert_array_equal(
        xtarget.run("test.capped", x, CAP=5.0, LIMIT=5.0), np.minimum(x, 5)
    )
    np.testing.assert_array_equal(xtarget.run("test.capped", x, TIMES=2), 2 * x)


def test_a_heuristic_decides_from_the_constant_of_its_name(device: str) -> None:
    given: dict[str, Any] = {
        "flags": {"LIMIT": 8.0},
        "constants": {"CAP": lambda c: c.LIMIT, "TIMES": "next_power_of_2(3)"},
    }
    xtarget.kernel(name="test.from_constants", **given, **CAPPED)(capped)
    x = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run("test.from_constants", x), np.minimum(4 * x, 8))
    np.testing.assert_array_equal(xtarget.run("test.from_constants", x, LIMIT=0.0), 4 * x)


@pytest.mark.parametrize("part", ["flags", "constants"])
def test_what_such_a_heuristic_reads_may_change(
    device: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"CAP": 0, "TIMES": 1, "LIMIT": 0.0}
    xtarget.kernel(name="test.capped", **{part: given}, **CAPPED)(capped)
    x = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run("test.capped", x), x)
    monkeypatch.setattr(f"{__name__}.FACTOR", 3)
    np.testing.assert_array_equal(xtarget.run("test.capped", x), 3 * x)


def test_a_heuristic_of_what_nothing_gives_is_told(device: str) -> None:
    xtarget.kernel(name="test.capped", flags={"LIMIT": 0.0, "CAP": 0}, **CAPPED)(capped)
    with pytest.raises(
        xtarget.ArgumentError, match=r"heuristic of 'TIMES' asks for TIMES itself.*flags="
    ):
        xtarget.run("test.capped", np.ones(3, np.float32))


def test_a_function_in_the_place_of_a_name_is_told_its_names() -> None:
    @triton.jit
    def copied(x, out, N):
        tl.store(out + tl.program_id(0), tl.load(x + tl.program_id(0)))

    x, spec = np.ones(3, np.float32), {"inputs": ("x",), "outputs": {"out": "x"}, "grid": "N"}
    call: Any = xtarget.run
    with pytest.raises(xtarget.UnknownKernelError, match=r"Register a function with @xtarget"):
        call(copied, x)
    xtarget.kernel(name="test.copied", sizes={"N": "x.size"}, **spec)(copied)
    with pytest.raises(xtarget.UnknownKernelError, match=r"This one is 'test.copied': pass that"):
        call(copied, x)
    xtarget.kernel(name="test.copied2", sizes={"N": "x.size"}, **spec)(copied)
    with pytest.raises(xtarget.UnknownKernelError, match=r"'test.copied2': pass one of these"):
        call(copied, x)


@triton.heuristics(
    {
        "INNER": lambda a: tl.float32 if a["INNER"] == tl.float64 else a["INNER"],
        "WIDE": lambda a: a["INNER"] == tl.float32,
    }
)
@triton.jit
def through(x, out, N, INNER: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, 16)
    v = tl.load(x + i, i < N).to(INNER).to(tl.float32)
    tl.store(out + i, v if WIDE else -v, i < N)


@pytest.mark.parametrize(
    ("given", "inner"),
    [(tl.float16, "float16"), (tl.float32, "float32"), (tl.float64, "float32")],
)
def test_heuristics_see_a_flag_that_is_an_element_type_as_one(
    device: str, given: Any, inner: str
) -> None:
    xtarget.kernel(
        name="test.through",
        inputs=["x"],
        outputs={"out": "x"},
        sizes={"N": lambda c: c.x.size},
        flags={"INNER": tl.float32},
        grid=lambda c: 1,
    )(through)
    x = np.full(5, 1 + 2**-20, np.float32)
    want = x if inner == "float32" else -x.astype(inner).astype(np.float32)
    np.testing.assert_array_equal(xtarget.run("test.through", x, INNER=given), want)


@triton.jit
def rounded(x, out, kind: tl.constexpr, STEP: tl.constexpr):
    tl.store(out + tl.program_id(0), (tl.load(x + tl.program_id(0)) * STEP).to(kind))


def test_rules_compare_dtypes_with_those_of_numpy_and_triton(device: str) -> None:
    xtarget.kernel(
        name="test.rounded",
        inputs={"x": In["floating", "N"]},
        outputs={"out": lambda c: ((c.N,), "int8" if c.kind == tl.int8 else c.x.dtype)},
        flags={"kind": tl.int8},
        constants={"STEP": lambda c: 1 if c.x.dtype == np.float16 else 2},
        grid="N",
    )(rounded)
    x = np.array([1.5, 3.0], np.float32)
    for given, dtype, right in (
        (tl.int8, np.float32, np.array([3, 6], np.int8)),
        (tl.float32, np.float32, 2 * x),
        (tl.float16, np.float16, x.astype(np.float16)),
    ):
        found = xtarget.run("test.rounded", x.astype(dtype), kind=given)
        assert found.dtype == right.dtype
        np.testing.assert_array_equal(found, right)
