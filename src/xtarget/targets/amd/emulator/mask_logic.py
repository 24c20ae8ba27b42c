"""Scalar operations bit by bit, of which one operand may settle the result alone.

LLVM keeps the lanes of a branch in scalar registers, and leaves those bits unwritten that a later
operation with EXEC, or with a mask that is known, takes away.
"""

from __future__ import annotations

import re

import numpy as np

from .decode import Instruction
from .memory import Array
from .operands import Source, plain
from .waves import EXEC, SGPR, Waves

__all__ = ["MaskLogic"]

_NAME = re.compile(r"^s_(mov|not|and|or|xor|xnor|nand|nor|and_not1|or_not1)_b(32|64)$")
_ALL = np.uint32(0xFFFFFFFF)


def _word_code(code: int, word: int) -> int:
    """The operand's lower or upper word; an integer constant's upper one is its sign."""
    if code < 128:
        return code + word
    return 128 if word and code <= 192 else code


class MaskLogic:
    """What of the result of one such instruction holds something."""

    def __init__(self, ins: Instruction, operation: str, words: int) -> None:
        self._operation = operation
        target = ins.fields["sdst"]
        self._writes = tuple(SGPR + target + i for i in range(words))
        slots = ("ssrc0", "ssrc1") if "ssrc1" in ins.fields else ("ssrc0",)
        self._codes = [ins.fields[slot] for slot in slots]
        self._parts = [
            [plain(ins, _word_code(code, i), "u32") for code in self._codes] for i in range(words)
        ]

    @classmethod
    def of(cls, ins: Instruction) -> MaskLogic | None:
        """None where the instruction is none of these, or of a constant of 64 bits."""
        match = _NAME.match(ins.mnemonic)
        return None if match is None else cls(ins, match[1], int(match[2]) // 32)

    def unknown(self, w: Waves) -> list[Array | None]:
        """For each word of the result the waves where it holds nothing. To be asked before the
        result is written."""
        return [self._word(w, parts) for parts in self._parts]

    def note(self, w: Waves, unknown: list[Array | None]) -> None:
        """Note what `unknown` said."""
        for register, bad in zip(self._writes, unknown, strict=True):
            if bad is None or not bad.any():
                w.undefined.pop(register, None)
            else:
                w.undefined[register] = bad

    def _word(self, w: Waves, parts: list[Source]) -> Array | None:
        bad = [self._bad(w, part.reads) for part in parts]
        if all(b is None for b in bad):
            return None
        if len(parts) == 1 or self._operation in ("xor", "xnor"):
            return np.logical_or.reduce([b for b in bad if b is not None])
        settled = [self._settles(part.get(w), second) for second, part in enumerate(parts)]
        if bad[1] is None and self._codes[1] == EXEC and self._operation in ("and_not1", "or"):
            return None  # what is left of the first operand is of lanes that are not active
        none = np.zeros((w.count, 1), bool)
        a, b = (none if x is None else x for x in bad)
        return (a & (b | ~settled[1])) | (b & (a | ~settled[0]))

    @staticmethod
    def _bad(w: Waves, reads: tuple[int, ...]) -> Array | None:
        return w.undefined.get(reads[0]) if reads else None

    def _settles(self, word: Array, second: int) -> Array:
        """Where this operand settles the result, whatever the other one is."""
        zero = "and" in self._operation
        if second and "not1" in self._operation:
            zero = not zero
        result: Array = word == (np.uint32(0) if zero else _ALL)
        return result
