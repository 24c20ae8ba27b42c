"""Loads and stores of vectors: in one piece where lanes are neighbours and the mask is full."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .alignment import Alignments
from .code import LANES, Instruction, NotVectorizableError, size_of
from .masks import Masks
from .shapes import Shapes
from .text import Text

__all__ = ["Memory"]


class Memory:
    """Addresses that grow by a step stay scalars; others are a scalar base and vector of bytes."""

    def __init__(self, text: Text, masks: Masks, shapes: Shapes, alignments: Alignments) -> None:
        self._text, self._masks, self._shapes = text, masks, shapes
        self._alignments = alignments
        self._scattered: dict[str, tuple[str, str]] = {}
        self._opaque = ""
        self._rooms: dict[str, str] = {}
        self._loaded: dict[str, str | None] = {}

    def is_loaded(self, value: str, mask: str | None) -> bool:
        """Whether a value was loaded under a mask, and so is 0 in the other lanes."""
        return mask is not None and self._loaded.get(value) == mask

    def address(self, one: Instruction) -> None:
        """A getelementptr whose result varies."""
        text = self._text
        base, index = one.operands
        type_ = one.types[1]
        vector = text.vector(index, type_)
        if type_ != "i64":
            vector = text.assign(
                f"sext {text.vector_type(type_)} {vector} to {text.vector_type('i64')}", "i64"
            )
        wide = text.vector_type("i64")
        size = size_of(one.extra)
        if size > 1:
            vector = text.assign(
                f"mul {wide} {vector}, {text.constant([size] * LANES, 'i64')}", "i64"
            )
        base = text.resolved(base)
        if base in self._scattered:
            base, before = self._scattered[base]
            vector = text.assign(f"add {wide} {vector}, {before}", "i64")
        else:
            step = self._shapes.get(base).step
            if step is None:
                raise NotVectorizableError(f"the address {base}")
            base = text.scalar(base)
            if step:
                steps = text.constant((step * lane for lane in range(LANES)), "i64")
                vector = text.assign(f"add {wide} {vector}, {steps}", "i64")
        self._scattered[one.name] = (base, vector)

    def load(self, one: Instruction, mask: str | None) -> None:
        text, (pointer,) = self._text, one.operands
        shape = self._shapes.get(one.name)
        if shape.step == 0:
            text.emit(
                f"{one.name} = load {one.type}, {one.types[0]} {text.scalar(pointer)}{_align(one)}"
            )
            return
        vector = text.vector_type(one.type)
        step = self._shapes.get(text.resolved(pointer)).step
        whole: Callable[[], str] | None = None
        if one.type != "i1" and text.resolved(pointer) not in self._scattered:
            if step == size_of(one.type):
                line = f"load {vector}, {one.types[0]} {text.scalar(pointer)}{_align(one)}"
                whole = partial(text.assign, line, one.type)
            elif step == 0:
                whole = partial(self._everywhere, one, pointer)
        if mask is None and whole:
            text.alias(one.name, whole())
            return
        self._guarded(one, mask, whole, one.name)
        self._loaded[one.name] = mask

    def _everywhere(self, one: Instruction, pointer: str) -> str:
        """The element at the address of all lanes, in every lane."""
        text, vector = self._text, self._text.vector_type(one.type)
        place = text.scalar(pointer)
        value = text.scalar_here(f"load {one.type}, {one.types[0]} {place}{_align(one)}")
        first = text.assign(f"insertelement {vector} poison, {one.type} {value}, i32 0", one.type)
        return text.assign(
            f"shufflevector {vector} {first}, {vector} poison, <{LANES} x i32> zeroinitializer",
            one.type,
        )

    def _store_whole(self, one: Instruction) -> None:
        text, (value, pointer) = self._text, one.operands
        text.emit(
            f"store {text.vector_type(one.type)} {text.vector(value, one.type)}, "
            f"{one.types[1]} {text.scalar(pointer)}{self._whole_align(one)}"
        )

    def store(self, one: Instruction, mask: str | None) -> None:
        text, pointer = self._text, one.operands[1]
        if one.type.startswith("ptr"):
            raise NotVectorizableError("a store of an address")
        step = self._shapes.get(text.resolved(pointer)).step
        scattered = text.resolved(pointer) in self._scattered
        if step == 0 and not scattered and mask is None:
            self._store_lane(one, LANES - 1, text.scalar(pointer))  # the last one would win
            return
        known = self._shapes.get(text.resolved(mask)).known if mask else None
        if known and not scattered and sum(known) <= 2:
            for lane in (lane for lane, on in enumerate(known) if on):
                self._store_lane(one, lane, self._at(one, pointer, str(lane)))
            return
        only = self._masks.only_lane(mask) if mask else None
        if mask and only is not None:
            self._store_if(one, mask, only)
            return
        whole = None
        if step == size_of(one.type) and not scattered and one.type != "i1":
            whole = partial(self._store_whole, one)
        if mask is None and whole:
            whole()
            return
        self._guarded(one, mask, whole, "")

    def _whole_align(self, one: Instruction) -> str:
        """Of a store in one piece; a hint is of no use to pieces."""
        if not one.hint or not one.align:
            return _align(one)
        least = int(one.align.split()[1])
        return f", align {max(least, self._alignments.get(one.operands[1]))}{one.hint}"

    def _store_lane(self, one: Instruction, lane: int, address: str) -> None:
        text, value = self._text, self._text.resolved(one.operands[0])
        vector = f"{text.vector_type(one.type)} {text.vector(value, one.type)}"
        element = text.scalar_here(f"extractelement {vector}, i32 {lane}")
        text.emit(f"store {one.type} {element}, {one.types[1]} {address}{_align(one)}")

    def _store_if(self, one: Instruction, mask: str, lane: int) -> None:
        """Store one lane's value if that lane is on; no other one is."""
        text, number = self._text, self._text.fresh()
        masks = f"{text.vector_type('i1')} {text.vector(mask, 'i1')}"
        on = text.scalar_here(f"extractelement {masks}, i32 {lane}")
        act, done = f"xt.act{number}", f"xt.done{number}"
        text.emit(f"br i1 {on}, label %{act}, label %{done}")
        text.open(act)
        self._store_lane(one, lane, self._at(one, one.operands[1], str(lane)))
        text.emit(f"br label %{done}")
        text.open(done)

    def _at(self, one: Instruction, pointer: str, lane: str) -> str:
        """A lane's address."""
        text = self._text
        pointer, type_ = text.resolved(pointer), one.types[-1]
        if pointer in self._scattered:
            base, offsets = self._scattered[pointer]
            offset = text.scalar_here(
                f"extractelement {text.vector_type('i64')} {offsets}, i32 {lane}"
            )
            return text.scalar_here(f"getelementptr i8, {type_} {base}, i64 {offset}")
        step = self._shapes.get(pointer).step
        if step is None:
            raise NotVectorizableError(f"the address {pointer}")
        wide = text.scalar_here(f"zext i32 {lane} to i64")
        offset = text.scalar_here(f"mul i64 {wide}, {step}")
        return text.scalar_here(f"getelementptr i8, {type_} {text.scalar(pointer)}, i64 {offset}")

    def _guarded(
        self, one: Instruction, mask: str | None, whole: Callable[[], object] | None, name: str
    ) -> None:
        """In one piece if the mask is full, not at all if it is empty, else lane by lane."""
        text = self._text
        full, empty = self._masks.facts(mask) if mask else ("true", "false")
        if whole is None:
            full = "false"
        number = text.fresh()
        vector = text.vector_type(one.type)
        results = []
        done, part, loop = f"xt.done{number}", f"xt.part{number}", f"xt.lane{number}"
        if full != "false":
            assert whole is not None
            text.emit(f"br i1 {full}, label %xt.full{number}, label %{part}")
            text.open(f"xt.full{number}")
            results.append((whole(), text.current))
            text.emit(f"br label %{done}")
            text.open(part)
        if empty == "true":
            text.emit(f"br label %{done}")
            results.append(("zeroinitializer", text.current))
        else:
            if empty != "false":
                results.append(("zeroinitializer", text.current))
                text.emit(f"br i1 {empty}, label %{done}, label %xt.some{number}")
                text.open(f"xt.some{number}")
            results.append((self._lanes(one, mask, number, loop), text.current))
            text.emit(f"br label %{done}")
        text.open(done)
        if name:
            ways = ", ".join(f"[ {value}, %{label} ]" for value, label in results)
            text.alias(name, text.assign(f"phi {vector} {ways}", one.type))

    def _end(self) -> str:
        """The number of lanes, in a form that a compiler cannot see through: it would write every
        loop over lanes 16 times over, and take seconds for it.
        """
        if not self._opaque:
            text = self._text
            text.declare(
                "declare spir_func i32 @_Z12get_work_dimv() nounwind willreturn memory(none)"
            )
            dimensions = text.scalar_behind("", "call spir_func i32 @_Z12get_work_dimv()")
            nothing = text.scalar_behind("", f"lshr i32 {dimensions}, 2")  # there are 3 at most
            self._opaque = text.scalar_behind("", f"add i32 {nothing}, {LANES}")
        return self._opaque

    def _room(self, type_: str) -> str:
        """Memory of a vector whose elements are reached by number: an element of a register is only
        by way of memory, and a loop over lanes would take all of the vector there and back for each
        of them.
        """
        if type_ == "i1":
            raise NotVectorizableError("bits in memory")
        if type_ not in self._rooms:
            line = f"alloca {self._text.vector_type(type_)}, align 64"
            self._rooms[type_] = self._text.scalar_behind("", line)
        return self._rooms[type_]

    def _lanes(self, one: Instruction, mask: str | None, number: str, loop: str) -> str:
        """A loop over the lanes; the vector of a load behind it."""
        text, vector, before = self._text, self._text.vector_type(one.type), self._text.current
        room = self._room(one.type)
        is_load = one.op == "load"
        value = "zeroinitializer" if is_load else text.vector(one.operands[0], one.type)
        text.emit(f"store {vector} {value}, ptr {room}, align 64")
        text.emit(f"br label %{loop}")
        text.open(loop)
        lane, following = f"%xs.l{number}", f"%xs.m{number}"
        act, skip = f"xt.act{number}", f"xt.skip{number}"
        text.emit(f"{lane} = phi i32 [ 0, %{before} ], [ {following}, %{skip} ]")
        if mask is None:
            text.emit(f"br label %{act}")
        else:
            on = text.scalar_here(
                f"extractelement {text.vector_type('i1')} {text.vector(mask, 'i1')}, i32 {lane}"
            )
            text.emit(f"br i1 {on}, label %{act}, label %{skip}")
        text.open(act)
        address = f"{one.types[-1]} {self._at(one, one.operands[-1], lane)}"
        place = f"ptr {text.scalar_here(f'getelementptr {one.type}, ptr {room}, i32 {lane}')}"
        source, goal = (address, place) if is_load else (place, address)
        element = text.scalar_here(f"load {one.type}, {source}{_align(one) if is_load else ''}")
        text.emit(f"store {one.type} {element}, {goal}{'' if is_load else _align(one)}")
        text.emit(f"br label %{skip}")
        text.open(skip)
        text.emit(f"{following} = add nuw nsw i32 {lane}, 1")
        end = text.scalar_here(f"icmp eq i32 {following}, {self._end()}")
        text.emit(f"br i1 {end}, label %xt.behind{number}, label %{loop}")
        text.open(f"xt.behind{number}")
        return text.assign(f"load {vector}, ptr {room}, align 64", one.type) if is_load else ""


def _align(one: Instruction) -> str:
    return f", {one.align}" if one.align else ""
