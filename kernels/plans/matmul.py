"""From call to launches: matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from xtarget import spec

from . import hopper_linear, hopper_products, tuned_matmul, tuning, tuning_matmul
from .described import product_launch, ready
from .layouts import device_strides, is_huge, widened
from .matrices import SMALL, TYPES, Problem, headed, problem_of, product_of, tailed
from .panels import panels_launch, worth_panels
from .pieces import in_pieces

__all__ = ["matmul", "multiply"]


def matmul(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.matmul`."""
    a, b = call.array(0), call.array(1)
    batch, rows, columns = product_of(call, a, b)
    dtype = call.rules.promote(a.dtype, b.dtype)
    out = call.output(batch + rows + columns, dtype)
    if not out.size:
        return spec.Plan((out,), ())
    problem = problem_of(a, b, out, batch, rows, columns)
    temporaries: list[spec.ArrayType] = []
    launches = multiply(call, dtype, problem, spec.Output(), out, temporaries)
    return spec.Plan((out,), tuple(launches), tuple(temporaries))


#: Steps from element to element, by the names of the kernel's parameters.
_STEPS = ("am", "ak", "bk", "bn", "om", "on")
#: Those that are 1 in kernels that few kernels have too: of rows by rows, of rows by columns (a
#: linear layer), and of columns by rows (its gradient).
_PLAIN = (("ak", "bn", "on"), ("ak", "bk", "on"), ("am", "bn", "on"))


def _general(
    vendor: str,
    kind: str,
    tile: tuning_matmul.MatmulTile,
    steps: Mapping[str, int],
    problem: Problem,
) -> tuple[dict[str, int], tuning_matmul.MatmulTile]:
    """Of the steps that are 1 those that a general kernel has as constants, and its tile."""
    m, n, k = problem.m, problem.n, problem.k
    if problem.batch.lengths or is_huge(m * k, k * n, m * n):
        names: tuple[str, ...] = ()
    else:
        names = next((names for names in _PLAIN if all(n in steps for n in names)), ())
    if names in _PLAIN[:2]:
        return dict.fromkeys(names, 1), tile
    return dict.fromkeys(names, 1), tuning_matmul.general_tile(vendor, kind, tile)


def _launch(
    call: spec.Call,
    dtype: str,
    tile: tuning_matmul.MatmulTile,
    problem: Problem,
    out: spec.Output | spec.Temporary,
    parts: int,
    *,
    panels: bool = False,
    few: bool = False,
    pairs: bool = False,
) -> spec.Launch:
    operand, total, kind = TYPES.get(dtype, SMALL)
    if pairs:
        operand = "int32"
    elif kind == "half" and call.vendor not in tuning.MATRIX_UNITS:
        operand = "float32"
    (am, ak), (bk, bn), (om, on) = problem.a, problem.b, problem.out
    # steps along an axis of one element are never taken: one kernel whatever they are
    am, om = (0, 0) if problem.m == 1 else (am, om)
    bn, on = (0, 0) if problem.n == 1 else (bn, on)
    fixed = {n: 1 for n, step in zip(_STEPS, (am, ak, bk, bn, om, on), strict=True) if step == 1}
    general = tuning.is_general(call)
    if general:
        fixed, tile = _general(call.vendor, kind, tile, fixed, problem)
        if not fixed:
            batch = widened(problem.batch, (4, 8), full=True)
            problem = problem._replace(batch=batch)
    chunk = spec.cdiv(spec.cdiv(problem.k, parts), tile.k) * tile.k
    so, sa, sb = problem.batch.strides[:3]
    # a stride of 1 is a constant, so that neighbours are seen to lie side by side
    steps = {"am": am, "ak": ak, "bk": bk, "bn": bn, "om": om, "on": on}
    rows, columns = spec.cdiv(problem.m, tile.m), spec.cdiv(problem.n, tile.n)
    outer = tuning.outer_products(call.vendor)
    height, high = 1, outer and tuning.has_few_registers(call)
    if high:
        height = tuning_matmul.height(rows, columns * problem.batch.size, call.compute_units)
    folds = tuning_matmul.folds(kind, chunk)
    if general and kind in ("single", "double"):
        folds = tuning_matmul.may_fold(tile)
    even = problem.k % tile.k == 0 and (not general or tuple(fixed) in _PLAIN[:2])
    constants: dict[str, Any] = {
        **fixed,
        "DOT": spec.dtype_constant(operand),
        "T": spec.dtype_constant(total),
        **(
            {"PANELS": panels}
            if outer
            else {"EVEN_K": even, "FOLD": tuning_matmul.FOLD if folds else 0, "FEW": few}
        ),
        # where a block has tiles below each other, they need no group of blocks
        "GROUP_M": 1 if high else tuning_matmul.GROUP_M,
        "BLOCK_M": tile.m,
        "BLOCK_N": tile.n,
        "BLOCK_K": tile.k,
    }
    as_it_is = problem.tail is None and problem.head is None
    early = tuning.early(call) if as_it_is and kind == "half" and not (general or outer) else {}
    launch = spec.Launch(
        "linear:matmul_outer" if outer else f"{'hopper_linear' if early else 'linear'}:matmul",
        {
            **problem.arguments(out),
            **({"height": height} if outer else {}),
            "chunk": chunk,
            "part": problem.batch.size * problem.m * problem.n if parts > 1 else 0,
            "batch_shape": problem.batch.lengths,
            "sa": sa,
            "sb": sb,
            "so": so,
            **{name: step for name, step in steps.items() if name not in fixed},
        },
        constants,
        (
            spec.cdiv(rows, height) * columns * problem.batch.size,
            spec.cdiv(problem.k, chunk) if parts > 1 else 1,
            1,
        ),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        options=early or tuning.matmul_options(call.vendor),
        # what neighbours in memory are along: rows of an operand, or its columns
        aligned_by=_aligned_by(call.vendor, am, ak, bk, bn) if fixed or not general else (),
        loose=("batch_shape",) if am == 1 else ("batch_shape", "M"),
    )
    return headed(tailed(launch, problem, tile), problem)


def _aligned_by(vendor: str, am: int, ak: int, bk: int, bn: int) -> tuple[str, ...]:
    """The lengths that neighbours in memory are along, of a and of b."""
    across = ("M",) if am == 1 and ak != 1 else ()
    if tuning.outer_products(vendor):
        return across
    inner = ("K",) if ak == 1 or (bk == 1 and bn != 1) else ()
    return tuning.aligned_by(vendor, *inner, *(("N",) if bn == 1 else ()), across=across)


def _vector_launch(
    call: spec.Call, dtype: str, problem: Problem, out: spec.Output | spec.Temporary, parts: int
) -> spec.Launch:
    """`_launch` where `a` has one row, or `b` one column: that is the vector."""
    operand, total, kind = TYPES.get(dtype, SMALL)
    operand = "float32" if kind == "half" else operand
    so, sa, sb = problem.batch.strides
    if problem.n == 1:
        rows, (matrix, vector) = problem.m, problem.operands
        (am, ak), bk, om = problem.a, problem.b[0], problem.out[0]
    else:
        rows, (vector, matrix) = problem.n, problem.operands
        (ak, am), bk, om = problem.b, problem.a[1], problem.out[1]
        sa, sb = sb, sa
    # lanes go along memory: along the rows, or from row to row
    along_rows = abs(ak) <= abs(am) or rows == 1
    block_m, block_k = tuning_matmul.vector_tile(rows, along_rows=along_rows)
    chunk = spec.cdiv(spec.cdiv(problem.k, parts), block_k) * block_k
    steps = {"am": am, "ak": ak, "bk": bk, "om": om}
    return spec.Launch(
        "linear:matvec",
        {
            "a": matrix,
            "b": vector,
            "out": out,
            "M": rows,
            "K": problem.k,
            "chunk": chunk,
            "part": problem.batch.size * rows if parts > 1 else 0,
            "batch_shape": problem.batch.lengths,
            "sa": sa,
            "sb": sb,
            "so": so,
            **{name: step for name, step in steps.items() if step != 1},
        },
        {
            **{name: 1 for name, step in steps.items() if step == 1},
            "DOT": spec.dtype_constant(operand),
            "T": spec.dtype_constant(total),
            "BLOCK_M": block_m,
            "BLOCK_K": block_k,
        },
        (
            spec.cdiv(rows, block_m) * problem.batch.size,
            spec.cdiv(problem.k, chunk) if parts > 1 else 1,
            1,
        ),
        num_warps=1,
        aligned_by=("M",) if along_rows else (),
        loose=("K", "chunk", "batch_shape", "am"),
    )


def multiply(
    call: spec.Call,
    dtype: str,
    problem: Problem,
    out: spec.Output | spec.Temporary,
    view: spec.ArrayType,
    temporaries: list[spec.ArrayType],
) -> list[spec.Launch]:
    """One launch, behind those that copy operands where that is worth it; or, where the result has
    too few tiles to fill the device and k is long, the products of pieces of k and their sum.

    Args:
        dtype: the result's by promotion, which says what operands are multiplied and summed as.
        view: the layout of `out`, in the order batch, m, n.
        temporaries: those of the plan, to which this adds its own.

    Returns:
        none where the problem has a tail and more than one block adds to an element, or a head that
        is better computed first.
    """
    total = TYPES.get(dtype, SMALL)[1]
    m, n = problem.m, problem.n
    launches, problem, wanted = ready(call, dtype, problem, temporaries)
    wanted = wanted._replace(alike=problem.dtypes == (view.dtype, view.dtype))
    chosen = tuned_matmul.chosen(call, wanted, problem)
    tile = chosen.tile
    if problem.head is not None:
        tile = tuning_matmul.head_tile(wanted, *_read(call, dtype, problem)) or tile
    if problem.head is not None and not _reads_once(call, dtype, problem, tile):
        return []
    if chosen.way == "in turn":
        return [*launches, product_launch(call, dtype, tile, problem, out, in_turn=True)]
    if chosen.way == "described":
        described = partial(product_launch, call, dtype, tile, in_turn=False)
        if chosen.parts < 2:
            return [*launches, described(problem, out)]
        args = call, described, problem, out, view, total, temporaries, chosen.parts
        return [*launches, *in_pieces(*args)]
    if chosen.way == "in groups":
        return [*launches, hopper_products.by_groups(call, tile, problem, out)]
    if chosen.way == "few" and chosen.parts < 2 and problem.head is None:
        whole = hopper_linear.few(call, dtype, tile, problem, out)
        if whole is not None:
            return [*launches, whole]
    by_vector = tuning.outer_products(call.vendor) and 1 in (m, n)
    if by_vector and problem.tail is not None:
        return []
    if by_vector:
        launch = partial(_vector_launch, call, dtype)
    else:
        launch = partial(_launch, call, dtype, tile, few=chosen.way == "few")
    whole = launch(problem, out, 1)
    blocks, units = whole.grid[0], call.compute_units
    parts = max(1, chosen.parts)
    if not chosen.parts and 4 * blocks < 3 * units:
        parts = tuning.splits(blocks, units, problem.k, tuning_matmul.split_k(call.vendor))
    if parts > 1 and problem.tail is not None:
        return []
    if parts == 1:
        if worth_panels(call, problem):
            return _in_panels(call, dtype, problem, tile, out, temporaries)
        return [*launches, whole]
    args = call, launch, problem, out, view, total, temporaries, parts
    return [*launches, *in_pieces(*args)]


def _read(call: spec.Call, dtype: str, problem: Problem) -> tuple[int, int, int]:
    """Bytes that are read for an element of each factor, of which the first is made, or both, and
    those of one that is made of the second."""
    sizes = [spec.ArrayType(dtype, (), ()).itemsize for dtype in problem.dtypes]
    for place, head in enumerate((problem.head, problem.second)):
        for one in () if head is None else head.beside:
            if not one.dtype and all(one.strides[-2:]):
                sizes[place] += call.array(one.operand.index).itemsize
    made = 0 if problem.second is None else spec.ArrayType(TYPES[dtype][0], (), ()).itemsize
    return sizes[0], sizes[1], made


def _reads_once(
    call: spec.Call, dtype: str, problem: Problem, tile: tuning_matmul.MatmulTile
) -> bool:
    """Whether the steps that make the first factor are done in the product: no more than
    `HEAD_TILES` tiles lie side by side, each of which does them again, and there are units that
    multiply tiles. A product with more of them takes longer than what is saved, and goes by other
    kernels. A second factor that is made too has few columns: each tile makes all of it again."""
    kind = TYPES.get(dtype, SMALL)[2]
    if problem.second is not None and problem.n > tuning_matmul.SECOND_COLUMNS:
        return False
    if tuning.outer_products(call.vendor) or kind not in ("half", "single"):
        return False
    return spec.cdiv(problem.n, tile.n) <= tuning_matmul.HEAD_TILES


def _in_panels(
    call: spec.Call,
    dtype: str,
    problem: Problem,
    tile: tuning_matmul.MatmulTile,
    out: spec.Output | spec.Temporary,
    temporaries: list[spec.ArrayType],
) -> list[spec.Launch]:
    """The product with b as panels that are as wide as a tile, and with a in the type that operands
    are multiplied in, by rows where that is worth a copy.
    """
    operand, _, kind = TYPES.get(dtype, SMALL)
    if kind == "half":
        if problem.dtypes == ("bfloat16", "bfloat16"):
            return _in_pairs(call, dtype, problem, tile, out, temporaries)
        operand = "float32"
    m, n, k, batch, width = problem.m, problem.n, problem.k, problem.batch, tile.n
    a, b = problem.operands
    count, few = spec.cdiv(n, width), tuning.has_few_registers(call)
    over_a, over_b = batch.strides[1], batch.strides[2]
    panels = spec.Temporary(len(temporaries))
    shape = (batch.size, count, k, width)
    temporaries.append(spec.ArrayType(operand, shape, spec.contiguous_strides(shape)))
    launches = [
        panels_launch(
            b, panels, (n, problem.b[1]), (k, problem.b[0]), batch, over_b, operand, width,
            steps=(k * width, width, count * k * width), fill=True,
            pieces=tuning_matmul.PANEL_PIECES if few and problem.b[1] == 1 else 1,
        )
    ]  # fmt: skip
    turned = problem.a[1] != 1 and n >= tuning_matmul.TURNED_COLUMNS
    if problem.dtypes[0] != operand or turned:
        wide = spec.Temporary(len(temporaries))
        launches.append(
            panels_launch(
                a, wide, (k, problem.a[1]), (m, problem.a[0]), batch, over_a, operand,
                width, steps=(width, k, m * k), fill=False,
            )
        )  # fmt: skip
        shape = (batch.size, m, k)
        temporaries.append(spec.ArrayType(operand, shape, spec.contiguous_strides(shape)))
        steps = tuple(m * k * step for step in spec.contiguous_strides((1, *batch.lengths)))
        strides = device_strides(steps) if batch.size > 1 else (0,)
        a, batch = wide, batch._replace(strides=(batch.strides[0], strides, *batch.strides[2:]))
        problem = problem._replace(a=(k, 1), batch=batch)
    problem = problem._replace(operands=(a, panels))
    return [*launches, _launch(call, dtype, tile, problem, out, 1, panels=True)]


def _in_pairs(
    call: spec.Call,
    dtype: str,
    problem: Problem,
    tile: tuning_matmul.MatmulTile,
    out: spec.Output | spec.Temporary,
    temporaries: list[spec.ArrayType],
) -> list[spec.Launch]:
    """`_in_panels` of bfloat16: words of two elements that follow each other along k, for which
    some CPUs have an instruction.
    """
    m, n, batch, width = problem.m, problem.n, problem.batch, tile.n
    a, b = problem.operands
    words, count = spec.cdiv(problem.k, 2), spec.cdiv(n, width)
    over_a, over_b = batch.strides[1], batch.strides[2]
    panels = spec.Temporary(len(temporaries))
    shape = (batch.size, count, words, width)
    temporaries.append(spec.ArrayType("int32", shape, spec.contiguous_strides(shape)))
    launches = [
        panels_launch(
            b, panels, (n, problem.b[1]), (problem.k, problem.b[0]), batch, over_b, "int32", width,
            steps=(words * width, width, count * words * width), fill=True, pairs=True,
        )
    ]  # fmt: skip
    am, ak = problem.a
    if batch.size > 1 or ak != 1 or am % 2 or problem.k % 2:
        # rows that end with zeros, as an odd k needs one
        am = spec.cdiv(problem.k, width) * width
        size = m * am
        rows = spec.Temporary(len(temporaries))
        launches.append(
            panels_launch(
                a, rows, (problem.k, ak), (m, problem.a[0]), batch, over_a, "bfloat16", width,
                steps=(width, am, size), fill=True,
            )
        )  # fmt: skip
        a = rows
        shape = (batch.size, m, am)
        temporaries.append(spec.ArrayType("bfloat16", shape, spec.contiguous_strides(shape)))
        own = tuple(size // 2 * step for step in spec.contiguous_strides((1, *batch.lengths)))
        strides = device_strides(own) if batch.size > 1 else (0,)
        batch = batch._replace(strides=(batch.strides[0], strides, *batch.strides[2:]))
    problem = problem._replace(a=(am // 2, 1), k=words, operands=(a, panels), batch=batch)
    return [*launches, _launch(call, dtype, tile, problem, out, 1, panels=True, pairs=True)]
