"""Tile sizes by vendor: data, and the few lines that pick from it.

Nothing here changes a result, only its speed (and, on a sum, the order of rounding). A vendor that
is not listed gets `other`, which is small enough for 32 KiB of shared memory.

Why the CPU's are so small: a block is one thread that computes with vectors of 16, every vector of
a tile is unrolled code, and the run time's JIT takes seconds over large bodies. The tiles of matrix
products are in `tuning_matmul`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from xtarget.spec import Call, cdiv, next_power_of_2

__all__ = [
    "Flat",
    "Reduction",
    "Rows",
    "Scans",
    "coarse",
    "columns",
    "flat",
    "flat_options",
    "has_few_registers",
    "is_general",
    "length_of_tile",
    "matmul_options",
    "of",
    "reduction",
    "rows",
    "rows_of_tile",
    "scans",
    "splits",
    "walks",
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
        whole: up to so many elements one block reduces all: another launch would take longer.
        tiles_per_block: tiles of short rows that a block takes one after the other; 0: one.
    """

    tile: int
    columns: int
    num_warps: int
    blocks_per_unit: int
    shortest: int
    alone: int = 0
    pairs: int = 0
    whole: int = 0
    tiles_per_block: int = 0


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


class Group(NamedTuple):
    """Columns of a step along a row, elements of each that are taken at once, warps."""

    columns: int
    elements: int
    warps: int


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
        group: of a long row that is read once for the sum of its exponentials; None: it is read
            twice.
    """

    piece: int
    step: int
    tile: int
    per_warp: int
    max_warps: int
    walks: bool = False
    together: int = 1
    columns: int = 0
    group: Group | None = None


_FLAT: Final = {
    "nvidia": Flat(1024, 1024, 4),
    "amd": Flat(1024, 1024, 4),
    "intel": Flat(1024, 512, 4),
    "cpu": Flat(64, 64, 1, chunk=4096, row=16, stream=1 << 24),
    "other": Flat(1024, 512, 4),
}

#: The same of two arrays or more, where they differ. A CPU waits for memory then, and looks at a
#: mask for each vector of each array: two at a time, of longer pieces, are up to 1.3 x as fast.
_FLAT_OF_SEVERAL: Final = {"cpu": Flat(32, 64, 1, chunk=16384, row=16, stream=1 << 24)}

#: Of one array, where 16 registers of 32 bytes hold what a CPU computes with: four vectors of 64
#: bytes at once would all go through memory between any two steps of a longer function.
_FLAT_IN_FEW: Final = {"cpu": Flat(32, 64, 1, chunk=8192, row=16, stream=1 << 24)}

_REDUCTION: Final = {
    "nvidia": Reduction(4096, 128, 8, 4, 8192),
    "amd": Reduction(4096, 64, 4, 4, 8192, pairs=1024),
    "intel": Reduction(1024, 32, 4, 4, 8192),
    "cpu": Reduction(256, 256, 1, 4, 32768, alone=16, whole=1 << 20, tiles_per_block=8),
    "other": Reduction(1024, 32, 4, 4, 8192),
}

#: Where 16 registers of 32 bytes hold a CPU's sums: of 64 elements, beside what they have lost.
_REDUCTION_IN_FEW: Final = _REDUCTION["cpu"]._replace(tile=64, pairs=256)

_SCANS: Final = {
    "nvidia": Scans(4096, 512, 2048, 128, 8, 16, 8192, 128),
    "amd": Scans(2048, 512, 2048, 64, 4, 4, 8192, 128),
    "intel": Scans(1024, 256, 1024, 64, 4, 4, 8192, 64),
    "cpu": Scans(64, 64, 64, 64, 1, 1, 65536, 16),
    "other": Scans(1024, 256, 1024, 64, 4, 4, 8192, 64),
}

_ROWS: Final = {
    "nvidia": Rows(16384, 4096, 1024, 512, 16, group=Group(2048, 4, 8)),
    "amd": Rows(8192, 4096, 1024, 512, 8, group=Group(1024, 4, 4)),
    "intel": Rows(2048, 1024, 512, 256, 8),
    "cpu": Rows(128, 32, 256, 512, 1, walks=True, together=4, columns=256),
    "other": Rows(2048, 1024, 512, 256, 8),
}

#: Softmax and the norms of a CPU: elements per step along a row. Several rows go together up to
#: rows of so many bytes in an array of so many: neighbours in a column are often 4 KiB apart, for
#: which L1 has no room, and beyond L2 one row is read ahead. A softmax reads no weights that rows
#: could share.
_WALK_STEP: Final = 16
_FAR_ROW: Final = 1 << 12
_FAR_ROWS: Final = 1 << 23
_LONG_SOFTMAX: Final = 1 << 10


#: Bytes of AVX-512's registers, for which the tiles of CPUs are made.
_MANY_REGISTERS: Final = 2048

#: Vendors whose matrix units take fp16 and bf16; the others multiply them as fp32, which is exact.
MATRIX_UNITS: Final = frozenset({"nvidia", "amd"})

#: Targets whose launches may start before the one in front has ended, where that was measured.
_EARLY: Final = frozenset({"nvidia:sm_90"})

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

#: Steps of a sum that are added one after the other, each rounding; the next ones begin at 0, and
#: what both give is added without loss. GPUs spread a sum over so many threads that few have more
#: steps than theirs, and the loop in a loop costs them bandwidth (sum of 2^28 on an H200: 2.4
#: instead of 3.7 TB/s).
_IN_TURN: Final = {"cpu": 64, "other": 1024}


def of(table: Mapping[str, _T], vendor: str) -> _T:
    """A vendor's entry."""
    return table.get(vendor, table["other"])


def is_general(call: Call) -> bool:
    """Whether a plan leaves out specializations that gain little (`Call.general`). A CPU's kernels
    keep theirs: a step that is no constant costs it its vectors.
    """
    return call.general and call.vendor != "cpu"


def coarse(length: int, *, quarters: bool) -> int:
    """A power of two that is no less than a length, of which there are few: every second one up to
    512 and each above, or (`quarters`) the powers of 4 from 64 on.
    """
    taken = max(next_power_of_2(length), 64 if quarters else 32)
    if quarters:
        return taken if taken.bit_length() % 2 else 2 * taken
    return 2 * taken if taken in (64, 256) else taken


def length_of_tile(call: Call, length: int) -> int:
    """The elements of a tile that holds a row: the next power of two, or one of few."""
    return coarse(length, quarters=True) if is_general(call) else next_power_of_2(length)


def rows_of_tile(call: Call, room: int, rows: int) -> int:
    """The rows of a tile that has room for so many: no more than there are, where it may follow
    them.
    """
    return max(1, room if is_general(call) else min(room, next_power_of_2(rows)))


def flat(vendor: str, operands: int = 1, *, few_registers: bool = False) -> Flat:
    """Of a kernel that reads so many arrays."""
    table = _FLAT_OF_SEVERAL if operands > 1 else _FLAT_IN_FEW if few_registers else _FLAT
    return (table if vendor in table else _FLAT).get(vendor, _FLAT["other"])


def reduction(vendor: str, *, few_registers: bool = False) -> Reduction:
    return _REDUCTION_IN_FEW if few_registers else of(_REDUCTION, vendor)


def rows(vendor: str) -> Rows:
    return of(_ROWS, vendor)


def walks(vendor: str, row: int, nbytes: int, *, softmax: bool) -> Rows:
    """`rows` of a softmax or a norm.

    Args:
        row, nbytes: bytes of a row and of the array.
    """
    found = rows(vendor)
    if not found.walks:
        return found
    far = row >= _LONG_SOFTMAX if softmax else row >= _FAR_ROW and nbytes >= _FAR_ROWS
    return found._replace(step=_WALK_STEP, together=1 if far else found.together)


def scans(vendor: str) -> Scans:
    return of(_SCANS, vendor)


def has_few_registers(call: Call) -> bool:
    """Whether the sums of 16 vectors of 64 bytes leave a CPU none of its registers for operands:
    8 of 32 bytes are half of AVX2's."""
    return 0 < call.register_bytes < _MANY_REGISTERS


def outer_products(vendor: str) -> bool:
    """Whether matrices are multiplied as a sum of outer products."""
    return vendor == "cpu"


def columns(count: int, most: int) -> int:
    """How many of `count` columns side by side a block takes, a power of two. Of a CPU's many (up
    to 256) some are left out, so that few kernels stand for all.
    """
    taken = min(next_power_of_2(count), most)
    return 2 * taken if most >= 256 and taken in (32, 128) else taken


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
    which = of(_ALIGNED_BY, vendor)
    return lengths + across if which == "all" else across if which == "across" else ()


def matmul_options(vendor: str) -> Mapping[str, int]:
    """Options of the vendor's compiler for a matmul."""
    return of(_MATMUL_OPTIONS, vendor)


def early(call: Call) -> Mapping[str, bool]:
    """Options of a kernel that calls `early:ordered` first; empty: it need not."""
    return {"launch_pdl": True} if f"{call.vendor}:{call.arch}" in _EARLY else {}


def precision(call: Call, dtype: str) -> str:
    """How attention's products take numbers of a dtype. NVIDIA's sm_90 multiplies float32 as three
    products of its upper and its lower digits by matrix units, with float32's error.
    """
    return "tf32x3" if (call.vendor, call.arch, dtype) == ("nvidia", "sm_90", "float32") else "ieee"


def hosted(call: Call) -> bool:
    """Whether the host makes a launch's tensor descriptors. A bundle's binaries are launched by
    programs that make none.
    """
    return f"{call.vendor}:{call.arch}" in _EARLY and not call.general


def flat_options(vendor: str) -> Mapping[str, bool]:
    """Options of the vendor's compiler for elementwise kernels."""
    return of(_FLAT_OPTIONS, vendor)


def in_turn(vendor: str) -> int:
    """Steps of a sum that round one after the other."""
    return of(_IN_TURN, vendor)
