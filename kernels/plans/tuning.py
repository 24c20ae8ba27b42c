"""Tile sizes by vendor: data, and the few lines that pick from it.

Nothing here changes a result, only its speed (and, on a sum, the order of rounding). A vendor that
is not listed gets `other`, which is small enough for 32 KiB of shared memory.

Why the CPU's are so small: a block is one thread that computes with vectors of 16, every vector of
a tile is unrolled code, and the run time's JIT takes seconds over large bodies. A matmul's tile is
what 16 of its 32 vector registers hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from xtarget.spec import cdiv, next_power_of_2

__all__ = [
    "Flat",
    "MatmulTile",
    "Reduction",
    "Rows",
    "Scans",
    "columns",
    "flat",
    "flat_options",
    "matmul_options",
    "matmul_tile",
    "reduction",
    "rows",
    "scans",
    "split_k",
    "splits",
    "vector_tile",
]

_T = TypeVar("_T")


class Flat(NamedTuple):
    """Elementwise kernels.

    Attributes:
        block: elements at once.
        strided: the same, where addresses need a division.
        chunk: elements that one block of the grid takes, one `block` after the other; less than
            `block` is one.
        row: least length of an innermost axis that is walked row by row, at a division for each
            `block`: neighbours are then seen to lie side by side, whatever the other axes; 0 is
            never.
        stream: bytes of a result that the caches have no room for beside its operands; 0 is never.
    """

    block: int
    strided: int
    num_warps: int
    chunk: int = 0
    row: int = 0
    stream: int = 0


class Reduction(NamedTuple):
    """Reductions.

    Attributes:
        tile: elements in flight per block.
        columns: lanes side by side when memory runs along the kept axes.
        blocks_per_unit: a launch with fewer blocks per multiprocessor than this is cut along the
            reduced axes.
        shortest: reduced elements that are worth a block of their own.
        alone: from so many kept elements side by side on, a step takes one reduced one of each;
            0 is never.
        pairs: `tile` of numbers with an index; 0: the same.
    """

    tile: int
    columns: int
    num_warps: int
    blocks_per_unit: int
    shortest: int
    alone: int = 0
    pairs: int = 0


class Scans(NamedTuple):
    """Scans.

    Attributes:
        step: elements of a row at once; `costly`: of an operation of many instructions.
        tile: short rows are packed up to so many elements a block.
        columns: rows side by side, an element of each a step, where memory runs across them.
        num_warps: upper limit.
        blocks_per_unit, shortest: as of `Reduction`.
        pieces: pieces whose ends are read at once.
    """

    step: int
    costly: int
    tile: int
    columns: int
    num_warps: int
    blocks_per_unit: int
    shortest: int
    pieces: int


class Rows(NamedTuple):
    """Row kernels.

    Attributes:
        piece: longest row (of 4-byte elements) taken in one piece.
        step: elements per step along a longer row.
        tile: short rows are packed up to so many elements a block.
        per_warp: elements of a tile that one warp takes.
        max_warps: upper limit.
        walks: whether a row is near enough to read it once more instead of computing more.
        together: longer rows that a block takes, so that it reads their weights once for all.
        columns: of rows that lie side by side as columns do, so many a block, one element of each a
            step; 0: a few, and several elements.
    """

    piece: int
    step: int
    tile: int
    per_warp: int
    max_warps: int
    walks: bool = False
    together: int = 1
    columns: int = 0


class MatmulTile(NamedTuple):
    """A matmul's tile, warps and stages."""

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int


_FLAT: Final = {
    "nvidia": Flat(1024, 1024, 4),
    "amd": Flat(1024, 1024, 4),
    "intel": Flat(1024, 512, 4),
    "cpu": Flat(64, 64, 1, chunk=4096, row=16, stream=1 << 24),
    "other": Flat(1024, 512, 4),
}

_REDUCTION: Final = {
    "nvidia": Reduction(4096, 128, 8, 4, 8192),
    "amd": Reduction(4096, 64, 4, 4, 8192, pairs=1024),
    "intel": Reduction(1024, 32, 4, 4, 8192),
    "cpu": Reduction(256, 256, 1, 4, 32768, alone=16),
    "other": Reduction(1024, 32, 4, 4, 8192),
}

_SCANS: Final = {
    "nvidia": Scans(2048, 512, 2048, 128, 4, 4, 8192, 128),
    "amd": Scans(2048, 512, 2048, 64, 4, 4, 8192, 128),
    "intel": Scans(1024, 256, 1024, 64, 4, 4, 8192, 64),
    "cpu": Scans(64, 64, 64, 64, 1, 1, 65536, 16),
    "other": Scans(1024, 256, 1024, 64, 4, 4, 8192, 64),
}

_ROWS: Final = {
    "nvidia": Rows(16384, 4096, 1024, 512, 16),
    "amd": Rows(8192, 4096, 1024, 512, 8),
    "intel": Rows(2048, 1024, 512, 256, 8),
    "cpu": Rows(128, 32, 256, 512, 1, walks=True, together=4, columns=256),
    "other": Rows(2048, 1024, 512, 256, 8),
}

#: A CPU's registers hold 16 vectors of sums beside operands, whatever the tile's form. For few rows
#: it is wide: then the matrix, which is all that takes time, is read once and in long pieces.
_CPU_FLOATS: Final = (
    MatmulTile(8, 32, 4, 1, 1),
    MatmulTile(4, 64, 4, 1, 1),
    MatmulTile(2, 128, 4, 1, 1),
    MatmulTile(8, 16, 4, 1, 1),
    MatmulTile(4, 16, 4, 1, 1),
    MatmulTile(1, 16, 4, 1, 1),
)
_CPU_WORDS: Final = (
    MatmulTile(8, 16, 4, 1, 1),
    MatmulTile(4, 32, 4, 1, 1),
    MatmulTile(2, 64, 4, 1, 1),
    MatmulTile(4, 16, 4, 1, 1),
    MatmulTile(1, 16, 4, 1, 1),
)

#: By vendor and by what the operands are: largest first. Bytes of shared memory are about
#: (m + n) * k * itemsize * stages; 99 KiB is what every NVIDIA chip from sm_86 on has, AMD has 64.
#: An entry for an arch comes before its vendor's: sm_90 has 227 KiB.
_MATMUL: Final[Mapping[str, Mapping[str, tuple[MatmulTile, ...]]]] = {
    "nvidia": {
        "half": (
            MatmulTile(128, 128, 64, 8, 3),
            MatmulTile(128, 64, 64, 4, 3),
            MatmulTile(64, 128, 64, 4, 3),
            MatmulTile(64, 64, 64, 4, 4),
            MatmulTile(32, 64, 64, 4, 4),
            MatmulTile(16, 64, 128, 4, 4),
            MatmulTile(16, 32, 128, 2, 4),
            MatmulTile(16, 16, 64, 1, 4),
        ),
        "single": (
            MatmulTile(128, 128, 16, 8, 3),
            MatmulTile(64, 64, 16, 4, 3),
            MatmulTile(32, 32, 32, 4, 3),
            MatmulTile(16, 16, 32, 2, 3),
        ),
        "double": (
            MatmulTile(64, 64, 16, 4, 3),
            MatmulTile(32, 32, 16, 4, 3),
            MatmulTile(16, 16, 16, 2, 3),
        ),
        "integer": (MatmulTile(16, 16, 16, 4, 1),),
    },
    "nvidia:sm_90": {
        "half": (MatmulTile(128, 256, 64, 8, 4),),
    },
    "amd": {
        "half": (
            MatmulTile(128, 128, 64, 8, 2),
            MatmulTile(64, 64, 64, 4, 2),
            MatmulTile(32, 32, 64, 4, 2),
            MatmulTile(16, 16, 64, 1, 2),
        ),
        "single": (
            MatmulTile(64, 64, 32, 4, 2),
            MatmulTile(32, 32, 32, 4, 2),
            MatmulTile(16, 16, 32, 1, 2),
        ),
        "double": (MatmulTile(32, 32, 16, 4, 2), MatmulTile(16, 16, 16, 1, 2)),
        "integer": (MatmulTile(16, 16, 16, 4, 1),),
    },
    "cpu": {
        "half": _CPU_FLOATS,
        "single": _CPU_FLOATS,
        "double": _CPU_WORDS,
        "integer": _CPU_WORDS,
    },
    # at a sub-group of 16 a Xe HPC spills none of its registers, a Xe HPG of half as many up to 12
    "intel": {
        "half": (
            MatmulTile(32, 32, 16, 8, 1),
            MatmulTile(16, 32, 16, 8, 1),
            MatmulTile(16, 16, 16, 8, 1),
        ),
        "single": (
            MatmulTile(32, 32, 16, 8, 1),
            MatmulTile(16, 32, 16, 8, 1),
            MatmulTile(16, 16, 16, 8, 1),
        ),
        "double": (MatmulTile(16, 32, 16, 8, 1), MatmulTile(16, 16, 16, 8, 1)),
        "integer": (MatmulTile(16, 16, 8, 4, 1),),
    },
    "other": {
        "half": (MatmulTile(32, 64, 16, 4, 1), MatmulTile(16, 16, 16, 1, 1)),
        "single": (MatmulTile(32, 64, 16, 4, 1), MatmulTile(16, 16, 16, 1, 1)),
        "double": (MatmulTile(32, 32, 16, 4, 1), MatmulTile(16, 16, 16, 1, 1)),
        "integer": (MatmulTile(16, 16, 8, 4, 1),),
    },
}

#: Vendors whose matrix units take fp16 and bf16; the others multiply them as fp32, which is exact.
MATRIX_UNITS: Final = frozenset({"nvidia", "amd"})

#: Which lengths of tiles make other code if they are multiples of 16 (measured: else the bytes of
#: every kernel are the same). On Intel's GPUs neighbours read the innermost axis, an element each,
#: wherever an array begins; a CPU's vectors begin anywhere.
_ALIGNED_BY: Final = {"intel": "across", "cpu": "none", "other": "all"}

#: Options of the vendors' compilers for elementwise kernels. A product and a sum that become one
#: instruction round once instead of twice, and which ones do depends on what else is in the kernel:
#: a chain in one kernel would give other numbers than its operators one after another. The CPU's
#: and Intel's compilers leave them apart (measured).
_FLAT_OPTIONS: Final[Mapping[str, Mapping[str, bool]]] = {
    **{vendor: {"enable_fp_fusion": False} for vendor in ("nvidia", "amd")},
    "other": {},
}

#: Options of the vendors' compilers for a matmul. Intel's GPUs: at a sub-group of 32 a tile of
#: 32 x 32 spills 400 registers of a Xe HPG, at 16 none (`ci/intel_offline.py`).
_MATMUL_OPTIONS: Final[Mapping[str, Mapping[str, int]]] = {"intel": {"warp_size": 16}, "other": {}}
#: A matmul's K is cut into pieces no shorter than this.
_SPLIT_K: Final = {"cpu": 4096, "other": 512}

#: Steps of a sum that are added one after the other, each rounding; the next ones begin at 0, and
#: what both give is added without loss. GPUs spread a sum over so many threads that few have more
#: steps than theirs, and the loop in a loop costs them bandwidth (sum of 2^28 on an H200: 2.4
#: instead of 3.7 TB/s).
_IN_TURN: Final = {"cpu": 64, "other": 1024}
#: Products that a tile with a long K adds one after the other, before their sum goes to the whole.
FOLD: Final = 1024
#: Such a K, by what the operands are. The sums of halves are in float32, of which the result keeps
#: so few digits that only those of very long ones are seen.
_LONG_K: Final = {"half": 65536, "single": 4096, "double": 4096}
#: Most elements of a tile that folds: it keeps two sums of each in registers.
_FOLDED_TILE: Final = 128 * 128

#: Elements along K that a block lays out as a panel.
PANEL_K: Final = 16
#: Rows of a matrix that are worth copying the other one as panels.
PANEL_ROWS: Final = 32

#: Rows of tiles that a group of a matmul spans.
GROUP_M: Final = 8


def _of(table: Mapping[str, _T], vendor: str) -> _T:
    return table.get(vendor, table["other"])


def flat(vendor: str) -> Flat:
    return _of(_FLAT, vendor)


def reduction(vendor: str) -> Reduction:
    return _of(_REDUCTION, vendor)


def rows(vendor: str) -> Rows:
    return _of(_ROWS, vendor)


def scans(vendor: str) -> Scans:
    return _of(_SCANS, vendor)


def split_k(vendor: str) -> int:
    return _of(_SPLIT_K, vendor)


def outer_products(vendor: str) -> bool:
    """Whether matrices are multiplied as a sum of outer products."""
    return vendor == "cpu"


def columns(count: int, most: int) -> int:
    """How many of `count` columns side by side a block takes, a power of two. Of a CPU's many (up
    to 256) some are left out, so that few kernels stand for all.
    """
    taken = min(next_power_of_2(count), most)
    return 2 * taken if most >= 256 and taken in (32, 128) else taken


def vector_tile(rows: int, *, along_rows: bool) -> tuple[int, int]:
    """Rows, and elements of each, that a block of a matrix times a vector takes at once on devices
    that multiply by outer products: lanes along the rows, or from row to row.
    """
    if along_rows:
        return (1, 256) if rows == 1 else (4, 64)
    return columns(rows, 256), 1


def splits(blocks: int, wanted: int, length: int, shortest: int) -> int:
    """How many parts to cut each of `blocks` blocks' work of `length` elements into, so that there
    are about `wanted` blocks and no part is below `shortest`.
    """
    return max(1, min(cdiv(wanted, blocks), length // shortest, 65535))


def aligned_by(vendor: str, *lengths: str, across: tuple[str, ...] = ()) -> tuple[str, ...]:
    """`Launch.aligned_by`: of the lengths that memory is walked along, those that make other code
    if they are multiples of 16.

    Args:
        lengths: of the innermost axis of a tile.
        across: of another one.
    """
    which = _of(_ALIGNED_BY, vendor)
    return lengths + across if which == "all" else across if which == "across" else ()


def matmul_options(vendor: str) -> Mapping[str, int]:
    """Options of the vendor's compiler for a matmul."""
    return _of(_MATMUL_OPTIONS, vendor)


def flat_options(vendor: str) -> Mapping[str, bool]:
    """Options of the vendor's compiler for elementwise kernels."""
    return _of(_FLAT_OPTIONS, vendor)


def in_turn(vendor: str) -> int:
    """Steps of a sum that round one after the other."""
    return _of(_IN_TURN, vendor)


def folds(kind: str, k: int) -> bool:
    """Whether a matmul adds the products of a K this long in pieces of `FOLD`."""
    return k > _LONG_K.get(kind, k)


def matmul_tile(
    vendor: str, arch: str, kind: str, m: int, n: int, batch: int, compute_units: int, k: int = 0
) -> MatmulTile:
    """The largest tile that is not mostly padding and leaves no multiprocessor without one; for a
    problem too small for that, the smallest that covers it.
    """
    tiles = _MATMUL.get(f"{vendor}:{arch}", {}).get(kind, ()) + _of(_MATMUL, vendor)[kind]
    if folds(kind, k):
        tiles = tuple(tile for tile in tiles if tile.m * tile.n <= _FOLDED_TILE)
    fitting = [
        tile
        for tile in tiles
        if tile.m < 2 * max(next_power_of_2(m), tiles[-1].m)
        and tile.n < 2 * max(next_power_of_2(n), tiles[-1].n)
    ] or [tiles[-1]]
    for tile in fitting:
        if cdiv(m, tile.m) * cdiv(n, tile.n) * batch >= compute_units:
            return tile
    return fitting[-1]
