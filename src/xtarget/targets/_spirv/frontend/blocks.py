"""Choose a block's number of threads where it differs from the requested number.

Triton's lowering writes out what a thread does with each of its elements of a tensor, and the time
that a CPU run time's JIT takes grows faster than the length of that: a dot of 64 x 128 x 128 in
half precision by one warp of 16 takes 86 seconds, by 32 warps one. An exchange between lanes
costs most, 10 to 25 ms each: three sorts of 512 numbers by one warp take 88 seconds, by 32 warps
two. On a CPU, a block is a loop over any number of threads, so it may have more of them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...._values.value_classes import value_class
from .structure import Editor, type_of

__all__ = ["Work", "num_warps", "warp_size", "work_of"]

#: Values that one thread exchanges with other lanes in a kernel's reductions and scans, by a rough
#: count, while more warps are available.
_MOST_EXCHANGES = 128
#: Warps up to which a block is enlarged.
_MOST_WARPS = 32

_COMBINERS = ("tt.reduce", "tt.scan")
_DOTS = ("tt.dot", "tt.dot_scaled")


@value_class(frozen=True, slots=True)
class Work:
    """The facts that decide the number of threads of a block.

    Attributes:
        largest: elements of the largest tensor.
        combined: axis and shape of each reduction and scan.
        sums: shapes of the results of dots.
        has_histogram: is there a `tl.histogram`?
    """

    largest: int = 1
    combined: Sequence[tuple[int, tuple[int, ...]]] = ()
    sums: Sequence[tuple[int, ...]] = ()
    has_histogram: bool = False


def work_of(module: Any) -> Work:
    """The work of Triton's IR, with or without layouts."""
    edit = Editor(module)
    largest, combined, sums = 1, [], []
    for operation in edit.operations:
        for value in operation.results:
            largest = max(largest, prod(type_of(value).shape or ()))
        if operation.name in _COMBINERS:
            shape = operation.operand_type(0).shape or ()
            combined.append((edit.integer(operation, "axis"), shape))
        elif operation.name in _DOTS:
            sums.append(type_of(operation.results[0]).shape or ())
    names = {operation.name for operation in edit.operations}
    return Work(largest, combined, sums, "tt.histogram" in names)


def warp_size(work: Work, wanted: int) -> int:
    """The warp that the kernel gets: Triton's `tl.histogram` asserts on less than 32."""
    return 32 if wanted < 32 and work.has_histogram else wanted


def num_warps(work: Work, wanted: int, *, warp_size: int, thread_elements: int) -> int:
    """The warps that the block gets, a power of 2.

    Args:
        work: of Triton's IR before tensors have layouts.
        wanted: what the caller asked for; it never becomes less.
        warp_size: threads of a warp.
        thread_elements: of a tensor that one thread shall have at most; what it exchanges with
            others is limited, too. Zero: as wanted.
    """
    if not thread_elements:
        return wanted
    largest = work.largest
    combined = [_steps(axis, shape, warp_size) for axis, shape in work.combined]
    # two threads that share an element of a dot's sum would keep it from being a loop (see `dots`)
    sums = min((prod(shape[-2:]) for shape in work.sums), default=largest)
    # without dots twice as much is quick to compile, and a thread may keep sums of its own
    times = 1 if work.sums else 2
    bearable = times * thread_elements * wanted * warp_size
    elements = thread_elements if largest > bearable else largest
    exchanges = times * _MOST_EXCHANGES

    def is_long(threads: int) -> bool:
        return (
            threads * elements < largest
            or sum(max(1, size // threads) * steps for size, steps in combined) > exchanges
        )

    count = wanted
    while count < _MOST_WARPS and 2 * count * warp_size <= sums and is_long(count * warp_size):
        count *= 2
    return count


def _steps(axis: int, shape: tuple[int, ...], warp_size: int) -> tuple[int, int]:
    """Elements that are combined along an axis, and in how many steps from lane to lane."""
    return prod(shape), min(shape[axis], warp_size).bit_length() - 1
