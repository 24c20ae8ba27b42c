"""One instruction of AMD's as LLVM prints it, taken apart."""

from __future__ import annotations

import re
from typing import Any

#: Where vector registers and accumulators begin among the codes of operands.
V, ACC = 256, 512
_NAMED = {
    "vcc": 106, "vcc_lo": 106, "vcc_hi": 107, "exec": 126, "exec_lo": 126, "exec_hi": 127,
    "scc": 253, "src_scc": 253, "0.5": 240, "-0.5": 241, "1.0": 242, "-1.0": 243, "2.0": 244,
    "-2.0": 245, "4.0": 246, "-4.0": 247, "0.15915494": 248, "0.15915494309189532": 248,
    "0.1592": 248, "src_shared_base": 235, "src_private_base": 237, "src_vccz": 251,
    "src_execz": 252, "lit": 255,
}  # fmt: skip
FIXED_MOVES = {"row_mirror": 0x140, "row_half_mirror": 0x141, "wave_shl": 0x130, "wave_rol": 0x134,
                "wave_shr": 0x138, "wave_ror": 0x13C}  # fmt: skip


class Text:
    """One instruction as LLVM prints it.

    Attributes:
        name: the mnemonic.
        operands: codes as an encoding has them (VGPRs from 256, AGPRs from 512), or (255, literal).
        signs: of operands with one, `-` and `|`, by place.
        halves: 1 for the upper half of a register, by place.
        options: what follows, `name: value`.
    """

    def __init__(self, text: str, cdna: bool) -> None:
        self._cdna = cdna
        self.name, _, rest = text.replace("\t", " ").strip().partition(" ")
        self.operands: list[Any] = []
        self.signs: dict[int, str] = {}
        self.halves: dict[int, int] = {}
        self.options: dict[str, str] = {}
        for piece in _pieces(rest):
            first, *options = piece.split() if piece else [""]
            if _is_option(first):
                options = [first, *options]
            elif first:
                self._operand(first)
            for option in options:
                key, _, value = option.partition(":")
                self.options[key] = value

    def _operand(self, text: str) -> None:
        sign = ""
        if re.match(r"^-(\||v|s|a|abs|neg|src|vcc|exec|ttmp|m0)", text):
            sign, text = "-", text[1:]
        for pattern in (r"^neg\((.*)\)$", r"^-?sext\((.*)\)$"):
            if found := re.match(pattern, text):
                sign, text = ("-" if pattern[1] == "n" else "x") + sign, found[1]
        if found := re.match(r"^\|(.*)\|$|^abs\((.*)\)$", text):
            sign, text = sign + "|", found[1] or found[2]
        if found := re.match(r"^(.*)\.([lh])$", text):
            text = found[1]
            self.halves[len(self.operands)] = int(found[2] == "h")
        if sign:
            self.signs[len(self.operands)] = sign
        self.operands.append(self._code(text))

    def _code(self, text: str) -> Any:
        if found := re.match(r"^([vas])\[?(\d+)(?::\d+)?\]?$", text):
            return int(found[2]) + {"v": V, "a": ACC, "s": 0}[found[1]]
        if found := re.match(r"^ttmp\[?(\d+)(?::\d+)?\]?$", text):
            return 108 + int(found[1])
        if text == "m0":
            return 124 if self._cdna else 125
        if text == "null":
            return 124
        if text == "off":
            return "off"
        if text in _NAMED:
            return _NAMED[text]
        if re.match(r"^-?(0x[0-9a-f]+|\d+)$", text):
            return Number(int(text, 0))
        return text


class Number(int):
    """A number as it is printed: an inline constant, or a literal."""


def _pieces(text: str) -> list[str]:
    """Operands, split at commas outside of brackets; options stay with the last one."""
    found, depth, piece = [], 0, ""
    for letter in text:
        depth += letter in "[(" or 0
        depth -= letter in "])" or 0
        if letter == "," and not depth:
            found.append(piece.strip())
            piece = ""
        else:
            piece += letter
    return [*found, piece.strip()] if piece.strip() else found


_FLAGS = frozenset(
    ("offen", "idxen", "glc", "slc", "dlc", "sc0", "sc1", "nt", "lds", "clamp", "gds", "tfe", "nv")
)


def _is_option(word: str) -> bool:
    return bool(re.match(r"^[a-z_0-9]+:", word)) or word in FIXED_MOVES or word in _FLAGS
