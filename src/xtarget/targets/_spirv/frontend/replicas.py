"""Order between threads that hold the same element.

A scalar, and a tensor of fewer elements than the block has threads, is held by several threads: all
of them load it, and one of them stores it. On a GPU warps run side by side. A CPU runs one after
another, up to a barrier: what loads next would find what an earlier warp has stored already. And
LLVM moves a load out of a loop for those threads that do not store in it. So such a store has a
barrier before it, when all have loaded, and one behind it, before any loads again.
"""

from __future__ import annotations

import math
from typing import Any

from ...._values.errors import CompileError
from .structure import Editor
from .types import Type

__all__ = ["HARMLESS", "WRITES", "is_known", "is_replicated", "order_stores"]

# Memory effects of Triton's operations, for Triton 3.6 to 3.9: MLIR knows them, and Triton's Python
# bindings do not hand them out. An operation that is in none of these tables is an error.

#: They write global memory: one thread does it for all that hold the element.
WRITES = frozenset(("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store"))

#: Arithmetic and control flow, without effects of their own.
HARMLESS_DIALECTS = frozenset(("arith", "math", "scf", "cf", "ub"))

_READS = ("tt.load", "tt.atomic_load", "tt.atomic_poll")
#: Without effects, but on what a program prints and whether it ends.
_PURE = (
    *("addptr", "advance", "approx_divf", "assert", "bitcast", "broadcast", "cat", "clampf"),
    *(
        "dot",
        "dot_scaled",
        "expand_dims",
        "fp_to_fp",
        "gather",
        "get_num_programs",
        "get_program_id",
    ),
    *(
        "histogram",
        "int_to_ptr",
        "join",
        "make_range",
        "map_elementwise",
        "mulhiui",
        "precise_divf",
    ),
    *("precise_sqrt", "print", "ptr_to_int", "reshape", "splat", "split", "trans", "unsplat"),
    *("map_elementwise.return", "reduce", "reduce.return", "scan", "scan.return"),
    # a function's own operations are looked at where it is defined; libdevice writes no memory, and
    # what of the other two there is not on SPIR-V is refused by name later
    *("call", "func", "return", "extern_elementwise", "elementwise_inline_asm"),
)
#: Layouts; memory of the block, among whose users Triton puts barriers itself; and barriers.
_OF_BLOCKS = (
    *("barrier", "convert_layout", "fp4_to_fp", "local_alloc", "local_barrier", "local_dealloc"),
    *("local_load", "local_store", "memdesc_index", "memdesc_reinterpret", "memdesc_reshape"),
    *("memdesc_subslice", "memdesc_trans", "warp_id"),
)
HARMLESS = frozenset(
    (
        *_READS,
        *(f"tt.{name}" for name in _PURE),
        *(f"ttg.{name}" for name in _OF_BLOCKS),
        *("gpu.barrier", "llvm.intr.assume", "builtin.module"),
    )
)


def order_stores(module: Any) -> None:
    """Put barriers around stores that one of several threads does for all.

    Args:
        module: Triton's GPU IR, with layouts. It is changed in place.

    Raises:
        CompileError: there is an operation of which it is not known what it does to memory.
    """
    edit = Editor(module)
    for operation in edit.operations:
        name = operation.name
        if name in WRITES:
            if is_replicated(operation.operand_type(0)):  # the pointers
                edit.go_before(operation)
                edit.create_barrier()
                edit.go_after(operation)
                edit.create_barrier()
        elif not is_known(name):
            raise CompileError(
                f"xtarget does not know what Triton's operation {name}{edit.place(operation)} does "
                "to memory, so it cannot keep the order of a block's threads on SPIR-V. Write this "
                "with tl.load, tl.store and tl.atomic_*, or compile for a GPU of NVIDIA or AMD."
            )


def is_known(name: str) -> bool:
    """Return True if the effect of an operation on memory is known."""
    return name in WRITES or name in HARMLESS or name.partition(".")[0] in HARMLESS_DIALECTS


def is_replicated(pointers: Type) -> bool:
    """Return True if several threads hold an element, or if this is not known."""
    layout = pointers.layout
    if pointers.shape is None or layout is None:
        return True  # a scalar
    shape: list[float] = list(pointers.shape)
    dim = None
    if layout.kind == "ttg.slice":
        dim, layout = layout["dim"], layout["parent"]
    if layout.kind != "ttg.blocked":
        return True
    per_thread, threads, warps = (
        layout[name] for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA")
    )
    if dim is not None:
        if threads[dim] * warps[dim] > 1:
            return True
        shape.insert(dim, math.inf)
    return any(
        lanes * count > 1 and size * lanes * count > length
        for size, lanes, count, length in zip(per_thread, threads, warps, shape, strict=True)
    )
