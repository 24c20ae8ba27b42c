"""Kernels of users' kinds give NumPy's results on every emulated arch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import ARCHS, SHORT_ARCHS, by_arch, compiled, run

_BLOCK = (("block", 256),)


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _floats(*shape: int) -> Any:
    return _rng().standard_normal(shape).astype(np.float32)


def _attention(arch: str, dtype: Any, text: str) -> None:
    m, n, d = 16, 64, 32
    q, k, v = (_rng().standard_normal((r, d)).astype(dtype) for r in (m, n, n))
    code = compiled(
        "attention",
        f"q:*{text} k:*{text} v:*{text} o:*fp32 scale:fp32 n:i32",
        arch,
        constants=(("d", d), ("m", m), ("bn", 32)),
    )
    out = run(code, (1,), q, k, v, np.zeros((m, d), np.float32), 0.17, n)[3]
    score = q.astype(np.float64) @ k.astype(np.float64).T * np.float32(0.17)
    power = np.exp(score - score.max(1, keepdims=True))
    right = power @ v.astype(np.float64) / power.sum(1, keepdims=True)
    np.testing.assert_allclose(out, right, atol=3e-6 if text == "fp32" else 4e-3)


def attention_fp32(arch: str) -> None:
    _attention(arch, np.float32, "fp32")


def attention_fp16(arch: str) -> None:
    _attention(arch, np.float16, "fp16")


def argmax(arch: str) -> None:
    x = _floats(5, 200)
    code = compiled("argmax", "x:*fp32 o:*i32 n:i32", arch, constants=_BLOCK)
    out = run(code, (5,), x, np.zeros(5, np.int32), 200)[1]
    np.testing.assert_array_equal(out, x.argmax(1))


def sort(arch: str) -> None:
    x = _floats(256)
    out = run(compiled("sort", "x:*fp32 o:*fp32", arch, constants=_BLOCK), (1,), x, x * 0)[1]
    np.testing.assert_array_equal(out, np.sort(x))


def cumsum(arch: str) -> None:
    x = _rng().integers(-50, 50, 256).astype(np.int32)
    out = run(compiled("cumsum", "x:*i32 o:*i32", arch, constants=_BLOCK), (1,), x, x * 0)[1]
    np.testing.assert_array_equal(out, np.cumsum(x))


def atomics(arch: str) -> None:
    x = _rng().integers(-50, 50, 512).astype(np.int32)
    code = compiled("atomics", "x:*i32 o:*i32", arch, constants=_BLOCK)
    out = run(code, (2,), x, np.zeros(17, np.int32))[1]
    right = np.zeros(17, np.int32)
    np.add.at(right, np.abs(x) % 8, x)
    np.maximum.at(right, 8 + np.abs(x) % 8, np.abs(x))
    right[16] = 7
    np.testing.assert_array_equal(out, right)


def atomics_float(arch: str) -> None:
    x = _floats(512)
    code = compiled("atomics_float", "x:*fp32 o:*fp32", arch, constants=_BLOCK)
    out = run(code, (2,), x, np.zeros(4, np.float32))[1]
    np.testing.assert_allclose(out, x.reshape(-1, 4).sum(0, dtype=np.float64), atol=1e-4)


def dropout(arch: str) -> None:
    x = np.ones(512, np.float32)
    code = compiled("dropout", "x:*fp32 o:*fp32 seed:i32 p:fp32", arch, constants=_BLOCK)
    out = run(code, (2,), x, x * 0, 123, 0.25)[1]
    np.testing.assert_array_equal(out, np.where(_philox(123, 512) > 0.25, np.float32(1 / 0.75), 0))


def _philox(seed: int, count: int) -> Any:
    """Philox 4x32-10 and Triton's way from bits to [0, 1)."""
    mask = 0xFFFFFFFF
    c = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    k0, k1 = seed, 0
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        low, high = np.uint64(mask), np.uint64(32)
        c = [
            (b >> high) ^ c[1] ^ np.uint64(k0),
            b & low,
            (a >> high) ^ c[3] ^ np.uint64(k1),
            a & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    bits = c[0].astype(np.uint32).view(np.int32)
    bits = np.where(bits < 0, -bits - 1, bits)
    return bits.astype(np.float32) * np.float32(4.6566127342e-10)


def integer_division(arch: str) -> None:
    rng = _rng()
    x = rng.integers(-(2**31), 2**31, 256).astype(np.int32)
    y = rng.integers(1, 2**20, 256).astype(np.int32) * rng.choice([-1, 1], 256).astype(np.int32)
    code = compiled("divmod", "x:*i32 y:*i32 q:*i32 r:*i32", arch, constants=_BLOCK)
    q, r = run(code, (1,), x, y, x * 0, x * 0)[2:]
    right = np.trunc(x.astype(np.float64) / y).astype(np.int64)  # as C, not as Python
    np.testing.assert_array_equal(q, right)
    np.testing.assert_array_equal(r, x - right * y)


def transpose(arch: str) -> None:
    x = _floats(32, 64)
    code = compiled("transpose", "x:*fp32 o:*fp32", arch, constants=(("m", 32), ("n", 64)))
    np.testing.assert_array_equal(run(code, (1,), x, np.zeros((64, 32), np.float32))[1], x.T)


def gather(arch: str) -> None:
    x, index = _floats(256), _rng().permutation(256).astype(np.int32)
    code = compiled("gather", "x:*fp32 index:*i32 o:*fp32", arch, constants=_BLOCK)
    np.testing.assert_array_equal(run(code, (1,), x, index, x * 0)[2], x[index])


def histogram(arch: str) -> None:
    x = _rng().integers(0, 16, 256).astype(np.int32)
    code = compiled("histogram", "x:*i32 o:*i32", arch, constants=_BLOCK)
    out = run(code, (1,), x, np.zeros(16, np.int32))[1]
    np.testing.assert_array_equal(out, np.bincount(x, minlength=16))


def _product(arch: str, text: str, dtype: Any, kind: str, size: int = 32) -> None:
    import triton.language as tl

    m, n, k = size, size, 64
    stored: Any = dtype if text not in _EIGHT else np.uint8  # NumPy's own have no other way in
    if text == "i8":
        a, b = (_rng().integers(-128, 128, s).astype(dtype) for s in ((m, k), (k, n)))
    else:
        a, b = (_rng().standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
    code = compiled(
        "product",
        f"a:*{text} b:*{text} o:*{kind}",
        arch,
        constants=(("m", m), ("n", n), ("k", k), ("kind", getattr(tl, _LONG[kind]))),
    )
    out_type = {"i32": np.int32, "fp32": np.float32, "fp64": np.float64, "fp16": np.float16}[kind]
    out = run(code, (1,), a.view(stored), b.view(stored), np.zeros((m, n), out_type))[2]
    right = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = {"i32": 0, "fp64": 1e-12, "fp32": 2e-4, "fp16": 5e-2}[kind]
    np.testing.assert_allclose(out.astype(np.float64), right, atol=tolerance, rtol=0)


_LONG = {"i32": "int32", "fp32": "float32", "fp64": "float64", "fp16": "float16"}


def product_fp16(arch: str) -> None:
    _product(arch, "fp16", np.float16, "fp32")


def product_fp16_to_fp16(arch: str) -> None:
    _product(arch, "fp16", np.float16, "fp16")


def product_bf16(arch: str) -> None:
    _product(arch, "bf16", ml_dtypes.bfloat16, "fp32", 64)


def product_int8(arch: str) -> None:
    _product(arch, "i8", np.int8, "i32")


def product_fp32(arch: str) -> None:
    _product(arch, "fp32", np.float32, "fp32")


def product_fp64(arch: str) -> None:
    _product(arch, "fp64", np.float64, "fp64")


#: Triton's 8-bit floats. gfx942 multiplies the last two, gfx950 and gfx1201 the first two; the
#: others are converted first.
_EIGHT = {
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
}


def products_fp8(arch: str) -> None:
    for text, dtype in _EIGHT.items():
        _product(arch, text, dtype, "fp32")


def atomics_of_halves(arch: str) -> None:
    for text, dtype in (("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        x = _rng().integers(-5, 5, 256).astype(dtype)
        code = compiled("pairs", f"x:*{text} o:*{text}", arch, constants=_BLOCK)
        out = run(code, (1,), x, np.zeros(128, dtype))[1]
        right = x.astype(np.float64).reshape(-1, 2).sum(1)
        np.testing.assert_array_equal(out.astype(np.float64), right)


def spills(arch: str) -> None:
    m = k = 128 if arch.startswith("gfx9") else 64  # those have twice the lanes and the registers
    x = _floats(2 * m, k) * np.float32(0.1)
    code = compiled("many_values", "x:*fp32 o:*fp32 n:i32", arch, 1, (("m", m), ("k", k)))
    assert code.resources.spilled_registers > 100
    assert code.resources.local_bytes > 200
    out = run(code, (1,), x, np.zeros((m, k), np.float32), 3)[1]
    a, b, s = x[:m].astype(np.float64), x[m:].astype(np.float64), np.zeros(m)
    for _ in range(3):
        a = a * 1.5 + b
        b = b * 0.25 + a
        s = s + (a * b).sum(1)
    np.testing.assert_allclose(out, a + b + s[:, None], rtol=1e-6)


CASES = (
    attention_fp32,
    attention_fp16,
    argmax,
    sort,
    cumsum,
    atomics,
    atomics_float,
    dropout,
    integer_division,
    transpose,
    gather,
    histogram,
    product_fp16,
    product_fp16_to_fp16,
    product_bf16,
    product_int8,
    product_fp32,
    product_fp64,
    products_fp8,
    atomics_of_halves,
    spills,
)


def _is_short(case: Any, arch: str) -> bool:
    """The matrix units of all archs are in the short tier."""
    return arch in SHORT_ARCHS or case.__name__.startswith("product_")


@pytest.mark.sample(3, each=("case", "arch"))
@pytest.mark.parametrize(("case", "arch"), by_arch(CASES, _is_short))
def test_a_users_kernel_gives_numpys_result(case: Any, arch: str) -> None:
    case(arch)


@pytest.mark.sample(3, each=("operation", "dtype", "arch"))
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("operation", ["max", "min"])
def test_atomics_that_compare_at_shared_addresses(arch: str, dtype: Any, operation: str) -> None:
    """Triton 3.6 to 3.9 merges the lanes that meet in one place on gfx942 and gfx950, and compares
    signed values as unsigned ones there; targets/amd/signed_atomics.py."""
    x = _rng().integers(-50, 50, 256).astype(dtype)
    letter = {"int32": "i32", "int64": "i64", "uint32": "u32"}[np.dtype(dtype).name]
    signature = f"x:*{letter} o:*{letter} old:*{letter}"
    code = compiled(f"atomic_{operation}_of_all", signature, arch, constants=_BLOCK)
    start = np.zeros(8, dtype)
    _, out, old = run(code, (1,), x, start.copy(), np.zeros_like(x))
    place = np.arange(256) % 8
    right = start.copy()
    getattr(np, f"{operation}imum").at(right, place, x)
    np.testing.assert_array_equal(out, right)
    # each lane got a value that the place had at some time, and some lane the first one
    for here in range(8):
        assert set(old[place == here].tolist()) <= {0, *x[place == here].tolist()}
        assert 0 in old[place == here]


@pytest.mark.parametrize("arch", ARCHS)
def test_blocks_know_their_place_and_the_size_of_the_grid(arch: str) -> None:
    grid = (3, 2, 4)
    path = Path(__file__).parents[1] / "conformance" / "conformance_kernels.py"
    code = compiled("write_grid", "out:*i32", arch, path=path)
    out = run(code, grid, np.zeros((4, 2, 3, 6), np.int32))[0]
    for z, y, x in np.ndindex(4, 2, 3):
        assert out[z, y, x].tolist() == [x, y, z, *grid]
