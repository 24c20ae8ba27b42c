"""Scalar instructions that are a function of their sources: a table by mnemonic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from . import scalar_floats, scalar_rare
from .memory import Array
from .vector import ALU

__all__ = ["NONZERO", "RULES", "Rule", "overflow"]


#: Kind of the result, kinds of the sources, function, and what SCC becomes: nothing, "nonzero", or
#: a function of (sources..., result).
Rule: TypeAlias = tuple[str, tuple[str, ...], Callable[..., Array], Any]
RULES: dict[str, Rule] = {}
NONZERO = "nonzero"


def _rule(
    names: str, result: str, sources: str, function: Callable[..., Array], scc: Any = None
) -> None:
    for name in names.split():
        RULES["s_" + name] = (result, tuple(sources.split()), function, scc)


def _carry(a: Array, b: Array, r: Array) -> Array:
    return r < a


def overflow(a: Array, b: Array, r: Array) -> Array:
    return ((a ^ r) & (b ^ r)) < 0


def _sub_overflow(a: Array, b: Array, r: Array) -> Array:
    return ((a ^ b) & (a ^ r)) < 0


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        return function(a, (b & np.uint32(a.dtype.itemsize * 8 - 1)).astype(a.dtype))

    return run


def _field(a: Array, control: Array) -> Array:
    """s_bfe: offset in bits 4:0 (5:0), width in bits 22:16."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    offset = control & np.uint32(bits - 1)
    width = control >> np.uint32(16) & np.uint32(0x7F)
    kept = np.minimum(width, bits - offset)
    left = np.where(kept == 0, 0, bits - offset - kept).astype(a.dtype)
    right = np.where(kept == 0, 0, bits - kept).astype(a.dtype)
    return np.where(kept == 0, kind(0), a << left >> right)


def _lshl_add(n: int) -> Callable[[Array, Array], Array]:
    return lambda a, b: (a << np.uint32(n)) + b


def _lshl_carry(n: int) -> Callable[[Array, Array, Array], Array]:
    return lambda a, b, r: (a.astype(np.uint64) << np.uint64(n)) + b > np.uint64(0xFFFFFFFF)


for _w in ("32", "64"):
    _u, _i = "u" + _w, "i" + _w
    _rule(f"mov_b{_w}", _u, _u, lambda a: a)
    _rule(f"not_b{_w}", _u, _u, np.invert, NONZERO)
    _rule(f"and_b{_w}", _u, f"{_u} {_u}", np.bitwise_and, NONZERO)
    _rule(f"or_b{_w}", _u, f"{_u} {_u}", np.bitwise_or, NONZERO)
    _rule(f"xor_b{_w}", _u, f"{_u} {_u}", np.bitwise_xor, NONZERO)
    _rule(f"and_not1_b{_w}", _u, f"{_u} {_u}", lambda a, b: a & ~b, NONZERO)
    _rule(f"or_not1_b{_w}", _u, f"{_u} {_u}", lambda a, b: a | ~b, NONZERO)
    _rule(f"nand_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a & b), NONZERO)
    _rule(f"nor_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a | b), NONZERO)
    _rule(f"xnor_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a ^ b), NONZERO)
    _rule(f"lshl_b{_w}", _u, f"{_u} u32", _shift(np.left_shift), NONZERO)
    _rule(f"lshr_b{_w}", _u, f"{_u} u32", _shift(np.right_shift), NONZERO)
    _rule(f"ashr_i{_w}", _i, f"{_i} u32", _shift(np.right_shift), NONZERO)
    _rule(f"bfe_u{_w}", _u, f"{_u} u32", _field, NONZERO)
    _rule(f"bfe_i{_w}", _i, f"{_i} u32", _field, NONZERO)
    _rule(f"bcnt1_i32_b{_w}", "u32", _u, lambda a: np.bitwise_count(a).astype(np.uint32), NONZERO)
_one = np.uint32(1)
RULES["s_bfm_b32"] = (
    "u32", ("u32", "u32"),
    lambda a, b: ((_one << (a & np.uint32(31))) - _one) << (b & np.uint32(31)), None,
)  # fmt: skip
_rule("add_u32", "u32", "u32 u32", np.add, _carry)
_rule("sub_u32", "u32", "u32 u32", np.subtract, lambda a, b, r: b > a)
_rule("add_i32", "i32", "i32 i32", np.add, overflow)
_rule("sub_i32", "i32", "i32 i32", np.subtract, _sub_overflow)
_rule("add_nc_u64 add_u64", "u64", "u64 u64", np.add)
_rule("sub_nc_u64 sub_u64", "u64", "u64 u64", np.subtract)
_rule("mul_i32", "u32", "u32 u32", np.multiply)
_rule("mul_u64", "u64", "u64 u64", np.multiply)
_rule("mul_hi_u32", "u32", "u32 u32", ALU["v_mul_hi_u32"][2])
_rule("mul_hi_i32", "i32", "i32 i32", ALU["v_mul_hi_i32"][2])
for _k in ("u32", "i32"):
    _rule(f"min_{_k}", _k, f"{_k} {_k}", np.minimum, lambda a, b, r: a < b)
    _rule(f"max_{_k}", _k, f"{_k} {_k}", np.maximum, lambda a, b, r: a >= b)
for _n in (1, 2, 3, 4):
    _rule(f"lshl{_n}_add_u32", "u32", "u32 u32", _lshl_add(_n), _lshl_carry(_n))
_rule("abs_i32", "i32", "i32", np.abs, NONZERO)
_rule("absdiff_i32", "i32", "i32 i32", lambda a, b: np.abs(a - b), NONZERO)
_rule("brev_b32", "u32", "u32", ALU["v_bfrev_b32"][2])
_rule("ff1_i32_b32 ctz_i32_b32", "u32", "u32", ALU["v_ctz_i32_b32"][2])
_rule("flbit_i32_b32 clz_i32_u32", "u32", "u32", ALU["v_clz_i32_u32"][2])
_rule("flbit_i32 cls_i32", "u32", "i32", ALU["v_cls_i32"][2])
_rule("ff1_i32_b64 ctz_i32_b64", "u32", "u64", ALU["v_ctz_i32_b32"][2])
_rule("flbit_i32_b64 clz_i32_u64", "u32", "u64", ALU["v_clz_i32_u32"][2])
_rule("flbit_i32_i64 cls_i32_i64", "u32", "i64", ALU["v_cls_i32"][2])
_rule("sext_i32_i8", "i32", "u32", lambda a: a.astype(np.int8).astype(np.int32))
_rule("sext_i32_i16", "i32", "u32", lambda a: a.astype(np.int16).astype(np.int32))
_rule("pack_ll_b32_b16", "u32", "u32 u32", lambda a, b: a & np.uint32(0xFFFF) | b << 16)
_rule("pack_lh_b32_b16", "u32", "u32 u32",
      lambda a, b: a & np.uint32(0xFFFF) | b & np.uint32(0xFFFF0000))  # fmt: skip
_rule("pack_hh_b32_b16", "u32", "u32 u32", lambda a, b: a >> 16 | b & np.uint32(0xFFFF0000))
_rule("pack_hl_b32_b16", "u32", "u32 u32", lambda a, b: a >> 16 | b << 16)
RULES |= scalar_floats.RULES | scalar_rare.RULES
