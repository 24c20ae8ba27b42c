"""From call to launches: scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xtarget import spec

from . import tuned, tuning
from .alongside import NOTHING, NOTHING_BEFORE
from .elementwise import compute_dtype, one_axis
from .folds import outputs
from .lanes import parted
from .layouts import collapse, without_axes
from .vectors import array_and_axis

__all__ = ["scan", "scan_arg"]

Result = Callable[[spec.DtypeRules, str], str]


class _Line(NamedTuple):
    """The rows of a scan, and the blocks that they are cut into.

    Attributes:
        numbers: the parameters of both kernels of `scans.py` that say where elements are.
        constants: their tile.
        pieces: of each row.
    """

    numbers: dict[str, spec.Argument]
    constants: dict[str, Any]
    grid: tuple[int, int, int]
    pieces: int
    num_warps: int


def _line(
    call: spec.Call,
    x: spec.ArrayType,
    out: spec.ArrayType,
    axis: int,
    *,
    reverse: bool,
    costly: bool,
) -> _Line:
    n, cx, co = x.shape[axis], x.strides[axis], out.strides[axis]
    rows = collapse(*(without_axes(v, (axis,)) for v in (x.shape, x.strides, out.strides)))
    sx, so = rows.strides
    sizes = tuned.scans(call, n, rows.size)
    # where rows are closer to each other than the elements of a row, lanes go across rows
    across = abs(cx) != 1 and rows.size > 1 and len(sx) == len(rows.lengths)
    if across:
        block_m, block_n = tuning.rows_of_tile(call, sizes.columns, rows.size), 1
    else:
        block_n = min(tuning.length_of_tile(call, n), sizes.costly if costly else sizes.step)
        tile = min(sizes.tile, sizes.costly) if costly else sizes.tile
        block_m = tuning.rows_of_tile(call, tile // block_n, rows.size)
    blocks = spec.cdiv(rows.size, block_m)
    wanted = call.compute_units * sizes.blocks_per_unit
    pieces = tuning.splits(blocks, wanted, n, sizes.shortest)
    chunk = spec.cdiv(spec.cdiv(n, pieces), block_n) * block_n
    pieces = spec.cdiv(n, chunk)
    numbers: dict[str, spec.Argument] = {
        "m": rows.size,
        "n": n,
        "chunk": chunk,
        "from_x": (n - 1) * cx if reverse else 0,
        "from_out": (n - 1) * co if reverse else 0,
        "shape": rows.lengths,
        "sx": sx,
        "so": so,
    }
    constants: dict[str, Any] = {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "PIECES": sizes.pieces,
    }
    # a stride of 1 is a constant, so that neighbours are seen to lie side by side
    for name, stride in (("cx", cx), ("co", co)):
        step = -stride if reverse else stride
        (constants if step == 1 else numbers)[name] = step
    return _Line(
        numbers,
        constants,
        (blocks, pieces, 1),
        pieces,
        min(sizes.num_warps, max(1, block_m * block_n // 256)),
    )


def _launch(
    source: str,
    line: _Line,
    addresses: dict[str, spec.Argument],
    constants: dict[str, Any],
    dtype: str,
) -> spec.Launch:
    given, absent = parted(addresses)
    return spec.Launch(
        f"scans:{source}",
        {**given, **line.numbers},
        {**absent, **line.constants, **constants, "T": spec.dtype_constant(dtype)},
        line.grid,
        num_warps=line.num_warps,
    )


def _flag(call: spec.Call, name: str) -> bool:
    return bool(call.options[name])


def scan(op: str, result: Result) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a scan with the options `axis` (None: of all elements in the order of their
    indices), `exclusive` and `reverse`.

    Args:
        op: `sum`, `prod`, `logsum`, `max` or `min`.
        result: from the input's dtype to the output's.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x, axis, given, before, kept = array_and_axis(call)
        dtype = result(call.rules, x.dtype)
        out = call.output(x.shape, dtype)
        exclusive, reverse = _flag(call, "exclusive"), _flag(call, "reverse")
        if not out.size:
            return spec.Plan((out,), ())
        computed = compute_dtype(dtype)
        line = _line(call, x, out, axis, reverse=reverse, costly=op == "logsum")
        common = {**NOTHING, **NOTHING_BEFORE, "BEFORE": False, "OP": op, "EXCLUSIVE": exclusive}
        ends = None
        launches: list[spec.Launch] = [*before]
        temporaries: tuple[spec.ArrayType, ...] = kept
        if line.pieces > 1:
            ends = spec.Temporary(len(kept))
            temporaries = (*kept, _ends(line, computed))
            pieces = {"x": given, "ends": None, "out": ends}
            launches.append(_launch("scan", line, pieces, {**common, "ENDS": True}, computed))
        addresses: dict[str, Any] = {"x": given, "ends": ends, "out": spec.Output()}
        launches.append(_launch("scan", line, addresses, {**common, "ENDS": False}, computed))
        return spec.Plan((out,), tuple(launches), temporaries)

    return plan


def _ends(line: _Line, dtype: str) -> spec.ArrayType:
    m: Any = line.numbers["m"]
    shape = (line.pieces, m)
    return spec.ArrayType(dtype, shape, spec.contiguous_strides(shape))


def scan_arg(largest: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of cummax (`largest`) and cummin: extremes, and the index of each."""

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        axis = one_axis(call, x.ndim)
        outs = outputs(call, x.shape, x.dtype, "int64")
        if not outs[0].size:
            return spec.Plan(outs, ())
        computed = compute_dtype(x.dtype)
        line = _line(call, x, outs[0], axis, reverse=False, costly=False)
        common: dict[str, Any] = {"LARGEST": largest}
        ends: dict[str, Any] = {"ends": None, "ends_at": None}
        launches: list[spec.Launch] = []
        temporaries: tuple[spec.ArrayType, ...] = ()
        if line.pieces > 1:
            temporaries = (_ends(line, computed), _ends(line, "int64"))
            goal = {"x": spec.Input(0), "out": spec.Temporary(0), "at": spec.Temporary(1)}
            ends_only = {**common, "ENDS": True}
            launches.append(_launch("scan_arg", line, {**ends, **goal}, ends_only, computed))
            ends = {"ends": spec.Temporary(0), "ends_at": spec.Temporary(1)}
        goal = {"x": spec.Input(0), "out": spec.Output(0), "at": spec.Output(1)}
        launches.append(
            _launch("scan_arg", line, {**ends, **goal}, {**common, "ENDS": False}, computed)
        )
        return spec.Plan(outs, tuple(launches), temporaries)

    return plan
