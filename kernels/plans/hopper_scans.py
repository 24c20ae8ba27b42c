"""From call to launches: cumulative sums of one long row on NVIDIA's sm_90, where each element is
read once; other calls have the plan of every target, and so have bundles (`Call.general`).
"""

from __future__ import annotations

from typing import Final

from xtarget import spec

from .elementwise import one_axis
from .layouts import collapse
from .scans import scan

__all__ = ["cumsum"]

#: Elements of a row whose tiles give each multiprocessor several turns.
_LONG: Final = 1 << 22
_COLUMNS: Final = 32
_WARPS: Final = 4
_GROUP: Final = 256
_BLOCKS_PER_UNIT: Final = 4


def cumsum(call: spec.Call) -> spec.Plan:
    """The plan of cumsum."""
    usual = scan("sum", lambda rules, dtype: rules.accumulated(dtype))
    x = call.array(0)
    if (
        call.general
        or call.options["axis"] is None
        or x.dtype != "float32"
        or call.options["exclusive"]
        or call.options["reverse"]
        or not (call.aligned and all(call.aligned))
        or call.rules.accumulated(x.dtype) != x.dtype
    ):
        return usual(call)
    out = call.output(x.shape, x.dtype)
    axis = one_axis(call, x.ndim)
    n = x.shape[axis]
    space = collapse(x.shape, x.strides, out.strides)
    if n != x.size or n < _LONG or any(space.strides):
        return usual(call)
    tiles = spec.cdiv(n, 32 * _WARPS * _COLUMNS)
    groups = spec.cdiv(tiles, _GROUP)
    launch = spec.Launch(
        "hopper_scans:cumsum",
        {
            "x": spec.Input(0),
            "out": spec.Output(),
            "words": spec.Temporary(),
            "n": n,
            "tiles": tiles,
        },
        {"COLUMNS": _COLUMNS, "WARPS": _WARPS, "GROUP": _GROUP},
        (call.compute_units * _BLOCKS_PER_UNIT, 1, 1),
        num_warps=_WARPS,
        loose=("n", "tiles"),
        on_aligned=True,
    )
    words = spec.ArrayType("int64", (1 + tiles + groups,), (1,))
    return spec.Plan((out,), (launch,), (words,), (), (0,))
