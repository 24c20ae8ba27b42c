"""From call to launches: products with one matrix for each part of the rows, by descriptors."""

from __future__ import annotations

from typing import Any

from xtarget import spec

from . import choices
from .matrices import aligned, engine_stores
from .tuning_matmul import MatmulTile

__all__ = ["by_descriptors"]

#: Numbers of a half type in the 16 bytes whose multiples rows begin at.
_ROW = 8
#: Rows of the result that a block looks at for those of no part, and columns of them at once.
_ROWS, _COLUMNS = 64, 64


def _apart(step: int) -> bool:
    return step > 0 and step % _ROW == 0


def _tile(call: spec.Call, m: int, n: int, k: int) -> MatmulTile | None:
    for row in choices.rows(call.vendor, call.arch, "grouped products"):
        if row.holds(m=m, n=n, k=k):
            return MatmulTile(*row.config)
    return None


def by_descriptors(
    call: spec.Call, x: spec.ArrayType, weight: spec.ArrayType, out: spec.ArrayType
) -> spec.Plan | None:
    """The plan by blocks that stay and a copy engine; None: not for these operands."""
    (m, k), (parts, _, n) = x.shape, weight.shape
    if x.dtype != weight.dtype or x.dtype not in ("float16", "bfloat16"):
        return None
    tile = _tile(call, m, n, k)
    # the number of parts is read as int32, and so are tiles
    if tile is None or parts < 1 or not call.aligned:
        return None
    columns = weight.strides[2] != 1
    inner, outer = (1, 2) if columns else (2, 1)
    if (
        not (aligned(call, spec.Input(0)) and aligned(call, spec.Input(1)))
        or not (x.strides[1] == 1 and _apart(x.strides[0]))
        or not (weight.strides[inner] == 1 and _apart(weight.strides[outer]))
        or not (parts == 1 or _apart(weight.strides[0]))
        or out.strides[1] != 1
    ):
        return None
    by_engine = engine_stores(call, spec.Output(), out.strides[0], n)
    before = spec.Temporary()
    sizes: dict[str, spec.Argument] = {"M": m, "N": n, "parts": parts, "om": out.strides[0]}
    addresses: dict[str, spec.Argument] = {
        "starts": spec.Input(2), "before": before, "out": spec.Output(),
    }  # fmt: skip
    tiling: dict[str, Any] = {"BLOCK_M": tile.m, "BLOCK_N": tile.n, "BLOCK_K": tile.k}
    steps = max(1, (spec.next_power_of_2(parts) - 1).bit_length())
    places = spec.Launch(
        "grouped:places",
        {**addresses, **sizes},
        {"on": 1, "BLOCK": tile.m, "ROWS": _ROWS, "BLOCK_P": 256, "BLOCK_N": _COLUMNS},
        (1 + spec.cdiv(m, _ROWS), 1, 1),
        num_warps=min(tile.num_warps, 4),
        loose=("M", "N", "parts", "om"),
    )
    product = spec.Launch(
        "grouped:matmul_in_turn",
        {
            **addresses,
            **sizes,
            "x": spec.Input(0),
            "weight": spec.Input(1),
            "K": k,
            "rx": x.strides[0],
            "rp": weight.strides[0] if parts > 1 else _ROW,
            "rw": weight.strides[outer],
        },
        {"W_T": columns, "STORED": by_engine, "STEPS": steps, **tiling},
        (call.compute_units, 1, 1),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        aligned_by=("N",),
        loose=("M", "K", "parts", "rx", "rp", "rw"),
        on_aligned=True,
    )
    known = spec.ArrayType("int32", (parts + 1,), (1,))
    return spec.Plan((out,), (places, product), (known,))
