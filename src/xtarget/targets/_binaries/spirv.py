"""Reads of a SPIR-V module what a driver must know before the run time sees it.

OpenCL and SYCL run times trust the bytes: zeros hang one of them, a cut file crashes another, and a
wrong argument list fails without a reason. So the module is walked here first, bounds checked. What
this cannot see is a flipped bit inside an instruction, which ends or hangs the process in four of
ten cases (Intel's CPU run time 2026.2): who stores modules compares their digest before loading.
Source: SPIR-V Specification 1.6, sections 2.3 (physical layout), 3.52.5 to 3.52.9 (instructions).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence

from ..._values.errors import LaunchError, LoadError
from ..._values.types import Artifact, Target
from ..._values.value_classes import value_class

__all__ = ["EntryPoint", "check_local_size", "check_spirv", "is_spirv", "read_entry_points"]

_MAGIC = 0x07230203
_HEADER_WORDS = 5
_OP_ENTRY_POINT, _OP_EXECUTION_MODE, _OP_CAPABILITY = 15, 16, 17
_CAPABILITY_FLOAT64 = 10
_OP_TYPE_INT, _OP_TYPE_FLOAT, _OP_TYPE_POINTER, _OP_TYPE_FUNCTION = 21, 22, 32, 33
_OP_FUNCTION, _OP_FUNCTION_END = 54, 56
_MODE_LOCAL_SIZE, _MODE_SUBGROUP_SIZE = 17, 35
_KERNEL_MODEL = 6

#: Bytes of a scalar parameter by Triton's type text.
_SCALAR_BYTES = {
    **{f"{sign}{bits}": bits // 8 for sign in "iu" for bits in (8, 16, 32, 64)},
    "i1": 1,
    "u1": 1,
    "fp16": 2,
    "bf16": 2,
    "fp32": 4,
    "fp64": 8,
}


@value_class(frozen=True, slots=True)
class EntryPoint:
    """A kernel of a module.

    Attributes:
        name: the entry's name.
        parameters: one text each: `pointer`, `int64`, `float32`, or `other`.
        local_size: the block that the module demands, or None.
        subgroup_size: the warp that the module demands, or None.
        fp64: the module computes in float64.
    """

    name: str
    parameters: tuple[str, ...]
    local_size: tuple[int, int, int] | None
    subgroup_size: int | None
    fp64: bool = False


def is_spirv(binary: bytes) -> bool:
    """Return whether bytes begin as a module does."""
    return binary[:4] == _MAGIC.to_bytes(4, "little")


def _words(binary: bytes, max_version: tuple[int, int]) -> array[int]:
    """The module as words of this machine, its header checked."""
    if len(binary) < 4 * _HEADER_WORDS:
        raise LoadError(f"not a SPIR-V module: {len(binary)} bytes are less than its header.")
    if len(binary) % 4:
        raise LoadError(f"not a whole SPIR-V module: {len(binary)} bytes are not a multiple of 4.")
    words = array("I", binary)
    if words.itemsize != 4:  # no platform that Python 3.11 runs on
        raise LoadError("this machine's unsigned int is not 4 bytes; SPIR-V cannot be read on it.")
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != _MAGIC:
        raise LoadError(
            f"not a SPIR-V module: it begins with {binary[:4].hex()}, not with the magic 03022307."
        )
    version = (words[1] >> 16 & 0xFF, words[1] >> 8 & 0xFF)
    if version > max_version or words[1] & 0xFF0000FF or version[0] != 1:
        raise LoadError(
            f"the module is SPIR-V {version[0]}.{version[1]}, the run time takes up to "
            f"{max_version[0]}.{max_version[1]}. Compile it again with this version of xtarget."
        )
    if words[3] == 0:
        raise LoadError("the SPIR-V module is damaged: its header says that it has no ids.")
    return words


def _text(words: Sequence[int]) -> str:
    """A literal string of an instruction: UTF-8, ended by a zero byte."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    end = data.find(b"\0")
    if end < 0:
        raise LoadError("the SPIR-V module is damaged: the name of an entry has no end.")
    return data[:end].decode("utf-8", "replace")


def read_entry_points(
    binary: bytes, max_version: tuple[int, int] = (1, 6)
) -> tuple[EntryPoint, ...]:
    """The kernels of a module.

    Raises:
        LoadError: the bytes are not a whole SPIR-V module of a version up to `max_version`.
    """
    words = _words(binary, max_version)
    names: dict[int, str] = {}
    types: dict[int, str] = {}
    signatures: dict[int, tuple[int, ...]] = {}
    functions: dict[int, int] = {}
    blocks: dict[int, tuple[int, int, int]] = {}
    subgroups: dict[int, int] = {}
    capabilities: set[int] = set()
    for opcode, body in _instructions_read(words):
        if len(body) < _LEAST_OPERANDS[opcode]:
            raise LoadError(f"the SPIR-V module is damaged: instruction {opcode} is too short.")
        if opcode == _OP_ENTRY_POINT and body[0] == _KERNEL_MODEL:
            names[body[1]] = _text(body[2:])
        elif opcode == _OP_EXECUTION_MODE and body[1] == _MODE_LOCAL_SIZE and len(body) >= 5:
            blocks[body[0]] = (body[2], body[3], body[4])
        elif opcode == _OP_EXECUTION_MODE and body[1] == _MODE_SUBGROUP_SIZE and len(body) >= 3:
            subgroups[body[0]] = body[2]
        elif opcode == _OP_CAPABILITY:
            capabilities.add(body[0])
        elif opcode == _OP_TYPE_INT:
            types[body[0]] = f"int{body[1]}"
        elif opcode == _OP_TYPE_FLOAT:
            types[body[0]] = f"float{body[1]}"
        elif opcode == _OP_TYPE_POINTER:
            types[body[0]] = "pointer"
        elif opcode == _OP_TYPE_FUNCTION:
            signatures[body[0]] = tuple(body[2:])
        elif opcode == _OP_FUNCTION:
            functions[body[1]] = body[3]
    return tuple(
        EntryPoint(
            name,
            tuple(types.get(t, "other") for t in signatures.get(functions.get(function, 0), ())),
            blocks.get(function),
            subgroups.get(function),
            _CAPABILITY_FLOAT64 in capabilities,
        )
        for function, name in names.items()
    )


#: The instructions that are read, and how many operands they have at least.
_LEAST_OPERANDS = {
    _OP_ENTRY_POINT: 3,
    _OP_EXECUTION_MODE: 2,
    _OP_CAPABILITY: 1,
    _OP_TYPE_INT: 3,
    _OP_TYPE_FLOAT: 2,
    _OP_TYPE_POINTER: 3,
    _OP_TYPE_FUNCTION: 2,
    _OP_FUNCTION: 4,
    _OP_FUNCTION_END: 0,
}


def _instructions_read(words: array[int]) -> Iterator[tuple[int, array[int]]]:
    """(opcode, operands) of the instructions of `_LEAST_OPERANDS`. The others, thousands, are
    stepped over.
    """
    at, end, read, opcode = _HEADER_WORDS, len(words), _LEAST_OPERANDS, 0
    while at < end:
        head = words[at]
        following = at + (head >> 16)
        if following == at or following > end:
            raise LoadError(
                f"the SPIR-V module is damaged: the instruction at byte {4 * at} of {4 * end} "
                + ("has no length." if following == at else "goes past the end.")
            )
        opcode = head & 0xFFFF
        if opcode in read:
            yield opcode, words[at + 1 : following]
        at = following
    if opcode != _OP_FUNCTION_END:
        raise LoadError("the SPIR-V module is cut off: it does not end with the end of a function.")


def _same_size(found: str, type_: str) -> bool:
    if type_.startswith("*"):
        return found in ("pointer", "int64")  # a compiler option passes pointers as integers
    bits = found.removeprefix("int").removeprefix("float")
    return bits.isdigit() and int(bits) == 8 * _SCALAR_BYTES.get(type_, 0)


def check_spirv(
    artifact: Artifact, target: Target, device: str, max_version: tuple[int, int], *, fp64: bool
) -> EntryPoint:
    """The artifact's entry, when its binary is what the artifact says.

    Args:
        artifact: what is to be loaded.
        target: what the device takes.
        device: the device's name, for messages.
        max_version: the newest SPIR-V that the run time takes.
        fp64: the device has float64.

    Raises:
        LoadError: another format or target, a damaged module, no such entry, other parameters, or
            it needs float64 where there is none.
    """
    what = f"{artifact.entry} cannot be loaded on {device}"
    if artifact.format != "spirv":
        raise LoadError(
            f"{what}: the artifact is {artifact.format} for {artifact.target}, the device takes "
            f"spirv. Compile the kernel for {target}."
        )
    if artifact.target.vendor != target.vendor:
        raise LoadError(
            f"{what}: it was compiled for {artifact.target}. Compile the kernel for {target}."
        )
    try:
        entries = read_entry_points(artifact.binary, max_version)
    except LoadError as error:
        raise LoadError(f"{what}: {error} Compile the kernel again.") from error
    entry = next((e for e in entries if e.name == artifact.entry), None)
    if entry is None:
        there = ", ".join(e.name for e in entries) or "none"
        raise LoadError(f"{what}: the module has no such entry. Its entries: {there}.")
    if entry.fp64 and not fp64:
        raise LoadError(
            f"{what}: the kernel computes in float64, which this device does not have. Use float32 "
            "arrays and constants, or another device (`xtarget devices`)."
        )
    types = [p.type for p in artifact.parameters]
    if len(types) != len(entry.parameters) or not all(map(_same_size, entry.parameters, types)):
        raise LoadError(
            f"{what}: the artifact lists the parameters ({', '.join(types)}), the module has "
            f"({', '.join(entry.parameters)}). Compile the kernel again."
        )
    return entry


def check_local_size(artifact: Artifact, entry: EntryPoint) -> None:
    """Compare the artifact's block with the one that its module demands.

    Raises:
        LaunchError: they differ.
    """
    if entry.local_size is not None and entry.local_size != artifact.block:
        raise LaunchError(
            f"{artifact.entry}: the artifact's block is {artifact.block}, its module demands "
            f"{entry.local_size}. Compile the kernel again."
        )
