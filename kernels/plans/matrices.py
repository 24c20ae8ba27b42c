"""What every plan of matrix products shares: the problem, and the types that it is computed in."""

from __future__ import annotations

from typing import NamedTuple

from xtarget import spec

from .layouts import Space

__all__ = ["SMALL", "TYPES", "Problem", "aligned"]

#: result dtype: (what operands are multiplied as, what they are summed in, kind of tile)
TYPES = {
    "float16": ("float16", "float32", "half"),
    "bfloat16": ("bfloat16", "float32", "half"),
    "float32": ("float32", "float32", "single"),
    "float64": ("float64", "float64", "double"),
    "int64": ("int64", "int64", "integer"),
    "uint64": ("uint64", "uint64", "integer"),
}
#: smaller integers, which wrap, and bool, where sum and product are or and and
SMALL = ("int32", "int32", "integer")


class Problem(NamedTuple):
    """batch x (m, k) @ (k, n).

    Attributes:
        a, b, out: strides of a are (m, k), of b (k, n), of out (m, n).
        batch: with the strides of out, a and b.
        operands: where a and b are.
        dtypes: of a and b in memory.
    """

    m: int
    n: int
    k: int
    a: tuple[int, int]
    b: tuple[int, int]
    out: tuple[int, int]
    batch: Space
    operands: tuple[spec.Input | spec.Temporary, spec.Input | spec.Temporary]
    dtypes: tuple[str, str]


def aligned(call: spec.Call, operand: spec.Input | spec.Output | spec.Temporary) -> bool:
    """Whether an operand is known to begin at a multiple of 16 bytes."""
    if isinstance(operand, spec.Temporary):
        return True
    if isinstance(operand, spec.Input):
        return operand.index < len(call.aligned) and call.aligned[operand.index]
    return len(call.aligned) > 0 and all(call.aligned[len(call.args) :])
