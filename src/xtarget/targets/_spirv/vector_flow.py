"""Where the lanes of a warp go different ways, and where they come together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .vector_shapes import Block, NotVectorizableError, Shapes

__all__ = ["Region", "reverse_postorder", "split_regions"]


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
