"""From a code object and a launch's arguments to waves that run.

Source: LLVM, "User Guide for AMDGPU Backend": "Kernel Descriptor", "Initial Kernel Execution
State", "Preloaded Kernel Arguments".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from xtarget._values.errors import KernelFault, LoadError
from xtarget.targets._binaries.elf import Elf
from xtarget.targets.amd.code_object import CodeObject, Kernel

from .decode import Instruction, decode
from .global_races import GlobalRaces
from .group import Group
from .memory import HOST_CALLS, Arena, Array, Block
from .private import SWIZZLED
from .processes import share
from .program import Program
from .races import Races
from .waves import SGPR, Waves

__all__ = ["Image", "Limits", "Loaded"]

_DESCRIPTOR = struct.Struct("<IIIIq20xIIIHH4x")
_ALLOCATED = 2
#: STT_FUNC.
_FUNCTION = 2
#: SHT_RELA, SHT_REL.
_RELOCATIONS = (4, 9)
#: How many lanes are stepped together: enough to make NumPy's cost of a call small.
_LANES_TOGETHER = 2048
_PRELOAD_SKIPS = 256
#: Vector registers of a thread on gfx90a and later, accumulators included.
_MOST_REGISTERS = 512
#: Bytes from a code object's first section to its last, which a few bytes of its file can say.
_MOST_CODE = 256 << 20
#: How many times that a launch has to be, before several processes are started for it.
_WORTH_A_FORK = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Attributes:
    budget: lane-instructions of a launch.
    races: look for data races.
    processes: how many may share a launch.
    """

    budget: int
    races: bool
    processes: int = 1


@dataclass(frozen=True, slots=True)
class _Descriptor:
    entry: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload: int

    def bit(self, number: int) -> bool:
        return bool(self.properties >> number & 1)


class Image:
    """A code object in the device's memory."""

    def __init__(self, data: bytes, arch: str, arena: Arena) -> None:
        self.code = CodeObject.parse(data)
        if self.code.arch != arch:
            raise LoadError(
                f"this code object is for {self.code.arch}, and this is an emulated {arch}."
            )
        self._elf = Elf.parse(data)
        moved = [s.name for s in self._elf.sections if s.type in _RELOCATIONS and s.size]
        if moved:
            raise LoadError(
                f"this code object has relocations ({', '.join(moved)}), which the emulator does "
                "not apply. Compile it without global variables, as Triton does."
            )
        self.arch = arch
        self.arena = arena
        self.block = self._place()

    def _place(self) -> Block:
        """Copy what the code can reach to global memory, at the addresses' distances."""
        parts = [s for s in self._elf.sections if s.flags & _ALLOCATED and len(s.data)]
        end = max((s.address + s.size for s in parts), default=0)
        if end > _MOST_CODE:
            raise LoadError(
                f"this code object asks for {end:,} bytes of the device's memory; one of Triton's "
                f"has no more than {_MOST_CODE:,}. Compile the kernel again."
            )
        block = self.arena.allocate(end, "the code object")
        if block is None:
            raise LoadError("the emulated device has no memory left for a code object.")
        for section in parts:
            span = self.arena.span(block.start + section.address, section.size)
            assert span is not None
            span[:] = np.frombuffer(section.data, np.uint8)
        self.arena.mark(block.start, end)
        block.writable = False
        return block

    def close(self) -> None:
        self.arena.free(self.block.start)

    def load(self, name: str) -> Loaded:
        """A kernel, decoded.

        Raises:
            LoadError: there is none of that name, or its descriptor is damaged.
        """
        kernel = self.code.kernels.get(name)
        symbols = {s.name: s for s in self._elf.symbols()}
        if kernel is None or name not in symbols or f"{name}.kd" not in symbols:
            raise LoadError(f"the code object has no kernel {name!r}.")
        code = self._slice(symbols[name].value, symbols[name].size)
        raw = self._slice(symbols[f"{name}.kd"].value, 64)
        _, _, _, _, entry, rsrc3, rsrc1, rsrc2, properties, preload = _DESCRIPTOR.unpack(raw)
        start = symbols[f"{name}.kd"].value + entry
        if start != symbols[name].value:
            raise LoadError(f"the descriptor of {name} leads to another place than its code.")
        descriptor = _Descriptor(entry, rsrc1, rsrc2, rsrc3, properties, preload)
        counts = (kernel.resources.registers or 0, kernel.resources.accumulator_registers or 0)
        if max(counts) > _MOST_REGISTERS:
            raise LoadError(f"{name} asks for {max(counts):,} vector registers.")
        if (rsrc1 >> 12 & 0xFF) != 0xF0:
            raise LoadError(
                f"{name} asks for a float mode (0x{rsrc1 >> 12 & 0xFF:02x}) other than IEEE's "
                "rounding with subnormals, which the emulator does not have."
            )
        if not code:
            raise LoadError(f"{name} has no code.")
        instructions = decode(code, self.arch)
        if any(i.mnemonic == "s_swappc_b64" for i in instructions):
            instructions = sorted((*instructions, *self._functions(start)), key=lambda i: i.address)
        program = Program(name, self.arch, instructions, self.block.start + start)
        return Loaded(self, kernel, descriptor, program)

    def _functions(self, start: int) -> list[Instruction]:
        """Return the functions that are not kernels, at their distances from a kernel's start."""
        return [
            instruction
            for symbol in self._elf.symbols()
            if symbol.info & 15 == _FUNCTION
            and symbol.size
            and symbol.name not in self.code.kernels
            for instruction in decode(
                self._slice(symbol.value, symbol.size), self.arch, symbol.value - start
            )
        ]

    def _slice(self, address: int, size: int) -> bytes:
        for section in self._elf.sections:
            if section.address <= address and address + size <= section.address + len(section.data):
                start = address - section.address
                return bytes(section.data[start : start + size])
        raise LoadError("a symbol of this code object lies outside of its sections.")


class Loaded:
    """A kernel that can be run."""

    def __init__(
        self, image: Image, kernel: Kernel, descriptor: _Descriptor, program: Program
    ) -> None:
        self.image, self.kernel = image, kernel
        self._descriptor = descriptor
        self.program = program
        self.name = kernel.name
        self._lanes = kernel.wavefront_size

    def run(
        self,
        grid: tuple[int, int, int],
        block: int,
        shared: int,
        kernarg: bytes,
        limits: Limits,
        together: bool = False,
    ) -> int:
        """Run a whole grid; returns the number of lane-instructions.

        Args:
            together: all blocks at the same time, so that they can wait for each other.

        Raises:
            KernelFault: what the kernel did wrong, where.
        """
        arena = self.image.arena
        # LLVM reads whole 16 bytes of it: run times place it at such an address
        nbytes = -(-max(len(kernarg), 1) // 16) * 16
        segment = arena.allocate(nbytes, f"the arguments of {self.name}")
        if segment is None:
            raise KernelFault(f"{self.name}: the emulated device has no memory for arguments.")
        try:
            kernarg, unknown = self._hidden(kernarg, grid, block)
            span = arena.span(segment.start, len(kernarg))
            if span is not None:
                span[:] = np.frombuffer(kernarg, np.uint8)
            arena.mark(segment.start, len(kernarg))
            for first, size in unknown:
                arena.blank(segment.start + first, size)
            segment.writable = False
            arena.labels = self.labels(kernarg)
            return self.run_in_place(grid, block, shared, segment.start, kernarg, limits, together)
        finally:
            arena.free(segment.start)

    def labels(self, kernarg: bytes) -> dict[int, str]:
        """Return the role of each buffer in this launch, by the buffer's start address."""
        labels: dict[int, str] = {}
        for number, argument in enumerate(self.kernel.arguments):
            if argument.kind != "global_buffer":
                continue
            place = slice(argument.offset, argument.offset + argument.size)
            block = self.image.arena.block_at(int.from_bytes(kernarg[place], "little"))
            if block is not None:
                labels.setdefault(block.start, f"argument {number} of the kernel, from 0")
        return labels

    def _hidden(
        self, kernarg: bytes, grid: tuple[int, int, int], block: int
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """The arguments with those that the run time fills in, and the places (offset, size) of the
        ones that it has nothing for: their use is noticed as that of uninitialised memory."""
        values = {"hidden_grid_dims": 3, "hidden_hostcall_buffer": HOST_CALLS}
        for axis, blocks, threads in zip("xyz", grid, (block, 1, 1), strict=True):
            values[f"hidden_block_count_{axis}"] = blocks
            values[f"hidden_group_size_{axis}"] = threads
            values[f"hidden_remainder_{axis}"] = 0
            values[f"hidden_global_offset_{axis}"] = 0
        filled, unknown = bytearray(kernarg), []
        for argument in self.kernel.arguments:
            if not argument.hidden:
                continue
            place = slice(argument.offset, argument.offset + argument.size)
            if argument.kind in values:
                filled[place] = values[argument.kind].to_bytes(argument.size, "little")
            else:
                unknown.append((argument.offset, argument.size))
        return bytes(filled), unknown

    def run_in_place(
        self,
        grid: tuple[int, int, int],
        block: int,
        shared: int,
        kernarg_at: int,
        kernarg: bytes,
        limits: Limits,
        at_once: bool,
    ) -> int:
        """`run`, with arguments that lie in the device's memory already."""
        waves_per_block = block // self._lanes
        if block % self._lanes:
            raise KernelFault(
                f"{self.name} was launched with {block} threads, no multiple of {self._lanes}."
            )
        total = grid[0] * grid[1] * grid[2]
        together = total if at_once else max(1, _LANES_TOGETHER // (waves_per_block * self._lanes))
        lds = shared + (self.kernel.resources.static_shared_bytes or 0)
        private = self.kernel.resources.local_bytes or 0
        memory: GlobalRaces | None = None
        if limits.races:
            memory = GlobalRaces(self.image.arena, waves_per_block, grid, self.image.arch)

        def part(start: int, end: int) -> int:
            spent, place = 0, start

            def batch() -> Waves | None:
                nonlocal place
                first, place = place, min(place + together, end)
                if first == place:
                    return None
                index = np.arange(first, place)
                blocks = np.stack(
                    [index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1])], 1
                )
                count = len(index) * waves_per_block
                scratch = np.full((count, self._lanes, private), 0x5A, np.uint8)
                group = Group(self.image.arena, blocks, waves_per_block, lds, scratch)
                if memory is not None:
                    memory.begin(first, len(index))
                    group.races = Races(group, memory)
                return self._waves(group, blocks, waves_per_block, kernarg_at, kernarg)

            # the record of races is of one batch at a time
            more = batch if memory is None else lambda: None
            while (waves := batch()) is not None:
                spent += self.program.run(waves, limits.budget - spent, more)
            return spent

        # atomic operations are whole within one process only, and so is the record of races
        shares = at_once or self.program.atomic or self.program.waits
        alone = limits.races or shares or total < _WORTH_A_FORK * together
        if limits.processes > 1 and not alone:
            return share(total, together, limits.processes, part)
        return part(0, total)

    def _waves(
        self, group: Group, blocks: Array, waves_per_block: int, kernarg_at: int, kernarg: bytes
    ) -> Waves:
        resources = self.kernel.resources
        registers = max(resources.registers or 0, 8)
        accumulators = resources.accumulator_registers or 0
        block = np.repeat(np.arange(len(blocks)), waves_per_block)
        waves = Waves.fresh(group, block, registers, accumulators, self._lanes)
        number = np.tile(np.arange(waves_per_block), len(blocks))
        # the work-item's number; gfx90a and later pack x, y, z into one register
        waves.v[0] = (number[:, None] * self._lanes + np.arange(self._lanes)).astype(np.uint32)
        waves.undefined.pop(0, None)
        entry = self._scalars(waves, blocks[block], number, kernarg_at, kernarg)
        waves.pc = self.program.start(entry)
        return waves

    def _scalars(
        self, waves: Waves, blocks: Array, number: Array, kernarg_at: int, kernarg: bytes
    ) -> int:
        """The scalar registers at the start; returns the first instruction's address."""
        d = self._descriptor
        place = 0

        def put(register: int, value: Any) -> None:
            waves.s[register] = np.asarray(value).astype(np.uint32)
            waves.undefined.pop(SGPR + register, None)

        for bit, size in ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1)):
            if not d.bit(bit):
                continue
            if bit == 0:  # all lanes' private memory, for buffer instructions (gfx90a)
                for i, word in enumerate((0, SWIZZLED, 0xFFFFFFFF, 0)):
                    put(place + i, word)
            if bit == 5:  # the private memory's size and place, which nothing here needs
                put(place, 0)
                put(place + 1, 0)
            if bit == 3:
                put(place, kernarg_at & 0xFFFFFFFF)
                put(place + 1, kernarg_at >> 32)
            place += size
        entry = 0
        words, offset = d.preload & 0x7F, d.preload >> 7
        if words:
            padded = kernarg[4 * offset : 4 * (offset + words)].ljust(4 * words, b"\0")
            for i, word in enumerate(np.frombuffer(padded, np.uint32)):
                put(place + i, word)
            place += words
            entry = _PRELOAD_SKIPS
        place = d.rsrc2 >> 1 & 31
        if self.image.arch == "gfx1201":
            put(108 + 9, blocks[:, 0])
            put(108 + 7, blocks[:, 1] | blocks[:, 2] << 16)
            put(108 + 8, number << 25)
            return entry
        for axis in range(3):
            if d.rsrc2 >> (7 + axis) & 1:
                put(place, blocks[:, axis])
                place += 1
        place += d.rsrc2 >> 10 & 1
        if d.rsrc2 & 1:  # this wave's place in the private memory of all of them
            put(place, 0)
        return entry
