"""How many threads a block gets, where that is not what was asked for.

Triton's lowering writes out what a thread does with each of its elements of a tensor, and the time
that a CPU run time's JIT takes grows faster than the length of that: a dot of 64 x 128 x 128 in
half precision by one warp of 16 takes 86 seconds, by 32 warps one. What lanes exchange is dearest,
10 to 25 ms each time: three sorts of 512 numbers by one warp take 88 seconds, by 32 warps two. On a
CPU, a block is a loop over its threads whatever their number, so there it may have more of them.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

__all__ = ["CPU_ELEMENTS", "num_warps", "warp_size"]

#: Elements of a tensor that one thread on a CPU has at most, while there are warps to be had. With
#: half of it compiling is no faster, with twice of it the largest kernels take twice as long.
CPU_ELEMENTS = 32
#: Values that one thread exchanges with other lanes in a kernel's reductions and scans, by a rough
#: count, while there are warps to be had.
_MOST_EXCHANGES = 128
#: Warps up to which a block is enlarged.
_MOST_WARPS = 32

_TENSOR = re.compile(r"tensor<((?:\d+x)+)")
_COMBINED = re.compile(
    r'"tt\.(?:reduce|scan)"\(.*?axis = (\d+).*?\}\) : \(tensor<((?:\d+x)+)', re.DOTALL
)
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
        thread_elements: of a tensor that one thread shall have at most; what it exchanges with
            others is limited, too. Zero: as wanted.
    """
    if not thread_elements:
        return wanted
    text = str(module)
    largest = max(map(_size, _TENSOR.findall(text)), default=1)
    combined = [_steps(int(axis), shape, warp_size) for axis, shape in _COMBINED.findall(text)]
    # two threads that share an element of a dot's sum would keep it from being a loop (see `dots`)
    sums = min(map(_matrix, _DOT_RESULT.findall(text)), default=largest)
    # without dots twice as much is quick to compile, and a thread may keep sums of its own
    times = 1 if "tt.dot" in text else 2
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


def _sizes(shape: str) -> list[int]:
    return [int(size) for size in shape.split("x") if size]


def _size(shape: str) -> int:
    return prod(_sizes(shape))


def _steps(axis: int, shape: str, warp_size: int) -> tuple[int, int]:
    """Elements that are combined along an axis, and in how many steps from lane to lane."""
    sizes = _sizes(shape)
    return prod(sizes), min(sizes[axis], warp_size).bit_length() - 1


def _matrix(shape: str) -> int:
    return prod(_sizes(shape)[-2:])
