"""A loop that only its data end, for the tests of several rooms."""

from __future__ import annotations

import triton

__all__ = ["steps_of"]


@triton.jit
def steps_of(n):
    """The number of Collatz's steps from `n` to 1."""
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return count
