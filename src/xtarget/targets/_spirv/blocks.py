"""How many threads a block gets, where that is not what was asked for.

Triton's lowering writes out what a thread does with each of its elements of a tensor, and the time
that a CPU run time's JIT takes grows faster than the length of that: a dot of 64 x 128 x 128 in
half precision by one warp of 16 takes 86 seconds, by 32 warps one. On a CPU, a block is a loop over
its threads whatever their number, so there it may have more of them.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

__all__ = ["CPU_ELEMENTS", "num_warps", "warp_size"]

#: Elements of a tensor that one thread on a CPU has at most, while there are warps to be had. With
#: half of it compiling is no faster, with twice of it the largest kernels take twice as long.
CPU_ELEMENTS = 32
#: Warps up to which a block is enlarged.
_MOST_WARPS = 32

_TENSOR = re.compile(r"tensor<((?:\d+x)+)")
_DOT_RESULT = re.compile(r"tt\.dot(?:_scaled)? .*-> tensor<((?:\d+x)+)")


def warp_size(module: Any, wanted: int) -> int:
    """The warp that the kernel gets: Triton's `tl.histogram` asserts on less than 32."""
    return 32 if wanted < 32 and "tt.histogram" in str(module) else wanted


def num_warps(module: Any, wanted: int, *, warp_size: int, thread_elements: int) -> int:
    """The warps that the block gets, a power of 2.

    Args:
        module: Triton's IR before tensors have layouts.
        wanted: what the caller asked for; it never becomes less.
        warp_size: threads of a warp.
        thread_elements: of a tensor that one thread shall have at most. Zero: as wanted.
    """
    if not thread_elements:
        return wanted
    text = str(module)
    largest = max(map(_size, _TENSOR.findall(text)), default=1)
    # without dots twice as many are quick to compile, and a thread may keep sums of its own
    bearable = thread_elements if "tt.dot" in text else 2 * thread_elements
    if largest <= wanted * warp_size * bearable:
        return wanted
    # two threads that share an element of a dot's sum would keep it from being a loop (see `dots`)
    sums = min(map(_matrix, _DOT_RESULT.findall(text)), default=largest)
    count = wanted
    while (
        count < _MOST_WARPS
        and count * warp_size * thread_elements < largest
        and 2 * count * warp_size <= sums
    ):
        count *= 2
    return count


def _sizes(shape: str) -> list[int]:
    return [int(size) for size in shape.split("x") if size]


def _size(shape: str) -> int:
    return prod(_sizes(shape))


def _matrix(shape: str) -> int:
    return prod(_sizes(shape)[-2:])
