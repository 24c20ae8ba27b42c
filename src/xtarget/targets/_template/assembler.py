"""SPIR-V's assembly text to its words: the instructions that the templates have.

Source: the SPIR-V specification, version 1.0, "Binary Form" and "Instructions".
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

__all__ = ["AssemblyError", "assemble"]

_MAGIC, _VERSION = 0x07230203, 0x00010000
_HEADER_WORDS: Final = 5


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


#: Number of each instruction; of those with a result, whether its type comes first.
_PLAIN: Final = _table(
    """
    OpSelectionMerge 247
    OpMemoryModel 14 OpEntryPoint 15 OpExecutionMode 16 OpCapability 17 OpFunctionEnd 56
    OpStore 62 OpDecorate 71 OpLoopMerge 246 OpBranch 249 OpBranchConditional 250 OpReturn 253
    """
)
_UNTYPED: Final = _table(
    """
    OpExtInstImport 11
    OpTypeVoid 19 OpTypeBool 20 OpTypeInt 21 OpTypeFloat 22 OpTypeVector 23 OpTypePointer 32
    OpTypeFunction 33 OpLabel 248
    """
)
_TYPED: Final = _table(
    """
    OpExtInst 12 OpConvertFToU 109 OpConvertFToS 110 OpBitcast 124 OpUDiv 134 OpSDiv 135
    OpFDiv 136 OpUMod 137 OpSRem 138 OpShiftRightLogical 194 OpShiftRightArithmetic 195
    OpShiftLeftLogical 196
    OpConstantTrue 41 OpConstantFalse 42 OpConstant 43 OpFunction 54 OpFunctionParameter 55
    OpVariable 59 OpLoad 61 OpInBoundsPtrAccessChain 70 OpCompositeExtract 81 OpCopyObject 83
    OpConvertSToF 111 OpConvertUToF 112 OpUConvert 113 OpSConvert 114 OpFConvert 115
    OpSNegate 126 OpFNegate 127 OpIAdd 128 OpFAdd 129 OpISub 130 OpFSub 131 OpIMul 132
    OpFMul 133 OpLogicalNotEqual 165 OpLogicalOr 166 OpLogicalAnd 167 OpLogicalNot 168
    OpSelect 169 OpIEqual 170 OpINotEqual 171 OpUGreaterThan 172 OpSGreaterThan 173
    OpUGreaterThanEqual 174 OpSGreaterThanEqual 175 OpULessThan 176 OpSLessThan 177
    OpULessThanEqual 178 OpSLessThanEqual 179 OpFOrdEqual 180 OpFUnordNotEqual 183
    OpFOrdLessThan 184 OpFOrdGreaterThan 186 OpFOrdLessThanEqual 188 OpFOrdGreaterThanEqual 190
    OpBitwiseOr 197 OpBitwiseXor 198 OpBitwiseAnd 199 OpNot 200 OpPhi 245
    """
)
_WORDS: Final = _table(
    """
    Physical64 2 OpenCL 2 LocalSize 17 ContractionOff 31 BuiltIn 11 WorkgroupId 26
    LocalInvocationId 27 Constant 22 Input 1 None 0 CrossWorkgroup 5 Addresses 4 Linkage 5
    Float64 10 Int64 11 Int16 22 Int8 39 Aligned 2
    """
)
#: An execution model and a capability have one name and two numbers.
_KERNEL: Final = {"OpEntryPoint": 6, "OpCapability": 6}


class AssemblyError(ValueError):
    """The text has a word that is not known; the message has its line."""


def assemble(text: str) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """A module, and its holes: a literal `?NAME:2` is one of two words, in which a number is put.

    Returns:
        the words, and offset and bytes of each hole by its name.

    Raises:
        AssemblyError: an unknown instruction or word, or an id that nothing defines.
    """
    ids: dict[str, int] = {}
    defined: set[str] = set()

    def number(name: str) -> int:
        return ids.setdefault(name, len(ids) + 1)

    words: list[int] = []
    holes: dict[str, tuple[int, int]] = {}
    for at, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        begin, first = len(words), 1
        words.append(0)
        if parts[1:2] == ["="]:
            result, name, first = parts[0], parts[2], 3
            defined.add(result)
            opcode = _TYPED.get(name)
            if opcode is None:
                opcode = _UNTYPED.get(name)
            else:
                words.append(number(parts[3]))
                first = 4
            words.append(number(result))
        else:
            name = parts[0]
            opcode = _PLAIN.get(name)
        if opcode is None:
            raise AssemblyError(f"line {at}: the instruction {name!r} in {line!r}")
        for operand in parts[first:]:
            if operand[0] == "%":
                words.append(number(operand))
            elif operand[0] == "?":
                hole, _, size = operand[1:].partition(":")
                holes[hole] = (len(words) + _HEADER_WORDS) * 4, int(size) * 4
                words += [0] * int(size)
            else:
                words += _literal(operand, name, at)
        words[begin] = len(words) - begin << 16 | opcode
    missing = sorted(ids.keys() - defined)
    if missing:
        raise AssemblyError(f"nothing defines {', '.join(missing)}")
    return array("I", [_MAGIC, _VERSION, 0, len(ids) + 1, 0, *words]).tobytes(), holes


def _literal(operand: str, name: str, at: int) -> list[int]:
    if operand[0] == '"':
        text = operand[1:-1].encode() + b"\0"
        text += b"\0" * (-len(text) % 4)
        return [word for (word,) in struct.iter_unpack("<I", text)]
    if operand == "Kernel":
        return [_KERNEL[name]]
    if operand in _WORDS:
        return [_WORDS[operand]]
    if operand.startswith("0x"):  # a constant's bits: eight digits of hexadecimal for each word
        bits = int(operand, 16)
        return [bits >> 32 * word & 0xFFFFFFFF for word in range((len(operand) - 2) // 8)]
    if operand.isdecimal():
        return [int(operand)]
    raise AssemblyError(f"line {at}: the word {operand!r}")
