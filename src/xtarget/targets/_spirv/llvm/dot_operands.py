"""Place the operands of a dot that became a loop in shared memory, in LLVM IR."""

from __future__ import annotations

from .ir import Function, Instruction, Module
from .reader import instructions
from .text import ADDRESS
from .types import MEMORY, IRError

__all__ = ["place_operands"]


def place_operands(module: Module) -> None:
    """The addresses that `ADDRESS` gives, and all that is derived from them, become places in
    shared memory, behind the kernel's own.
    """
    if any(_is_address(line.name) for line in module.lines("declare")):
        for function in module.functions:
            _place(function, module.layout.operands_at)
        module.drop(lambda line: line.kind == "declare" and _is_address(line.name))


def _is_address(name: str) -> bool:
    return name == ADDRESS or (name.startswith(f"{ADDRESS}.") and name.rpartition(".")[2].isdigit())


def _place(function: Function, start: int) -> None:
    places: dict[str, int] = {}
    shared: dict[str, str] = {}  # types of the addresses there

    def change(one: Instruction) -> list[Instruction] | None:
        if _is_address(one.callee):
            places[one.name] = start + int(one.values[0])
            return []
        if one.op == "inttoptr" and one.values[0] in places and one.type.space == 1:
            shared[one.name] = "ptr addrspace(3)"
            place = f"ptr addrspace(3) @global_smem, i64 {places[one.values[0]]}"
            return instructions(f"  {one.name} = getelementptr i8, {place}")
        if not shared or "ptr addrspace(1) %" not in one.text:
            return None
        used = [operand.value for operand in one.operands if operand.value in shared]
        if not used:
            return None
        if one.op == "getelementptr" and used == one.values[:1]:
            shared[one.name] = "ptr addrspace(3)"
        elif one.op not in MEMORY and one.op != "ptrtoint":
            raise IRError(f"an address of a dot's operand in {one.op}", one.text)
        return [one.with_types(shared)]

    function.rewrite(change)
