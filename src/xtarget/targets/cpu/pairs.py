"""SPIR-V for CPUs that have an instruction for pairs of bfloat16: calls of the function that
`_spirv.library.pairs` defines become that instruction.

Source: SPIR-V Specification 1.6; the extension SPV_INTEL_inline_assembly, revision 1; Intel's
manual of instructions, VDPBF16PS, which takes subnormal numbers for 0.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator

from ..._system.processor import ARCH, THIS, flags
from .._spirv.library.pairs import VECTOR

__all__ = ["has_instruction", "with_instruction"]

_FLAG = "avx512_bf16"
_INSTRUCTION, _CONSTRAINTS = "vdpbf16ps $3, $2, $0", "=v,0,v,v"
_MACHINE, _EXTENSION = "x86_64-unknown-unknown", "SPV_INTEL_inline_assembly"
_CAPABILITY = 5606  # AsmINTEL
_HEADER_WORDS, _BOUND = 5, 3
_OP_NAME, _OP_EXTENSION, _OP_CAPABILITY = 5, 10, 17
_OP_FUNCTION, _OP_FUNCTION_END, _OP_CALL, _OP_DECORATE = 54, 56, 57, 71
_OP_ASM_TARGET, _OP_ASM, _OP_ASM_CALL = 5609, 5610, 5611


def has_instruction(vendor: str) -> bool:
    """Whether a run time of this vendor makes code with the instruction on this machine."""
    if "intel" not in vendor.lower() or os.environ.get(ARCH, THIS) != THIS:
        return False
    return _FLAG in flags()


def with_instruction(spirv: bytes) -> bytes:
    """The module with the instruction in place of calls, where it has any."""
    if VECTOR.encode() not in spirv:
        return spirv
    words = array("I", spirv)
    code, machine, name = list(_instructions(words)), words[_BOUND], _text(VECTOR)
    own = next(o[0] for op, o in code if op == _OP_NAME and o[1:] == name)
    result, type_ = next((o[0], o[3]) for op, o in code if op == _OP_FUNCTION and o[1] == own)
    first = next(number for number, (op, _) in enumerate(code) if op == _OP_FUNCTION)
    texts = _text(_INSTRUCTION) + _text(_CONSTRAINTS)
    code[first:first] = [
        (_OP_ASM_TARGET, array("I", [machine]) + _text(_MACHINE)),
        (_OP_ASM, array("I", [result, own, type_, machine]) + texts),
    ]
    behind = next(number for number, (op, _) in enumerate(code) if op != _OP_CAPABILITY)
    code[behind:behind] = [
        (_OP_CAPABILITY, array("I", [_CAPABILITY])),
        (_OP_EXTENSION, _text(_EXTENSION)),
    ]
    made = words[:_HEADER_WORDS]
    made[_BOUND] += 1
    inside = False
    for op, operands in code:
        if op == _OP_FUNCTION:
            inside = operands[1] == own
        if not inside and not (op in (_OP_NAME, _OP_DECORATE) and operands[0] == own):
            own_call = op == _OP_CALL and operands[2] == own
            made.append((len(operands) + 1) << 16 | (_OP_ASM_CALL if own_call else op))
            made.extend(operands)
        inside = inside and op != _OP_FUNCTION_END
    return made.tobytes()


def _text(text: str) -> array[int]:
    data = text.encode() + b"\0"
    return array("I", data + b"\0" * (-len(data) % 4))


def _instructions(words: array[int]) -> Iterator[tuple[int, array[int]]]:
    at = _HEADER_WORDS
    while at < len(words):
        count = words[at] >> 16
        yield words[at] & 0xFFFF, words[at + 1 : at + count]
        at += count
