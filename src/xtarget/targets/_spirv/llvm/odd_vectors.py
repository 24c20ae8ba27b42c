"""Vectors that LLVM's optimiser makes and SPIR-V cannot have, such as `<128 x i1>` in memory.

Where a kernel keeps the lowest bit of each byte of a loaded `<16 x i8>`, LLVM loads `<128 x i1>`
and extracts every eighth element. The bits are the same, so such a value is carried in wider
elements, and what is extracted is cut out of these. A vector of bits that a comparison makes is
another thing: SPIR-V has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...._values.value_classes import value_class
from .ir import Function, Instruction, Module
from .reader import instructions
from .types import Type, type_named
from .words import names_in, vectors_in

__all__ = ["sums_of_disjoint_bits", "widen_odd_vectors"]

#: Numbers of elements that a vector of SPIR-V may have, and of bits in an integer.
_COUNTS, _WIDTHS = (2, 3, 4, 8, 16), (8, 16, 32, 64)
_TRUE = "splat (i1 true)"
_CONSTANTS = ("zeroinitializer", "undef", "poison", _TRUE)


def widen_odd_vectors(module: Module) -> None:
    """Leave no load, store or cast with such a type.

    What this cannot widen, because something else makes or takes the value, stays as it is.
    """
    for function in module.functions:
        found = [one for one in function.code() if " x i" in one.text and _has_odd(one.text)]
        if found:
            _widen(function, found)


def _widen(function: Function, found: list[Instruction]) -> None:
    webs = _Webs()
    if _has_odd(function.head):
        webs.fixed.update(names_in(function.head))
    for one in found:
        webs.see(one)
    webs.close()
    marked = set(map(id, found))
    function.rewrite(
        lambda one: instructions(*webs.rewritten(one)) if id(one) in marked else None,
        having=" x i",
    )


def _has_odd(text: str) -> bool:
    return any(map(_odd, vectors_in(text)))


def sums_of_disjoint_bits(module: Module) -> None:
    """`or disjoint` becomes a sum that does not overflow, which is the same number."""
    module.rewrite(
        lambda one: instructions(one.text.replace(" = or disjoint ", " = add nuw nsw ", 1)),
        ops=("or",),
        having=" = or disjoint ",
    )


def _is_odd(count: int, width: int) -> bool:
    return count not in _COUNTS or width not in _WIDTHS


def _container(count: int, width: int) -> tuple[int, int] | None:
    """Number and width of the elements that hold these bits; one is not a vector."""
    for wider in _WIDTHS:
        elements, rest = divmod(count * width, wider)
        if wider >= width and not rest and elements in (1, *_COUNTS):
            return elements, wider
    return None


def _written(elements: int, width: int) -> str:
    return f"i{width}" if elements == 1 else f"<{elements} x i{width}>"


@dataclass(slots=True)
class _Webs:
    """Values of a function that need the same type, because each is made from another.

    Attributes:
        parents: of each value of an odd type, another one of its web, or itself.
        fixed: values that something makes or takes which looks at their elements.
        packed: values that come from memory or a cast, or go there.
    """

    parents: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    packed: set[str] = field(default_factory=set)
    _count: int = 0

    def see(self, one: Instruction) -> None:
        """Note an instruction with an odd type."""
        if _is_extract(one):
            self._join(one.values[:1])
        elif _is_cast(one):
            for type_, value in ((one.operands[0].type, one.values[0]), (one.type, one.name)):
                if _odd(type_) and value.startswith("%"):
                    self._join([value])
                    self.packed.add(value)
        elif kept := _kept(one):
            self._join(kept.values)
            if kept.memory:
                self.packed.update(kept.values)
        else:
            self.fixed.update((one.name, *one.names()))

    def close(self) -> None:
        """Apply the facts of each value to all values of its web, after the last instruction."""
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

    def _type(self, type_: Type, value: str) -> Type:
        """The type that a value of this one gets; it may be a constant, which nothing holds."""
        if not _odd(type_) or value in self.fixed:
            return type_
        held = _container(type_.length, type_.integer_bits)
        real = type_.length in _COUNTS and value.startswith("%") and value not in self.packed
        return type_ if held is None or real else type_named(_written(*held))

    def rewritten(self, one: Instruction) -> list[str]:
        if _is_extract(one):
            return self._extracted(one)
        if _is_cast(one):
            (operand,) = one.operands
            old, new = self._type(operand.type, operand.value), self._type(one.type, one.name)
            value = operand.value if old == operand.type else _constant(operand.value, old)
            return [f"  {one.name} = bitcast {old} {value} to {new}"]
        kept = _kept(one)
        if kept is None:
            return [one.text]
        wide = self._type(kept.type, kept.values[0] if kept.values else "")
        if wide == kept.type:
            return [one.text]
        return [_constant(one.text.replace(kept.type, wide), wide)]

    def _extracted(self, one: Instruction) -> list[str]:
        """One element, as a part of a wider one."""
        vector, index = one.operands
        value, width = vector.value, vector.type.integer_bits
        type_ = self._type(vector.type, value)
        if type_ == vector.type:
            return [one.text]
        wider = type_.integer_bits
        element, shift = divmod(int(index.value) * width, wider)
        done = []
        self._count += 1
        name = f"%xt.odd.{self._count}"
        if type_.is_vector:
            done.append(f"  {name} = extractelement {type_} {value}, i64 {element}")
            value = name
        if shift:
            done.append(f"  {name}.low = lshr i{wider} {value}, {shift}")
            value = f"{name}.low"
        return [*done, f"{one.indented}trunc i{wider} {value} to i{width}"]


@value_class(frozen=True, slots=True)
class _Kept:
    """An operation that leaves the bits of its values, all of one type, where they are."""

    type: Type
    values: list[str]
    memory: bool


def _is_extract(one: Instruction) -> bool:
    if one.op != "extractelement":
        return False
    vector, index = one.operands
    return vector.is_name and vector.type.integer_bits > 0 and index.value.isdigit()


def _is_cast(one: Instruction) -> bool:
    return one.op == "bitcast" and _is_same(one.values[0])


def _is_same(value: str) -> bool:
    """Return whether this is a value, or a constant of the same bits in any type."""
    return value[0] == "%" or value in _CONSTANTS


def _kept(one: Instruction) -> _Kept | None:
    if one.op not in _KEEPING or "atomic" in one.parts.flags:
        return None
    if one.op == "load":
        return _Kept(one.type, [one.name], memory=True)
    given = one.values
    if one.op == "store":
        given = given[:1]
    elif one.op == "select":
        if one.operands[0].type != "i1":
            return None
        given = given[1:]
    if not all(map(_is_same, given)) or not one.type.is_vector:
        return None
    names = [value for value in given if value[0] == "%"]
    if one.op == "store":
        return _Kept(one.type, names, memory=True)
    return _Kept(one.type, [one.name, *names], memory=False)


_KEEPING = frozenset({"load", "store", "phi", "select", "freeze", "and", "or", "xor"})


def _odd(type_: Type) -> bool:
    return type_.is_vector and type_.integer_bits > 0 and _is_odd(type_.length, type_.integer_bits)


def _constant(text: str, wide: Type) -> str:
    """All bits set, in words for the wider type."""
    ones = f"splat (i{wide.integer_bits} -1)" if wide.is_vector else "-1"
    return text.replace(_TRUE, ones)
