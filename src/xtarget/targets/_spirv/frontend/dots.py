"""Large dots as loops over tiles and over K.

Triton's lowering of a dot to multiply-adds writes out every one of them: 128 x 128 x 64 by 64
threads is 16,384 a thread, and the time that a CPU run time's JIT takes grows with the square of
that. So the operands and the sum are stored in shared memory, row by row, and the block's threads
walk over tiles of the sum that fit into registers: for each tile one loop over K, whose step is one
column times one row. Every element is still a chain of fused multiply-adds in the order of K.

Triton's GPU IR has global pointers only, so the loops call a function for the addresses in shared
memory, and `dot_operands` makes in LLVM IR what they are.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ...._values.errors import CompileError
from ...._values.value_classes import value_class
from ..llvm.text import ADDRESS
from .carriers import Carrier, carrier_of
from .cpu_options import DOT_ELEMENTS
from .structure import Operation, type_of
from .types import Layout, Type
from .writer import Writer, blocked, sliced

__all__ = ["Dot", "Loops", "Operand", "loop_over_dots", "tile_of"]

#: Multiply-adds of one thread up to which a dot is left alone.
_SMALL = 256
#: And up to which one may be written out: 32,768 of them are megabytes of code, for which Triton's
#: passes and a JIT need minutes.
_MOST_WRITTEN_OUT = 16384
#: Rows of the sum that one thread has elements of.
_ROWS = 8

#: Element types of operands, of the sum, and of the sum while it is made.
_TYPES = {
    ("f32", "f32"): "f32",
    ("f64", "f64"): "f64",
    ("f16", "f16"): "f32",
    ("f16", "f32"): "f32",
    ("f32", "f16"): "f32",
    ("bf16", "f32"): "f32",
    ("bf16", "bf16"): "f32",
    ("f32", "bf16"): "f32",
    ("i8", "i32"): "i32",
}
#: Operations that widen an operand.
_WIDENED = ("arith.extf", "arith.extsi", "tt.fp_to_fp")
_BYTES = {"f32": 4, "f64": 8, "i32": 4}


@value_class(frozen=True, slots=True)
class Loops:
    """The resources for the loops.

    Attributes:
        num_warps, warp_size: the block.
        most_bytes: the limit of shared memory.
        held: elements of the sum that one thread holds.
    """

    num_warps: int
    warp_size: int
    most_bytes: int
    held: int = DOT_ELEMENTS


@value_class(frozen=True, slots=True)
class Operand:
    """A value with its type."""

    value: Any
    type: Type


@value_class(frozen=True, slots=True)
class Dot:
    """A dot of `batch` matrices: its operands before they were widened, and the sum.

    Attributes:
        number: among the module's dots.
        inner: the element type of the sum while it is made.
    """

    number: int
    a: Operand
    b: Operand
    c: Operand
    inner: str
    batch: tuple[int, ...]
    m: int
    n: int
    k: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the two operands and the sum."""
        m, n, k = self.m, self.n, self.k
        return (*self.batch, m, k), (*self.batch, k, n), (*self.batch, m, n)

    @property
    def nbytes(self) -> int:
        return sum(map(prod, self.shapes)) * _BYTES[self.inner]


@value_class(frozen=True, slots=True)
class Tile:
    """A part of the sum, and how the block's threads share it.

    Attributes:
        m, n: its shape.
        layout: of Triton's GPU IR.
    """

    m: int
    n: int
    layout: Layout


def loop_over_dots(module: Any, loops: Loops) -> int:
    """Make loops of the large dots of Triton's GPU IR, in place.

    Args:
        module: after layouts were chosen and operands widened.
        loops: what there is for them.

    Returns:
        the bytes of shared memory for operands; zero where no dot became a loop. Otherwise the old
        dots are dead code.

    Raises:
        CompileError: there is no room for a dot, and it is too large to be written out.
    """
    write = Writer(module)
    defined = {
        result.id(): operation for operation in write.operations for result in operation.results
    }
    most = 0
    dots = [operation for operation in write.operations if operation.name == "tt.dot"]
    # from the last one on: what is written after a loop comes before what follows it
    for number, operation in reversed(list(enumerate(dots))):
        dot = _described(operation, number, defined)
        if dot is None:
            continue
        work = prod(dot.shapes[2]) * dot.k
        if dot.nbytes > loops.most_bytes:
            if work > _MOST_WRITTEN_OUT * loops.num_warps * loops.warp_size:
                raise CompileError(
                    f"tl.dot of {dot.m} x {dot.k} times {dot.k} x {dot.n}{write.place(operation)} "
                    f"is too large: its operands and its sum take {dot.nbytes >> 10:,} KiB of "
                    f"shared memory, and there are {loops.most_bytes >> 10:,} KiB. Make the "
                    "kernel's blocks smaller."
                )
            continue
        tile = tile_of(dot, loops)
        # a sum in half precision is slow to compile however small: 16 x 16 x 32 takes 25 seconds
        small = _SMALL if dot.inner == dot.c.type.element else 0
        if tile is not None and work > small * loops.num_warps * loops.warp_size:
            carrier = carrier_of(write.operations, operation)
            if carrier is not None and dot.c.type.element == dot.inner:
                _loop_with_sum_in_place(write, operation, dot, tile, loops, carrier)
            else:
                write.go_before(operation)
                (result,) = operation.results
                result.replace_all_uses_with(_loop(write, dot, tile, loops))
            most = max(most, dot.nbytes)
    return most


def _described(operation: Operation, number: int, defined: dict[int, Operation]) -> Dot | None:
    """The dot that an operation is; None where its types have no loop."""
    a, b, c = (Operand(value, type_of(value)) for value in operation.operands)
    inner = _TYPES.get((a.type.element, c.type.element))
    shape_a, shape_b = a.type.shape, b.type.shape
    if inner is None or a.type.element != b.type.element or not shape_a or not shape_b:
        return None
    (*batch, m, k), n = shape_a, shape_b[-1]
    sources = _source(a, defined), _source(b, defined)
    return Dot(number, *sources, c, inner, tuple(batch), m, n, k)


def _source(operand: Operand, defined: dict[int, Operation]) -> Operand:
    """An operand before it was widened and brought to the threads that need it, which is then dead
    code.
    """
    at = defined.get(operand.value.id())
    if at is not None and at.name in _WIDENED:
        layout = at.operand_type(0).layout
        if layout is not None and layout.kind == "ttg.dot_op":
            at = defined.get(at.operands[0].id())
    if at is None or at.name != "ttg.convert_layout":
        return operand
    (value,) = at.operands
    return Operand(value, type_of(value))


def tile_of(dot: Dot, loops: Loops) -> Tile | None:
    """Return the tile; None if there are more threads than elements of the sum: two threads that
    share an element would both add to it.
    """
    lanes_n = min(loops.warp_size, dot.n)
    lanes_m = loops.warp_size // lanes_n
    warps_m = max(1, min(loops.num_warps, dot.m // lanes_m))
    warps_n = loops.num_warps // warps_m
    if lanes_m * warps_m > dot.m or lanes_n * warps_n > dot.n:
        return None
    rows = min(_ROWS, loops.held, dot.m // (lanes_m * warps_m))
    columns = min(loops.held // rows, dot.n // (lanes_n * warps_n))
    return Tile(
        rows * lanes_m * warps_m,
        columns * lanes_n * warps_n,
        blocked((lanes_m, lanes_n), (warps_m, warps_n), (1, 0)),
    )


def _loop(write: Writer, dot: Dot, tile: Tile, loops: Loops) -> Any:
    """Write the operations in place of a dot, and return their result."""
    _store(write, dot, 0, dot.a)
    _store(write, dot, 1, dot.b)
    _store(write, dot, 2, _in_layout(write, dot, dot.c.value, loops))
    write.create_barrier()
    _multiply(write, dot, tile)
    return _sum(write, dot, loops)


def _loop_with_sum_in_place(
    write: Writer, operation: Operation, dot: Dot, tile: Tile, loops: Loops, carrier: Carrier
) -> None:
    """Write the operations in place of a dot whose sum stays where it is from step to step."""
    write.go_before(operation)
    _store(write, dot, 0, dot.a)
    _store(write, dot, 1, dot.b)
    write.create_barrier()
    _multiply(write, dot, tile)
    # the kernel's loop gives the sum on as it was, which the next passes see
    (result,) = operation.results
    result.replace_all_uses_with(dot.c.value)
    write.go_before(carrier.loop)
    _store(write, dot, 2, _in_layout(write, dot, carrier.begin, loops))
    write.go_after(carrier.loop)
    carrier.result.replace_all_uses_with(_sum(write, dot, loops))


def _starts(dot: Dot) -> list[int]:
    """Where the operands and the sum begin in the memory for them, in bytes."""
    sizes = [prod(shape) * _BYTES[dot.inner] for shape in dot.shapes]
    return [0, sizes[0], sizes[0] + sizes[1]]


def _store(write: Writer, dot: Dot, number: int, operand: Operand) -> None:
    """Store an operand, or the sum, row by row."""
    inner, shape = write.element(dot.inner), dot.shapes[number]
    base = _base(write, _starts(dot)[number], write.pointer(inner))
    # widened here and not in the loop, where a CPU's JIT takes seconds for it
    value = write.converted(operand.value, operand.type, dot.inner)
    assert operand.type.layout is not None
    write.store(write.places(base, inner, shape, operand.type.layout, shape[-1]), value)


def _sum(write: Writer, dot: Dot, loops: Loops) -> Any:
    """The sum from the memory for it, in the dot's layout."""
    inner, layout = write.element(dot.inner), _by_rows(dot.shapes[2], loops)
    # a separate function, and not pure: otherwise, where both ways of a branch end with a dot, MLIR
    # merges the code after the loops into one block, and its addresses depend on the way taken
    base = _base(write, _starts(dot)[2], write.pointer(inner), dot.number)
    value = write.load(write.places(base, inner, dot.shapes[2], layout, dot.n))
    write.create_barrier()  # before the next dot stores its operands
    value = write.converted(value, Type(dot.inner, dot.shapes[2], layout), dot.c.type.element)
    return write.create_convert_layout(dot.c.value.get_type(), value)


def _multiply(write: Writer, dot: Dot, tile: Tile) -> None:
    """Add the product of the operands to the sum, in the memory for them."""
    m, n, k, inner = dot.m, dot.n, dot.k, write.element(dot.inner)
    bases = [_base(write, at, write.pointer(inner)) for at in _starts(dot)]
    zero, one = write.get_int32(0), write.get_int32(1)
    counts = prod(dot.batch), m // tile.m, n // tile.n
    around = []
    for count in counts:
        loop = write.create_for_op(zero, write.get_int32(count), one, [])
        write.set_insertion_point_to_start(loop.get_body(0))
        around.append(loop)
    matrix, row, column = (loop.get_induction_var() for loop in around)
    end = write.get_int32(k)

    def start(base: Any, *offsets: tuple[Any, int]) -> Any:
        for value, factor in offsets:
            base = write.create_addptr(base, write.scaled(value, factor))
        return base

    start_a = start(bases[0], (matrix, m * k), (row, tile.m * k))
    start_b = start(bases[1], (matrix, k * n), (column, tile.n))
    start_c = start(bases[2], (matrix, m * n), (row, tile.m * n), (column, tile.n))
    place = write.places(start_c, inner, (tile.m, tile.n), tile.layout, n)
    steps = write.create_for_op(zero, end, one, [write.load(place)])
    body = steps.get_body(0)
    write.set_insertion_point_to_start(body)
    step, total = steps.get_induction_var(), body.get_argument(1)
    column_a = _broadcast(write, start(start_a, (step, 1)), inner, tile, 1, k)
    row_b = _broadcast(write, start(start_b, (step, n)), inner, tile, 0, 1)
    if dot.inner.startswith("i"):
        next_ = write.create_add(total, write.create_mul(column_a, row_b))
    else:
        next_ = write.create_fma(column_a, row_b, total)
    write.create_yield_op([next_])
    write.set_insertion_point_after(steps.get_operation())
    write.store(place, steps.get_result(0))
    write.set_insertion_point_after(around[0].get_operation())
    write.create_barrier()


def _in_layout(write: Writer, dot: Dot, value: Any, loops: Loops) -> Operand:
    """The sum before the dot, in another layout. In the layout of the dot each thread has a square,
    and a CPU's JIT cannot store a square in one piece; it can store a thread's row."""
    type_ = replace(dot.c.type, layout=_by_rows(dot.shapes[2], loops))
    to = write.like(type_, type_.element)
    return Operand(write.create_convert_layout(to, value), type_)


def _by_rows(shape: tuple[int, ...], loops: Loops) -> Layout:
    """The layout in which Triton loads and stores a tensor: neighbours in neighbouring threads."""
    lanes, warps = loops.warp_size, loops.num_warps
    all_lanes: list[int] = []
    all_warps: list[int] = []
    for size in shape[:0:-1]:
        all_lanes.insert(0, min(lanes, size))
        lanes //= all_lanes[0]
        all_warps.insert(0, min(warps, size // all_lanes[0]))
        warps //= all_warps[0]
    return blocked([lanes, *all_lanes], [warps, *all_warps], range(len(shape))[::-1])


def _base(write: Writer, at: int, pointer: Any, own: int | None = None) -> Any:
    """The address of a byte of the memory for operands; with `own` by an operation that is not
    moved, nor taken for another one.
    """
    pure, symbol = (True, ADDRESS) if own is None else (False, f"{ADDRESS}.{own}")
    whole = write.get_int64_ty()
    address = write.create_extern_elementwise("", "", symbol, [write.get_int64(at)], whole, pure)
    base = write.create_int_to_ptr(address, pointer)
    base.set_attr("tt.divisibility", write.numbers([16]))
    return base


def _broadcast(write: Writer, base: Any, inner: Any, tile: Tile, axis: int, distance: int) -> Any:
    """A column (axis 1) or a row (axis 0) of an operand, for every element of the tile."""
    size, layout = (tile.m, tile.n)[1 - axis], sliced(axis, tile.layout)
    value = write.load(write.places(base, inner, (size,), layout, distance))
    value = write.create_expand_dims(value, axis)
    if (tile.m, tile.n)[axis] == 1:
        return value
    return write.create_broadcast(value, write.of(inner, (tile.m, tile.n), tile.layout))
