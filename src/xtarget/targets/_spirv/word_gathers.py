"""Gathers of 8 and 16 bits as gathers of words, for CPUs.

A CPU gathers words of 32 and 64 bits in one instruction. Narrower elements that do not lie side by
side are loaded one by one, and Intel's CPU compiler, which writes all code a second time for a cut
sub-group, puts a branch around each of them there: 16 for every load in the source, and its time
grows faster than their number. The aligned word around an element can always be read: it lies in
the same page. What else is in it may change meanwhile; it is cut off.
"""

from __future__ import annotations

import re

from .irtext import VALUE
from .lanes import Lanes

__all__ = ["gather_words"]

_LOAD = re.compile(
    rf"  ({VALUE}) = load (i8|i16|half), (ptr addrspace\([13]\)) ({VALUE}), align \d+$"
)
_BITS = {"i8": 8, "i16": 16, "half": 16}


def gather_words(text: str) -> str:
    """LLVM IR without loads of 8 and 16 bits from places that are no neighbours."""
    lines = text.split("\n")
    if not any(_LOAD.match(line) for line in lines):
        return text
    lanes = Lanes(lines)
    result: list[str] = []
    for number, line in enumerate(lines):
        match = _LOAD.match(line)
        if match is None or lanes.step(match[4]) in (0, _BITS[match[2]] // 8):
            result.append(line)
            continue
        name, type_, pointer, address = match.groups()
        v = f"%xt.word.{number}"
        result += [
            f"  {v}.at = ptrtoint {pointer} {address} to i64",
            f"  {v}.aligned = and i64 {v}.at, -4",
            f"  {v}.place = inttoptr i64 {v}.aligned to {pointer}",
            f"  {v} = load i32, {pointer} {v}.place, align 4",
            f"  {v}.low = trunc i64 {v}.at to i32",
            f"  {v}.bytes = shl i32 {v}.low, 3",
            f"  {v}.bits = and i32 {v}.bytes, 24",
            f"  {v}.moved = lshr i32 {v}, {v}.bits",
            f"  {v}.cut = trunc i32 {v}.moved to i{_BITS[type_]}",
            # without it LLVM 22 makes one operation of this and a later extension, and gives it
            # operands of two types
            f"  {v}.kept = freeze i{_BITS[type_]} {v}.cut",
            f"  {name} = bitcast i{_BITS[type_]} {v}.kept to {type_}",
        ]
    return "\n".join(result)
