"""Where the lanes of a warp go different ways, and where they come together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .vector_code import Block, Instruction, NotVectorizableError
from .vector_shapes import Shapes

__all__ = ["Region", "doubtful_blocks", "reverse_postorder", "split_regions"]


@dataclass(frozen=True, slots=True)
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


def reverse_postorder(blocks: Sequence[Block]) -> list[str]:
    """Labels, each before those that follow it, but for the way back in a loop."""
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


def _immediate_postdominators(blocks: Sequence[Block], order: Sequence[str]) -> dict[str, str]:
    """The block through which all ways from a block lead first; none for the last."""
    by_label = {block.label: block for block in blocks}
    number = {label: index for index, label in enumerate(order)}
    everything = (1 << len(order)) - 1
    sets = {label: everything if by_label[label].after else 1 << number[label] for label in order}
    changed = True
    while changed:
        changed = False
        for label in reversed(order):
            if not by_label[label].after:
                continue
            common = everything
            for after in by_label[label].after:
                common &= sets[after]
            common |= 1 << number[label]
            if common != sets[label]:
                sets[label], changed = common, True
    result = {}
    for label in order:
        own = sets[label] & ~(1 << number[label])
        for candidate in order:  # the nearest one is postdominated by all the others
            if own >> number[candidate] & 1 and sets[candidate] == own:
                result[label] = candidate
                break
    return result


def split_regions(blocks: Sequence[Block], shapes: Shapes) -> list[Region]:
    """The outermost regions.

    Raises:
        NotVectorizableError: lanes part in a way that cannot be laid out one after the other, as in
            a loop that they leave at different times.
    """
    by_label = {block.label: block for block in blocks}
    order = reverse_postorder(blocks)
    number = {label: index for index, label in enumerate(order)}
    after: dict[str, str] | None = None
    regions: list[Region] = []
    inside: set[str] = set()
    for label in order:
        end = by_label[label].end
        if label in inside or not end.operands or shapes.get(end.operands[0]).step == 0:
            continue
        if after is None:
            after = _immediate_postdominators(blocks, order)
        join = after.get(label)
        if join is None:
            raise NotVectorizableError("lanes that part for good")
        found: set[str] = set()
        stack = [one for one in end.labels if one != join]
        while stack:
            one = stack.pop()
            if one in found:
                continue
            found.add(one)
            stack += [next_ for next_ in by_label[one].after if next_ != join]
        if number[join] <= number[label] or any(
            number[next_] <= number[one] for one in found for next_ in by_label[one].after
        ):
            raise NotVectorizableError("a loop that not all lanes go through alike")
        for one in found:
            if not set(by_label[one].before) <= found | {label}:
                raise NotVectorizableError("lanes that part and meet in no simple order")
        inside |= found
        regions.append(Region(label, tuple(sorted(found, key=number.__getitem__)), join))
    return regions


def doubtful_blocks(blocks: Sequence[Block], regions: Sequence[Region], shapes: Shapes) -> set[str]:
    """Blocks that some lanes may go through without the first one.

    An instruction may say that it does not overflow, but that is said of the lanes that execute it.
    Where those are the first so many lanes, or none, it holds for lane 0 and all up to the last.
    """
    by_label = {block.label: block for block in blocks}
    definitions = {one.name: one for block in blocks for one in block.code if one.name}
    doubtful: set[str] = set()
    for region in regions:
        for label in region.blocks:
            before = by_label[label].before
            end = by_label[before[0]].end
            conditional = len(end.labels) == 2
            if (
                len(before) > 1
                or before[0] in doubtful
                or (conditional and end.labels[0] != label)
                or (conditional and not _of_first_lanes(end.operands[0], definitions, shapes))
            ):
                doubtful.add(label)
    return doubtful


def _of_first_lanes(mask: str, definitions: dict[str, Instruction], shapes: Shapes) -> bool:
    """Whether a mask, if it is true for a lane, is true for all lanes before it."""
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
