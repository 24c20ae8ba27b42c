"""From call to launches: results whose size the data say.

Such a plan gives memory for as many as there may be, and the number that there are as its last
output (`KernelSpec.counts`); the call waits for that number and cuts the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget.spec import (
    Argument,
    ArgumentError,
    ArrayType,
    Call,
    Input,
    Launch,
    Output,
    Plan,
    Temporary,
    cdiv,
    contiguous_strides,
)

from . import tuning_order
from .elementwise import shape_of
from .layouts import broadcast_strides, collapse
from .sorting import Sorting, flat, lane_launch

__all__ = ["masked_select", "nonzero", "unique"]


def _new(dtype: str, *shape: int) -> ArrayType:
    return ArrayType(dtype, shape, contiguous_strides(shape))


def _no_out(call: Call) -> None:
    if call.out is not None:
        raise ArgumentError(
            f"{call.kernel}: how long its result is is known after the call. Leave out= out."
        )


class _Chunks:
    """The launches that count what is set."""

    def __init__(self, call: Call, n: int, ends: Temporary) -> None:
        sizes = tuning_order.sorts(call.vendor)
        self._sizes, self._n, self._ends = sizes, n, ends
        self.pieces = cdiv(n, sizes.chunk)

    def launch(
        self, source: str, args: dict[str, Argument | None], constants: dict[str, Any] | None = None
    ) -> Launch:
        """A block for each chunk."""
        return Launch(
            f"compaction:{source}",
            {
                **{name: value for name, value in args.items() if value is not None},
                "ends": self._ends,
                "n": self._n,
                "chunk": self._sizes.chunk,
            },
            {
                **{name: None for name, value in args.items() if value is None},
                **(constants or {}),
                "BLOCK": self._sizes.block,
            },
            (self.pieces, 1, 1),
            num_warps=self._sizes.num_warps,
        )

    def count(
        self, x: Argument, shape: tuple[int, ...], sx: tuple[int, ...], total: Output, *, new: bool
    ) -> tuple[Launch, Launch]:
        tally = self.launch("tally", {"x": x, "shape": shape, "sx": sx}, {"NEW": new})
        running = Launch(
            "compaction:running",
            {"ends": self._ends, "count": total, "pieces": self.pieces},
            {"BLOCK": self._sizes.block},
            (1, 1, 1),
            num_warps=self._sizes.num_warps,
        )
        return tally, running


def nonzero(call: Call) -> Plan:
    """The plan of nonzero: the indices of what is not zero, a row for each (NumPy's argwhere)."""
    x = call.array(0)
    _no_out(call)
    outs = (_new("int64", x.size, x.ndim), _new("int64", 1))
    if not x.size:
        return Plan(outs, (), (), (None, 0))
    chunks = _Chunks(call, x.size, Temporary(0))
    space = collapse(x.shape, x.strides, keep_order=True)
    shape, sx = space.lengths, space.strides[0]
    launches = chunks.count(Input(0), shape, sx, Output(1), new=False)
    if x.ndim:
        goal: dict[str, Argument | None] = {"x": Input(0), "out": Output(0)}
        goal |= {"shape": shape, "sx": sx, "lengths": x.shape}
        launches = (*launches, chunks.launch("where", goal))
    return Plan(outs, launches, (_new("int64", chunks.pieces),))


def masked_select(call: Call) -> Plan:
    """The plan of masked_select: the elements of `x` where the condition is true, both broadcast to
    one shape.
    """
    x, mask = call.array(0), call.array(1)
    _no_out(call)
    if mask.dtype != "bool":
        raise ArgumentError(f"{call.kernel}: condition is {mask.dtype}; it has to be bool.")
    full = _new("bool", *shape_of(call, x.shape, mask.shape))
    outs = (_new(x.dtype, full.size), _new("int64", 1))
    if not full.size:
        return Plan(outs, (), (), (None, 0))
    chunks = _Chunks(call, full.size, Temporary(0))
    space = collapse(
        full.shape,
        broadcast_strides(mask, full.shape),
        broadcast_strides(x, full.shape),
        keep_order=True,
    )
    sm, sx = space.strides
    launches = chunks.count(Input(1), space.lengths, sm, Output(1), new=False)
    goal: dict[str, Argument | None] = {"mask": Input(1), "x": Input(0), "out": Output(0)}
    goal |= {"shape": space.lengths, "sm": sm, "sx": sx}
    launches = (*launches, chunks.launch("select", goal))
    return Plan(outs, launches, (_new("int64", chunks.pieces),))


def unique(*, inverse: bool = False, counts: bool = False) -> Callable[[Call], Plan]:
    """The plan of unique: the elements in order, each once; for each element of `x` the place of
    its equal among them (`inverse`), and how often each is there (`counts`).
    """

    def plan(call: Call) -> Plan:
        x = call.array(0)
        _no_out(call)
        outs = [_new(x.dtype, x.size)]
        if inverse:
            outs.append(_new("int64", *x.shape))
        if counts:
            outs.append(_new("int64", x.size))
        outs.append(_new("int64", 1))
        total = Output(len(outs) - 1)
        if not x.size:
            return Plan(tuple(outs), (), (), (*(None,) * (len(outs) - 1), 0))
        one, source, before, temporaries = flat(call, x, Input(0), Temporary(0))
        sorting = Sorting(
            call, one, 0, one, source=source, temporaries=tuple(temporaries), whole=False
        )
        ends = Temporary(len(sorting.temporaries))
        chunks = _Chunks(call, x.size, ends)
        sorting.temporaries.append(_new("int64", chunks.pieces))
        starts = None
        if counts:
            starts = Temporary(len(sorting.temporaries))
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
                    "values": Output(0),
                    "inverse": Output(1) if inverse else None,
                    "starts": starts,
                },
            )
        )
        if starts is not None:
            goal = {"starts": starts, "count": total, "out": Output(len(outs) - 2), "n": x.size}
            launches.append(lane_launch(call, "compaction:sizes", x.size, goal))
        return Plan(tuple(outs), tuple(launches), tuple(sorting.temporaries))

    return plan
