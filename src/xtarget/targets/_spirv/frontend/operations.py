"""Memory effects of Triton's operations, for Triton 3.6 to 3.9.

MLIR knows the effects of an operation; Triton's Python bindings do not hand them out. So this is
a table of the operations that Triton's GPU IR may contain when `replicas` reads it. An operation
that is not in it is an error. `tests/compile/test_spirv_replicas.py` compares the table with
the installed Triton.
"""

from __future__ import annotations

__all__ = ["HARMLESS", "HARMLESS_DIALECTS", "WRITES"]

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
