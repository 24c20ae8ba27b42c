"""LLVM IR as text: what the rewrites share.

llvmlite can read, link, rename and optimise, but cannot build or change an instruction, so what
linking cannot do is done on text. The text is always printed by llvmlite's own LLVM after its
instruction namer ran: one instruction a line, every value and block named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["VALUE", "Draft", "Entry", "Layout", "UnsupportedError", "split_list", "type_of"]

#: A local value's name.
VALUE = r"%[\w.$-]+"


class UnsupportedError(Exception):
    """The kernel uses something that has no counterpart in SPIR-V here; the text names it.

    Args:
        text: what it is.
        symbol: what to look for in Triton's LLVM IR to find the line of the kernel.
    """

    def __init__(self, text: str, symbol: str = "") -> None:
        super().__init__(text)
        self.symbol = symbol


@dataclass(frozen=True, slots=True)
class Layout:
    """What the rewrites must know of the kernel.

    Attributes:
        num_warps, warp_size: the block is their product; a warp is a sub-group in SPIR-V.
        shared_bytes: shared memory (workgroup storage) of a block.
        operand_bytes: further shared memory behind it, for dots that are loops.
        integer_pointers: the entry takes addresses as 64-bit integers.
        fp_fusion: the device may fuse a multiplication and an addition.
        fp64: the device has doubles.
        half_math: the device has functions of halves (see `narrow`).
        function_bytes: the widest vector that a function of the device takes; 0: any.
        kernel_clock: the device has SPV_KHR_shader_clock.
        cpu_accesses: write loads and addresses as a CPU's run time wants them.
        vectors: make the block's only warp one thread, if the kernel allows it (see `vectors`).
        aligned: bytes to which the entry's first parameters are aligned, 1 for what is no address.
    """

    num_warps: int
    warp_size: int
    shared_bytes: int
    integer_pointers: bool = False
    fp_fusion: bool = True
    fp64: bool = True
    half_math: bool = True
    function_bytes: int = 0
    kernel_clock: bool = False
    vectors: bool = False
    cpu_accesses: bool = False
    operand_bytes: int = 0
    aligned: tuple[int, ...] = ()

    @property
    def operands_at(self) -> int:
        """Where the operands begin in shared memory: on a cache line."""
        return -(-self.shared_bytes // 64) * 64

    @property
    def all_shared_bytes(self) -> int:
        return self.operands_at + self.operand_bytes if self.operand_bytes else self.shared_bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """The kernel of a module.

    Attributes:
        name: its name.
        parameters: their LLVM types, as the host gives them.
        asserts: the last parameter is memory for the message of a failed device_assert.
        warp_size: its threads in a warp: 1 where lanes became vectors.
        only_read: which parameters point to memory that the kernel does not write.
    """

    name: str
    parameters: tuple[str, ...]
    asserts: bool
    warp_size: int
    only_read: tuple[int, ...] = ()


@dataclass(slots=True)
class Draft:
    """A module's text while it is rewritten.

    Attributes:
        lines: the text.
        layout: what is known of the kernel.
        declarations: `declare` lines that the rewrites need, by function name.
    """

    lines: list[str]
    layout: Layout
    declarations: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    def temporary(self) -> str:
        """A fresh value name."""
        self._count += 1
        return f"%xt.{self._count}"

    def call(self, result: str, function: str, *arguments: str) -> str:
        """The text of a call of one of our helpers, which gets declared.

        Args:
            result: LLVM type.
            function: name without `@`.
            arguments: each `type value`.
        """
        types = ", ".join(type_of(argument) for argument in arguments)
        self.declarations[function] = f"declare {result} @{function}({types})"
        return f"call {result} @{function}({', '.join(arguments)})"

    def text(self) -> str:
        return "\n".join([*self.lines, *self.declarations.values()]) + "\n"


def type_of(argument: str) -> str:
    """`ptr addrspace(1)` of `ptr addrspace(1) %p`."""
    return argument.strip().rsplit(" ", 1)[0]


#: Those that may have commas inside; an address space's have none.
_BRACKETS = re.compile(r"[<\[{]|\((?!\d+\))")


def split_list(text: str) -> list[str]:
    """The parts of a comma-separated list, leaving commas inside brackets alone."""
    if not _BRACKETS.search(text):
        return [part for part in map(str.strip, text.split(",")) if part]
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[(<\[{)>\]},]", text):
        mark = match[0]
        if mark in "(<[{":
            depth += 1
        elif mark != ",":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]
