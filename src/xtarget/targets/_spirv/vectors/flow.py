"""Find where the lanes of a warp diverge, and where they converge again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ...._values.value_classes import value_class
from .code import Block, Instruction, NotVectorizableError
from .shapes import Shapes

__all__ = ["Flow", "Region"]


@value_class(frozen=True, slots=True)
class Region:
    """Code that only some lanes execute.

    Attributes:
        head: block whose branch parts the lanes.
        blocks: between head and join, in an order in which each comes after those before it.
        join: block where all lanes are together again.
    """

    head: str
    blocks: tuple[str, ...]
    join: str

    @property
    def sources(self) -> frozenset[str]:
        return frozenset((self.head, *self.blocks))


def _reverse_postorder(blocks: Sequence[Block]) -> list[str]:
    by_label = {block.label: block for block in blocks}
    done: list[str] = []
    seen = {blocks[0].label}
    stack = [(blocks[0].label, iter(by_label[blocks[0].label].after))]
    while stack:
        label, following = stack[-1]
        for after in following:
            if after not in seen:
                seen.add(after)
                stack.append((after, iter(by_label[after].after)))
                break
        else:
            stack.pop()
            done.append(label)
    return done[::-1]


class Flow:
    """The ways through a kernel.

    Attributes:
        blocks: those that can be reached, each before those that follow it, but for the way back
            in a loop.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        by_label = {block.label: block for block in blocks}
        self._order = _reverse_postorder(blocks)
        self.blocks = [by_label[label] for label in self._order]
        self._number = {label: index for index, label in enumerate(self._order)}
        self._before = {block.label: block.before for block in self.blocks}
        self._ends = {block.label: block.end for block in self.blocks}

    @cached_property
    def _definitions(self) -> dict[str, Instruction]:
        return {one.name: one for block in self.blocks for one in block.code if one.name}

    @cached_property
    def _postdominators(self) -> dict[str, str]:
        """The block through which all ways from a block lead first; none for the last."""
        ways = [
            (index, [self._number[label] for label in self._ends[block.label].labels])
            for index, block in enumerate(self.blocks)
        ]
        everything = (1 << len(ways)) - 1
        sets = [everything if after else 1 << index for index, after in ways]
        changed = True
        while changed:
            changed = False
            for index, following in reversed(ways):
                if not following:
                    continue
                common = everything
                for after in following:
                    common &= sets[after]
                common |= 1 << index
                if common != sets[index]:
                    sets[index], changed = common, True
        # the nearest one is postdominated by all the others
        first = {one: self._order[index] for index, one in reversed(list(enumerate(sets)))}
        nearest = {label: sets[index] & ~(1 << index) for index, label in enumerate(self._order)}
        return {label: first[own] for label, own in nearest.items() if own in first}

    def regions(self, shapes: Shapes) -> list[Region]:
        """The outermost regions.

        Raises:
            NotVectorizableError: lanes part in a way that cannot be laid out one after the other,
                as in a loop that they leave at different times.
        """
        number, ends = self._number, self._ends
        regions: list[Region] = []
        inside: set[str] = set()
        for label, end in ends.items():
            if label in inside or not end.operands or shapes.get(end.operands[0]).step == 0:
                continue
            join = self._postdominators.get(label)
            if join is None:
                raise NotVectorizableError("lanes that part for good")
            found: set[str] = set()
            stack = [one for one in end.labels if one != join]
            while stack:
                one = stack.pop()
                if one in found:
                    continue
                found.add(one)
                stack += [next_ for next_ in ends[one].labels if next_ != join]
            if number[join] <= number[label] or any(
                number[next_] <= number[one] for one in found for next_ in ends[one].labels
            ):
                raise NotVectorizableError("a loop that not all lanes go through alike")
            for one in found:
                if any(way != label and way not in found for way in self._before[one]):
                    raise NotVectorizableError("lanes that part and meet in no simple order")
            inside |= found
            regions.append(Region(label, tuple(sorted(found, key=number.__getitem__)), join))
        return regions

    def doubtful_blocks(self, regions: Sequence[Region], shapes: Shapes) -> set[str]:
        """Blocks that some lanes may go through without the first one.

        An instruction may say that it does not overflow, but that is said of the lanes that execute
        it. Where those are the first so many lanes, or none, it holds for lane 0 and all up to the
        last.
        """
        doubtful: set[str] = set()
        for region in regions:
            for label in region.blocks:
                before = self._before[label]
                end = self._ends[before[0]]
                conditional = len(end.labels) == 2
                if (
                    len(before) > 1
                    or before[0] in doubtful
                    or (conditional and end.labels[0] != label)
                    or (
                        conditional
                        and not _of_first_lanes(end.operands[0], self._definitions, shapes)
                    )
                ):
                    doubtful.add(label)
        return doubtful


def _of_first_lanes(mask: str, definitions: dict[str, Instruction], shapes: Shapes) -> bool:
    """Return whether a mask that is true for a lane is true for all lanes before it."""
    one = definitions.get(mask)
    if shapes.get(mask, "i1").step == 0 or one is None:
        return True
    if one.op == "and" or (one.op == "select" and one.operands[2] == "false"):
        return all(_of_first_lanes(part, definitions, shapes) for part in one.operands[:2])
    if one.op != "icmp":
        return False
    left, right = (shapes.get(value, one.types[0]) for value in one.operands)
    growing, fixed = (left, right) if right.step == 0 else (right, left)
    below = ("slt", "sle", "ult", "ule") if growing is left else ("sgt", "sge", "ugt", "uge")
    exact = growing.signed if one.extra[0] == "s" else growing.unsigned
    step = growing.step or 0
    return one.extra in below and fixed.step == 0 and step > 0 and exact
