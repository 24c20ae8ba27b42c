"""Vectors that LLVM's optimiser makes and SPIR-V cannot have, such as `<128 x i1>` in memory.

Where a kernel keeps the lowest bit of each byte of a loaded `<16 x i8>`, LLVM loads `<128 x i1>`
and extracts every eighth element. The bits are the same, so such a value is carried in wider
elements, and what is extracted is cut out of these. A vector of bits that a comparison makes is
another thing: SPIR-V has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .irtext import VALUE

__all__ = ["widen_odd_vectors"]

#: Numbers of elements that a vector of SPIR-V may have, and of bits in an integer.
_COUNTS, _WIDTHS = (2, 3, 4, 8, 16), (8, 16, 32, 64)
_TYPE = re.compile(r"<(\d+) x i(\d+)>")
_SAME = rf"(?:{VALUE}|zeroinitializer|undef|poison|splat \(i1 true\))"
_EXTRACT = re.compile(rf"(\s+{VALUE} = )extractelement <(\d+) x i(\d+)> ({VALUE}), i\d+ (\d+)$")
_CAST = re.compile(rf"\s+({VALUE}) = bitcast (<.*?>|\S+) ({_SAME}) to (<.*?>|\S+)$")
_LOAD = re.compile(rf"\s+({VALUE}) = load (?:volatile )?(<[^>]*>), ptr")
_STORE = re.compile(rf"\s+store (?:volatile )?(<[^>]*>) ({_SAME}), ptr")
_PHI = re.compile(rf"\s+({VALUE}) = phi (<[^>]*>) ((?:\[ {_SAME}, %\S+ \](?:, )?)+)$")
_SELECT = re.compile(rf"\s+({VALUE}) = select i1 \S+, (<[^>]*>) ({_SAME}), <[^>]*> ({_SAME})$")
_BITWISE = re.compile(
    rf"\s+({VALUE}) = (?:freeze|and|or|or disjoint|xor) (<[^>]*>) ({_SAME})(?:, ({_SAME}))?$"
)


def widen_odd_vectors(text: str) -> str:
    """LLVM IR in which no load, store or cast has such a type.

    What this cannot widen, because something else makes or takes the value, stays as it is.
    """
    odd = {pair for pair in set(_TYPE.findall(text)) if _is_odd(*map(int, pair))}
    if not odd:
        return text
    marks = tuple(f"<{count} x i{width}>" for count, width in odd)
    lines = text.split("\n")
    webs = _Webs()
    found: list[int] = []
    for number, line in enumerate(lines):
        if line == "}":
            webs.close()
            for at in found:
                lines[at] = webs.rewritten(lines[at])
            webs, found = _Webs(), []
        elif any(mark in line for mark in marks):
            found.append(number)
            webs.see(line)
    return "\n".join(lines)


def _is_odd(count: int, width: int) -> bool:
    return count not in _COUNTS or width not in _WIDTHS


def _container(count: int, width: int) -> tuple[int, int] | None:
    """Number and width of the elements that hold these bits; one is no vector."""
    for wider in _WIDTHS:
        elements, rest = divmod(count * width, wider)
        if wider >= width and not rest and elements in (1, *_COUNTS):
            return elements, wider
    return None


def _written(elements: int, width: int) -> str:
    return f"i{width}" if elements == 1 else f"<{elements} x i{width}>"


@dataclass(slots=True)
class _Webs:
    """Values of a function that have to have one type, because each is made of another.

    Attributes:
        parents: of each value of an odd type, another one of its web, or itself.
        fixed: values that something makes or takes which looks at their elements.
        packed: values that come from memory or a cast, or go there.
    """

    parents: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    packed: set[str] = field(default_factory=set)
    _count: int = 0

    def see(self, line: str) -> None:
        """Take in a line that has an odd type."""
        if match := _EXTRACT.match(line):
            self._join([match[4]])
        elif match := _CAST.match(line):
            for type_, value in ((match[2], match[3]), (match[4], match[1])):
                if _odd(type_) and value.startswith("%"):
                    self._join([value])
                    self.packed.add(value)
        elif kept := _kept(line):
            self._join(kept.values)
            if kept.memory:
                self.packed.update(kept.values)
        else:
            self.fixed.update(re.findall(VALUE, line))

    def close(self) -> None:
        """All was seen: what holds for a value holds for its web."""
        for marked in (self.fixed, self.packed):
            roots = {self._root(value) for value in marked if value in self.parents}
            marked.update(value for value in self.parents if self._root(value) in roots)

    def _join(self, values: list[str]) -> None:
        for value in values:
            self.parents.setdefault(value, value)
            self.parents[self._root(value)] = self._root(values[0])

    def _root(self, value: str) -> str:
        while (parent := self.parents[value]) != value:
            value = parent
        return value

    def _type(self, type_: str, value: str) -> str:
        """The type that a value of this one gets; it may be a constant, which nothing holds."""
        match = _TYPE.fullmatch(type_)
        if match is None or value in self.fixed:
            return type_
        count, width = int(match[1]), int(match[2])
        held = _container(count, width)
        real = count in _COUNTS and value.startswith("%") and value not in self.packed
        if held is None or real or not _is_odd(count, width):
            return type_
        return _written(*held)

    def rewritten(self, line: str) -> str:
        if match := _EXTRACT.match(line):
            return self._extracted(line, match)
        if match := _CAST.match(line):
            old, new = self._type(match[2], match[3]), self._type(match[4], match[1])
            value = match[3] if old == match[2] else _constant(match[3], old)
            return f"  {match[1]} = bitcast {old} {value} to {new}"
        kept = _kept(line)
        if kept is None:
            return line
        wide = self._type(kept.type, kept.values[0] if kept.values else "")
        return line if wide == kept.type else _constant(line.replace(kept.type, wide), wide)

    def _extracted(self, line: str, match: re.Match[str]) -> str:
        """One element, as a part of a wider one."""
        head, count, width, value, index = match.groups()
        type_ = self._type(f"<{count} x i{width}>", value)
        if type_ == f"<{count} x i{width}>":
            return line
        wider = _width(type_)
        element, shift = divmod(int(index) * int(width), wider)
        done = []
        self._count += 1
        name = f"%xt.odd.{self._count}"
        if type_.startswith("<"):
            done.append(f"  {name} = extractelement {type_} {value}, i64 {element}")
            value = name
        if shift:
            done.append(f"  {name}.low = lshr i{wider} {value}, {shift}")
            value = f"{name}.low"
        done.append(f"{head}trunc i{wider} {value} to i{width}")
        return "\n".join(done)


@dataclass(frozen=True, slots=True)
class _Kept:
    """An operation that leaves the bits of its values, all of one type, where they are."""

    type: str
    values: list[str]
    memory: bool


def _kept(line: str) -> _Kept | None:
    if match := _LOAD.match(line):
        return _Kept(match[2], [match[1]], memory=True)
    if match := _STORE.match(line):
        return _Kept(match[1], re.findall(VALUE, match[2]), memory=True)
    if match := _PHI.match(line):
        given = [value for value in re.findall(rf"\[ ({_SAME}), ", match[3]) if value[0] == "%"]
        return _Kept(match[2], [match[1], *given], memory=False)
    if match := _SELECT.match(line) or _BITWISE.match(line):
        given = [value for value in match.groups()[2:] if value and value[0] == "%"]
        return _Kept(match[2], [match[1], *given], memory=False)
    return None


def _odd(type_: str) -> bool:
    match = _TYPE.fullmatch(type_)
    return match is not None and _is_odd(int(match[1]), int(match[2]))


def _width(type_: str) -> int:
    return int(type_.rstrip(">").rpartition("i")[2])


def _constant(text: str, wide: str) -> str:
    """All bits set, in words for the wider type."""
    ones = f"splat (i{_width(wide)} -1)" if wide.startswith("<") else "-1"
    return text.replace("splat (i1 true)", ones)
