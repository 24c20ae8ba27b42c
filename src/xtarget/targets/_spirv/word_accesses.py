"""Accesses of 8 and 16 bits as accesses of words, for CPUs.

A CPU gathers words of 32 and 64 bits in one instruction. Narrower elements that do not lie side by
side are loaded one by one, and Intel's CPU compiler, which writes all code a second time for a cut
sub-group, puts a branch around each of them there: 16 for every load in the source, and its time
grows faster than their number. The aligned word around an element can always be read: it lies in
the same page. What else is in it may change meanwhile; it is cut off.

A lane's vector of such elements is taken apart in the same way, also where it is stored, so it is
loaded and stored as the words that it consists of.
"""

from __future__ import annotations

import re

from .irtext import VALUE
from .lanes import Lanes

__all__ = ["access_words"]

_LOAD = re.compile(
    rf"  ({VALUE}) = load (i8|i16|half), (ptr addrspace\([13]\)) ({VALUE}), align \d+$"
)
_VECTOR_LOAD = re.compile(
    rf"  ({VALUE}) = load <(\d+) x (i8|i16|half)>, (ptr addrspace\([13]\)) (.*), align (\d+)$"
)
_VECTOR_STORE = re.compile(
    rf"  store <(\d+) x (i8|i16|half)> ({VALUE}), (ptr addrspace\([13]\)) (.*), align (\d+)$"
)
_NARROW_VECTOR = re.compile(r"(?:load|store) <\d+ x (?:i8|i16|half)>")
_BITS = {"i8": 8, "i16": 16, "half": 16}


def access_words(text: str) -> str:
    """LLVM IR without loads of 8 and 16 bits from places that are no neighbours, and without
    vectors of them in memory.
    """
    lines = text.split("\n")
    if not any(_LOAD.match(line) for line in lines) and not _NARROW_VECTOR.search(text):
        return text
    lanes = Lanes(lines)
    result: list[str] = []
    for number, line in enumerate(lines):
        if vector := _VECTOR_LOAD.match(line) or _VECTOR_STORE.match(line):
            result += _vector(line, vector, f"%xt.word.{number}")
            continue
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


def _vector(line: str, match: re.Match[str], v: str) -> list[str]:
    """The lines for a vector; the same where it is not made of words."""
    loaded = match.re is _VECTOR_LOAD
    name, count, type_ = match.groups()[:3] if loaded else (match[3], match[1], match[2])
    pointer, address, align = match.groups()[3:]
    words, rest = divmod(int(count) * _BITS[type_], 32)
    if rest or int(align) < 4 or words not in (1, 2, 3, 4, 8):
        return [line]
    whole = f"<{count} x {type_}>"
    made = "i32" if words == 1 else f"<{words} x i32>"
    done = [] if loaded else [f"  {v} = bitcast {whole} {name} to {made}"]
    value = "poison" if loaded else v
    for word in range(words):
        done.append(f"  {v}.at{word} = getelementptr i8, {pointer} {address}, i64 {4 * word}")
        if loaded:
            done.append(f"  {v}.{word} = load i32, {pointer} {v}.at{word}, align 4")
            if words > 1:
                parts = f"{made} {value}, i32 {v}.{word}, i64 {word}"
                done.append(f"  {v}.to{word} = insertelement {parts}")
            value = f"{v}.to{word}" if words > 1 else f"{v}.{word}"
        else:
            if words > 1:
                done.append(f"  {v}.{word} = extractelement {made} {v}, i64 {word}")
            part = f"{v}.{word}" if words > 1 else v
            done.append(f"  store i32 {part}, {pointer} {v}.at{word}, align 4")
    return [*done, f"  {name} = bitcast {made} {value} to {whole}"] if loaded else done
