"""Floating-point literals of LLVM 23 and later, as LLVM 22 reads them.

The newer text has `f0x3FB8AA3B` (the value's own bits), `+inf`, `+qnan`, and the shortest decimal
that rounds to the value; the older one takes a decimal only if it is exact, and otherwise a hex
form of its own for each type.
"""

from __future__ import annotations

import re
import struct

from .words import map_literals

__all__ = ["in_old_style"]

_QUIET_NAN = {"half": 0x7E00, "bfloat": 0x7FC0, "float": 0x7FC00000, "double": 0x7FF8 << 48}
_SIGN = {"half": 1 << 15, "bfloat": 1 << 15, "float": 1 << 31, "double": 1 << 63}


def in_old_style(text: str) -> str:
    """LLVM IR with every literal in the hex form of its type."""
    return "\n".join(
        line if line[:1] in "@!a;" and line else map_literals(line, _rewritten)
        for line in text.split("\n")
    )


def _rewritten(type_: str, literal: re.Match[str]) -> str:
    return _written(type_, _bits(type_, literal))


def _bits(type_: str, match: re.Match[str]) -> int:
    if match["bits"]:
        return int(match["bits"], 16)
    sign = _SIGN[type_] if match["sign"] == "-" else 0
    if match["number"] == "qnan":
        return sign | _QUIET_NAN[type_]
    value = float(match["number"])
    if type_ == "bfloat":
        bits = _packed("float", value)
        return sign | (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return sign | _packed(type_, value)


def _packed(type_: str, value: float) -> int:
    code = {"half": ">e", "float": ">f", "double": ">d"}[type_]
    return int.from_bytes(struct.pack(code, value), "big")


def _written(type_: str, bits: int) -> str:
    if type_ in ("half", "bfloat"):
        return f"0x{'H' if type_ == 'half' else 'R'}{bits:04X}"
    if type_ == "float":  # the old form writes a float as the double of the same value
        bits = _double_of(bits)
    return f"0x{bits:016X}"


def _double_of(bits: int) -> int:
    """Widen a float's bits; by hand for NaN, whose payload an FPU may change."""
    if bits & 0x7F800000 == 0x7F800000:
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    value: float = struct.unpack(">f", bits.to_bytes(4, "big"))[0]
    return _packed("double", value)
