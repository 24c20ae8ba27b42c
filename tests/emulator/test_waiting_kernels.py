"""Locks, calls, small floats: NumPy's results on every emulated arch."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness
import machine
import ml_dtypes
import numpy as np
import pytest
from harness import ARCHS, run

import xtarget

_FILE = Path(__file__).with_name("waiting_kernels.py")
_OLD_TRITON = tuple(map(int, version("triton").split(".")[:2])) < (3, 9)
_SHORT = ("gfx1100", "gfx942")
_KINDS: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
}


def _compiled(name: str, signature: str, arch: str, num_warps: int = 4, **constants: Any) -> Any:
    try:
        return harness.compiled(
            name, signature, arch, num_warps, tuple(constants.items()), path=_FILE
        )
    except xtarget.CompileError as error:
        if not _OLD_TRITON:
            raise
        pytest.skip(f"Triton {version('triton')} does not compile it: {error}")


def _rng() -> np.random.Generator:
    return np.random.default_rng(23)


def _archs(*short: str) -> list[Any]:
    return [pytest.param(a, marks=() if a in short else pytest.mark.long) for a in ARCHS]


# ------------------------------------------------------------------------------- scaled products


def _operand(rng: np.random.Generator, kind: str, rows: int, k: int) -> tuple[Any, Any, int, str]:
    """Stored form (rows x k), values, elements in a stored one, Triton's type."""
    if kind == "bf16":
        values = rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16)
        return values, values.astype(np.float64), 1, "bf16"
    largest = 16 if kind == "e2m1" else 120  # below the infinities and NaN
    codes = rng.integers(0, largest, (rows, k)).astype(np.uint8)
    values = codes.view(_KINDS[kind]).astype(np.float64)
    if kind == "e2m1":
        return codes[:, ::2] | codes[:, 1::2] << 4, values, 2, "u8"
    return codes, values, 1, "u8"


def _scaled(arch: str, a_kind: str, b_kind: str, no_number: bool = False) -> None:
    m = n = 32
    k, rng = 128, _rng()
    a, a_values, a_pack, a_text = _operand(rng, a_kind, m, k)
    b, b_values, b_pack, b_text = _operand(rng, b_kind, n, k)
    scales = [rng.integers(122, 131, (m, k // 32)).astype(np.uint8) for _ in range(2)]
    if no_number:
        scales[0][3, 1] = scales[1][5, 2] = 255
    factors = []
    for kind, scale in zip((a_kind, b_kind), scales, strict=True):
        factor = np.where(scale == 255, np.nan, 2.0 ** (scale.astype(np.float64) - 127))
        factors.append(np.repeat(factor, 32, 1) if kind != "bf16" else 1.0)
    code = _compiled(
        "scaled", f"a:*{a_text} a_scale:*u8 b:*{b_text} b_scale:*u8 o:*fp32", arch,
        m=m, n=n, k=k, a_kind=a_kind, b_kind=b_kind, a_pack=a_pack, b_pack=b_pack,
    )  # fmt: skip
    b_stored = np.ascontiguousarray(b.T)
    out = run(code, (1,), a, scales[0], b_stored, scales[1], np.zeros((m, n), np.float32))[4]
    right = (a_values * factors[0]) @ (b_values * factors[1]).T
    size = np.nanmax(np.abs(right))
    # archs without such a product round the scaled operands to bf16
    np.testing.assert_allclose(out / size, right / size, atol=1e-6 if arch == "gfx950" else 4e-3)
    assert np.isnan(right).any() == no_number


_PAIRS = [(a, b) for a in _KINDS for b in _KINDS if (a, b) != ("bf16", "bf16")]


@pytest.mark.sample(3, each=("arch", "a", "b"))
@pytest.mark.parametrize(
    ("arch", "a", "b"),
    [
        pytest.param(
            arch, a, b,
            marks=() if arch == "gfx950" or (arch in _SHORT and a == "e2m1") else pytest.mark.long,
        )
        for arch in ARCHS
        for a, b in _PAIRS
    ],
)  # fmt: skip
def test_a_product_of_scaled_operands(arch: str, a: str, b: str) -> None:
    _scaled(arch, a, b)


@pytest.mark.parametrize("arch", _archs("gfx950", "gfx942"))
def test_a_scale_that_is_no_number_makes_its_row_and_column_none(arch: str) -> None:
    _scaled(arch, "e4m3", "e2m1", no_number=True)


# --------------------------------------------------------------------------- blocks that wait


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("arch", _archs(*_SHORT))
def test_blocks_that_take_a_lock_go_one_after_the_other(arch: str, num_warps: int) -> None:
    blocks = 24
    code = _compiled("one_at_a_time", "lock:*i32 o:*i32", arch, num_warps)
    lock, out = run(code, (blocks,), np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert out[0] == blocks * (blocks + 1) // 2
    assert lock[0] == 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("arch", _archs(*_SHORT))
def test_blocks_that_wait_for_all_of_the_grid(arch: str) -> None:
    blocks, size = 40, 128  # more than are stepped together
    code = _compiled("all_together", "arrived:*i32 x:*i32 o:*i32", arch, block=size)
    x = np.zeros((blocks, size), np.int32)
    out = run(code, (blocks,), np.zeros(1, np.int32), x, x)[2]
    right = np.arange(blocks)[:, None] * 1000 + np.arange(size)
    np.testing.assert_array_equal(out, np.roll(right, -1, axis=0))


# ---------------------------------------------------------------------------------------- others


@pytest.mark.parametrize("arch", _archs(*_SHORT))
def test_functions_that_are_not_inlined(arch: str) -> None:
    x, y = (_rng().standard_normal((3, 256)).astype(np.float32) for _ in range(2))
    code = _compiled("calls", "x:*fp32 y:*fp32 o:*fp32", arch, block=256)
    out = run(code, (3,), x, y, np.zeros(3, np.float32))[2]
    dot, square = ((x.astype(np.float64) * v).sum(1) for v in (y, x))
    right = dot * 1.5 + x.max(1) - y.max(1) + square + x.max(1)
    np.testing.assert_allclose(out, right, rtol=1e-5)


@pytest.mark.parametrize("arch", _archs(*_SHORT))
@pytest.mark.parametrize("kind", ["fp8e4nv", "fp8e5"])
def test_half_precision_beside_a_cast_to_8_bits(arch: str, kind: str) -> None:
    x = (_rng().standard_normal(256) * 30).astype(np.float16)
    code = _compiled("eight_bits_and_halves", f"x:*fp16 small:*{kind} o:*fp16", arch, block=256)
    _, small, out = run(code, (1,), x, np.zeros(256, np.uint8), x * 0)
    dtype = {"fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2}[kind]
    np.testing.assert_array_equal(small, x.astype(dtype).view(np.uint8))
    right = x.astype(np.float64) * 1.5 + 0.25
    np.testing.assert_allclose(out.astype(np.float64), right, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("arch", ARCHS)
def test_pairs_of_4_bits_are_unpacked(arch: str) -> None:
    x = np.arange(256, dtype=np.uint8)
    code = _compiled("unpacked_four_bits", "x:*u8 o:*bf16", arch, block=256)
    out = run(code, (1,), x, np.zeros(512, ml_dtypes.bfloat16))[1].astype(np.float32)
    pairs = np.stack([x & 15, x >> 4], -1).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    np.testing.assert_array_equal(out, pairs.reshape(-1))


@pytest.mark.parametrize("arch", ARCHS)
def test_a_clamp_of_nan_gives_a_bound(arch: str) -> None:
    x = _rng().standard_normal(256).astype(np.float32) * 3
    x[::7] = np.nan
    low, high = np.full(256, -1, np.float32), np.full(256, 2, np.float32)
    code = _compiled("clamped", "x:*fp32 low:*fp32 high:*fp32 o:*fp32", arch, block=256)
    out = run(code, (1,), x, low, high, x * 0)[3]
    there = ~np.isnan(x)
    np.testing.assert_array_equal(out[there], np.clip(x, -1, 2)[there])
    assert set(out[~there].tolist()) <= {-1.0, 2.0}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("arch", ARCHS)
def test_an_atomic_on_the_last_half_of_a_buffer_of_odd_length(arch: str, n: int) -> None:
    code = _compiled("last_half", "o:*fp16 n:i32", arch)
    out = run(code, (1,), np.zeros(n, np.float16), n)[0]
    np.testing.assert_array_equal(out, [*[0] * (n - 1), 3])


@pytest.mark.parametrize("arch", _archs(*_SHORT))
def test_a_product_of_four_columns(arch: str) -> None:
    m, n, k = 64, 4, 64
    a, b = (_rng().standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    code = _compiled("narrow_product", "a:*fp32 b:*fp32 o:*fp32", arch, 1, m=m, n=n, k=k)
    out = run(code, (1,), a, b, np.zeros((m, n), np.float32))[2]
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_what_is_not_executed_says_so_when_it_is_reached() -> None:
    arch, w = "gfx1100", machine.wave("gfx1100")
    machine.put(w, {1: np.ones(1, np.float32)})
    code = machine.encoded(arch, "v_cubeid_f32", "v0", "v1", "v1", "v1")
    with pytest.raises(
        xtarget.UnsupportedInstruction,
        match=r"does not execute v_cubeid_f32 at 0x0 of gfx1100",
    ):
        machine.execute(arch, w, code)
