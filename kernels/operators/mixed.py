"""Products with matrices of few bits, and with one matrix for each part of the rows; blocks of
numbers that share a power of two.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import mixed as plans
from .row import row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _linear(x: Any, q: Any, scales: Any, zeros: Any, zero: int) -> Any:
    import numpy as np

    zeros = np.full(np.shape(scales), zero) if zeros is None else np.asarray(zeros)
    groups = scales.shape[1] if scales.ndim == 2 else 1
    form = (q.shape[0], groups, -1)
    wide = q.astype(np.float64).reshape(form) - zeros.reshape(*form[:2], 1)
    return x @ (wide * np.reshape(scales, (*form[:2], 1))).reshape(q.shape).T


def _int8(x: Any, weight: Any, scales: Any, zeros: Any = None) -> Any:
    return _linear(x, weight, scales, zeros, 128 if weight.dtype == "uint8" else 0)


def _int4(x: Any, weight: Any, scales: Any, zeros: Any = None) -> Any:
    import numpy as np

    both = np.stack([weight & 15, weight >> 4], -1).reshape(len(weight), -1)
    return _linear(x, both[:, : x.shape[-1]], scales, zeros, 8)


def _grouped(x: Any, weight: Any, starts: Any) -> Any:
    import numpy as np

    out = np.zeros((len(x), weight.shape[2]))
    places = np.clip(np.asarray(starts).astype(np.int64), 0, len(x))
    for part, (first, last) in enumerate(itertools.pairwise(places)):
        out[first:last] = x[first:last] @ weight[part]
    return out


def _number(np: Any, bits: Any, kind: str) -> Any:
    """The numbers that bits are, by NumPy types that have them."""
    import ml_dtypes

    bits = bits.astype(np.uint8)  # they come as numbers, as all integers do
    if kind == "e2m1":
        values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        return np.where(bits & 8, -1.0, 1.0) * values[bits & 7]
    dtype = ml_dtypes.float8_e4m3fn if kind == "e4m3" else ml_dtypes.float8_e5m2
    return np.ascontiguousarray(bits).view(dtype).astype(np.float64)


def _fp8(
    a: Any, b: Any, a_scale: Any, b_scale: Any, format_a: str = "e4m3", format_b: str = "e4m3",
    dtype: str = "float32",
) -> Any:  # fmt: skip
    import numpy as np

    with np.errstate(all="ignore"):
        product = _number(np, a, format_a) @ _number(np, b, format_b)
        return product * np.reshape(a_scale, (-1, 1)) * np.reshape(b_scale, (1, -1))


def _dequantize(x: Any, scale: Any, format: str = "mxfp8_e4m3", dtype: str = "float32") -> Any:
    import numpy as np

    kind, x = plans.KINDS[format][0], x.astype(np.uint8)
    if kind == "e2m1":
        x = np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], -1)
    power = np.repeat(scale.astype(np.int64), 32, -1)
    with np.errstate(all="ignore"):
        value = np.ldexp(_number(np, x, kind), power - 127)
        return np.where(power == 255, np.nan, value)


def _quantize(x: Any, format: str = "mxfp8_e4m3") -> Any:
    """The nearest of all numbers of the format, of two the one with even bits."""
    import numpy as np

    kind, most = plans.KINDS[format]
    wide = np.asarray(x).astype(np.float32).astype(np.float64)
    blocks = wide.reshape(*x.shape[:-1], -1, 32)
    top = np.abs(blocks).max(-1)
    with np.errstate(all="ignore"):
        power = np.where(top < 2.0**-126, -127, np.frexp(top)[1] - 1)
        power = np.where(np.isfinite(top), np.maximum(power + 127 - most, 0), 255)
        scaled = np.ldexp(blocks, 127 - power[..., None])
    codes = np.arange({"e4m3": 0x7F, "e5m2": 0x7C, "e2m1": 8}[kind], dtype=np.uint8)
    values = _number(np, codes, kind)
    size = np.minimum(np.abs(scaled), values[-1])
    at = np.searchsorted(values, np.nan_to_num(size))
    low = np.maximum(at - 1, 0)
    apart = values[at] - size, size - values[low]
    nearest = np.where((apart[1] < apart[0]) | ((apart[1] == apart[0]) & (low % 2 == 0)), low, at)
    nearest = np.where(np.isnan(scaled), 0x7F if kind != "e2m1" else 7, nearest)
    sign = np.signbit(scaled) * (8 if kind == "e2m1" else 128)
    bits = (nearest + sign).astype(np.uint8).reshape(x.shape)
    if kind == "e2m1":
        bits = bits[..., ::2] | (bits[..., 1::2] << 4)
    return bits, power.astype(np.uint8)


def _plain(shape: _Shape) -> tuple[int, int]:
    *_, rows, columns = (1, 1, *shape)
    return rows, columns


def _weights(bits: int) -> Any:
    def examples(shape: _Shape) -> Sequence[_Shape]:
        _, k = _plain(shape)
        return [shape or (1,), (5, -(-k // 2) if bits == 4 else k), (5,)]

    return examples


def _matrices(shape: _Shape) -> Sequence[_Shape]:
    m, k = _plain(shape)
    return [(m, k), (k, m), (1,), (1,)]


def _parts(shape: _Shape) -> Sequence[_Shape]:
    m, k = _plain(shape)
    return [(m, k), (1, k, 7), (2,)]


def _blocks(shape: _Shape) -> Sequence[_Shape]:
    return [(*shape[:-1], 64)]


_ALL: Any = {"category": "quantized"}
_BITS: Any = {**_ALL, "tolerance": (64, 64)}

ROWS: tuple[KernelSpec, ...] = (
    row("linear_int8", "x q_weight scales zeros?", plans.linear_int8, "x @ ((q_weight - zeros) "
        "scales).T: q_weight (columns, k) of int8, or uint8 around 128, scales and zeros "
        "(columns,) or (columns, groups) of equal parts of k", _int8, _weights(8),
        "int8_weight_only_matmul w8a16_matmul", dtypes=("int8", "uint8", *FLOATS),
        apart=("q_weight", "scales", "zeros"), **_BITS),
    row("linear_int4", "x q_weight scales zeros?", plans.linear_int4, "linear_int8 of numbers from "
        "0 to 15 (around 8), two a byte: an even element k in the lower half of byte k / 2", _int4,
        _weights(4), "int4_weight_only_matmul w4a16_matmul matmul_nbits",
        dtypes=("int8", "uint8", *FLOATS), apart=("q_weight", "scales", "zeros"), **_BITS),
    row("grouped_matmul", "x weight starts", plans.grouped, "rows of x times the matrix of their "
        "part: starts say where each part begins and the last one ends (experts of tokens in "
        "order); rows of none give 0", _grouped, _parts,
        "grouped_mm ragged_dot moe_matmul segment_mm", dtypes=("int32", "int64", *FLOATS),
        apart=("starts",), complete=False, **_BITS),
    row("fp8_matmul", "a_bits b_bits a_scale b_scale", plans.fp8_matmul, "(a @ b) a_scale "
        "b_scale of 8-bit floating numbers, bits in uint8; a scale for each row of a and column "
        "of b, or one", _fp8, _matrices, "scaled_mm _scaled_mm",
        options={"format_a": "e4m3", "format_b": "e4m3", "dtype": "float32"},
        dtypes=("uint8", "float32"), apart=("a_scale", "b_scale"), **_BITS),
    row("mx_quantize", "x", plans.mx_quantize, "bits of blocks of 32 numbers along the last axis, "
        "and the power of two of each (its exponent + 127); mxfp4: two numbers a byte, the even "
        "one in the lower half", _quantize, _blocks, options={"format": "mxfp8_e4m3"},
        dtypes=FLOATS[:3], **_ALL),
    row("mx_dequantize", "bits scale", plans.mx_dequantize, "the numbers of what mx_quantize gives",
        _dequantize, lambda shape: [(*shape[:-1], 64), (*shape[:-1], 2)],
        options={"format": "mxfp8_e4m3", "dtype": "float32"}, dtypes=("uint8",), **_ALL),
)  # fmt: skip
