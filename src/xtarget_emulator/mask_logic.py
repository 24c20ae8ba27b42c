"""Bitwise scalar operations, in which one operand alone may settle a bit of the result.

LLVM keeps the lanes of a branch in scalar registers. It leaves bits unwritten that a later
operation with EXEC, or with a known mask, removes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .decode import Instruction
from .memory import Array
from .operands import Source, plain
from .waves import SCC, SGPR, Waves

__all__ = ["MaskLogic", "Words", "note_scc"]

_NAME = re.compile(r"^s_(mov|not|and|or|xor|xnor|nand|nor|and_not1|or_not1)_b(32|64)$")


def _word_code(code: int, word: int) -> int:
    """The operand's lower or upper word; an integer constant's upper one is its sign."""
    if code < 128:
        return code + word
    return 128 if word and code <= 192 else code


class Words:
    """An operand of one word or two, and what of it holds nothing."""

    def __init__(self, ins: Instruction, code: int, words: int) -> None:
        self.parts = [plain(ins, _word_code(code, i), "u32") for i in range(words)]

    def get(self, w: Waves) -> list[Array]:
        """Return copies of the words, waves x 1 or 1 x 1: their sources may be written to."""
        return [np.array(part.get(w)) for part in self.parts]

    def unknown(self, w: Waves) -> list[Array | None]:
        """For each word the bits that hold nothing; None for none."""
        return [_unknown(w, part) for part in self.parts]


def _unknown(w: Waves, part: Source) -> Array | None:
    if not part.reads or part.reads[0] == SCC:
        return None
    return w.unknown_bits(part.reads[0] - SGPR)


def note_scc(w: Waves, unknown: Array | None) -> None:
    """Note for which waves (waves x 1) the condition code holds nothing.

    Args:
        unknown: None for none.
    """
    if unknown is None or not unknown.any():
        w.undefined.pop(SCC, None)
    else:
        w.undefined[SCC] = np.broadcast_to(unknown, (w.count, 1))


class MaskLogic:
    """The bits of such an operation's result that hold nothing.

    Args:
        codes: codes of the operands.
    """

    def __init__(self, ins: Instruction, operation: str, codes: Sequence[int], words: int) -> None:
        self._operation = operation
        self._operands = [Words(ins, code, words) for code in codes]

    @classmethod
    def of(cls, ins: Instruction) -> MaskLogic | None:
        """Return the logic of an instruction; None if it is not one of these."""
        match = _NAME.match(ins.mnemonic)
        if match is None:
            return None
        codes = [ins.fields[slot] for slot in ("ssrc0", "ssrc1") if slot in ins.fields]
        return cls(ins, match[1], codes, int(match[2]) // 32)

    def unknown(self, w: Waves) -> list[Array | None]:
        """Return the bits that hold nothing, for each word of the result. Call this before the
        result is written."""
        bits = [operand.unknown(w) for operand in self._operands]
        values = [operand.get(w) for operand in self._operands]
        return [
            self._word(*parts)
            for parts in zip(zip(*bits, strict=True), zip(*values, strict=True), strict=True)
        ]

    def _word(self, bits: Sequence[Array | None], values: Sequence[Array]) -> Array | None:
        if all(word is None for word in bits):
            return None
        u = [np.uint32(0) if word is None else word for word in bits]
        if len(u) == 1 or self._operation in ("xor", "xnor"):
            return u[0] | u[-1]
        a, b = values
        if "not1" in self._operation:
            b = ~b
        if self._operation in ("or", "nor", "or_not1"):  # a bit that is set settles it
            a, b = ~a, ~b
        return (u[0] & (u[1] | b)) | (u[1] & (u[0] | a))
