"""The agreement of the front end with the passes over LLVM IR: facts of the kernel, names, and the
passes' result. The process that compiles reads this module; LLVM's child process reads the passes.
"""

from __future__ import annotations

from ...._values.value_classes import value_class

__all__ = ["ADDRESS", "ALONE", "Entry", "Layout", "UnsupportedError"]

#: The function that gives the address of a byte of the memory for a dot's operands; a number may
#: follow.
ADDRESS = "xt_operand_address"
#: Begins the message of an assertion that not all threads of a block may reach together.
ALONE = "xt.alone:"


class UnsupportedError(Exception):
    """The kernel uses something that has no counterpart in SPIR-V here; the text names it.

    Args:
        text: what it is.
        symbol: what to look for in Triton's LLVM IR to find the line of the kernel.
    """

    def __init__(self, text: str, symbol: str = "") -> None:
        super().__init__(text)
        self.symbol = symbol


@value_class(frozen=True, slots=True)
class Layout:
    """The facts about a kernel that the rewrites need.

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
        cpu_accesses: write loads and addresses in the form that suits a CPU's run time.
        vectors: make the block's only warp one thread, if the kernel allows it (see `vectors`).
        aligned: bytes to which the entry's first parameters are aligned, 1 for a parameter
            that is not an address.
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
        """Offset of the operands in shared memory, aligned to a cache line."""
        return -(-self.shared_bytes // 64) * 64

    @property
    def all_shared_bytes(self) -> int:
        return self.operands_at + self.operand_bytes if self.operand_bytes else self.shared_bytes


@value_class(frozen=True, slots=True)
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
