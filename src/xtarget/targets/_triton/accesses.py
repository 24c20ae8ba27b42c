"""Find out from Triton's IR how a kernel accesses the memory behind each of its parameters.

Pointers are followed from the parameters through whatever is computed of them to the operations
that read and write memory. Where a pointer may come from several parameters, each of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from .locations import source_lines

__all__ = ["Access", "accesses"]

#: Letters of `Access.text`.
READ, WRITE, ATOMIC, PERHAPS, MIXED = "r", "w", "a", "p", "m"

#: Operations that use the memory behind their first operand: what they do there.
_MEMORY: Final[Mapping[str, str]] = {
    "tt.load": READ,
    "tt.atomic_load": READ,
    "tt.atomic_poll": READ,
    "tt.descriptor_load": READ,
    "tt.descriptor_gather": READ,
    "tt.store": WRITE,
    "tt.atomic_store": WRITE,
    "tt.descriptor_store": WRITE,
    "tt.descriptor_scatter": WRITE,
    "tt.atomic_rmw": ATOMIC,
    "tt.atomic_cas": ATOMIC,
    "tt.descriptor_reduce": ATOMIC,
}
#: Operations whose result points where these operands of theirs point.
_FIRST: Final = frozenset(
    {
        *("tt.addptr", "tt.advance", "tt.make_tensor_ptr", "tt.make_tensor_descriptor"),
        *("tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans"),
        *("tt.bitcast", "tt.ptr_to_int", "tt.int_to_ptr", "tt.gather", "tt.split"),
        *("arith.bitcast", "arith.extsi", "arith.extui", "arith.trunci"),
    }
)
#: And those where each operand may be what the result points to.
_EACH: Final = frozenset(
    {
        *("tt.cat", "tt.join", "arith.addi", "arith.subi", "arith.andi", "arith.ori"),
        *("arith.muli", "arith.minsi", "arith.minui", "arith.maxsi", "arith.maxui"),
    }
)
#: Operations with pointers that use no memory and give no pointer.
_HARMLESS: Final = frozenset({"tt.print", "tt.assert", "arith.cmpi", "tt.return", "tt.func"})
#: Operations that make each of their results of many elements of a block.
_COMBINING: Final = frozenset(
    {"tt.reduce", "tt.scan", "tt.dot", "tt.dot_scaled", "tt.histogram", "tt.gather"}
)
#: The number of operands that decide what is done and do not become part of a result.
_CONTROL: Final = {"scf.for": 3, "scf.if": 1, "scf.condition": 1}
_ENDS: Final = frozenset({"scf.yield", "scf.condition", "tt.return"})

#: Where a value may point: parameters by number, and whether it is certain that it may.
_Origins: TypeAlias = dict[int, bool]
#: Memory that no parameter leads to: the address was read from memory, or is a number.
_ELSEWHERE: Final = -1


@dataclass(slots=True)
class Access:
    """The ways in which a kernel accesses the memory behind a parameter.

    Attributes:
        kinds: letters: `r` reads, `w` writes, `a` updates atomically, `p` perhaps writes, `m`
            writes what it has made of many elements of a block.
        stored: file and line of the first write or update (`kernels.py:12`).
    """

    kinds: set[str] = field(default_factory=set)
    stored: str | None = None

    @property
    def text(self) -> str:
        return "".join(letter for letter in "rwapm" if letter in self.kinds)


@dataclass(slots=True)
class _Op:
    name: str
    operands: list[int]
    results: list[int]
    block: int
    region: int
    regions: list[int]
    callee: str
    where: str


@dataclass(slots=True)
class _Block:
    region: int
    arguments: list[int]


def accesses(module: Any, builder: Any, count: int) -> list[Access] | None:
    """Return how a module's kernel accesses the memory behind its parameters.

    Args:
        module: Triton's, after the first stage (`ttir`).
        builder: a builder of the module's context.
        count: number of the kernel's parameters.

    Returns:
        an access for each parameter; None where the module has other parameters.
    """
    return _Walk(module, builder).accesses(count)


class _Walk:
    def __init__(self, module: Any, builder: Any) -> None:
        self._builder = builder
        self._ops: list[_Op] = []
        self._blocks: dict[int, _Block] = {}
        self._functions: dict[str, int] = {}  # region by name
        self._kernel = -1
        self._first: dict[int, int] = {}  # block of a region that comes first
        module.walk(self._take)
        self._ends: dict[int, list[_Op]] = {}
        self._jumps: dict[int, list[_Op]] = {}
        for op in self._ops:
            if op.name in _ENDS:
                self._ends.setdefault(op.region, []).append(op)
            elif op.name.startswith("cf."):
                self._jumps.setdefault(op.region, []).append(op)
        self._origins: dict[int, _Origins] = {}
        self._changed = False
        self._mixed: set[int] = set()

    def _take(self, op: Any) -> None:
        name = op.get_name()
        block = op.get_block()
        place, region = -1, -1
        if block is not None:
            place, region = block.id(), block.get_parent().id()
            if place not in self._blocks:
                numbers = [block.get_argument(i).id() for i in range(block.get_num_arguments())]
                self._blocks[place] = _Block(region, numbers)
        regions = [op.get_region(i).id() for i in range(op.get_num_regions())]
        if name == "tt.func":
            self._functions[str(op.get_str_attr("sym_name"))] = regions[0]
            if op.get_str_attr("sym_visibility") == "public":
                self._kernel = regions[0]
        self._ops.append(
            _Op(
                name,
                [op.get_operand(i).id() for i in range(op.get_num_operands())],
                [op.get_result(i).id() for i in range(op.get_num_results())],
                place,
                region,
                regions,
                str(op.get_flat_symbol_ref_attr("callee")) if name == "tt.call" else "",
                self._where(op) if _MEMORY.get(name, READ) != READ else "",
            )
        )

    def _where(self, op: Any) -> str:
        """File and line of an operation; its builder is the only one who tells."""
        self._builder.set_insertion_point_after(op)
        return _line_of(str(self._builder.get_loc()))

    # -------------------------------------------------------------------------------- following

    def accesses(self, count: int) -> list[Access] | None:
        entry = self._entry_of(self._kernel)
        if entry is None or len(entry) != count:
            # a function without parameters has no arguments to show; other numbers are unknown
            return [] if count == 0 else None
        for number, value in enumerate(entry):
            self._origins[value] = {number: True}
        while True:
            self._changed = False
            for op in self._ops:
                self._follow(op)
            if not self._changed:
                break
        self._mix()
        found = [Access() for _ in range(count)]
        for op in self._ops:
            self._use(op, found)
        return found

    def _entry_of(self, region: int) -> list[int] | None:
        """The arguments of a region's first block, which a walk meets first."""
        return next((b.arguments for b in self._blocks.values() if b.region == region), None)

    def _of(self, value: int) -> _Origins:
        return self._origins.get(value, {})

    def _give(self, value: int, origins: Mapping[int, bool], *, certain: bool = True) -> None:
        known = self._origins.setdefault(value, {})
        for number, sure in origins.items():
            if known.get(number) is not True and known.get(number) != (sure and certain):
                known[number] = sure and certain
                self._changed = True

    def _pass(self, sources: Sequence[int], goals: Sequence[int]) -> None:
        for source, goal in zip(sources, goals, strict=False):
            self._give(goal, self._of(source))

    def _follow(self, op: _Op) -> None:
        name = op.name
        if name in _FIRST:
            for result in op.results:
                self._give(result, self._of(op.operands[0]))
                for distance in op.operands[1:]:  # from one pointer to another, perhaps
                    pointers = {n: sure for n, sure in self._of(distance).items() if n >= 0}
                    self._give(result, pointers, certain=False)
        elif name in _EACH:
            for operand in op.operands:
                self._give(op.results[0], self._of(operand))
        elif name == "arith.select":
            for operand in op.operands[1:]:
                self._give(op.results[0], self._of(operand))
        elif name in _MEMORY:
            for result in op.results:  # an address that lay in memory
                self._give(result, {_ELSEWHERE: True})
        elif name == "tt.call":
            region = self._functions.get(op.callee, -1)
            self._pass(op.operands, self._entry_of(region) or ())
            for end in self._ends.get(region, ()):
                self._pass(end.operands, op.results)
        elif name == "scf.for":
            (body,) = op.regions
            carried = (self._entry_of(body) or [0])[1:]
            self._pass(op.operands[3:], carried)
            self._pass(op.operands[3:], op.results)
            for end in self._ends.get(body, ()):
                self._pass(end.operands, carried)
                self._pass(end.operands, op.results)
        elif name == "scf.while":
            before, after = op.regions
            self._pass(op.operands, self._entry_of(before) or ())
            for end in self._ends.get(after, ()):
                self._pass(end.operands, self._entry_of(before) or ())
            for end in self._ends.get(before, ()):
                self._pass(end.operands[1:], self._entry_of(after) or ())
                self._pass(end.operands[1:], op.results)
        elif name == "scf.if":
            for region in op.regions:
                for end in self._ends.get(region, ()):
                    self._pass(end.operands, op.results)
        elif name.startswith("cf."):
            # which operand goes to which block is not told
            for number, block in self._blocks.items():
                if block.region == op.region and number != self._blocks_first(op.region):
                    for argument in block.arguments:
                        for operand in op.operands:
                            self._give(argument, self._of(operand), certain=False)
        elif name not in _ENDS and name not in _HARMLESS:
            inside = [a for r in op.regions for a in self._entry_of(r) or ()]
            inner = [o for r in op.regions for end in self._ends.get(r, ()) for o in end.operands]
            for operand in (*op.operands, *inner):
                for goal in (*op.results, *inside):
                    self._give(goal, self._of(operand), certain=False)

    def _blocks_first(self, region: int) -> int:
        if region not in self._first:
            self._first[region] = next(n for n, b in self._blocks.items() if b.region == region)
        return self._first[region]

    def _mix(self) -> None:
        """Find the values that are made of many elements of a block.

        What only decides which way is taken, and how often, does not count: a loop may go on until
        all elements are done.
        """
        if not any(op.name in _COMBINING for op in self._ops):
            return
        before = -1
        while before != len(self._mixed):
            before = len(self._mixed)
            for op in self._ops:
                regions = op.regions if op.name != "tt.func" else []
                if op.name == "tt.call":
                    regions = [self._functions.get(op.callee, -1)]
                values = op.operands[_CONTROL.get(op.name, 0) :]
                for end in (end for region in regions for end in self._ends.get(region, ())):
                    values = values + end.operands[_CONTROL.get(end.name, 0) :]
                if op.name in _COMBINING or not self._mixed.isdisjoint(values):
                    self._mixed.update(op.results, *(self._entry_of(r) or () for r in regions))

    # ------------------------------------------------------------------------------------ using

    def _use(self, op: _Op, found: list[Access]) -> None:
        kind = _MEMORY.get(op.name)
        if kind is not None:
            origins = self._of(op.operands[0])
            if not origins or _ELSEWHERE in origins:
                # an address from elsewhere: it may be that of any parameter
                origins = dict.fromkeys(range(len(found)), False) | {
                    number: sure for number, sure in origins.items() if number >= 0
                }
            for number, sure in origins.items():
                _note(found[number], kind, op.where, sure)
                if sure and kind != READ and not self._mixed.isdisjoint(op.operands[1:]):
                    found[number].kinds.add(MIXED)
        elif not self._is_known(op):
            for operand in op.operands:
                for number in self._of(operand):
                    if number >= 0:
                        found[number].kinds |= {READ, PERHAPS}

    def _is_known(self, op: _Op) -> bool:
        name = op.name
        return (
            name in _FIRST
            or name in _EACH
            or name in _ENDS
            or name in _HARMLESS
            or name == "tt.call"
            or name.startswith(("scf.", "cf.", "arith.", "math.", "ub."))
        )


def _note(access: Access, kind: str, where: str, sure: bool) -> None:
    if kind == READ or sure:
        access.kinds.add(kind)
        if kind != READ and access.stored is None:
            access.stored = where
    else:
        access.kinds.add(PERHAPS)
        if kind == ATOMIC:
            access.kinds.add(READ)


def _line_of(location: str) -> str:
    """The innermost place of a location that is not in Triton's own library, as `file:line`."""
    places = list(source_lines(location))
    own = [place for place in places if "/triton/language/" not in place[0].replace("\\", "/")]
    for file, line in own or places:
        return f"{PurePath(file).name}:{line}"
    return ""
