"""A code object as it lies in a device's memory, after the run time has loaded it.

Section headers are not loaded, so what a file's reader finds by them is found by program headers
and by the dynamic section here.
Source: System V ABI, chapter 5 "Program Loading and Dynamic Linking".
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from aperture import Aperture

from xtarget._values.errors import LoadError, UnsupportedInstruction, XTargetError
from xtarget.targets._binaries.elf import Symbol
from xtarget.targets._binaries.msgpack import unpack
from xtarget.targets.amd.code_object import MACHS, CodeObject, read_kernels
from xtarget_emulator.decode import Instruction, decode
from xtarget_emulator.launch import Image, Loaded
from xtarget_emulator.memory import Block

__all__ = ["LoadedImage"]

_HEADER = struct.Struct("<4s12xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOAD, _DYNAMIC, _NOTE = 1, 2, 4
_EXECUTABLE = 1
_DT_HASH, _DT_STRTAB, _DT_SYMTAB = 4, 5, 6
_METADATA = 32
#: Archs whose instructions are those of an arch that the emulator has.
_ALIKE = {
    **dict.fromkeys(("gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151"), "gfx1100"),
    "gfx1200": "gfx1201",
}


class LoadedImage(Image):
    """The code object in one allocation."""

    def __init__(self, memory: Aperture, block: Block) -> None:
        self.arena, self.block = memory, block
        self._memory = memory
        head = memory.read(block.start, 64)
        magic, _, _, _, _, segments_at, _, flags, *counts = _HEADER.unpack(head)
        if magic != b"\x7fELF":
            raise XTargetError(f"the code at 0x{block.start:x} begins with no ELF header")
        table = self._slice(segments_at, counts[1] * counts[2])
        segments = [_SEGMENT.unpack_from(table, i * counts[1]) for i in range(counts[2])]
        # two code objects of one size have the same header
        self._size = max(s[3] + s[6] for s in segments if s[0] == _LOAD)
        self._content = self._slice(0, self._size)
        self._text = [(s[3], s[6]) for s in segments if s[0] == _LOAD and s[1] & _EXECUTABLE]
        arch = MACHS[flags & 0xFF]
        self.arch = _ALIKE.get(arch, arch)
        metadata = self._metadata([(s[3], s[6]) for s in segments if s[0] == _NOTE])
        self.code = CodeObject(arch, "any", "any", read_kernels(metadata))
        symbols = self._symbols(next(s[3] for s in segments if s[0] == _DYNAMIC))
        self._elf: Any = SimpleNamespace(symbols=lambda: symbols)
        self._kernels = {
            block.start + s.value: s.name.removesuffix(".kd")
            for s in symbols
            if s.name.endswith(".kd")
        }
        self._ready: dict[int, Loaded] = {}

    def is_current(self) -> bool:
        """No other code object has come to this place."""
        there = self._memory.span(self.block.start, self._size)
        return there is not None and there.tobytes() == self._content

    def kernel_at(self, address: int) -> Loaded:
        """The kernel whose descriptor is at an address of the device."""
        if address not in self._ready:
            if address not in self._kernels:
                raise XTargetError(f"there is no kernel's descriptor at 0x{address:x}")
            self._ready[address] = self.load(self._kernels[address])
        return self._ready[address]

    def _slice(self, address: int, size: int) -> bytes:
        return self._memory.read(self.block.start + address, size)

    def _metadata(self, places: list[tuple[int, int]]) -> Any:
        for place, size in places:
            data, at = self._slice(place, size), 0
            while at + 12 <= len(data):
                name, body, kind = struct.unpack_from("<III", data, at)
                start = at + 12 + -(-name // 4) * 4
                if kind == _METADATA and data[at + 12 :].startswith(b"AMDGPU"):
                    return unpack(data[start : start + body])
                at = start + -(-body // 4) * 4
        raise LoadError("the loaded code object has no metadata")

    def _symbols(self, dynamic: int) -> list[Symbol]:
        tags: dict[int, int] = {}
        while (pair := struct.unpack("<QQ", self._slice(dynamic + 16 * len(tags), 16)))[0]:
            tags[pair[0]] = pair[1]
        count = struct.unpack("<II", self._slice(tags[_DT_HASH], 8))[1]
        table = self._slice(tags[_DT_SYMTAB], count * _SYMBOL.size)
        found = []
        for name, info, _, section, value, size in _SYMBOL.iter_unpack(table):
            text = self._slice(tags[_DT_STRTAB] + name, 256).partition(b"\0")[0].decode()
            found.append(Symbol(text, value, size, section, info))
        return found

    def _functions(self, start: int) -> list[Instruction]:
        """The code between the kernels: functions have no symbols here."""
        kernels = sorted(
            (s.value, s.value + s.size) for s in self._elf.symbols() if s.name in self.code.kernels
        )
        found: list[Instruction] = []
        for first, size in self._text:
            place = first
            for begin, end in [*kernels, (first + size, first + size)]:
                found += self._decoded(place, begin, start)
                place = max(place, end)
        return found

    def _decoded(self, first: int, end: int, start: int) -> list[Instruction]:
        """The instructions of a range, as far as there are some."""
        found: list[Instruction] = []
        while first < end:
            code = self._slice(first, min(16, end - first))
            try:
                instruction = decode(code, self.arch, first - start)[0]
            except UnsupportedInstruction:
                break
            found.append(instruction)
            first += instruction.size
        return found
