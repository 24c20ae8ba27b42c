"""From call to launches: matrix products through tensor descriptors, and operands that are copied
first because a product reads them much faster in another layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from xtarget import spec

from . import choices, tuning, tuning_matmul
from .matrices import SMALL, TYPES, Problem, aligned, engine_stores, tailed
from .movement import copy_launch

__all__ = ["descriptors_of", "product_launch", "ready", "stepped"]

#: Elements of a row that begin at a multiple of 16 bytes, of two bytes each.
_ROW = 8
#: Rows of copies are so many elements long, or a multiple of that.
_PITCH = 64
#: By what operands are: rows that read a copy, and products, from which on operands are copied.
_COPIED_FROM: Final = {"half": (33, 2**22), "single": (128, 2**26)}
#: Nanoseconds of a copy beside those of its elements, and how many of these it takes in one (H100).
_COPY, _COPIED_A_NS = 2000, 800
#: Products a nanosecond, of those that wait for rows of `a` and of `b` that lie as in `halved`: a
#: tile of 128 x 256 fetches more of b.
_WAITED_FOR = (1_800_000, 1_200_000)
#: Elements along k that most tiles take at once, rows and columns that fill the least of them, and
#: most of them, and a k from which on few tiles are cut along it.
_EVEN_K, _FILLED, _WIDE, _LONG = 64, 33, 65, 768


def _steps(inner: int, outer: int) -> bool:
    """Whether rows with elements `inner` apart begin `outer` apart as descriptors want it."""
    return inner == 1 and outer > 0 and outer % _ROW == 0


def _regular(strides: tuple[int, int]) -> bool:
    """Whether either rows or columns of a matrix lie as descriptors want them."""
    return _steps(strides[1], strides[0]) or _steps(strides[0], strides[1])


def halved(strides: tuple[int, int]) -> bool:
    """Whether rows (columns) of a matrix begin at odd multiples of 16 bytes: these are fetched from
    the L2 half as fast again as others, which is what large products wait for.
    """
    outer = strides[0] if strides[1] == 1 else strides[1]
    return outer % (2 * _ROW) != 0


def _wanted(
    call: spec.Call, dtype: str, problem: Problem, table: str = "matmul"
) -> tuning_matmul.Wanted:
    operand, _, kind = TYPES.get(dtype, SMALL)
    described = (
        problem.head is None
        and len(choices.rows(call.vendor, call.arch, table)) > 0
        and kind == "half"
        and problem.dtypes == (operand, operand)
        and problem.batch.size == 1
        and problem.out[1] == 1
        and all(aligned(call, one) for one in problem.operands)
        and _regular(problem.a)
        and _regular(problem.b)
    )
    rows, columns = problem.b[1] == 1, problem.b[0] == 1
    return tuning_matmul.Wanted(
        call.vendor, call.arch, kind, problem.m, problem.n, problem.k, problem.batch.size,
        call.compute_units, "rows" if rows else "columns" if columns else "mixed", described, table,
        problem.tail is not None, tuning.has_few_registers(call), tuning.hosted(call),
        "stored" if engine_stores(call, spec.Output(), problem.out[0], problem.n) else "by address",
        halved=(described and halved(problem.a), described and halved(problem.b)),
    )  # fmt: skip


def ready(
    call: spec.Call, dtype: str, problem: Problem, temporaries: list[spec.ArrayType]
) -> tuple[list[spec.Launch], Problem, tuning_matmul.Wanted]:
    """The launches that copy operands, where that is worth it, and the problem behind them."""
    wanted = _wanted(call, dtype, problem)
    known = choices.rows(call.vendor, call.arch, "matmul")
    m, n, k = wanted.m, wanted.n, wanted.k
    plain = problem.batch.size == 1 and problem.dtypes == (TYPES.get(dtype, SMALL)[0],) * 2
    if problem.head is not None or not (known and plain and call.aligned):
        return [], problem, wanted
    readers, worth = _COPIED_FROM.get(wanted.kind, (0, 0))
    if not (readers and m >= readers and n >= readers and m * n * k >= worth):
        return [], problem, _by_descriptors(wanted)
    if wanted.kind == "half" and not all(stay := _stay(call, wanted, problem)):
        a = _copied(call, problem, 0, (m, k), temporaries, stays=stay[0])
        b = _copied(call, problem, 1, (k, n), temporaries, stays=stay[1])
        launches, (first, sa), (second, sb) = a[0] + b[0], a[1:], b[1:]
        problem = problem._replace(a=sa, b=sb, operands=(first, second))
        return launches, problem, _wanted(call, dtype, problem, "matmul of copies")
    if wanted.kind == "single" and wanted.b == "columns":
        launches, second, sb = _copied(call, problem, 1, (k, n), temporaries, by_rows=True)
        problem = problem._replace(b=sb, operands=(problem.operands[0], second))
        return launches, problem, _wanted(call, dtype, problem)
    return [], problem, _by_descriptors(wanted)


def _stay(call: spec.Call, wanted: tuning_matmul.Wanted, problem: Problem) -> list[bool]:
    """Whether operands are read where they are: they lie as descriptors want it, and not so that a
    large product waits for them longer than a copy takes.
    """
    products, stay = wanted.m * wanted.n * wanted.k, []
    sizes = wanted.m * wanted.k, wanted.n * wanted.k
    matrices = zip((problem.a, problem.b), problem.operands, sizes, _WAITED_FOR, strict=True)
    for strides, operand, size, waited in matrices:
        slow = halved(strides) and products // waited > _COPY + size // _COPIED_A_NS
        placed = _regular(strides) and aligned(call, operand)
        stay.append(placed and not (wanted.described and slow))
    return stay


def _by_descriptors(wanted: tuning_matmul.Wanted) -> tuning_matmul.Wanted:
    """Descriptors fill up the last step along k; what is loaded by address takes masks for each
    step there, and 3 to 50 times as long. So a product with such a k is made as one of copies is,
    and one of few columns, which blocks of a tile each leave most of a multiprocessor to.
    """
    m, n, k = wanted.m, wanted.n, wanted.k
    if not wanted.described or (min(m, n) < _FILLED and k < _LONG):
        return wanted
    if k % _EVEN_K == 0 and (m < _WIDE or n >= _WIDE or n < _FILLED or k < _LONG):
        return wanted
    if m < _FILLED and k % (2 * _ROW) == 0:  # masks that the compiler sees to be of whole vectors
        return wanted
    if tuning_matmul.choose(wanted).way not in ("tiles", "few"):
        return wanted
    return wanted._replace(table="matmul of copies")


def _copied(
    call: spec.Call,
    problem: Problem,
    which: int,
    shape: tuple[int, int],
    temporaries: list[spec.ArrayType],
    *,
    stays: bool = False,
    by_rows: bool = False,
) -> tuple[list[spec.Launch], spec.Input | spec.Temporary, tuple[int, int]]:
    """An operand as a copy with long rows.

    Args:
        stays: it is not copied if it begins as descriptors want it.
        by_rows: the copy's rows lie side by side; else its columns do, if the operand's do.
    """
    operand, strides = problem.operands[which], (problem.a, problem.b)[which]
    if stays and aligned(call, operand):
        return [], operand, strides
    by_column = strides[0] == 1 and not by_rows
    rows, columns = (shape[1], shape[0]) if by_column else shape
    pitch = spec.cdiv(columns, _PITCH) * _PITCH
    steps = (1, pitch) if by_column else (pitch, 1)
    copy = spec.Temporary(len(temporaries))
    temporaries.append(spec.ArrayType(problem.dtypes[which], (rows, pitch), (pitch, 1)))
    return list(copy_launch(call, operand, shape, strides, steps, out=copy)), copy, steps


def stepped(
    problem: Problem, out: spec.Output | spec.Temporary
) -> tuple[dict[str, spec.Argument], bool, bool]:
    """Arguments of kernels whose operands are described, and whether columns of `a` and of `b` lie
    side by side, not rows."""
    a_t, b_t = problem.a[1] != 1, problem.b[1] != 1
    args: dict[str, spec.Argument] = {
        **problem.arguments(out),
        "ra": problem.a[1] if a_t else problem.a[0],
        "rb": problem.b[1] if b_t else problem.b[0],
        "om": problem.out[0],
    }
    return args, a_t, b_t


def descriptors_of(
    a_t: object, b_t: object, rows: int, columns: int, k: int, wide: int
) -> dict[str, spec.Descriptor]:
    """Of the operands and the result, by the parameters' names.

    Args:
        a_t, b_t: as of `stepped`.
        rows, columns, k: of what is fetched at once.
        wide: columns that are stored at once.
    """
    return {
        "a": spec.Descriptor(("K", "M"), ("ra",), (k, rows))
        if a_t
        else spec.Descriptor(("M", "K"), ("ra",), (rows, k)),
        "b": spec.Descriptor(("N", "K"), ("rb",), (columns, k))
        if b_t
        else spec.Descriptor(("K", "N"), ("rb",), (k, columns)),
        "out": spec.Descriptor(("M", "N"), ("om",), (rows, wide)),
    }


def _common(
    call: spec.Call,
    tile: tuning_matmul.MatmulTile,
    dtype: str,
    problem: Problem,
    out: spec.Output | spec.Temporary,
) -> tuple[dict[str, spec.Argument], dict[str, spec.Constant]]:
    """Arguments and constants of the kernels of `described.py`."""
    args, a_t, b_t = stepped(problem, out)
    constants: dict[str, spec.Constant] = {
        "A_T": a_t,
        "B_T": b_t,
        "T": spec.dtype_constant(TYPES[dtype][1]),
        "HOSTED": tuning.hosted(call),
        "GROUP_M": tuning_matmul.GROUP_M,
        "BLOCK_M": tile.m,
        "BLOCK_N": tile.n,
        "BLOCK_K": tile.k,
    }
    return args, constants


#: What a descriptor holds is not seen by the code that the compiler makes.
_LOOSE = ("M", "K", "ra", "rb", "chunk", "part")


def product_launch(
    call: spec.Call,
    dtype: str,
    tile: tuning_matmul.MatmulTile,
    problem: Problem,
    out: spec.Output | spec.Temporary,
    parts: int = 1,
    *,
    in_turn: bool,
) -> spec.Launch:
    """A block for each tile, or `in_turn` one for each multiprocessor, which makes one tile after
    the other.

    Args:
        parts: pieces that K is cut into, more than one only where a block makes one tile. Each
            writes a result of its own, one after the other.
    """
    args, constants = _common(call, tile, dtype, problem, out)
    early, by_engine = tuning.early(call), None
    if in_turn:
        function, blocks = "matmul_in_turn", call.compute_units
        by_engine = engine_stores(call, out, problem.out[0], problem.n)
        # where columns of b lie side by side, launches that make descriptors of their own and start
        # early were slower (H100, 2048^3)
        early = early if tuning.hosted(call) or problem.b[1] == 1 else {}
    else:
        function = "matmul_described"
        blocks = spec.cdiv(problem.m, tile.m) * spec.cdiv(problem.n, tile.n)
    if parts > 1:
        function = "matmul_described_parts"
        chunk = spec.cdiv(spec.cdiv(problem.k, parts), tile.k) * tile.k
        args = {**args, "chunk": chunk, "part": problem.m * problem.n}
        parts = spec.cdiv(problem.k, chunk)
    common = args, {**constants, "EARLY": bool(early)}
    return _launch(function, common, (blocks, parts, 1), tile, problem, by_engine, early)


def _launch(
    function: str,
    common: tuple[dict[str, spec.Argument], dict[str, spec.Constant]],
    grid: tuple[int, int, int],
    tile: tuning_matmul.MatmulTile,
    problem: Problem,
    by_engine: bool | None = None,
    options: Mapping[str, bool] = MappingProxyType({}),
) -> spec.Launch:
    """A launch of `described:function`, with the call's tail.

    Args:
        common: of `_common`.
        by_engine: the kernel's STORED; None: it has none, and stores without the copy engine.
    """
    args, constants = common
    launch = spec.Launch(
        f"described:{function}",
        args,
        constants if by_engine is None else {**constants, "STORED": by_engine},
        grid,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        options=options,
        aligned_by=() if by_engine else ("N",),
        loose=tuple(name for name in _LOOSE if name in args),
        on_aligned=True,
    )
    launch = tailed(launch, problem, tile)
    return _hosted(launch, tile, by_engine=bool(by_engine)) if constants["HOSTED"] else launch


def _hosted(launch: spec.Launch, tile: tuning_matmul.MatmulTile, *, by_engine: bool) -> spec.Launch:
    """A launch whose operands come as descriptors, and so does a result stored `by_engine`."""
    known = launch.constants
    # as the kernels cut a tile
    wide = tile.n // known.get("PIECES", 2)  # type: ignore[operator]  # a number
    found = descriptors_of(known["A_T"], known["B_T"], tile.m, tile.n, tile.k, wide)
    if not by_engine:
        del found["out"]
    return replace(launch, descriptors=found)
