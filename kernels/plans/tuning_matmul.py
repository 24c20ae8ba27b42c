"""Tiles of matrix products: data by vendor, what was measured on an arch (`kernels/choices`), and
the few lines that pick from them. Nothing here changes a result beyond the order of rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from xtarget.spec import cdiv, next_power_of_2

from . import choices
from .tuning import columns, of

__all__ = [
    "HEAD_TILES",
    "SECOND_COLUMNS",
    "Choice",
    "MatmulTile",
    "Wanted",
    "allowed",
    "choose",
    "folds",
    "general_tile",
    "head_tile",
    "known_tiles",
    "may_fold",
    "pieces",
    "split_k",
    "vector_tile",
]


class MatmulTile(NamedTuple):
    """A matmul's tile, warps and stages."""

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int


def _tiles(*rows: tuple[int, int, int, int, int]) -> tuple[MatmulTile, ...]:
    return tuple(MatmulTile(*row) for row in rows)


# fmt: off
#: A CPU's registers hold 16 vectors of sums beside operands, whatever the tile's form. For few rows
#: it is wide: then the matrix, which is all that takes time, is read once and in long pieces.
_CPU_FLOATS: Final = _tiles(
    (8, 32, 4, 1, 1), (4, 64, 4, 1, 1), (2, 128, 4, 1, 1), (8, 16, 4, 1, 1), (4, 16, 4, 1, 1),
    (1, 16, 4, 1, 1),
)


_CPU_WORDS: Final = _tiles(
    (8, 16, 4, 1, 1), (4, 32, 4, 1, 1), (2, 64, 4, 1, 1), (4, 16, 4, 1, 1), (1, 16, 4, 1, 1),
)


#: The same where half of the registers hold 8 vectors of 32 bytes (`tuning.has_few_registers`).
_FEW_REGISTERS: Final = "cpu of few registers"
_FEW_FLOATS: Final = _tiles(
    (4, 16, 2, 1, 1), (2, 32, 4, 1, 1), (2, 16, 4, 1, 1), (1, 16, 4, 1, 1),
)


_FEW_WORDS: Final = _tiles((2, 16, 4, 1, 1), (1, 16, 4, 1, 1))


#: By vendor and by what the operands are: largest first. Bytes of shared memory are about
#: (m + n) * k * itemsize * stages; 99 KiB is what every NVIDIA chip from sm_86 on has, AMD has 64.
_MATMUL: Final[Mapping[str, Mapping[str, tuple[MatmulTile, ...]]]] = {
    "nvidia": {
        "half": _tiles(
            (128, 128, 64, 8, 3), (128, 64, 64, 4, 3), (64, 128, 64, 4, 3), (64, 64, 64, 4, 4),
            (32, 64, 64, 4, 4), (16, 64, 128, 4, 4), (16, 32, 128, 2, 4), (16, 16, 64, 1, 4),
        ),
        "single": _tiles(
            (128, 128, 16, 8, 3), (64, 64, 16, 4, 3), (32, 32, 32, 4, 3), (16, 16, 32, 2, 3),
        ),
        "double": _tiles(
            (64, 64, 16, 4, 3), (32, 32, 16, 4, 3), (16, 16, 16, 2, 3),
        ),
        "integer": _tiles((16, 16, 16, 4, 1)),
    },
    "amd": {
        "half": _tiles(
            (128, 128, 64, 8, 2), (64, 64, 64, 4, 2), (32, 32, 64, 4, 2), (16, 16, 64, 1, 2),
        ),
        "single": _tiles(
            (64, 64, 32, 4, 2), (32, 32, 32, 4, 2), (16, 16, 32, 1, 2),
        ),
        "double": _tiles((32, 32, 16, 4, 2), (16, 16, 16, 1, 2)),
        "integer": _tiles((16, 16, 16, 4, 1)),
    },
    "cpu": {
        "half": _CPU_FLOATS,
        "single": _CPU_FLOATS,
        "double": _CPU_WORDS,
        "integer": _CPU_WORDS,
    },
    _FEW_REGISTERS: {
        "half": _FEW_FLOATS,
        "single": _FEW_FLOATS,
        "double": _FEW_WORDS,
        "integer": _FEW_WORDS,
    },
    # at a sub-group of 16 a Xe HPC spills none of its registers, a Xe HPG of half as many up to 12
    "intel": {
        "half": _tiles(
            (32, 32, 16, 8, 1), (16, 32, 16, 8, 1), (16, 16, 16, 8, 1),
        ),
        "single": _tiles(
            (32, 32, 16, 8, 1), (16, 32, 16, 8, 1), (16, 16, 16, 8, 1),
        ),
        "double": _tiles((16, 32, 16, 8, 1), (16, 16, 16, 8, 1)),
        "integer": _tiles((16, 16, 8, 4, 1)),
    },
    "other": {
        "half": _tiles((32, 64, 16, 4, 1), (16, 16, 16, 1, 1)),
        "single": _tiles((32, 64, 16, 4, 1), (16, 16, 16, 1, 1)),
        "double": _tiles((32, 32, 16, 4, 1), (16, 16, 16, 1, 1)),
        "integer": _tiles((16, 16, 8, 4, 1)),
    },
}
# fmt: on


#: A matmul's K is cut into pieces no shorter than this.
_SPLIT_K: Final = {"cpu": 4096, "other": 512}


#: The same of those that come through descriptors, and how many there are.
_PIECE, _PIECES = 256, (2, 3, 4, 6, 8)


#: Products that a tile with a long K adds one after the other, before their sum goes to the whole.
FOLD: Final = 1024


#: Such a K, by what the operands are. The sums of halves are in float32, of which the result keeps
#: so few digits that only those of very long ones are seen.
_LONG_K: Final = {"half": 65536, "single": 4096, "double": 4096}


#: Most elements of a tile that folds: it keeps two sums of each in registers.
_FOLDED_TILE: Final = 128 * 128


#: Elements of the larger of two tiles that serve layouts that few products have.
_MIDDLE: Final = 64 * 64


#: Elements along K that a block lays out as a panel.
PANEL_K: Final = 16
#: How often it does so, one after the other, where registers are few and columns neighbours: then
#: a piece is copied in the time that a block takes to start.
PANEL_PIECES: Final = 16


#: Columns that it lays out together where they are not neighbours in memory: a vector of each row.
PANEL_PART: Final = 16


#: Rows of a matrix that are worth copying the other one as panels; and where its columns are not
#: neighbours in memory, so that each row would read every element by itself.
PANEL_ROWS: Final = 32
PANEL_ROWS_APART: Final = 2


#: Columns of the result that are worth copying a first matrix that lies by columns.
TURNED_COLUMNS: Final = 512


#: Elements that a thread takes through what follows a product at once, and where as many of arrays
#: stand beside them: they need registers beside those of the rest of the tile.
_AT_ONCE: Final = (64, 32)


#: Rows of tiles that a group of a matmul spans.
GROUP_M: Final = 8


#: Tiles below each other that a block of outer products makes at most, where they are small for
#: few registers, and blocks that each processor has at least before one makes several.
_HEIGHT: Final = 16
_BLOCKS: Final = 8


def height(rows: int, others: int, units: int) -> int:
    """Tiles below each other that a block of outer products makes: they start one block instead of
    as many, and read the same columns again.

    Args:
        rows: of tiles.
        others: columns of tiles, in all matrices.
        units: processors.
    """
    groups = min(rows, max(cdiv(rows, _HEIGHT), cdiv(_BLOCKS * units, others)))
    return cdiv(rows, groups)


def split_k(vendor: str) -> int:
    return of(_SPLIT_K, vendor)


def vector_tile(rows: int, *, along_rows: bool) -> tuple[int, int]:
    """Rows, and elements of each, that a block of a matrix times a vector takes at once on devices
    that multiply by outer products: lanes along the rows, or from row to row.
    """
    if along_rows:
        return (1, 256) if rows == 1 else (4, 64)
    return columns(rows, 256), 1


#: Of products that make a factor as they read it: the widest tile, rows, K, and stages.
_HEADS: Final[Mapping[tuple[str, str], tuple[int, int, int, int]]] = {
    ("nvidia", "half"): (256, 128, 64, 3),
    ("nvidia", "single"): (128, 64, 16, 3),
    ("amd", "half"): (128, 128, 32, 2),
    ("amd", "single"): (64, 64, 32, 2),
}


#: Bytes of shared memory that a block may have: of some archs, and of a vendor's others.
_SHARED: Final = {"sm_80": 163 << 10, "sm_87": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10}
_LEAST_SHARED: Final = {"nvidia": 99 << 10, "amd": 64 << 10}
#: Of these, for what is not a tile.
_BESIDE_TILES: Final = 2 << 10
#: The shortest step along K of a tile that is made smaller.
_LEAST_K: Final = 32


def head_tile(wanted: Wanted, first: int, second: int, made: int = 0) -> MatmulTile | None:
    """The tile of a product that makes its first factor as it reads it: as wide as the result, so
    that it does so once, and lower where there are few. None: as any other product's.

    Args:
        first, second: bytes that are read for an element of each factor. All that are under way
            have room in shared memory.
        made: bytes of an element of the second factor that is made too.
    """
    known = _HEADS.get((wanted.vendor, wanted.kind))
    if known is None or wanted.few_registers:
        return None
    widest, m, k, stages = known
    n = min(max(16, next_power_of_2(wanted.n)), widest)
    if wanted.vendor == "nvidia" and wanted.kind == "half" and n <= 32:
        m, k, stages = 64, 128, 4  # 31.7 for 47 µs: 16 columns, 14,336 rows, K of 4,096 (H100)
    while m > 32 and cdiv(wanted.m, m) * cdiv(wanted.n, n) * wanted.batch < wanted.compute_units:
        m //= 2
    most = _SHARED.get(wanted.arch, _LEAST_SHARED[wanted.vendor])
    # from Hopper on, matrix units read the second factor where it is until they are done
    hopper = most >= _SHARED["sm_90"]
    least = 1 if wanted.vendor == "amd" else 2 + hopper  # as Triton 3.6 has it

    def under_way() -> int:
        of_second = max(stages - 1 + hopper, least) * second
        if made:  # what it is made of, and what is multiplied
            of_second = (stages - 1) * second + least * made
        return (stages - 1) * m * k * first + k * n * of_second

    while under_way() > most - _BESIDE_TILES:
        if stages > 2:
            stages -= 1
        elif k > _LEAST_K:
            k //= 2
        else:
            m //= 2
    return MatmulTile(m, n, k, 8 if m * n >= 128 * 128 else 4, stages)


#: Tiles side by side up to which what makes the first factor of a product is done in each of them.
HEAD_TILES = 2
#: Columns up to which the second factor is made in each of them too: relu beside weights of int8
#: took 0.94 to 1.02 x the time of two launches for 16, 1.08 to 1.31 x for 64 (H100, K of 4,096).
SECOND_COLUMNS = 16


def pieces(tile: MatmulTile, *, arrays: bool) -> int:
    """In how many pieces a tile goes through what follows a product: of each, a thread has no more
    than `_AT_ONCE` elements, as long as there are no more than 4 pieces, of 16 columns or more.

    Args:
        arrays: elements of arrays stand beside those of the tile, each its own.
    """
    count = 1
    while count < 4 and tile.n >= 32 * count:
        if tile.m * tile.n <= _AT_ONCE[arrays] * count * tile.num_warps * 32:
            break
        count *= 2
    return count


def folds(kind: str, k: int) -> bool:
    """Whether a matmul adds the products of a K this long in pieces of `FOLD`."""
    return k > _LONG_K.get(kind, k)


class Wanted(NamedTuple):
    """A matrix product, as choices see it.

    Attributes:
        kind: `half`, `single`, `double` or `integer`: what the operands are.
        b: `rows`, `columns` or `mixed`: which elements of the second operand lie side by side.
        out: `stored` where a copy engine can store the result, else `by address`.
        described: whether the operands may come through tensor descriptors.
        table: of the choices.
        tail: what follows is done to its tiles; choices for that come first.
        hosted: as of `tuning.hosted`.
        alike: the result has the operands' type.
        few_registers: as of `tuning.has_few_registers`.
        halved: as of `described.halved`, of both operands.
    """

    vendor: str
    arch: str
    kind: str
    m: int
    n: int
    k: int
    batch: int
    compute_units: int
    b: str = "mixed"
    described: bool = False
    table: str = "matmul"
    tail: bool = False
    few_registers: bool = False
    hosted: bool = False
    out: str = "stored"
    alike: bool = False
    halved: tuple[bool, bool] = (False, False)

    def blocks(self, tile: MatmulTile) -> int:
        return cdiv(self.m, tile.m) * cdiv(self.n, tile.n) * self.batch


class Choice(NamedTuple):
    """How a matrix product is made.

    Attributes:
        way: `tiles`, a block each; `few`: the same, one tile has all rows; `in turn`: blocks that
            stay (`described:matmul_in_turn`); `described`: `described:matmul_described`; `in
            groups`: `hopper_products:matmul_in_groups`, of whose warps four fetch for the others.
        origin: `measured` for the arch, or `default`.
        parts: pieces of k; 0: as many as fill the device.
    """

    tile: MatmulTile
    way: str = "tiles"
    origin: str = "default"
    parts: int = 0


def choose(wanted: Wanted) -> Choice:
    """The first that was measured for the arch and this range, or the fastest by estimate where
    that one has a cost; else by rule.
    """
    tables = ("matmul with a tail", wanted.table)[0 if wanted.tail else 1 :]
    for table in tables:
        alike = _of_words(wanted.vendor, wanted.arch, table, wanted.kind, wanted.b, wanted.out)
        held = [row for row, tile, way in alike if _holds(wanted, row, tile, way)]
        if held:
            compared = [row for row in held if row.cost] if held[0].cost else held[:1]
            _, parts, row = min(
                (found for one in compared for found in _estimated(wanted, one)),
                key=lambda found: found[:1],
            )
            tile = MatmulTile(*row.config)
            return Choice(tile, row.text.get("way", "tiles"), "measured", parts)
    return Choice(_by_rule(wanted))


@cache
def _of_words(
    vendor: str, arch: str, table: str, operands: str, b: str, out: str
) -> tuple[tuple[choices.Row, MatmulTile, str], ...]:
    """The rows for operands and a result of these kinds, each with its tile and its way."""
    words = {"operands": operands, "b": b, "out": out}
    return tuple(
        (row, MatmulTile(*row.config), row.text.get("way", "tiles"))
        for row in choices.rows(vendor, arch, table)
        if all(row.text.get(name, word) == word for name, word in words.items())
    )


def _holds(wanted: Wanted, row: choices.Row, tile: MatmulTile, way: str) -> bool:
    """Whether a row is for a product like this."""
    if not _can(wanted, way):
        return False
    if "descriptors" in row.text and not wanted.hosted:
        return False
    if not _may_fold(wanted, tile) or not row.holds(m=wanted.m, n=wanted.n, k=wanted.k):
        return False
    low, high = row.blocks
    blocks = 100 * wanted.blocks(tile)
    return low * wanted.compute_units <= blocks and (
        high is None or blocks <= high * wanted.compute_units
    )


class _Fetches(NamedTuple):
    """What tiles wait for the L2 (H100).

    Attributes:
        ns, halved: nanoseconds of a million elements of two bytes, and of those of rows that lie as
            in `described.halved`.
        each: of a million rows of two operands beside these.
        seen: what part of the shorter time is seen, of products and fetches that go on together:
            one in so many; 0: none.
    """

    ns: int
    halved: int
    each: int
    seen: int


#: By m n k, the multiply-adds: fewer, and from `_MANY` on.
_FEW, _OF_MANY = _Fetches(190, 340, 0, 0), _Fetches(130, 380, 24_000, 5)
_MANY: Final = 4_000_000_000


def _estimated(wanted: Wanted, row: choices.Row) -> list[tuple[int, int, choices.Row]]:
    """Nanoseconds by pieces of k: of the launch, of the multiprocessor that makes the most tiles
    and of the L2, of which the longer counts most, and of the launch that adds the pieces.
    """
    if not row.cost:
        return [(0, 0, row)]
    tile = MatmulTile(*row.config)
    launch, each, step, *second = row.cost
    blocks, steps = wanted.blocks(tile), cdiv(wanted.k, tile.k)
    by = _OF_MANY if wanted.m * wanted.n * wanted.k >= _MANY else _FEW
    fetched = by.each + sum(
        length * (by.halved if slow else by.ns)
        for length, slow in zip((tile.m, tile.n), wanted.halved, strict=True)
    )
    least = each + blocks * steps * tile.k * fetched // 1_000_000

    def whole(parts: int) -> int:
        waves = cdiv(blocks * parts, wanted.compute_units)
        busy = waves * (each + cdiv(steps, parts) * step)
        seen = min(busy, least) // by.seen if by.seen else 0
        return launch + max(busy, least) + seen

    found = [(whole(1), 0, row)]
    if second and not wanted.tail:
        most = min(2 * wanted.compute_units // blocks, wanted.k // _PIECE)
        for parts in (one for one in _PIECES if one <= most):
            added = second[0] + parts * wanted.m * wanted.n * second[1] // 1000
            found.append((whole(parts) + added, parts, row))
    return found


def may_fold(tile: MatmulTile) -> bool:
    """Whether there are registers for what a tile sums in pieces."""
    return tile.m * tile.n <= _FOLDED_TILE


def _may_fold(wanted: Wanted, tile: MatmulTile) -> bool:
    """Whether there are registers for what a tile sums in pieces, if it does."""
    return not folds(wanted.kind, wanted.k) or may_fold(tile)


def _can(wanted: Wanted, way: str) -> bool:
    """Whether the operands are as a way needs them, and so is the result."""
    if way == "in groups":
        plain = wanted.alike and not wanted.tail and not folds(wanted.kind, wanted.k)
        by_engine = wanted.described and wanted.hosted and wanted.out == "stored"
        return plain and by_engine and wanted.k > 0
    return wanted.described or way not in ("in turn", "described")


def allowed(wanted: Wanted, choice: Choice) -> bool:
    """Whether a choice that was made for other sizes of the same range does for these."""
    return (
        _may_fold(wanted, choice.tile)
        and _can(wanted, choice.way)
        and (choice.way != "few" or choice.tile.m >= wanted.m)
    )


def known_tiles(vendor: str, kind: str, *, few_registers: bool = False) -> tuple[MatmulTile, ...]:
    """The tiles that the rule picks from."""
    return of(_MATMUL, _FEW_REGISTERS if few_registers else vendor)[kind]


def general_tile(vendor: str, kind: str, tile: MatmulTile) -> MatmulTile:
    """One of two in the place of a tile, for layouts that few products have."""
    tiles = known_tiles(vendor, kind)
    middle = next((one for one in tiles if one.m * one.n <= _MIDDLE), tiles[0])
    return middle if tile.m * tile.n >= middle.m * middle.n else tiles[-1]


def _by_rule(wanted: Wanted) -> MatmulTile:
    """The largest tile that is not mostly padding and leaves no multiprocessor without one; for a
    problem too small for that, the smallest that covers it.
    """
    tiles = known_tiles(wanted.vendor, wanted.kind, few_registers=wanted.few_registers)
    if folds(wanted.kind, wanted.k):
        tiles = tuple(tile for tile in tiles if tile.m * tile.n <= _FOLDED_TILE)
    fitting = [
        tile
        for tile in tiles
        if tile.m < 2 * max(next_power_of_2(wanted.m), tiles[-1].m)
        and tile.n < 2 * max(next_power_of_2(wanted.n), tiles[-1].n)
    ] or [tiles[-1]]
    for tile in fitting:
        if wanted.blocks(tile) >= wanted.compute_units:
            return tile
    return fitting[-1]
