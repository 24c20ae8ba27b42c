"""Definitions, in LLVM IR, of the functions that a kernel calls and OpenCL lacks.

Intrinsics that SPIR-V lacks were renamed from `llvm.…` to `xt.…`, so they are plain functions; here
they and AMD's device library are defined through OpenCL's built-in functions, and linked. A family
(`intrinsics`, `crosslane`, ...) gives the definition for a name or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..llvm import asserts, atomics, bfloat
from ..llvm.ir import Instruction
from ..llvm.reader import read
from . import (
    arithmetic,
    bessel,
    crosslane,
    directed,
    exponentials,
    intrinsics,
    libdevice_amd,
    libdevice_nvidia,
    special,
)

__all__ = ["assemble", "is_ours", "original_name"]

_FAMILIES: tuple[Callable[[str, int], str | None], ...] = (
    intrinsics.define,
    crosslane.define,
    libdevice_amd.define,
    libdevice_nvidia.define,
    directed.define,
    exponentials.define,
    bessel.define,
    arithmetic.define,
    bfloat.define,
    atomics.define,
    asserts.define,
    special.define,
)

#: Built-in functions whose result depends on which threads of the sub-group take part.
_CONVERGENT = ("barrier", "shuffle", "broadcast")


def is_ours(name: str) -> bool:
    """Return whether the function of that name must be defined here."""
    return name.startswith(("xt.", "__ocml_", "__ockl_", "__nv_", "llvm.amdgcn."))


def original_name(name: str) -> str:
    """The name as Triton's LLVM IR had it, for messages."""
    return "llvm." + name.removeprefix("xt.") if name.startswith("xt.") else name


def assemble(names: Iterable[str], warp_size: int, *, late: bool = False) -> tuple[str, list[str]]:
    """A module that defines `names` and all of ours that they call.

    Args:
        names: of functions.
        warp_size: of the kernel.
        late: also define what must stay a call until the optimiser is done (see `arithmetic`).

    Returns:
        LLVM IR, and the names that have no definition.
    """
    todo = sorted(set(names))
    definitions: dict[str, str] = {}
    declarations: dict[str, str] = {}
    unknown: list[str] = []
    while todo:
        name = todo.pop()
        if name in definitions or name in declarations:
            continue
        if not late and name.startswith("xt.late."):
            continue
        text = next((t for family in _FAMILIES if (t := family(name, warp_size))), None)
        if text is None:
            unknown.append(name)
            continue
        definitions[name] = text
        for call in (one for one in read(text).code() if one.callee):
            callee = call.callee
            if is_ours(callee) and (late or not callee.startswith("xt.late.")):
                todo.append(callee)
            elif callee not in declarations:
                declarations[callee] = _declaration(call)
    return "\n".join([*definitions.values(), *declarations.values()]) + "\n", sorted(unknown)


def _declaration(call: Instruction) -> str:
    """The `declare` line of a function, from a call of it."""
    convention = "spir_func " if "spir_func" in call.parts.convention else ""
    types = ", ".join(operand.type for operand in call.operands)
    return f"declare {convention}{call.type} @{call.callee}({types}){_attributes(call.callee)}"


def _attributes(name: str) -> str:
    if name.startswith("llvm."):
        return ""
    if any(word in name for word in _CONVERGENT):
        return " convergent nounwind"
    return " nounwind willreturn memory(none)"
