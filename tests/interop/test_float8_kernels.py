"""Users' kernels that take and give floats of 8 bits."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

import numpy as np
import pytest
import triton
import triton.language as tl

import xtarget
from xtarget._arrays.dtypes import numpy_dtype
from xtarget.spec import In, Out

torch = pytest.importorskip("torch")
EIGHT = ("float8_e4m3fn", "float8_e5m2")


@xtarget.kernel(grid="cdiv(N, BLOCK)", constants={"BLOCK": 128}, name="f8.scaled")
@triton.jit
def scaled(
    x: In["float8_e4m3fn|float8_e5m2", "N"], s, out: Out["float32", "N"], N, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < N)
    tl.store(out + i, value.to(tl.float32) * s, mask=i < N)


@xtarget.kernel(grid="cdiv(N, BLOCK)", constants={"BLOCK": 128}, name="f8.narrowed")
@triton.jit
def narrowed(
    x: In["floating", "N"], out: Out["KIND", "N"], N,
    KIND: tl.constexpr = tl.float8e4nv, BLOCK: tl.constexpr = 128,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < N).to(tl.float32).to(KIND), mask=i < N)


@pytest.mark.parametrize("dtype", EIGHT)
@pytest.mark.usefixtures("a_cpu")
def test_a_kernel_reads_and_writes_them(dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    kind = getattr(torch, dtype)
    for x in (codes.view(numpy_dtype(dtype)), torch.from_numpy(codes).view(kind)):
        found = np.asarray(xtarget.run("f8.scaled", x, 2.0, device="cpu"))
        np.testing.assert_array_equal(found, codes.view(numpy_dtype(dtype)).astype(np.float32) * 2)
    wide = torch.randn(1000) * 50
    found = xtarget.run("f8.narrowed", wide, KIND=kind)
    assert found.dtype == kind
    assert torch.equal(found.view(torch.uint8), wide.to(kind).view(torch.uint8))
    assert xtarget.run("f8.narrowed", wide).dtype == torch.float8_e4m3fn
    with pytest.raises(
        xtarget.ArgumentError, match=r"does not take float8.*Cast it to float16 fir"
    ):
        xtarget.run("f8.narrowed", found)


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        ("nvidia:sm_90", "float8_e4m3fn"),
        ("amd:gfx942", "float8_e5m2"),
        pytest.param("nvidia:sm_90", "float8_e5m2", marks=pytest.mark.long),
        pytest.param("amd:gfx942", "float8_e4m3fn", marks=pytest.mark.long),
        pytest.param("intel:spirv64", "float8_e4m3fn", marks=pytest.mark.long),
    ],
)
def test_they_compile_for_other_targets(target: str, dtype: str) -> None:
    x = np.ones(100, numpy_dtype(dtype))
    for made in (
        xtarget.compile("f8.scaled", x, 2.0, target=target),
        xtarget.compile("f8.narrowed", np.ones(100, np.float32), KIND=dtype, target=target),
        xtarget.compile("cast", x, dtype="float32", target=target),
        xtarget.compile("cast", np.ones(100, np.float64), dtype=dtype, target=target),
    ):
        assert made[0].binary
