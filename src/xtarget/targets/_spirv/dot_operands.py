"""Where the operands of a dot that became a loop lie in shared memory, in LLVM IR."""

from __future__ import annotations

import re

__all__ = ["ADDRESS", "place_operands"]

#: The function that gives the address of a byte of the memory for operands; a number may follow.
ADDRESS = "xt_operand_address"

_CALL = re.compile(
    rf"\s*(%[\w.$-]+) = (?:tail )?call i64 @{ADDRESS}(?:\.\d+)?\(i64 (?:\w+ )*(\d+)\)"
)
_POINTER = re.compile(r"\s*(%[\w.$-]+) = inttoptr i64 (%[\w.$-]+) to ptr addrspace\(1\)")
_DERIVED = re.compile(r"\s*(%[\w.$-]+) = getelementptr .*?ptr addrspace\(1\) (%[\w.$-]+)")
_USE = re.compile(r"ptr addrspace\(1\) (%[\w.$-]+)")


def place_operands(lines: list[str], start: int) -> list[str]:
    """LLVM IR in which the addresses that `ADDRESS` gives, and all that is derived from them, are
    places in shared memory, from byte `start` of it on.
    """
    if not any(f"@{ADDRESS}" in line for line in lines):
        return lines
    result: list[str] = []
    places: dict[str, int] = {}
    derived: set[str] = set()

    def retyped(match: re.Match[str]) -> str:
        return f"ptr addrspace(3) {match[1]}" if match[1] in derived else match[0]

    for line in lines:
        if line.startswith("define "):  # each function has its own names
            places, derived = {}, set()
        if match := _CALL.match(line):
            places[match[1]] = start + int(match[2])
        elif f"@{ADDRESS}" in line:
            continue  # its declaration
        elif (match := _POINTER.match(line)) and match[2] in places:
            derived.add(match[1])
            shared = f"ptr addrspace(3) @global_smem, i64 {places[match[2]]}"
            result.append(f"  {match[1]} = getelementptr i8, {shared}")
        else:
            if (match := _DERIVED.match(line)) and match[2] in derived:
                derived.add(match[1])
            result.append(_USE.sub(retyped, line) if derived else line)
    return result
