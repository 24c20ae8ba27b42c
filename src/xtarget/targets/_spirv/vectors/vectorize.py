"""A block of one warp as one thread that computes with vectors, for CPU run times.

A CPU's OpenCL compiler makes vectors of lanes too, but has to find out what is known here: that a
mask is full, that neighbours lie side by side, that a value is the same in all lanes. It also
writes all code twice, for whole and for cut vectors. Here the 16 lanes of the block's only warp
become vectors of 16; what is the same in all lanes stays a scalar; where a mask is full, as a
comparison of its last lane tells, memory is read and written in one piece; values that lanes
exchange are shuffles of a register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ..llvm.ir import Function, Module
from .alignment import Alignments, of_parameters
from .calls import is_barrier, is_shuffle, may_be_repeated, vector_call
from .code import (
    FLOAT_FLAGS,
    LANE_CALL,
    LANES,
    WARP_CALL,
    Block,
    Instruction,
    NotVectorizableError,
    parse,
)
from .flow import Flow, Region
from .masks import Masks
from .memory import Memory
from .shapes import Shapes
from .text import Text

__all__ = ["NotVectorizableError", "vectorize"]

#: What `Memory` gives to lanes that load nothing, or may give them.
_NOTHING = ("0.000000e+00", "0", "false", "undef", "poison")
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")


def vectorize(module: Module) -> str:
    """The text of a module with its kernel rewritten.

    Raises:
        NotVectorizableError: the kernel does something that has no place in a single thread here.
    """
    functions = module.functions
    if len(functions) != 1 or functions[0].name != module.entry:
        raise NotVectorizableError("functions beside the kernel")
    kernel = functions[0]
    body, declarations = _Kernel(parse(kernel), of_parameters(kernel)).write()
    given = {line.text.split("(")[0] for line in module.lines("declare")}
    lines: list[str] = []
    for item in module.items:
        if isinstance(item, Function):
            lines += [_of_one_thread(item.head), *body, "}"]
        else:
            lines.append(item.text)
    return "\n".join(
        [
            *lines,
            *(line for line in declarations if line.split("(")[0] not in given),
            "!900 = !{i32 1, i32 1, i32 1}",
            "",
        ]
    )


def _of_one_thread(head: str) -> str:
    """A kernel's first line with a block of one thread, and no sub-group."""
    start, size, rest = head.partition("!reqd_work_group_size ")
    words = rest.split(" ")  # of block and sub-group, and what follows
    if words[1:2] != ["!intel_reqd_sub_group_size"]:
        return head
    return f"{start}{size}!900 {' '.join(words[3:])}"


class _Kernel:
    """The kernel while it is rewritten."""

    def __init__(self, blocks: Sequence[Block], aligned: Mapping[str, int]) -> None:
        self._blocks = {block.label: block for block in blocks}
        flow = Flow(blocks)
        reachable = flow.blocks
        self._order = [block.label for block in reachable]
        self.shapes = Shapes(reachable)
        known: tuple[set[str], set[str], set[str]] = (set(), set(), set())
        while True:
            self._regions = flow.regions(self.shapes)
            inside = {label for region in self._regions for label in region.blocks}
            joins = {label for label in inside if len(self._blocks[label].before) > 1}
            joins |= {region.join for region in self._regions}
            found = (joins, inside, flow.doubtful_blocks(self._regions, self.shapes))
            # what varied once is not looked at anew, so that this comes to an end
            found = (known[0] | joins, known[1] | inside, known[2] | found[2])
            if found == known:
                break
            known = found
            self.shapes = Shapes(reachable, *known)
        self._text = Text(reachable, self.shapes)
        self._masks = Masks(self._text, reachable, self.shapes)
        alignments = Alignments(reachable, aligned)
        self._memory = Memory(self._text, self._masks, self.shapes, alignments)
        self._joined: dict[tuple[str, str], str] = {}

    def write(self) -> tuple[list[str], list[str]]:
        """The lines between the braces, and the declarations of called functions."""
        inside = {label for region in self._regions for label in region.blocks}
        heads = {region.head: region for region in self._regions}
        joins: dict[str, list[Region]] = {}
        for region in self._regions:
            joins.setdefault(region.join, []).append(region)
        for label in self._order:
            if label in inside:
                continue
            self._text.open(label)
            self._phis(label, joins.get(label, []))
            self._code(label, None)
            if label in heads:
                self._region(heads[label])
                continue
            end = self._blocks[label].end
            if end.op == "ret":
                self._text.emit("ret void")
            elif len(end.labels) == 1:
                self._text.emit(f"br label %{end.labels[0]}")
            else:
                condition = self._text.scalar(end.operands[0])
                self._text.emit(
                    f"br i1 {condition}, label %{end.labels[0]}, label %{end.labels[1]}"
                )
            self._text.close(label)
        return self._text.lines(), self._text.declarations()

    # ------------------------------------------------------------------ code of some lanes only

    def _region(self, region: Region) -> None:
        """Lay its blocks out one after the other, each under the mask of its lanes."""
        masks: dict[str, str | None] = {region.head: None}
        edges: dict[tuple[str, str], str | None] = {}
        self._leave(region.head, masks, edges)
        for label in region.blocks:
            block = self._blocks[label]
            ways = [edges[before, label] for before in block.before]
            masks[label] = self._masks.either(ways)
            for one in self._phi_list(block):
                self._choose(one, block.before, label, edges)
            self._code(label, masks[label])
            self._leave(label, masks, edges)
        join = self._blocks[region.join]
        sources = [before for before in join.before if before in region.sources]
        for one in self._phi_list(join):
            values = dict(zip(one.labels, one.operands, strict=True))
            given = {values[source] for source in sources}
            if len(given) == 1:
                value = given.pop()
                varying = self.shapes.get(one.name).step is None
                chosen = self._text.vector(value, one.type) if varying else self._text.scalar(value)
            else:
                chosen = self._select(one, sources, region.join, edges)
            self._joined[one.name, region.head] = chosen
        self._text.emit(f"br label %{region.join}")
        self._text.close(region.head)

    def _leave(
        self, label: str, masks: dict[str, str | None], edges: dict[tuple[str, str], str | None]
    ) -> None:
        """Masks of the ways out of a block."""
        end, mask = self._blocks[label].end, masks[label]
        if len(end.labels) == 1 or end.labels[0] == end.labels[1]:
            edges[label, end.labels[0]] = mask
            return
        condition = end.operands[0]
        edges[label, end.labels[0]] = self._masks.both(mask, condition)
        edges[label, end.labels[1]] = self._masks.both(mask, self._masks.negated(condition))

    @staticmethod
    def _phi_list(block: Block) -> list[Instruction]:
        return [one for one in block.code if one.op == "phi"]

    def _choose(
        self,
        one: Instruction,
        sources: Sequence[str],
        label: str,
        edges: dict[tuple[str, str], str | None],
    ) -> None:
        if len(set(one.operands)) == 1:
            self._text.alias(one.name, one.operands[0])
            return
        self._text.alias(one.name, self._select(one, sources, label, edges))

    def _select(
        self,
        one: Instruction,
        sources: Sequence[str],
        label: str,
        edges: dict[tuple[str, str], str | None],
    ) -> str:
        """The value that each lane brings along."""
        if one.type.startswith("ptr"):
            raise NotVectorizableError("addresses that depend on the way a lane went")
        values = dict(zip(one.labels, one.operands, strict=True))
        sources = sorted(
            dict.fromkeys(sources), key=lambda source: edges[source, label] is not None
        )
        if len(sources) == 2:
            for source, other in (sources, sources[::-1]):
                mask = edges[source, label]
                if values[other] in _NOTHING and self._memory.is_loaded(values[source], mask):
                    return self._text.vector(values[source], one.type)
        type_ = self._text.vector_type(one.type)
        result = self._text.vector(values[sources[0]], one.type)
        for source in sources[1:]:
            mask = edges[source, label]
            if mask is None:
                raise NotVectorizableError("two ways that all lanes go")
            result = self._text.assign(
                f"select {self._text.vector_type('i1')} {self._text.vector(mask, 'i1')}, "
                f"{type_} {self._text.vector(values[source], one.type)}, {type_} {result}",
                one.type,
            )
        return result

    # ------------------------------------------------------------------ code of all lanes

    def _phis(self, label: str, regions: Sequence[Region]) -> None:
        block = self._blocks[label]
        origin = {source: region for region in regions for source in region.sources}
        for one in self._phi_list(block):
            shape = self.shapes.get(one.name)
            if shape.step is None and one.type.startswith("ptr"):
                raise NotVectorizableError("addresses that vary from lane to lane in a loop")
            varying = shape.step is None
            type_ = self._text.vector_type(one.type) if varying else one.type
            self._text.emit(partial(self._phi, one, type_, origin))
        self._text.place_behind(*(one.name for one in self._phi_list(block)))

    def _phi(self, one: Instruction, type_: str, origin: Mapping[str, Region]) -> str:
        """The phi's text, once all blocks are written."""
        text, ways = self._text, {}
        for source, value in zip(one.labels, one.operands, strict=True):
            if source in origin:
                head = origin[source].head
                ways[text.exit(head)] = self._joined[one.name, head]
            elif type_ == one.type:
                ways[text.exit(source)] = text.scalar(value)
            else:
                ways[text.exit(source)] = text.vector(value, one.type)
        pairs = ", ".join(f"[ {value}, %{label} ]" for label, value in ways.items())
        return f"{one.name} = phi {type_} {pairs}"

    def _code(self, label: str, mask: str | None) -> None:
        for one in self._blocks[label].code:
            if one.op not in ("phi", "br", "ret"):
                self._instruction(one, mask)

    def _instruction(self, one: Instruction, mask: str | None) -> None:
        text, shape = self._text, self.shapes.get(one.name)
        if one.op == "load":
            self._memory.load(one, mask)
        elif one.op == "store":
            self._memory.store(one, mask)
        elif one.op == "call":
            self._call(one, mask)
        elif shape.known is not None:
            pass  # a constant wherever it is used
        elif shape.step is not None:
            self._scalar(one, mask)
        elif one.op == "getelementptr":
            self._memory.address(one)
        elif one.type.startswith("ptr"):
            raise NotVectorizableError(f"{one.op} of addresses that vary")
        else:
            self._vector(one, mask)
        if one.name:
            text.place_behind(one.name)

    def _call(self, one: Instruction, mask: str | None) -> None:
        text, shape = self._text, self.shapes.get(one.name)
        if is_barrier(one.extra):
            if mask is not None:
                raise NotVectorizableError("a barrier that not all lanes reach")
        elif one.extra == WARP_CALL:
            text.alias(one.name, "0")
        elif one.extra == LANE_CALL:
            pass  # a constant
        elif not one.name or not may_be_repeated(one):
            raise NotVectorizableError(f"a call of {one.extra}")
        elif is_shuffle(one.extra) and mask is not None:
            raise NotVectorizableError("lanes that exchange values while others are away")
        elif is_shuffle(one.extra) and shape.step == 0:
            text.alias(one.name, one.operands[0])
        elif shape.step == 0:
            self._scalar(one, mask)
        else:
            vector_call(text, one, self.shapes)

    def _scalar(self, one: Instruction, mask: str | None) -> None:
        """As it was, for the first lane: that stands for all."""
        values = [self._text.scalar(v) for v in one.operands]
        if one.op in _DIVISIONS and mask is not None and one.operands[1].startswith("%"):
            raise NotVectorizableError("a division that not all lanes execute")
        self._text.emit(_line(one, values, one.types, one.type, mask))

    def _vector(self, one: Instruction, mask: str | None) -> None:
        text = self._text
        types = [text.vector_type(t) for t in one.types]
        if one.op == "select" and self.shapes.get(one.operands[0], "i1").step == 0:
            values = [text.scalar(one.operands[0])]
            types[0] = "i1"
        else:
            values = [text.vector(one.operands[0], one.types[0])]
        values += [
            text.vector(v, t) for v, t in list(zip(one.operands, one.types, strict=True))[1:]
        ]
        if one.op in _DIVISIONS and mask is not None and one.operands[1].startswith("%"):
            ones = text.constant([1] * LANES, one.type)
            values[1] = text.assign(
                f"select {text.vector_type('i1')} {text.vector(mask, 'i1')}, "
                f"{types[1]} {values[1]}, {types[1]} {ones}",
                one.type,
            )
        text.emit(_line(one, values, types, text.vector_type(one.type), mask))


def _line(
    one: Instruction, values: Sequence[str], types: Sequence[str], type_: str, mask: str | None
) -> str:
    """An instruction's text with other operands and types.

    What it says of overflows holds for the lanes that execute it: under a mask it is left out.
    """
    flags = "".join(f"{flag} " for flag in one.flags if mask is None or flag in FLOAT_FLAGS)
    pairs = [f"{t} {v}" for t, v in zip(types, values, strict=True)]
    if one.op in ("icmp", "fcmp"):
        rest = f"{flags}{one.extra} {pairs[0]}, {values[1]}"
    elif one.op == "select":
        rest = flags + ", ".join(pairs)
    elif one.op == "getelementptr":
        rest = f"{flags}{one.extra}, {', '.join(pairs)}"
    elif one.op == "call":
        prefix = "spir_func " if one.extra.startswith("_Z") else ""
        return f"{one.name} = call {prefix}{type_} @{one.extra}({', '.join(pairs)})"
    elif len(values) == 2:
        rest = f"{flags}{pairs[0]}, {values[1]}"
    elif one.op in ("fneg", "freeze"):
        rest = flags + pairs[0]
    else:
        rest = f"{flags}{pairs[0]} to {type_}"
    return f"{one.name} = {one.op} {rest}"
