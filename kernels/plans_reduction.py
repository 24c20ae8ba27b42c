"""From call to launches: reductions."""

from __future__ import annotations

from collections.abc import Callable

from xtarget.spec import (
    ArgumentError,
    ArrayType,
    Call,
    DtypeRules,
    Input,
    Launch,
    Output,
    Plan,
    Temporary,
    cdiv,
    contiguous_strides,
    dtype_constant,
    next_power_of_2,
)

from . import tuning
from .layouts import Space, collapse, without_axes
from .plans import compute_dtype, normal_axes

__all__ = ["reduction", "reduction_launch"]

#: Steps, or lanes, that are there for fewer elements too, so that one kernel serves them all.
_LEAST = 16
#: But not for so few: sixteen steps over up to eight rows take 2 to 6 times as long (H200).
_FEW = (2, 4, 8)
#: By whether lanes go along the kept elements, what has no part in how memory is read.
_LOOSE = {
    True: ("reduced", "reduced_shape", "chunk"),
    False: ("kept", "kept_shape", "part"),
}


def reduction_launch(
    source: str,
    x: Input | Temporary,
    out: Output | Temporary,
    kept: Space,
    reduced: Space,
    dtype: str,
    vendor: str,
    *,
    parts: int = 1,
    part: int = 0,
) -> Launch:
    """One launch of a function of `reduction.py`.

    Args:
        kept: what stays, with the strides of the input and of the output.
        reduced: what goes, with the strides of the input.
        dtype: the type to compute in.
        parts: pieces to cut the reduced elements into.
        part: elements of `out` from one piece's results to the next's.
    """
    sizes = tuning.reduction(vendor)
    least = 1
    if kept.size == 1:  # what is compiled for the rows of a matrix does for a single one too
        kept, least = Space(1, (), ((0,), ())), _LEAST
    # lanes lie side by side on whichever index runs along memory
    along_kept = _runs_along_memory(kept) and not _runs_along_memory(reduced)
    if along_kept:
        block_k = tuning.columns(kept.size, sizes.columns)
        block_r = min(_steps(reduced.size), sizes.tile // block_k)
        if 0 < sizes.alone <= kept.size:
            block_r = 1
    else:
        block_r = min(max(next_power_of_2(reduced.size), least), sizes.tile)
        block_k = max(1, sizes.tile // 4 // block_r)  # the same for few as for many
    chunk = cdiv(cdiv(reduced.size, parts), block_r) * block_r
    in_turn = tuning.in_turn(vendor) * (2 if block_r == 1 else 1)
    long = in_turn if dtype.startswith("float") and chunk > in_turn * block_r else 0
    return Launch(
        f"reduction:{source}",
        {
            "x": x,
            "out": out,
            "kept": kept.size,
            "reduced": reduced.size,
            "chunk": chunk,
            "part": part,
            "kept_shape": kept.lengths,
            "kx": kept.strides[0],
            "ko": kept.strides[1],
            "reduced_shape": reduced.lengths,
            "rx": reduced.strides[0],
        },
        {
            "T": dtype_constant(dtype),
            "BLOCK_K": block_k,
            "BLOCK_R": block_r,
            "STEPS": sizes.alone > 0,
            **({"LONG": long} if source == "sum" else {}),
        },
        (cdiv(kept.size, block_k), cdiv(reduced.size, chunk) if parts > 1 else 1, 1),
        num_warps=min(sizes.num_warps, max(1, block_k * block_r // 512)),
        aligned_by=tuning.aligned_by(vendor, across=("kept",))
        if along_kept
        else tuning.aligned_by(vendor, "reduced"),
        loose=_LOOSE[along_kept],
    )


def _steps(length: int) -> int:
    for few in _FEW:
        if length <= few:
            return few
    return max(next_power_of_2(length), _LEAST)


def _runs_along_memory(space: Space) -> bool:
    """Whether the input's innermost stride is 1."""
    strides = space.strides[0]
    return space.size > 1 and (not strides or len(strides) == len(space.lengths))


def reduction(
    source: str, result: Callable[[DtypeRules, str], str], *, identity: bool
) -> Callable[[Call], Plan]:
    """The plan of a reduction with the options `axis` and `keepdims`.

    Args:
        source: function in `reduction.py`.
        result: from the input's dtype to the output's.
        identity: whether there is a result of no elements.
    """

    def plan(call: Call) -> Plan:
        x = call.array(0)
        axes = normal_axes(call, call.options["axis"], x.ndim)
        keepdims = bool(call.options["keepdims"])
        dtype = result(call.rules, x.dtype)
        kept_shape = without_axes(x.shape, axes)
        reduced_shape = tuple(x.shape[axis] for axis in axes)
        full = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
        out = call.output(full if keepdims else kept_shape, dtype)
        if not out.size:
            return Plan((out,), ())
        if 0 in reduced_shape and not identity:
            raise ArgumentError(
                f"{call.kernel}: axis {call.options['axis']!r} of an array of shape "
                f"{x.shape} has no elements, and {call.kernel} of nothing is not defined."
            )
        out_strides = without_axes(out.strides, axes) if keepdims else out.strides
        kept = collapse(kept_shape, without_axes(x.strides, axes), out_strides)
        reduced = collapse(reduced_shape, tuple(x.strides[axis] for axis in axes))
        return _launches(call, source, dtype, out, kept, reduced)

    return plan


def _launches(
    call: Call, source: str, dtype: str, out: ArrayType, kept: Space, reduced: Space
) -> Plan:
    """One launch, or two where one has too few blocks to fill the device."""
    computed = compute_dtype(dtype)
    sizes = tuning.reduction(call.vendor)
    whole = reduction_launch(source, Input(0), Output(), kept, reduced, computed, call.vendor)
    block_k = cdiv(kept.size, whole.grid[0])
    wanted = call.compute_units * sizes.blocks_per_unit
    parts = tuning.splits(whole.grid[0], wanted, reduced.size * block_k, sizes.shortest)
    if parts == 1:
        return Plan((out,), (whole,))
    # the pieces' results: one row per piece, in the order of the kept index
    # (strides () number the kept elements in order)
    numbers = ()
    to_rows = Space(kept.size, kept.lengths, (kept.strides[0], numbers))
    first = reduction_launch(
        source,
        Input(0),
        Temporary(),
        to_rows,
        reduced,
        computed,
        call.vendor,
        parts=parts,
        part=kept.size,
    )
    parts = first.grid[1]
    rows = Space(kept.size, kept.lengths, (numbers, kept.strides[1]))
    column = collapse((parts,), (kept.size,))
    second = reduction_launch(source, Temporary(), Output(), rows, column, computed, call.vendor)
    temporary = ArrayType(computed, (parts, kept.size), contiguous_strides((parts, kept.size)))
    return Plan((out,), (first, second), (temporary,))
