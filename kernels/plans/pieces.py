"""From call to launches: matrix products of pieces of k, and the launch that adds them."""

from __future__ import annotations

from collections.abc import Callable

from xtarget import spec

from . import tuning
from .hopper_linear import sum_of_parts
from .layouts import collapse, device_strides
from .matrices import Problem
from .reduction import reduction_launch

__all__ = ["in_pieces"]


def in_pieces(
    call: spec.Call,
    launch: Callable[[Problem, spec.Temporary, int], spec.Launch],
    problem: Problem,
    out: spec.Output | spec.Temporary,
    view: spec.ArrayType,
    total: str,
    temporaries: list[spec.ArrayType],
    parts: int,
) -> list[spec.Launch]:
    """The products of pieces of k, and their sum.

    Args:
        launch: of a problem, where its result goes, and in how many pieces k is cut.
        view: the layout of `out`, in the order batch, m, n.
        total: the type that products are summed in.
        temporaries: those of the plan, to which this adds its own.
    """
    m, n, batch = problem.m, problem.n, problem.batch.size
    # the pieces' products lie as (part, *view.shape), each in C order
    steps = tuple(m * n * step for step in spec.contiguous_strides((1, *problem.batch.lengths)))
    strides = (device_strides(steps) if batch > 1 else (0,), *problem.batch.strides[1:])
    pieces = problem._replace(out=(n, 1), batch=problem.batch._replace(strides=strides))
    between = spec.Temporary(len(temporaries))
    first = launch(pieces, between, parts)
    parts, size = first.grid[1], view.size
    temporaries.append(spec.ArrayType(total, (parts, size), spec.contiguous_strides((parts, size))))
    if total == "float32" and batch == 1:
        whole = sum_of_parts(call, between, (m, n), problem.out, out, parts)
        if whole is not None:
            return [first, whole]
    kept = collapse(view.shape, spec.contiguous_strides(view.shape), view.strides)
    reduced = collapse((parts,), (size,))
    second = reduction_launch(
        "sum", between, out, kept, reduced, total, call.vendor, general=tuning.is_general(call)
    )
    return [first, second]
