"""Large dots as loops over tiles and over K.

Triton's lowering of a dot to multiply-adds writes out every one of them: 128 x 128 x 64 by 64
threads is 16,384 a thread, and the time that a CPU run time's JIT takes grows with the square of
that. So the operands and the sum are stored in shared memory, row by row, and the block's threads
walk over tiles of the sum that fit into registers: for each tile one loop over K, whose step is one
column times one row. Every element is still a chain of fused multiply-adds in the order of K.

Rewritten is the text of Triton's GPU IR, because its Python bindings cannot build a loop. That IR
has global pointers only, so it calls a function for the addresses in shared memory, and
`dot_operands` makes in LLVM IR what they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

from ..._errors import CompileError
from .dot_operands import ADDRESS
from .places import place_of_operation

__all__ = ["CPU_BYTES", "OTHER_BYTES", "Loops", "loop_over_dots"]

#: What Triton itself may want of shared memory in a kernel whose dots are loops.
OTHER_BYTES = 64 << 10
#: The rest of the 1 MiB that `_opencl_icd` asks of Intel's CPU run time.
CPU_BYTES = (1 << 20) - OTHER_BYTES
#: Multiply-adds of one thread up to which a dot is left alone.
_SMALL = 256
#: And up to which one may be written out: 32,768 of them are megabytes of code, for which Triton's
#: passes and a JIT need minutes.
_MOST_WRITTEN_OUT = 16384
#: Elements of the sum that one thread holds: rows, and all.
_ROWS, _HELD = 8, 16

_DOT = re.compile(
    r"^\s+(?P<result>%[\w#]+) = tt\.dot (?P<a>%[\w#]+), (?P<b>%[\w#]+), (?P<c>%[\w#]+).*?"
    r" : tensor<(?P<ta>[\dx]+x\w+), (?P<la>.*)> \* tensor<(?P<tb>[\dx]+x\w+), (?P<lb>.*)> -> "
    r"tensor<(?P<tc>[\dx]+x\w+), (?P<lc>#\w+)>(?: loc.*)?$"
)
#: What comes before a dot: operands are brought to its threads, and then widened.
_BROUGHT = re.compile(r"ttg\.convert_layout (%[\w#]+) : tensor<[\dx]+x(\w+), (.*)> -> tensor<")
_WIDENED = re.compile(r"(?:arith\.extf|arith\.extsi|tt\.fp_to_fp) (%[\w#]+) : tensor<[^>]*dot_op")
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
_BYTES = {"f32": 4, "f64": 8, "i32": 4}


@dataclass(frozen=True, slots=True)
class Loops:
    """What there is for the loops.

    Attributes:
        num_warps, warp_size: the block.
        most_bytes: of shared memory.
        barrier: the operation by which the block's threads meet, in this Triton's words.
    """

    num_warps: int
    warp_size: int
    most_bytes: int
    barrier: str


@dataclass(frozen=True, slots=True)
class _Dot:
    """A dot of `batch` matrices: names of values, their layouts and element types."""

    number: int
    a: tuple[str, str, str]
    b: tuple[str, str, str]
    c: tuple[str, str, str]
    result: str
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


@dataclass(frozen=True, slots=True)
class _Tile:
    """A part of the sum, and how the block's threads share it.

    Attributes:
        m, n: its shape.
        layout: of Triton's GPU IR.
    """

    m: int
    n: int
    layout: str


@dataclass(slots=True)
class _Writer:
    """Operations of Triton's GPU IR that are being written."""

    prefix: str
    lines: list[str] = field(default_factory=list)

    def do(self, operation: str) -> None:
        self.lines.append("    " + operation)

    def let(self, operation: str) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.do(f"{name} = {operation}")
        return name

    def number(self, value: int) -> str:
        return self.let(f"arith.constant {value} : i32")

    def scaled(self, value: str, factor: int) -> str:
        return self.let(f"arith.muli {value}, {self.number(factor)} : i32")

    def indices(self, shape: tuple[int, ...], axis: int, layout: str, stride: int) -> str:
        """A tensor of the index along `axis` times `stride`."""
        layouts, rank = [layout], len(shape)
        others = [a for a in range(rank) if a != axis]
        for a in reversed(others):
            layouts.append(_slice(a, layouts[-1]))
        size = shape[axis]
        inner = f"tensor<{size}xi32, {layouts[-1]}>"
        value = self.let(f"tt.make_range {{end = {size} : i32, start = 0 : i32}} : {inner}")
        if stride != 1:
            factor = self.let(f"arith.constant dense<{stride}> : {inner}")
            value = self.let(f"arith.muli {value}, {factor} : {inner}")
        shown = [size]
        for a, new in zip(others, layouts[-2::-1], strict=True):
            shown.insert(a, 1)
            wider = _tensor(shown, "i32", new)
            value = self.let(f"tt.expand_dims {value} {{axis = {a} : i32}} : {inner} -> {wider}")
            inner = wider
        if tuple(shown) != shape:
            value = self.let(f"tt.broadcast {value} : {inner} -> {_tensor(shape, 'i32', layout)}")
        return value

    def places(self, base: str, of: str, shape: tuple[int, ...], layout: str, row: int) -> str:
        """Pointers to all elements of a tensor whose last axis has neighbours side by side, and the
        one before it rows `row` elements apart; a tensor with one axis has only these rows.
        """
        indices = _tensor(shape, "i32", layout)
        strides = [row, 1] if len(shape) > 1 else [row]
        for axis in range(len(shape) - 3, -1, -1):
            strides.insert(0, strides[0] * shape[axis + 1])
        offsets = ""
        for axis, stride in enumerate(strides):
            term = self.indices(shape, axis, layout, stride)
            offsets = self.let(f"arith.addi {offsets}, {term} : {indices}") if offsets else term
        pointers = _tensor(shape, f"!tt.ptr<{of}>", layout)
        many = self.let(f"tt.splat {base} : !tt.ptr<{of}> -> {pointers}")
        return self.let(f"tt.addptr {many}, {offsets} : {pointers}, {indices}")

    def converted(self, value: str, shape: tuple[int, ...], layout: str, old: str, new: str) -> str:
        """Elements of another type."""
        if old == new:
            return value
        types = _tensor(shape, old, layout), _tensor(shape, new, layout)
        if old.startswith("f8"):
            return self.let(f"tt.fp_to_fp {value} : {' -> '.join(types)}")
        kind = {"i8": "extsi", "f32": "truncf"}.get(old, "extf")
        return self.let(f"arith.{kind} {value} : {' to '.join(types)}")


def _slice(axis: int, layout: str) -> str:
    return f"#ttg.slice<{{dim = {axis}, parent = {layout}}}>"


def _tensor(shape: tuple[int, ...] | list[int], element: str, layout: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {layout}>"


def loop_over_dots(text: str, loops: Loops) -> tuple[str, int]:
    """Triton's GPU IR with loops for its large dots, and the bytes of shared memory for operands,
    zero where no dot was large.

    Args:
        text: after layouts were chosen and operands widened.
        loops: what there is for them.

    Raises:
        CompileError: there is no room for a dot, and it is too large to be written out.
    """
    given, most = text.split("\n"), 0
    lines = given.copy()
    for number, line in enumerate(given):
        match = _DOT.match(line)
        dot = _described(match, number, given) if match else None
        if match is None or dot is None:
            continue
        work = prod(dot.shapes[2]) * dot.k
        if dot.nbytes > loops.most_bytes:
            if work > _MOST_WRITTEN_OUT * loops.num_warps * loops.warp_size:
                place = place_of_operation(
                    re.compile(re.escape(match["result"]) + " = tt.dot "), text
                )
                raise CompileError(
                    f"tl.dot of {dot.m} x {dot.k} times {dot.k} x {dot.n}{place} is too large: its "
                    f"operands and its sum take {dot.nbytes >> 10:,} KiB of shared memory, and "
                    f"there are {loops.most_bytes >> 10:,} KiB. Make the kernel's blocks smaller."
                )
            continue
        tile = _tile(dot, loops)
        # a sum in half precision is slow to compile however small: 16 x 16 x 32 takes 25 seconds
        small = _SMALL if dot.inner == dot.c[2] else 0
        if tile is not None and work > small * loops.num_warps * loops.warp_size:
            lines[number] = "\n".join(_loop(dot, tile, loops))
            most = max(most, dot.nbytes)
    return "\n".join(lines), most


def _described(match: re.Match[str], number: int, lines: list[str]) -> _Dot | None:
    """The dot of line `number`; None where its types have no loop."""
    (*batch, m, k), type_a = _parted(match["ta"])
    (*_, n), type_b = _parted(match["tb"])
    _, type_c = _parted(match["tc"])
    inner = _TYPES.get((type_a, type_c))
    if inner is None or type_a != type_b:
        return None
    before = lines[:number]
    operand_a = _source(match["a"], match["la"], type_a, before)
    operand_b = _source(match["b"], match["lb"], type_b, before)
    total = (match["c"], match["lc"], type_c)
    return _Dot(number, operand_a, operand_b, total, match["result"], inner, tuple(batch), m, n, k)


def _source(value: str, layout: str, type_: str, before: list[str]) -> tuple[str, str, str]:
    """An operand's value, layout and element type before it was widened and brought to the threads
    that need it, which is then dead code.
    """
    widened = _WIDENED.match(_operation(value, before))
    brought = _BROUGHT.match(_operation(widened[1] if widened else value, before))
    return (brought[1], brought[3], brought[2]) if brought else (value, layout, type_)


def _operation(value: str, before: list[str]) -> str:
    """What makes a value, of the lines before it is used; empty where that is no operation.

    It is the last line that gives the name: loops side by side, and functions, have values of the
    same names, but no name is given again where it can be seen.
    """
    name = value.partition("#")[0]
    for line in reversed(before):
        if (found := line.lstrip()).startswith((f"{name} = ", f"{name}:")):
            return found.removeprefix(f"{value} = ")
    return ""


def _parted(type_: str) -> tuple[list[int], str]:
    *shape, element = type_.split("x")
    return [int(size) for size in shape], element


def _tile(dot: _Dot, loops: Loops) -> _Tile | None:
    """The tile; None where there are more threads than elements of the sum: two threads that share
    an element would both add to it.
    """
    lanes_n = min(loops.warp_size, dot.n)
    lanes_m = loops.warp_size // lanes_n
    warps_m = max(1, min(loops.num_warps, dot.m // lanes_m))
    warps_n = loops.num_warps // warps_m
    if lanes_m * warps_m > dot.m or lanes_n * warps_n > dot.n:
        return None
    rows = min(_ROWS, dot.m // (lanes_m * warps_m))
    columns = min(_HELD // rows, dot.n // (lanes_n * warps_n))
    return _Tile(
        rows * lanes_m * warps_m,
        columns * lanes_n * warps_n,
        f"#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [{lanes_m}, {lanes_n}], "
        f"warpsPerCTA = [{warps_m}, {warps_n}], order = [1, 0]}}>",
    )


def _loop(dot: _Dot, tile: _Tile, loops: Loops) -> list[str]:
    """The operations in place of a dot."""
    write = _Writer(f"%xt_dot{dot.number}_")
    m, n, k, inner = dot.m, dot.n, dot.k, dot.inner
    pointer = f"!tt.ptr<{inner}>"
    bases, at = [], 0
    rows_layout = _by_rows(dot.shapes[2], loops)
    brought = _in_layout(write, dot, rows_layout)
    for (value, layout, type_), shape in zip((dot.a, dot.b, brought), dot.shapes, strict=True):
        base, begin = _base(write, at, pointer), at
        # widened here and not in the loop, where a CPU's JIT takes seconds for it
        value = write.converted(value, shape, layout, type_, inner)
        places = write.places(base, inner, shape, layout, shape[-1])
        write.do(f"tt.store {places}, {value} : {_tensor(shape, pointer, layout)}")
        bases.append(base)
        at += prod(shape) * _BYTES[inner]
    write.do(loops.barrier)

    down, across = m // tile.m, n // tile.n
    zero, one = write.number(0), write.number(1)
    matrix, row, column, step, total = (
        f"{write.prefix}{name}" for name in ("matrix", "row", "column", "k", "sum")
    )
    for index, count in ((matrix, prod(dot.batch)), (row, down), (column, across)):
        end = write.number(count)
        write.do(f"scf.for {index} = {zero} to {end} step {one}  : i32 {{")
    end = write.number(k)

    def start(base: str, *offsets: tuple[str, int]) -> str:
        for value, factor in offsets:
            offset = write.scaled(value, factor)
            base = write.let(f"tt.addptr {base}, {offset} : {pointer}, i32")
        return base

    start_a = start(bases[0], (matrix, m * k), (row, tile.m * k))
    start_b = start(bases[1], (matrix, k * n), (column, tile.n))
    start_c = start(bases[2], (matrix, m * n), (row, tile.m * n), (column, tile.n))
    shape = (tile.m, tile.n)
    sums, pointers = (_tensor(shape, element, tile.layout) for element in (inner, pointer))
    place = write.places(start_c, inner, shape, tile.layout, n)
    before = write.let(f"tt.load {place} : {pointers}")
    after = f"{write.prefix}after"
    write.do(
        f"{after} = scf.for {step} = {zero} to {end} step {one} iter_args({total} = {before}) -> "
        f"({sums})  : i32 {{"
    )
    column_a = _broadcast(write, start(start_a, (step, 1)), inner, tile, 1, k)
    row_b = _broadcast(write, start(start_b, (step, n)), inner, tile, 0, 1)
    if inner.startswith("i"):
        product = write.let(f"arith.muli {column_a}, {row_b} : {sums}")
        next_ = write.let(f"arith.addi {total}, {product} : {sums}")
    else:
        next_ = write.let(f"math.fma {column_a}, {row_b}, {total} : {sums}")
    write.do(f"scf.yield {next_} : {sums}")
    write.do("}")
    write.do(f"tt.store {place}, {after} : {pointers}")
    write.lines += ["    }"] * 3
    write.do(loops.barrier)
    # a function of its own, and not pure: or where both ways of a branch end with a dot, MLIR makes
    # one block of what is behind the loops, and its addresses depend on where one comes from
    base = _base(write, begin, pointer, dot.number)
    places = write.places(base, inner, dot.shapes[2], rows_layout, n)
    value = write.let(f"tt.load {places} : {_tensor(dot.shapes[2], pointer, rows_layout)}")
    write.do(loops.barrier)  # before the next dot stores its operands
    _, layout, type_ = dot.c
    value = write.converted(value, dot.shapes[2], rows_layout, inner, type_)
    types = (_tensor(dot.shapes[2], type_, at) for at in (rows_layout, layout))
    write.do(f"{dot.result} = ttg.convert_layout {value} : {' -> '.join(types)}")
    return write.lines


def _in_layout(write: _Writer, dot: _Dot, layout: str) -> tuple[str, str, str]:
    """The sum before the dot, in another layout: with that of the dot, each thread has a square,
    and a CPU's JIT cannot store in one piece what a row of threads has.
    """
    value, old, type_ = dot.c
    types = (_tensor(dot.shapes[2], type_, at) for at in (old, layout))
    return write.let(f"ttg.convert_layout {value} : {' -> '.join(types)}"), layout, type_


def _by_rows(shape: tuple[int, ...], loops: Loops) -> str:
    """The layout in which Triton loads and stores a tensor: neighbours in neighbouring threads."""
    lanes, warps = loops.warp_size, loops.num_warps
    all_lanes: list[int] = []
    all_warps: list[int] = []
    for size in shape[:0:-1]:
        all_lanes.insert(0, min(lanes, size))
        lanes //= all_lanes[0]
        all_warps.insert(0, min(warps, size // all_lanes[0]))
        warps //= all_warps[0]
    rank = len(shape)
    return (
        f"#ttg.blocked<{{sizePerThread = {[1] * rank}, threadsPerWarp = {[lanes, *all_lanes]}, "
        f"warpsPerCTA = {[warps, *all_warps]}, order = {list(range(rank))[::-1]}}}>"
    )


def _base(write: _Writer, at: int, pointer: str, own: int | None = None) -> str:
    """The address of a byte of the memory for operands; with `own` by an operation that is not
    moved, nor taken for another one.
    """
    offset = write.let(f"arith.constant {at} : i64")
    pure, symbol = ("true", ADDRESS) if own is None else ("false", f"{ADDRESS}.{own}")
    address = write.let(
        f'tt.extern_elementwise {offset} {{libname = "", libpath = "", pure = {pure}, '
        f'symbol = "{symbol}"}} : (i64) -> i64'
    )
    aligned = "{tt.divisibility = dense<16> : tensor<1xi32>}"
    return write.let(f"tt.int_to_ptr {address} {aligned} : i64 -> {pointer}")


def _broadcast(write: _Writer, base: str, inner: str, tile: _Tile, axis: int, distance: int) -> str:
    """A column (axis 1) or a row (axis 0) of an operand, for every element of the tile."""
    size, layout = (tile.m, tile.n)[1 - axis], _slice(axis, tile.layout)
    places = write.places(base, inner, (size,), layout, distance)
    line = _tensor((size,), inner, layout)
    value = write.let(f"tt.load {places} : {_tensor((size,), f'!tt.ptr<{inner}>', layout)}")
    thin = _tensor((size, 1) if axis else (1, size), inner, tile.layout)
    value = write.let(f"tt.expand_dims {value} {{axis = {axis} : i32}} : {line} -> {thin}")
    whole = _tensor((tile.m, tile.n), inner, tile.layout)
    return value if thin == whole else write.let(f"tt.broadcast {value} : {thin} -> {whole}")
