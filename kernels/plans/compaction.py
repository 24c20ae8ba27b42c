"""From call to launches: results whose size the data say.

Such a plan gives memory for as many as there may be, and the number that there are as its last
output (`KernelSpec.counts`); the call waits for that number and cuts the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

from . import tuning_order
from .elementwise import shape_of
from .lanes import parted
from .layouts import broadcast_strides, collapse
from .sorting import Sorting, lane_launch
from .vectors import flat

__all__ = ["masked_scatter", "masked_select", "nonzero", "unique"]


def _new(dtype: str, *shape: int) -> spec.ArrayType:
    return spec.ArrayType(dtype, shape, spec.contiguous_strides(shape))


def _no_out(call: spec.Call) -> None:
    if call.out is not None:
        raise spec.ArgumentError(
            f"{call.kernel}: how long its result is is known after the call. Leave out= out."
        )


class _Chunks:
    """The launches that count what is set."""

    def __init__(self, call: spec.Call, n: int, ends: spec.Temporary) -> None:
        sizes = tuning_order.sorts(call.vendor)
        self._sizes, self._n, self._ends = sizes, n, ends
        self.pieces = spec.cdiv(n, sizes.chunk)

    def launch(
        self,
        source: str,
        args: dict[str, spec.Argument | None],
        constants: dict[str, Any] | None = None,
    ) -> spec.Launch:
        """A block for each chunk."""
        given, absent = parted(args)
        return spec.Launch(
            f"compaction:{source}",
            {
                **given,
                "ends": self._ends,
                "n": self._n,
                "chunk": self._sizes.chunk,
            },
            {
                **absent,
                **(constants or {}),
                "BLOCK": self._sizes.block,
            },
            (self.pieces, 1, 1),
            num_warps=self._sizes.num_warps,
        )

    def count(
        self,
        x: spec.Argument,
        shape: tuple[int, ...],
        sx: tuple[int, ...],
        total: spec.Output | spec.Temporary,
        *,
        new: bool,
    ) -> tuple[spec.Launch, spec.Launch]:
        tally = self.launch("tally", {"x": x, "shape": shape, "sx": sx}, {"NEW": new})
        running = spec.Launch(
            "compaction:running",
            {"ends": self._ends, "count": total, "pieces": self.pieces},
            {"BLOCK": self._sizes.block},
            (1, 1, 1),
            num_warps=self._sizes.num_warps,
        )
        return tally, running


def nonzero(call: spec.Call) -> spec.Plan:
    """The plan of nonzero: the indices of what is not zero, a row for each (NumPy's argwhere)."""
    x = call.array(0)
    _no_out(call)
    outs = (_new("int64", x.size, x.ndim), _new("int64", 1))
    if not x.size:
        return spec.Plan(outs, (), (), (None, 0))
    chunks = _Chunks(call, x.size, spec.Temporary(0))
    space = collapse(x.shape, x.strides, keep_order=True)
    shape, sx = space.lengths, space.strides[0]
    launches = chunks.count(spec.Input(0), shape, sx, spec.Output(1), new=False)
    if x.ndim:
        goal: dict[str, spec.Argument | None] = {"x": spec.Input(0), "out": spec.Output(0)}
        goal |= {"shape": shape, "sx": sx, "lengths": x.shape}
        launches = (*launches, chunks.launch("where", goal))
    return spec.Plan(outs, launches, (_new("int64", chunks.pieces),))


def masked_scatter(call: spec.Call) -> spec.Plan:
    """The plan of masked_scatter: `x` with the elements of `source`, one after the other, where the
    condition is true; where they are used up, x stays.
    """
    x, mask, source = call.array(0), call.array(1), call.array(2)
    if mask.dtype != "bool":
        raise spec.ArgumentError(f"{call.kernel}: condition is {mask.dtype}; it has to be bool.")
    if source.dtype != x.dtype:
        raise spec.ArgumentError(
            f"{call.kernel}: source is {source.dtype} and x is {x.dtype}; they need the same."
        )
    if shape_of(call, x.shape, mask.shape) != x.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: condition has shape {mask.shape}, which does not broadcast to that of "
            f"x, {x.shape}."
        )
    out = call.output(x.shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    _, values, before, packed = flat(call, source, spec.Input(2), spec.Temporary(0))
    ends, total = (spec.Temporary(len(packed) + more) for more in range(2))
    chunks = _Chunks(call, out.size, ends)
    space = collapse(
        out.shape, out.strides, broadcast_strides(mask, out.shape), x.strides, keep_order=True
    )
    so, sm, sx = space.strides
    counts = chunks.count(spec.Input(1), space.lengths, sm, total, new=False)
    goal: dict[str, spec.Argument | None] = {
        "mask": spec.Input(1),
        "x": spec.Input(0),
        "source": values,
        "out": spec.Output(),
        "given": source.size,
        "shape": space.lengths,
        "sm": sm,
        "sx": sx,
        "so": so,
    }
    temporaries = (*packed, _new("int64", chunks.pieces), _new("int64", 1))
    return spec.Plan((out,), (*before, *counts, chunks.launch("masked_scatter", goal)), temporaries)


def masked_select(call: spec.Call) -> spec.Plan:
    """The plan of masked_select: the elements of `x` where the condition is true, both broadcast to
    one shape.
    """
    x, mask = call.array(0), call.array(1)
    _no_out(call)
    if mask.dtype != "bool":
        raise spec.ArgumentError(f"{call.kernel}: condition is {mask.dtype}; it has to be bool.")
    full = _new("bool", *shape_of(call, x.shape, mask.shape))
    outs = (_new(x.dtype, full.size), _new("int64", 1))
    if not full.size:
        return spec.Plan(outs, (), (), (None, 0))
    chunks = _Chunks(call, full.size, spec.Temporary(0))
    space = collapse(
        full.shape,
        broadcast_strides(mask, full.shape),
        broadcast_strides(x, full.shape),
        keep_order=True,
    )
    sm, sx = space.strides
    launches = chunks.count(spec.Input(1), space.lengths, sm, spec.Output(1), new=False)
    goal: dict[str, spec.Argument | None] = {
        "mask": spec.Input(1),
        "x": spec.Input(0),
        "out": spec.Output(0),
    }
    goal |= {"shape": space.lengths, "sm": sm, "sx": sx}
    launches = (*launches, chunks.launch("select", goal))
    return spec.Plan(outs, launches, (_new("int64", chunks.pieces),))


def unique(*, inverse: bool = False, counts: bool = False) -> Callable[[spec.Call], spec.Plan]:
    """The plan of unique: the elements in order, each once; for each element of `x` the place of
    its equal among them (`inverse`), and how often each is there (`counts`).
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        _no_out(call)
        outs = [_new(x.dtype, x.size)]
        if inverse:
            outs.append(_new("int64", *x.shape))
        if counts:
            outs.append(_new("int64", x.size))
        outs.append(_new("int64", 1))
        total = spec.Output(len(outs) - 1)
        if not x.size:
            return spec.Plan(tuple(outs), (), (), (*(None,) * (len(outs) - 1), 0))
        one, source, before, temporaries = flat(call, x, spec.Input(0), spec.Temporary(0))
        sorting = Sorting(
            call, one, 0, one, source=source, temporaries=tuple(temporaries), whole=False
        )
        ends = spec.Temporary(len(sorting.temporaries))
        chunks = _Chunks(call, x.size, ends)
        sorting.temporaries.append(_new("int64", chunks.pieces))
        starts = None
        if counts:
            starts = spec.Temporary(len(sorting.temporaries))
            sorting.temporaries.append(_new("int64", x.size))
        launches = [*before, *sorting.launches]
        launches += chunks.count(sorting.keys, (), (), total, new=True)
        launches.append(
            chunks.launch(
                "unique",
                {
                    "keys": sorting.keys,
                    "places": sorting.order,
                    "x": source,
                    "values": spec.Output(0),
                    "inverse": spec.Output(1) if inverse else None,
                    "starts": starts,
                },
            )
        )
        if starts is not None:
            goal = {
                "starts": starts,
                "count": total,
                "out": spec.Output(len(outs) - 2),
                "n": x.size,
            }
            launches.append(lane_launch(call, "compaction:sizes", x.size, goal))
        return spec.Plan(tuple(outs), tuple(launches), tuple(sorting.temporaries))

    return plan
