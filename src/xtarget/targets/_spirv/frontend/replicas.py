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
from .operations import HARMLESS, HARMLESS_DIALECTS, WRITES
from .structure import Editor
from .types import Type

__all__ = ["is_known", "is_replicated", "order_stores"]


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
