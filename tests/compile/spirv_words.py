"""The instructions of a SPIR-V module, for tests that look at the code on any machine.

Source: SPIR-V Specification 1.4, sections 2.3 (physical layout), 3.26 (memory operands), 3.32.6
(OpTypeFloat, OpTypeVector) and 3.32.8 (OpLoad, OpStore).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["loads_vectors", "stores_past_the_caches"]

_HEADER_WORDS = 5
_TYPE_FLOAT, _TYPE_VECTOR, _LOAD, _STORE = 22, 23, 61, 62
_NONTEMPORAL = 4


def _instructions(binary: bytes) -> Iterator[tuple[int, list[int]]]:
    """(opcode, operands)."""
    words = np.frombuffer(binary, "<u4")
    at = _HEADER_WORDS
    while at < len(words):
        count = int(words[at] >> 16)
        yield int(words[at] & 0xFFFF), words[at + 1 : at + count].tolist()
        at += count


def loads_vectors(binary: bytes) -> bool:
    """Whether 16 floats are loaded at once somewhere."""
    floats, vectors = set(), set()
    for opcode, operands in _instructions(binary):
        if opcode == _TYPE_FLOAT:
            floats.add(operands[0])
        elif opcode == _TYPE_VECTOR and operands[1] in floats and operands[2] == 16:
            vectors.add(operands[0])
        elif opcode == _LOAD and operands[0] in vectors:
            return True
    return False


def stores_past_the_caches(binary: bytes) -> bool:
    """Whether a store says that its memory is not needed again soon."""
    return any(
        opcode == _STORE and len(operands) > 2 and bool(operands[2] & _NONTEMPORAL)
        for opcode, operands in _instructions(binary)
    )
