"""From call to launches: products of matrices of 8-bit numbers by units that multiply these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from xtarget import spec

from . import choices, tuning
from .hopper_eight_bits import by_groups
from .matrices import aligned, engine_stores
from .tuning_matmul import GROUP_M, MatmulTile

__all__ = ["FLOATS", "INTEGERS", "Operand", "Product", "Scales", "floats", "integers"]

INTEGERS, FLOATS = "integers", "floats"

#: Rows that a copy engine takes begin at multiples of so many bytes; those of copies at these.
_ROW, _PITCH = 16, 128
#: Rows and bytes of each that a block copies, and sums: along rows, or from row to row.
_COPIED, _SUMMED, _SUMMED_ACROSS = (64, 128), (8, 512), (64, 64)
#: Products from which on operands are copied, and rows that read a copy.
_WORTH, _READERS = 2**27, 128
#: Sums of floating numbers that are left to the units, which keep 14 bits of them: the error of
#: 8192 products is that of one rounding to bfloat16 (H200: 0.002 of the result). Longer ones are
#: made of pieces.
_UNITS_SUM, _PIECE = 8192, 4096

#: Tiles of integers by vendor, largest first: rows, columns and K, warps, stages.
_TILES: Final = {
    "nvidia": ((128, 128, 64, 8, 3), (64, 64, 64, 4, 3), (16, 64, 64, 4, 3)),
    "amd": ((128, 128, 64, 8, 2), (64, 64, 64, 4, 2), (16, 64, 64, 4, 2)),
}


class Operand(NamedTuple):
    """A matrix of bytes.

    Attributes:
        kind: `e4m3`, `e5m2`, `int8` or `uint8`.
        step, along: from one row of the first operand (column of the second) to the next, and
            along what is summed over.
    """

    source: spec.Input | spec.Temporary
    kind: str
    length: int
    step: int
    along: int

    @property
    def unsigned(self) -> bool:
        return self.kind == "uint8"


class Scales(NamedTuple):
    """Factors of rows and columns, and the steps from one to the next."""

    a: spec.Input
    b: spec.Input
    ra: int
    rb: int


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two matrices.

    Attributes:
        k: what is summed over.
        temporaries: of the plan; those of its launches are added.
    """

    call: spec.Call
    a: Operand
    b: Operand
    k: int
    out: spec.ArrayType
    scales: Scales | None
    temporaries: list[spec.ArrayType] = field(default_factory=list)

    def constants(self) -> dict[str, Any]:
        absent = {} if self.scales else {"a_scale": None, "b_scale": None}
        return {"GROUP_M": GROUP_M, **absent}

    def arguments(
        self, a: Operand, b: Operand, steps: dict[str, int]
    ) -> tuple[dict[str, spec.Argument], dict[str, Any]]:
        """Arguments of a launch on these operands; steps of 1 are constants."""
        scales = self.scales
        args: dict[str, spec.Argument] = {
            "a": a.source, "b": b.source, "out": spec.Output(), "M": a.length, "N": b.length,
            "K": self.k, "ra": scales.ra if scales else 0, "rb": scales.rb if scales else 0,
            **({"a_scale": scales.a, "b_scale": scales.b} if scales else {}),
            **{name: step for name, step in steps.items() if step != 1},
        }  # fmt: skip
        return args, {name: 1 for name, step in steps.items() if step == 1}


def _regular(call: spec.Call, x: Operand) -> bool:
    """Whether a copy engine and the units take an operand as it is."""
    lies = x.along == 1 and x.step > 0 and x.step % _ROW == 0
    return lies and not x.unsigned and aligned(call, x.source)


def _tile(product: Product, kind: str, *, stored: bool) -> tuple[MatmulTile, str] | None:
    """The tile that was measured for a product of described operands, and the way to it: `in turn`
    (`narrow:matmul_in_turn`), or `in groups` (`hopper_eight_bits:matmul_in_groups`).

    Args:
        stored: the result can be by the copy engine.
    """
    call, m, n = product.call, product.a.length, product.b.length
    grouped = stored and tuning.hosted(call) and product.scales is not None
    grouped = grouped and product.k <= _UNITS_SUM
    for row in choices.rows(call.vendor, call.arch, "products of 8 bits"):
        tile, way = MatmulTile(*row.config), row.text.get("way", "in turn")
        blocks = 100 * spec.cdiv(m, tile.m) * spec.cdiv(n, tile.n)
        if row.text["operands"] != kind or not row.holds(m=m, n=n, k=product.k):
            continue
        low, high = row.blocks
        held = low * call.compute_units <= blocks
        held = held and (high is None or blocks <= high * call.compute_units)
        if held and (grouped or way != "in groups"):
            return tile, way
    return None


def _stored(product: Product) -> bool:
    """Whether the copy engine can store the result."""
    out = product.out
    (_, columns), (step, apart) = out.shape, out.strides
    return apart == 1 and engine_stores(product.call, spec.Output(), step, columns, out.itemsize)


def _described(product: Product, kind: str) -> list[spec.Launch] | None:
    """Launches by descriptors, behind those that copy operands where that is worth it; None: not
    for these.
    """
    call, a, b, k, out = product.call, product.a, product.b, product.k, product.out
    stored = _stored(product)
    found = _tile(product, kind, stored=stored)
    if found is None or not call.aligned:
        return None
    tile, way = found
    launches: list[spec.Launch] = []
    sums: dict[str, spec.Argument] = {}
    warps = min(tile.num_warps, 4)
    if not (_regular(call, a) and _regular(call, b)):
        if a.length < _READERS or b.length < _READERS or a.length * b.length * k < _WORTH:
            return None
        for name, x, other in (("a_sums", a, b), ("b_sums", b, a)):
            if other.unsigned:
                sums[name] = _summed(x, k, warps, launches, product.temporaries)
        a, b = (_copied(call, x, k, warps, launches, product.temporaries) for x in (a, b))
    kinds = {"KIND_A": a.kind, "KIND_B": b.kind}
    if way == "in groups":
        apart = {"om": out.strides[0], "pa": a.step, "pb": b.step}
        args, _ = product.arguments(a, b, apart)
        tiles = spec.cdiv(a.length, tile.m) * spec.cdiv(b.length, tile.n)
        return [*launches, by_groups(call, tile, tiles, args, {**product.constants(), **kinds})]
    steps = {"om": out.strides[0], "on": out.strides[1]}
    args, ones = product.arguments(a, b, steps)
    floating = kind == FLOATS
    launches.append(
        spec.Launch(
            "narrow:matmul_in_turn",
            {**args, **sums, "pa": a.step, "pb": b.step},
            {
                **product.constants(),
                **ones,
                **{name: None for name in ("a_sums", "b_sums") if name not in sums},
                **kinds,
                "T": spec.dtype_constant("float32" if floating else "int32"),
                "FOLD": _PIECE if floating and k > _UNITS_SUM else 0,
                "STORED": stored,
                "BLOCK_M": tile.m,
                "BLOCK_N": tile.n,
                "BLOCK_K": tile.k,
            },
            (call.compute_units, 1, 1),
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
            aligned_by=() if stored else ("N",),
            loose=("M", "K", "pa", "pb", "ra", "rb"),
            bits=("a", "b"),
            on_aligned=True,
        )
    )
    return launches


def _summed(
    x: Operand,
    k: int,
    num_warps: int,
    launches: list[spec.Launch],
    temporaries: list[spec.ArrayType],
) -> spec.Temporary:
    """The sums of an operand's rows (columns)."""
    goal = spec.Temporary(len(temporaries))
    temporaries.append(spec.ArrayType("int32", (x.length,), (1,)))
    rows, width = _SUMMED if x.along == 1 else _SUMMED_ACROSS
    args, ones = _read(x, k, goal)
    launches.append(
        spec.Launch(
            "narrow:sums",
            args,
            {**ones, "UNSIGNED": x.unsigned, "BLOCK_R": rows, "BLOCK_K": width},
            (spec.cdiv(x.length, rows), 1, 1),
            num_warps=num_warps,
            loose=("rows",),
        )
    )
    return goal


def _read(
    x: Operand, k: int, goal: spec.Temporary
) -> tuple[dict[str, spec.Argument], dict[str, Any]]:
    steps = {"step": x.step, "xk": x.along}
    args: dict[str, spec.Argument] = {
        "x": x.source, "out": goal, "rows": x.length, "K": k,
        **{name: one for name, one in steps.items() if one != 1},
    }  # fmt: skip
    return args, {name: 1 for name, one in steps.items() if one == 1}


def _copied(
    call: spec.Call,
    x: Operand,
    k: int,
    num_warps: int,
    launches: list[spec.Launch],
    temporaries: list[spec.ArrayType],
) -> Operand:
    """An operand as the units take it."""
    if _regular(call, x):
        return x
    pitch = spec.cdiv(k, _PITCH) * _PITCH
    copy = spec.Temporary(len(temporaries))
    temporaries.append(spec.ArrayType("uint8", (x.length, pitch), (pitch, 1)))
    rows, width = _COPIED
    args, ones = _read(x, k, copy)
    launches.append(
        spec.Launch(
            "narrow:laid",
            {**args, "pitch": pitch},
            {**ones, "UNSIGNED": x.unsigned, "BLOCK_R": rows, "BLOCK_K": width},
            (spec.cdiv(x.length, rows), spec.cdiv(k, width), 1),
            num_warps=num_warps,
            loose=("rows",),
            bits=("x",),
        )
    )
    return Operand(copy, "int8" if x.unsigned else x.kind, x.length, pitch, 1)


def floats(product: Product) -> list[spec.Launch] | None:
    """The launches of a product of 8-bit floating numbers; None: the arch has no units for them, or
    the result keeps more digits than these do.
    """
    return _described(product, FLOATS) if product.out.dtype == "bfloat16" else None


def integers(product: Product) -> list[spec.Launch] | None:
    """The launches of a product of 8-bit integers; None: the vendor has no units for them."""
    call, a, b, out = product.call, product.a, product.b, product.out
    if call.vendor not in _TILES:
        return None
    found = _described(product, INTEGERS)
    if found is not None:
        return found
    m, n = a.length, b.length
    tiles = [MatmulTile(*tile) for tile in _TILES[call.vendor]]
    # sums beside those of a large tile would need more registers than there are
    beside = a.unsigned or b.unsigned
    fitting = [t for t in tiles if t.m < (128 if beside else 2 * m) and t.m < 2 * m] or tiles[-1:]
    filling = (t for t in fitting if spec.cdiv(m, t.m) * spec.cdiv(n, t.n) >= call.compute_units)
    tile = next(filling, fitting[-1])
    steps = {"am": a.step, "ak": a.along, "bn": b.step, "bk": b.along,
             "om": out.strides[0], "on": out.strides[1]}  # fmt: skip
    args, ones = product.arguments(a, b, steps)
    return [
        spec.Launch(
            "narrow:matmul_integers",
            args,
            {
                **product.constants(),
                **ones,
                "A_UNSIGNED": a.unsigned,
                "B_UNSIGNED": b.unsigned,
                "BLOCK_M": tile.m,
                "BLOCK_N": tile.n,
                "BLOCK_K": tile.k,
            },
            (spec.cdiv(m, tile.m) * spec.cdiv(n, tile.n), 1, 1),
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
            options=tuning.matmul_options(call.vendor),
            loose=("M", "ra", "rb"),
        )
    ]
