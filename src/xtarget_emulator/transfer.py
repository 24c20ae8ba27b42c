"""Undefined bits of a result, by the bits of its operands: rules for integer operations.

Source: the rules are those of bit-precise definedness (Seward and Nethercote, "Using Valgrind to
detect undefined value errors with bit-precision", USENIX 2005).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .memory import Array

__all__ = ["Transfer", "transfer"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A rule.

    Attributes:
        find: from the operands' values, and their bits that hold nothing (unsigned), to those of
            the result.
        typed: the values have to have the signs that the instruction gives them.
        always: it makes a difference also where all bits of an operand hold nothing.
    """

    find: Callable[[Sequence[Array], Sequence[Array]], Array]
    typed: bool = False
    always: bool = False


def transfer(name: str, function: Callable[..., Array]) -> Transfer | None:
    """Return an operation's rule; None if each bit of the result depends on all bits.

    Args:
        name: the mnemonic without its first part.
        function: the operation on values.
    """
    for pattern, make in _RULES:
        if pattern.match(name):
            return make(name, function)
    return None


def _apart(name: str, function: Callable[..., Array]) -> Transfer:
    """Each bit of the result depends on one bit of each operand, but for operands that say which:
    those that are tried with the undefined bits set and not set."""
    known = next((c for p, c in _CONTROLS if p.match(name)), {})

    def find(values: Sequence[Array], bits: Sequence[Array]) -> Array:
        controls = known
        if name.startswith("bfe_"):  # the scalar unit has offset and width in one operand
            controls = {1: 31, 2: 31} if len(values) == 3 else {1: 0x7F003F}
        free = [i for i in range(len(values)) if i not in controls and bits[i].any()]
        results = []
        for flips in itertools.product((False, True), repeat=len(free)):
            tried = list(values)
            for i, flip in zip(free, flips, strict=True):
                cleared = values[i].view(bits[i].dtype) & ~bits[i]
                tried[i] = (cleared | bits[i] if flip else cleared).view(values[i].dtype)
            result = function(*tried)
            results.append(result.view(f"u{result.itemsize}"))
        some = every = results[0]
        for result in results[1:]:
            some, every = some | result, every & result
        unknown = some & ~every
        for i, mask in controls.items():
            bad = (bits[i] & bits[i].dtype.type(mask)) != 0
            if bad.any():
                unknown = np.where(bad, ~unknown.dtype.type(0), unknown)
        return unknown

    return Transfer(find, typed=True, always=not name.startswith(("mov_", "not_", "xor", "xnor")))


def _upwards(name: str, function: Callable[..., Array]) -> Transfer:
    """A sum or product: from the lowest bit that holds nothing on, nothing is known."""
    only = 0xFFFFFF if "24" in name else None

    def find(values: Sequence[Array], bits: Sequence[Array]) -> Array:
        dtype = np.result_type(*bits)
        wide = [b.astype(dtype) for b in bits]
        if only is not None:
            wide[:2] = [b & dtype.type(only) for b in wide[:2]]
        some = wide[0]
        for more in wide[1:]:
            some = some | more
        return some | (~some + dtype.type(1))

    return Transfer(find)


def _shifted_sum(name: str, function: Callable[..., Array]) -> Transfer:
    """A sum with one operand shifted, or shifted itself."""
    first = name.startswith("add_lshl")
    amount = 2 if first else 1

    def find(values: Sequence[Array], bits: Sequence[Array]) -> Array:
        other = bits[1 if first else 2]
        dtype = other.dtype
        most = dtype.type(7 if dtype.itemsize == 8 else 31)
        shift = values[amount].astype(dtype) & most
        some = bits[0] | other if first else bits[0] << shift | other
        some = some | (~some + dtype.type(1))
        if first:
            some = some << shift
        bad = (bits[amount] & bits[amount].dtype.type(int(most))) != 0
        return np.where(bad, ~dtype.type(0), some)

    return Transfer(find, always=True)


def _halves(name: str, function: Callable[..., Array]) -> Transfer:
    """Each half of the result is made of one operand."""

    def find(values: Sequence[Array], bits: Sequence[Array]) -> Array:
        low = np.where(bits[0] != 0, np.uint32(0xFFFF), np.uint32(0))
        return low | np.where(bits[1] != 0, np.uint32(0xFFFF0000), np.uint32(0))

    return Transfer(find, always=True)


def _octet(name: str, function: Callable[..., Array]) -> Transfer:
    shift = np.uint32(8 * int(name[-1]))

    def find(values: Sequence[Array], bits: Sequence[Array]) -> Array:
        bad = (bits[0] >> shift & np.uint32(0xFF)) != 0
        return np.where(bad, np.uint32(0xFFFFFFFF), np.uint32(0))

    return Transfer(find)


_RULES: list[tuple[re.Pattern[str], Callable[[str, Callable[..., Array]], Transfer]]] = [
    (re.compile(pattern), make)
    for pattern, make in (
        (r"(mov|not|and|or|xor|xnor)_b(16|32|64)$", _apart),
        (r"(bfi_b32|and_or_b32|or3_b32|xor3_b32|lshl_or_b32|bitop3_b(16|32))$", _apart),
        (r"(lshlrev|lshrrev|lshl|lshr)_b(16|32|64)$", _apart),
        (r"(ashrrev|ashr)_i(16|32|64)$", _apart),
        (r"(bfe_[ui](32|64)|perm_b32|align(bit|byte)_b32|bfrev_b32|brev_b(32|64))$", _apart),
        (r"(cvt_u32_u16|cvt_i32_i16|sext_i32_i(8|16)|pack_(ll|lh|hl|hh)_b32_b16)$", _apart),
        (r"(add|sub|subrev)(_nc)?_[ui](16|32|64)$", _upwards),
        (r"mul(_lo)?_[ui](16|32|64)$", _upwards),
        (r"(mad_[ui](16|32)|mad_legacy_[ui]16|mad_u32_u16|add3_u32|xad_u32)$", _upwards),
        (r"(mul|mad)_[ui]32_[ui]24$", _upwards),
        (r"(lshl_add_u(32|64)|add_lshl_u32)$", _shifted_sum),
        (r"(pack_b32_f16|cvt_pkrtz_f16_f32)$", _halves),
        (r"cvt_pk(_rtz|_norm|norm)?_(f16|bf16|[ui]16)_\w+$", _halves),
        (r"cvt_f32_ubyte[0-3]$", _octet),
    )
]
#: Operands that say which bits are taken, to those bits of theirs that count.
_CONTROLS: list[tuple[re.Pattern[str], dict[int, int]]] = [
    (re.compile(pattern), controls)
    for pattern, controls in (
        (r"(lshl|lshr|ashr)rev_[bi]16$", {0: 15}),
        (r"(lshl|lshr|ashr)rev_[bi]32$", {0: 31}),
        (r"(lshl|lshr|ashr)rev_[bi]64$", {0: 63}),
        (r"(lshl|lshr|ashr)_[bi]32$", {1: 31}),
        (r"(lshl|lshr|ashr)_[bi]64$", {1: 63}),
        (r"lshl_or_b32$", {1: 31}),
        (r"alignbit_b32$", {2: 31}),
        (r"alignbyte_b32$", {2: 3}),
        (r"perm_b32$", {2: 0xFFFFFFFF}),
    )
]
