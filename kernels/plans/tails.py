"""From call to launches: matrix products whose tiles go through further operators before they are
stored (`kernels/tails.py`), for fused functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget import spec

from .elementwise import compute_dtype, shape_of
from .gates import walk
from .layouts import broadcast_strides
from .matmul import multiply
from .matrices import SMALL, TYPES, Beside, Tail, problem_of, product_of

__all__ = ["apart", "beside_of", "shape_for", "turned_last", "with_tail"]

#: Letters of what stands beside a product, which is `a` of the steps.
_LETTERS = "cdef"


def with_tail(
    steps: str, result: str, dtype: str, turned: bool, vector: int | None
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a product of the first two arguments that goes through `steps`, with the other
    arguments beside it.

    Args:
        steps: of the product, `a`, and of the others, `c` to `f`; none: it is stored as it is.
        result: dtype of what they give.
        dtype: of the product.
        turned: the second argument has the columns of its matrices as rows.
        vector: an argument that has to have one number for each column, as a bias has.
    """

    def plan(call: spec.Call) -> spec.Plan:
        a, b = call.array(0), call.array(1)
        b = turned_last(b) if turned and b.ndim > 1 else b
        batch, rows, columns = shape_for(call, a, b, vector)
        shape = batch + rows + columns
        whole = shape_of(call, shape, *(arg.shape for arg in call.args[2:]))
        out = call.output(whole, result)
        if not out.size:
            return spec.Plan((out,), ())
        if whole == shape and (a.shape[-1] or not steps):
            beside = tuple(beside_of(call, index, shape) for index in range(2, len(call.args)))
            tail = Tail(steps, beside) if steps else None
            problem = problem_of(a, b, out, batch, rows, columns, tail)
            temporaries: list[spec.ArrayType] = []
            launches = multiply(call, dtype, problem, spec.Output(), out, temporaries)
            if launches:
                return spec.Plan((out,), tuple(launches), tuple(temporaries))
        # what several blocks add to, or what is repeated, goes through the steps by itself
        total = TYPES.get(dtype, SMALL)[1]
        made = spec.ArrayType(total, shape, spec.contiguous_strides(shape))
        last = apart(call, steps, spec.Temporary(0), made, out, 2)
        if not made.size or not a.shape[-1]:
            return spec.Plan((out,), (last,), (made,), cleared=(0,))
        temporaries = [made]
        problem = problem_of(a, b, made, batch, rows, columns)
        launches = multiply(call, dtype, problem, spec.Temporary(0), made, temporaries)
        return spec.Plan((out,), (*launches, last), tuple(temporaries))

    return plan


def turned_last(array: spec.ArrayType) -> spec.ArrayType:
    """An array of matrices whose rows and columns have changed places."""
    swapped = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
    shape, strides = (tuple(own[i] for i in swapped) for own in (array.shape, array.strides))
    return spec.ArrayType(array.dtype, shape, strides)


def shape_for(
    call: spec.Call, a: spec.ArrayType, b: spec.ArrayType, vector: int | None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape of a product: batch, rows and columns.

    Args:
        vector: as of `with_tail`.

    Raises:
        ArgumentError: the factors do not fit, or the vector does not.
    """
    batch, rows, columns = product_of(call, a, b)
    if vector is not None and call.array(vector).shape != columns:
        raise spec.ArgumentError(
            f"{call.kernel}: bias has shape {call.array(vector).shape}; it needs "
            f"{columns}, one number for each column of the result."
        )
    return batch, rows, columns


def beside_of(call: spec.Call, index: int, shape: Sequence[int]) -> Beside:
    """How an argument stands beside a matrix of a shape."""
    arg = call.args[index]
    if isinstance(arg, spec.ArrayType):
        return Beside(spec.Input(index), "", broadcast_strides(arg, shape))
    return Beside(spec.Input(index), arg.dtype, (0,) * len(shape))


def apart(
    call: spec.Call,
    steps: str,
    source: spec.Temporary,
    made: spec.ArrayType,
    out: spec.ArrayType,
    first: int,
) -> spec.Launch:
    """The steps as a launch of its own, on what lies in memory.

    Args:
        source: where that is, in the layout `made`.
        first: of the arguments that stand beside it.
    """
    given: dict[str, Any] = {"a": (source, made)}
    given |= {
        letter: (spec.Input(index), call.args[index])
        for letter, index in zip(_LETTERS, range(first, len(call.args)), strict=False)
    }
    arrays = {a: arg for a, (_, arg) in given.items() if isinstance(arg, spec.ArrayType)}
    constants: dict[str, Any] = {
        f"T{a.upper()}": spec.dtype_constant(compute_dtype(arg.dtype))
        for a, (_, arg) in given.items()
    }
    constants |= {
        f"s{a}": spec.dtype_constant(arg.dtype) for a, (_, arg) in given.items() if a not in arrays
    }
    return walk(
        call,
        f"each.|{steps}",
        {**{a: source for a, (source, _) in given.items()}, "out": spec.Output()},
        {},
        out.shape,
        {
            "so": out.strides,
            **{f"s{a}": broadcast_strides(arg, out.shape) for a, arg in arrays.items()},
        },
        {**constants, "STREAM": False},
    )
