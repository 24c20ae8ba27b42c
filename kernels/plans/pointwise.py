"""Convolutions whose windows have one element each: products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xtarget import spec

from .contractions import Contraction, View
from .problems import Operands, Problem

__all__ = ["is_pointwise", "pointwise"]

_Ints = Sequence[int]


def is_pointwise(p: Problem, arrays: Operands) -> bool:
    """Whether the windows are single elements, all of them inside, and nothing is added."""
    if arrays.bias is not None or p.up is not None or math.prod(p.kernel) != 1:
        return False
    if p.from_weight != 0 or p.from_out != 0 or any(b != 0 for b in p.before):
        return False
    return all((n - 1) * s < m for n, s, m in zip(p.out_shape, p.along, p.in_shape, strict=True))


def pointwise(call: spec.Call, p: Problem, arrays: Operands) -> list[spec.Launch]:
    """The launches."""
    dtype = arrays.dtype
    work = Contraction(call, dtype)
    work.temporaries = arrays.temporaries

    def places(
        name: str, count: int, strides: Sequence[int], steps: Sequence[int]
    ) -> dict[str, tuple[int, int]]:
        """The axes of an array that has an element for each place of the result."""
        along = zip(p.out_shape, steps, strict=True)
        return {
            "n": (p.samples, strides[0]),
            "g": (p.groups, count * strides[1]),
            name: (count, strides[1]),
            **dict(zip(("0", "1", "2"), along, strict=True)),
        }

    steps = [s * a for s, a in zip(p.sx[2:], p.along, strict=True)]
    x = View(arrays.x, dtype, places("c", p.channels, p.sx, steps))
    weight = View(
        arrays.weight,
        dtype,
        {"g": (p.groups, p.sw[0]), "r": (p.rows, p.sw[1]), "c": (p.channels, p.sw[2])},
    )
    out = View(arrays.out, dtype, places("r", p.rows, p.so, p.so[2:]))
    # columns of the product are what lies side by side in the result
    work.run([x, weight] if p.so[1] == 1 else [weight, x], out)
    return work.launches
