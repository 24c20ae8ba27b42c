"""The score of a section: bytes that are not moved, less those that go through memory because
there are too few registers, by the compiler's own report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .._compile import functions
from .._kernels import libraries
from .._launch import planning
from .._launch.specializing import requests
from .._values.types import Resources, Target
from .._values.value_classes import value_class
from ..spec import ArrayType, ScalarType
from .nodes import Value
from .sections import Section

__all__ = ["Report", "not_moved", "reports"]


@value_class(frozen=True, slots=True)
class Report:
    """The compiler's report on a launch.

    Attributes:
        blocks: of its grid, at the sizes that it was asked for.
        shared: memory of a block, in bytes.
    """

    blocks: int
    warps: int
    threads: int
    shared: int
    resources: Resources

    @property
    def spilled(self) -> int:
        """Bytes that all threads together write to memory and read again for want of registers."""
        return 2 * self.kept * self.threads * self.blocks

    @property
    def kept(self) -> int:
        """Bytes of a thread's memory that stand for registers. Arrays of its own, as a sine has
        one for large arguments, are not among them where the compiler tells them apart."""
        memory, registers = self.resources.local_bytes, self.resources.spilled_registers
        if memory is None or registers is None:
            return memory or 4 * (registers or 0)
        return min(memory, 4 * registers)

    def __str__(self) -> str:
        own = self.resources
        parts = [f"{self.blocks:,} blocks of {self.warps} warps"]
        if own.registers is None:
            parts.append("the compiler says nothing of registers")
        else:
            parts.append(f"{own.registers} registers a thread")
            parts.append(f"{self.kept} bytes of memory for want of them")
        return ", ".join([*parts, f"{self.shared:,} bytes of shared memory a block"])


def reports(
    kernel: str,
    types: Sequence[ArrayType | ScalarType],
    options: Mapping[str, Any],
    target: Target,
) -> list[Report]:
    """Of each launch of a call, which is compiled for it.

    Raises:
        CompileError: it does not compile.
    """
    known = libraries.find(kernel)
    aligned = [True] * len(types)
    units = planning.TYPICAL_COMPUTE_UNITS
    call = planning.call_of(known, types, options, target, units, aligned=aligned)
    found = []
    plan = planning.make_plan(known, call)
    for launch, request, _ in requests(known, plan, types, aligned):
        if 0 not in launch.grid:
            made = functions.artifact(request, target)
            x, y, z = launch.grid
            shared = max(made.shared_bytes, made.resources.static_shared_bytes or 0)
            threads = made.num_warps * made.warp_size
            found.append(Report(x * y * z, made.num_warps, threads, shared, made.resources))
    return found


def not_moved(section: Section) -> int:
    """Bytes that are not written, and not read again by those of the section that need them."""
    readers = Counter(
        id(own.node)
        for node in section.nodes
        for own in node.operands
        if isinstance(own, Value) and own.node is not None
    )
    written = {id(node) for node, _ in section.also} | {id(section.root)}
    found = 0
    for node in section.nodes:
        out = node.plan.outputs[0]
        times = readers[id(node)] + (id(node) not in written)
        found += times * out.size * out.itemsize
    return found
