"""From call to launches: copies between arrays that memory runs through in different orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from xtarget import spec

from .layouts import collapse, merge

__all__ = ["transposed_launch"]


class _Tile(NamedTuple):
    rows: int
    columns: int
    num_warps: int


#: By vendor: devices whose threads hand elements to each other faster than memory takes them one by
#: one.
_TILES: Final = {"nvidia": _Tile(64, 64, 8), "amd": _Tile(64, 64, 4)}
#: Neighbours that are worth a tile.
_LEAST: Final = 32
#: Matrices of one launch: blocks of a grid along y.
_MOST: Final = 65535


def transposed_launch(
    call: spec.Call,
    x: spec.Argument,
    shape: Sequence[int],
    sx: Sequence[int],
    so: Sequence[int],
    out: spec.Output | spec.Temporary,
    from_x: int,
    from_out: int,
) -> spec.Launch | None:
    """`movement.copy_launch` by tiles, where neighbours in `x` are far from each other in `out`;
    None where they are not, or there are few.
    """
    tile = _TILES.get(call.vendor)
    if tile is None:
        return None
    lengths, (over_out, over_x) = merge(shape, (so, sx))
    if len(lengths) < 2 or over_out[-1] != 1 or over_x[-1] == 1 or lengths[-1] < _LEAST:
        return None
    for axis in range(len(lengths) - 1):
        if over_x[axis] == 1:
            break
    else:
        return None
    rows, columns = lengths[axis], lengths[-1]
    if rows < _LEAST:
        return None
    others = [i for i in range(len(lengths) - 1) if i != axis]
    space = collapse(
        [lengths[i] for i in others], [over_out[i] for i in others], [over_x[i] for i in others],
        keep_order=True,
    )  # fmt: skip
    if space.size > _MOST:
        return None
    tiles = spec.cdiv(rows, tile.rows) * spec.cdiv(columns, tile.columns)
    return spec.Launch(
        "movement:transposed",
        {
            "x": x,
            "out": out,
            "rows": rows,
            "columns": columns,
            "from_x": from_x,
            "from_out": from_out,
            **space.named("so", "sx"),
            "xc": over_x[-1],
            "ro": over_out[axis],
        },
        {"BLOCK_R": tile.rows, "BLOCK_C": tile.columns},
        (tiles, space.size, 1),
        num_warps=tile.num_warps,
        aligned_by=("rows", "columns"),
        loose=("shape",),
    )
