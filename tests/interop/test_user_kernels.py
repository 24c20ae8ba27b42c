"""Kernels of the user's own, run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget.spec import cdiv

#: `n` elements in blocks.
_BLOCKS: dict[str, Any] = {
    "constants": {"BLOCK": 256},
    "grid": lambda c: (cdiv(c.n, c.BLOCK),),
}


@xtarget.kernel(
    inputs=("x", "y"),
    outputs={"out": "x"},
    sizes={"n": lambda c: c.x.size},
    name="test.axpy",
    **_BLOCKS,
)
@triton.jit
def axpy(x, y, alpha, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, alpha * tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@xtarget.kernel(
    inputs=("out",),
    outputs={"y": "out"},
    sizes={"n": lambda c: c.out.size},
    name="test.own_word",
    **_BLOCKS,
)
@triton.jit
def own_word(out, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(out + i, mask=i < n) * 2, mask=i < n)


@xtarget.kernel(
    inputs=("x",),
    outputs={"low": "x", "high": "x"},
    sizes={"n": lambda c: c.x.size},
    name="test.minmax",
    **_BLOCKS,
)
@triton.jit
def minmax(x, limit: tl.int32, low, high, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    value = tl.load(x + i, mask=m)
    tl.store(low + i, tl.minimum(value, limit), mask=m)
    tl.store(high + i, tl.maximum(value, limit), mask=m)


@xtarget.kernel(
    inputs=("x",),
    outputs={"out": "x"},
    sizes={"rows": lambda c: c.x.shape[0], "columns": lambda c: c.x.shape[1]},
    constants={"BLOCK": 32},
    grid=lambda c: (cdiv(c.rows, c.BLOCK), cdiv(c.columns, c.BLOCK)),
    name="test.described",
)
@triton.jit
def described(x, out, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    target.store(at, source.load(at) * 2)


@xtarget.kernel(
    inputs=("x",),
    outputs={"out": "x"},
    constants={"N": 16384},
    grid=lambda c: (1,),
    num_warps=64,
    name="test.too_many_threads",
)
@triton.jit
def too_many_threads(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i))


@xtarget.kernel(
    inputs=("x",),
    outputs={"out": lambda c: (c.x.shape, "int32")},
    constants={"BLOCK": 32},
    grid=lambda c: (1,),
    name="test.truth",
)
@triton.jit
def truth(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    here, behind = tl.load(x + i), tl.load(x + (i + 1) % BLOCK)
    value = here.to(tl.int32) + 2 * (here ^ behind).to(tl.int32) + 4 * tl.where(~here, 1, 0)
    tl.store(out + i, value + 8 * tl.load(x + 3).to(tl.int32))


def test_a_loaded_bool_is_whether_its_byte_is_not_zero(device: str) -> None:
    """Triton's own meaning of a load of bits, on every target: a byte that is not 0, and no bit."""
    x = np.tile(np.array([0, 1, 2, 255, 128, 0, 254, 64], np.uint8), 4).view(bool)
    here = x.view(np.uint8) != 0
    right = here + 2 * (here ^ np.roll(here, -1)) + 4 * ~here + 8
    np.testing.assert_array_equal(xtarget.run("test.truth", x, device=device), right)


def test_scalars_may_change_from_call_to_call(device: str) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    for alpha in (2.0, -1.5, 0.0):
        result = xtarget.run("test.axpy", x, y, alpha)
        np.testing.assert_array_equal(result, np.float32(alpha) * x + y)
    with pytest.raises(xtarget.ArgumentError, match="takes 3 arguments"):
        xtarget.run("test.axpy", x, y)


def test_an_input_with_the_name_of_a_calls_own_word_is_given_at_its_place(device: str) -> None:
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run("test.own_word", x), x * 2)
    with pytest.raises(xtarget.ArgumentError, match=r"own word of each call: .* at its place"):
        xtarget.run("test.own_word", out=x)


def test_several_outputs_are_a_tuple(device: str) -> None:
    x = np.arange(1000, dtype=np.int32)
    low, high = xtarget.run("test.minmax", x, 500)
    np.testing.assert_array_equal(low, np.minimum(x, 500))
    np.testing.assert_array_equal(high, np.maximum(x, 500))
    with pytest.raises(xtarget.ArgumentError, match=r"2 outputs. Give out=\(low, high\)"):
        xtarget.run("test.minmax", x, 500, out=np.empty_like(x))
    for out in ((low * 0, high * 0), {"high": high * 0, "low": low * 0}):
        assert xtarget.run("test.minmax", x, 500, out=out) is out
        given = out if isinstance(out, tuple) else (out["low"], out["high"])
        np.testing.assert_array_equal(given, (low, high))
    with pytest.raises(xtarget.ArgumentError, match="which it writes to, overlaps argument"):
        xtarget.run("test.minmax", x, 500, out=(x, high))
    with pytest.raises(xtarget.ArgumentError, match="an output 'low' too"):
        xtarget.run("test.minmax", x, 500, out={"high": high})
    for wrong, said in (
        ((None, high), r"out\['low'\] is None, which cannot be written to"),
        ({"low": low, "high": 3}, r"out\['high'\] is 3, which cannot"),
        ((low, "high"), r"out\['high'\] is 'high', which cannot"),
        ("low", "out is 'low', which cannot be written to. Give an array"),
    ):
        for call in (xtarget.get("test.minmax"), xtarget.get("test.minmax").prepare):
            with pytest.raises(xtarget.ArgumentError, match=said):
                call(x, 500, out=wrong)


@pytest.mark.parametrize("shape", [(64, 96), (40, 100)])
def test_a_kernel_gets_the_global_scratch_that_it_asks_for(
    device: str, shape: tuple[int, int]
) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    for _ in range(3):
        np.testing.assert_array_equal(xtarget.run("test.described", x), x * 2)
    target = xtarget.device(device).info.target
    (artifact,) = xtarget.compile("test.described", x, target=target)
    if str(target) == "nvidia:sm_90":  # where descriptors live in memory
        assert artifact.global_scratch.nbytes > 0


def test_a_block_that_does_not_fit_says_both_numbers_and_what_to_change(device: str) -> None:
    info: Any = xtarget.device(device).info
    needs = 64 * info.warp_size
    if needs <= info.max_threads_per_block:
        pytest.skip(f"{info.name} takes blocks of {info.max_threads_per_block} threads")
    x = np.ones(16384, np.float32)
    with pytest.raises(xtarget.XTargetError) as caught:
        xtarget.run("test.too_many_threads", x)
    assert "num_warps" in str(caught.value)


@xtarget.kernel(
    inputs=("x", "y"),
    outputs={"out": "x"},
    sizes={"n": lambda c: c.x.size},
    constants={"BLOCK": 64},
    grid=lambda c: (cdiv(c.n, c.BLOCK),),
    elementwise=True,
    name="test.total",
)
@triton.jit
def total(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def test_an_elementwise_kernel_reads_no_array_past_its_end(device: str) -> None:
    x = np.ones(100, np.float32)
    np.testing.assert_array_equal(xtarget.run("test.total", x, x, device=device), x + x)
    for y in (x[:7], np.ones((2, 100), np.float32)):
        with pytest.raises(xtarget.ArgumentError, match="declared elementwise, and y has shape"):
            xtarget.run("test.total", x, y, device=device)
