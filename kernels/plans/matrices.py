"""Shared parts of the plans of matrix products: the problem, and the types of its computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from xtarget import spec

from .elementwise import shape_of
from .layouts import Space, broadcast_strides, collapse, merge
from .tuning_matmul import MatmulTile, pieces

__all__ = [
    "SMALL",
    "TYPES",
    "Beside",
    "Head",
    "Problem",
    "Tail",
    "aligned",
    "engine_stores",
    "headed",
    "problem_of",
    "product_of",
    "tailed",
]

#: result dtype: (what operands are multiplied as, what they are summed in, kind of tile)
TYPES = {
    "float16": ("float16", "float32", "half"),
    "bfloat16": ("bfloat16", "float32", "half"),
    "float32": ("float32", "float32", "single"),
    "float64": ("float64", "float64", "double"),
    "int64": ("int64", "int64", "integer"),
    "uint64": ("uint64", "uint64", "integer"),
}
_GIVEN = (spec.Input(0), spec.Input(1))
#: smaller integers, which wrap, and bool, where sum and product are or and and
SMALL = ("int32", "int32", "integer")


class Beside(NamedTuple):
    """An operand beside a product in its tail.

    Attributes:
        operand: None: it has no memory, and numbers an axis (`tails.beside`).
        dtype: of a number; an array's is in its layout.
        strides: along the batch, the rows and the columns of the product, or those that it has.
    """

    operand: spec.Input | None
    dtype: str
    strides: tuple[int, ...]


class Tail(NamedTuple):
    """The steps that a product goes through before it is stored.

    Attributes:
        steps: of the product, `a`, and of what stands beside it, `c` to `f`.
    """

    steps: str
    beside: tuple[Beside, ...]


class Head(NamedTuple):
    """The steps that make a factor of a product, as it is read.

    Attributes:
        steps: of the array in its place and of what stands beside it.
        beside: with strides along the batch, the rows and K; of the second factor, along the batch,
            K and the columns.
    """

    steps: str
    beside: tuple[Beside, ...]


class Problem(NamedTuple):
    """batch x (m, k) @ (k, n).

    Attributes:
        a, b, out: strides of a are (m, k), of b (k, n), of out (m, n).
        batch: with the strides of out, a and b, and of what stands beside the product.
        operands: where a and b are.
        dtypes: of a and b in memory.
        tail: None: the product is stored as it is.
        steps: of what stands beside it, strides from row to row and from column to column; of what
            stands beside the first factor, from row to row and along K; and of what stands beside
            the second, along K and from column to column.
        head: None: the first factor is read as it is.
        second: the same of the second one, where the first has a head.
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
    tail: Tail | None = None
    steps: tuple[tuple[int, int], ...] = ()
    head: Head | None = None
    second: Head | None = None

    def arguments(self, out: spec.Output | spec.Temporary) -> dict[str, spec.Argument]:
        """The operands, the result and their lengths, by the parameters' names."""
        a, b = self.operands
        return {"a": a, "b": b, "out": out, "M": self.m, "N": self.n, "K": self.k}


def tailed(launch: spec.Launch, problem: Problem, tile: MatmulTile) -> spec.Launch:
    """A launch of a product's kernel, with the tail where there is one."""
    tail = problem.tail
    if tail is None:
        return launch
    args: dict[str, spec.Argument] = dict(launch.args)
    constants: dict[str, Any] = dict(launch.constants)
    over, steps = problem.batch.strides[3:], problem.steps
    stand(args, constants, "cdef", "mn", tail.beside, over, steps, (problem.m, problem.n))
    if "PANELS" not in constants:
        ways = [constants[name] for name in "CDEF"]
        constants["PIECES"] = pieces(tile, arrays="whole" in ways)
    return replace(
        launch, source=f"{launch.source}_then({tail.steps})", args=args, constants=constants
    )


def headed(launch: spec.Launch, problem: Problem) -> spec.Launch:
    """A launch of a product's kernel, with its tail, where there is one, with the head too."""
    head, tail = problem.head, problem.tail
    if head is None:
        return launch
    args: dict[str, spec.Argument] = dict(launch.args)
    constants: dict[str, Any] = dict(launch.constants)
    del constants["FEW"]
    done = 0 if tail is None else len(tail.beside)
    if tail is None:
        stand(args, constants, "cdef", "mn", (), (), (), (problem.m, problem.n))
        constants["PIECES"] = 1
    constants["THEN"] = tail is not None
    over, steps = problem.batch.strides[3 + done :], problem.steps[done:]
    stand(args, constants, "gh", "mk", head.beside, over, steps, (problem.m, problem.k))
    own = len(head.beside)
    second = () if problem.second is None else problem.second.beside
    stand(args, constants, "uv", "kn", second, over[own:], steps[own:], (problem.k, problem.n))
    constants["SECOND"] = problem.second is not None
    last = "" if tail is None else f"({tail.steps})"
    source = f"headed:matmul{last}[{head.steps}]"
    if problem.second is not None:
        source += f"[second={problem.second.steps}]"
    return replace(launch, source=source, args=args, constants=constants)


def stand(
    args: dict[str, spec.Argument],
    constants: dict[str, Any],
    letters: Sequence[str],
    axes: str,
    beside: Sequence[Beside],
    over: Sequence[tuple[int, ...]],
    steps: Sequence[tuple[int, int]],
    lengths: tuple[int, int],
) -> None:
    """Add what stands beside a matrix to a launch's arguments and constants.

    Args:
        letters: of the kernel's parameters.
        axes: letters of the matrix' rows and columns.
        over, steps: strides along the batch, and along the two axes.
        lengths: of these.
    """
    constants |= {name: None for one in letters for name in (one, f"s{one}", one.upper())}
    found = dict.fromkeys(letters, (0, 0))
    for name, own, strides, (row, column) in zip(letters, beside, over, steps, strict=False):
        if own.operand is None:
            constants[name] = 0  # it is there
        else:
            del constants[name]
            args[name] = own.operand
        if own.dtype:
            constants |= {f"s{name}": spec.dtype_constant(own.dtype), name.upper(): "number"}
            continue
        del constants[f"s{name}"]
        args[f"s{name}"] = strides
        # steps along an axis of one element are never taken
        m, n = row if lengths[0] > 1 else 0, column if lengths[1] > 1 else 0
        found[name] = m, n
        way = ("whole" if n else "column") if m else ("row" if n else "one")
        constants[name.upper()] = "places" if own.operand is None else way
    for name, own_steps in found.items():
        for axis, step in zip(axes, own_steps, strict=True):
            into: dict[str, Any] = constants if step in (0, 1) else args
            into[f"{name}{axis}"] = step


def aligned(call: spec.Call, operand: spec.Input | spec.Output | spec.Temporary) -> bool:
    """Whether an operand is known to begin at a multiple of 16 bytes."""
    if isinstance(operand, spec.Temporary):
        return True
    if isinstance(operand, spec.Input):
        return operand.index < len(call.aligned) and call.aligned[operand.index]
    return len(call.aligned) > 0 and all(call.aligned[len(call.args) :])


#: Bytes that the copy engine writes at once.
_WRITTEN = 16


def engine_stores(
    call: spec.Call,
    out: spec.Output | spec.Temporary,
    step: int,
    columns: int,
    itemsize: int = 2,
) -> bool:
    """Whether the copy engine can store a result: its rows begin and end at multiples of 16 bytes.
    Of a last part that is shorter the engine writes what is beside it too.

    Args:
        step: from row to row.
    """
    each = _WRITTEN // itemsize
    return step % each == 0 and columns % each == 0 and aligned(call, out)


def product_of(
    call: spec.Call, a: spec.ArrayType, b: spec.ArrayType
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape of a product: batch, rows and columns; a vector has none of these.

    Raises:
        ArgumentError: it has no dimension, or they do not fit.
    """
    if not a.ndim or not b.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: argument {1 if not a.ndim else 2} has no dimension; "
            "matmul takes arrays of one dimension or more. Use mul to multiply by a number."
        )
    # a vector is a matrix of one row on the left, of one column on the right
    k, k_b = a.shape[-1], b.shape[max(b.ndim - 2, 0)]
    if k != k_b:
        raise spec.ArgumentError(
            f"{call.kernel}: shapes {a.shape} and {b.shape} do not fit: the last axis of the "
            f"first has length {k}, the {'second last' if b.ndim > 1 else 'only'} axis of the "
            f"second {k_b}."
        )
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    return shape_of(call, a.shape[:-2], b.shape[:-2]), rows, columns


def _batch_strides(array: spec.ArrayType, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of `array` along the batch axes."""
    own = spec.ArrayType(array.dtype, array.shape[:-2], array.strides[:-2])
    return broadcast_strides(own, batch)


def problem_of(
    a: spec.ArrayType,
    b: spec.ArrayType,
    out: spec.ArrayType,
    batch: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    tail: Tail | None = None,
    head: Head | None = None,
    second: Head | None = None,
) -> Problem:
    """The product of two arguments.

    Args:
        batch, rows, columns: the shape of the result (`product_of`).
        tail: what stands beside it has strides for all of the result's axes.
        head: what stands beside the first factor has strides for the batch, its rows and K.
        second: what stands beside the second, for the batch, K and its columns.
    """
    m, n, k = (rows or (1,))[0], (columns or (1,))[0], a.shape[-1]
    sa = (a.strides[-2] if rows else 0, a.strides[-1])
    sb = (b.strides[-2], b.strides[-1]) if columns else (b.strides[-1], 0)
    count = len(batch)

    def steps(strides: tuple[int, ...]) -> tuple[int, int]:
        return strides[count] if rows else 0, strides[-1] if columns else 0

    om, on = steps(out.strides)
    beside = () if tail is None else tuple(own.strides for own in tail.beside)
    others = tuple(map(steps, beside))
    for made in (head, second):
        if made is not None:
            beside += tuple(own.strides for own in made.beside)
            others += tuple((own.strides[count], own.strides[-1]) for own in made.beside)
    over_a, over_b = _batch_strides(a, batch), _batch_strides(b, batch)
    over_out = out.strides[:count]
    over_others = [strides[:count] for strides in beside]
    dtypes = a.dtype, b.dtype
    if not any(over_b) and batch:
        # one b for all: the batch is only more rows, where it lies in memory like that
        merged, strides = merge(
            (*batch, m),
            (
                (*over_a, sa[0]),
                (*over_out, om),
                *((*own, step) for own, (step, _) in zip(over_others, others, strict=True)),
            ),
            keep_order=True,
        )
        if len(merged) == 1:
            am, om, *more = (step for (step,) in strides)
            space = collapse((), *((),) * (3 + len(beside)))
            joined = tuple((step, column) for step, (_, column) in zip(more, others, strict=True))
            return Problem(
                merged[0], n, k, (am, sa[1]), sb, (om, on), space, _GIVEN, dtypes, tail, joined,
                head, second,
            )  # fmt: skip
    space = collapse(batch, over_out, over_a, over_b, *over_others, keep_order=True)
    return Problem(m, n, k, sa, sb, (om, on), space, _GIVEN, dtypes, tail, others, head, second)
