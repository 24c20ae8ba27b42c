"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from xtarget.spec import KernelSpec

from .. import ahead, c_interfaces
from ..plans_matmul import matmul
from .references import numpy
from .rules import ALL

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _matrices(shape: _Shape) -> Sequence[_Shape]:
    """(M, K) gives (M, K) @ (K, M); further axes in front are a batch."""
    if len(shape) < 2:
        return [shape, shape]
    return [shape, (*shape[:-2], shape[-1], shape[-2])]


ROWS: tuple[KernelSpec, ...] = (
    KernelSpec(
        "matmul",
        ("a", "b"),
        matmul,
        category="linear algebra",
        summary="a @ b: matrices, vectors, and stacks of matrices that broadcast",
        dtypes=ALL,
        reference=numpy("matmul"),
        examples=_matrices,
        complete=True,
        ahead=ahead.matmul,
        c=c_interfaces.matmul(),
        aliases=("MatMul", "mm", "bmm", "BatchMatMul", "BatchMatMulV2"),
        # one unit per product in the worst case; random signs give about its root
        tolerance=(8, 64),
    ),
)
