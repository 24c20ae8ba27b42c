"""Vectors of one lane, taken apart, for `vectors`, which makes vectors of what all lanes have.

Where Triton brings values from one layout to another through shared memory, a lane stores or loads
several at once.
"""

from __future__ import annotations

import re
from math import gcd

from .irtext import VALUE
from .vector_code import size_of

__all__ = ["take_apart"]

#: Bits lie closer in a vector than alone.
_VECTOR = r"<(?P<count>\d+) x (?P<type>i(?:8|16|32|64)|half|float|double)>"
_PLACE = (
    r"(?P<space>ptr(?: addrspace\(\d+\))?) (?P<place>.+?)(?:, align (?P<align>\d+))?(?:, !.*)?$"
)
_LOAD = re.compile(rf"  (?P<name>{VALUE}) = load {_VECTOR}, {_PLACE}")
_STORE = re.compile(rf"  store {_VECTOR} (?P<value>\S+), {_PLACE}")
_INSERT = re.compile(
    rf"  (?P<name>{VALUE}) = insertelement {_VECTOR} (?P<value>\S+), "
    r"\w+ (?P<element>\S+), i\d+ (?P<at>\d+)$"
)
_EXTRACT = re.compile(
    rf"  (?P<name>{VALUE}) = extractelement {_VECTOR} (?P<value>{VALUE}), i\d+ (?P<at>\d+)$"
)


def take_apart(text: str) -> str:
    """LLVM IR of one function in which loads, stores, insertions and extractions of such vectors
    are those of their elements. What else is done with one stays, and `vectors` refuses it.
    """
    lines = text.split("\n")
    marked = [line for line in lines if " x " in line]
    elements: dict[str, list[str]] = {}
    for line in marked:
        if match := _LOAD.match(line):
            count = int(match["count"])
            elements[match["name"]] = [f"{match['name']}.e{k}" for k in range(count)]
    inserted = {match["name"]: match for line in marked if (match := _INSERT.match(line))}
    if not elements and not inserted:
        return text
    for name in inserted:
        _build(name, inserted, elements)
    renamed: dict[str, str] = {}
    result: list[str] = []
    for line in lines:
        if " x " not in line:
            result.append(line)
        elif match := _LOAD.match(line):
            values = elements[match["name"]]
            for value, where in zip(values, _places(match, result, match["name"]), strict=True):
                result.append(f"  {value} = load {match['type']}, {where}")
        elif (match := _STORE.match(line)) and match["value"] in elements:
            values, prefix = elements[match["value"]], f"{match['value']}.s{len(result)}"
            for value, where in zip(values, _places(match, result, prefix), strict=True):
                result.append(f"  store {match['type']} {value}, {where}")
        elif (match := _EXTRACT.match(line)) and match["value"] in elements:
            renamed[match["name"]] = elements[match["value"]][int(match["at"])]
        elif not ((match := _INSERT.match(line)) and match["name"] in elements):
            result.append(line)
    if not renamed:
        return "\n".join(result)

    def final(match: re.Match[str]) -> str:
        value = match[0]
        while value in renamed:
            value = renamed[value]
        return value

    return re.sub(VALUE, final, "\n".join(result))


def _build(name: str, inserted: dict[str, re.Match[str]], elements: dict[str, list[str]]) -> None:
    """Find the elements of an insertion, and of those that it stands on."""
    chain: list[re.Match[str]] = []
    value = name
    while value not in elements and value in inserted:
        chain.append(inserted[value])
        value = inserted[value]["value"]
    if value in ("poison", "undef"):
        values = [value] * int(chain[-1]["count"])
    elif value in elements:
        values = elements[value]
    else:
        return  # of a vector that something else makes
    for match in reversed(chain):
        values = list(values)
        values[int(match["at"])] = match["element"]
        elements[match["name"]] = values


def _places(match: re.Match[str], result: list[str], prefix: str) -> list[str]:
    """Address and alignment of each element; what computes them is added to `result`."""
    size, align, space = size_of(match["type"]), int(match["align"] or 0), match["space"]
    places = [match["place"]]
    for k in range(1, int(match["count"])):
        places.append(f"{prefix}.p{k}")
        step = f"getelementptr {match['type']}, {space} {match['place']}, i64 {k}"
        result.append(f"  {places[-1]} = {step}")
    return [
        f"{space} {place}" + (f", align {gcd(align, k * size)}" if align else "")
        for k, place in enumerate(places)
    ]
