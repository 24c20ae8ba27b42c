"""Where branches lead, when, and what lies in the loops that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .decode import Instruction
from .memory import Array
from .waves import EXEC, VCC, Waves

__all__ = ["BRANCHES", "Condition", "condition", "loops_over", "target"]

BRANCHES = {"s_branch", "s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz",
             "s_cbranch_execz", "s_cbranch_execnz"}  # fmt: skip
#: Which of the waves go to the branch's target.
Condition: TypeAlias = Callable[[Waves], Array]


def loops_over(instructions: list[Instruction]) -> bool:
    """Does a loop have an instruction that sees what other blocks do meanwhile: an atomic operation
    on global memory, or a load that passes by the caches?"""
    seen = [
        i.address
        for i in instructions
        if i.format in ("global", "flat", "mubuf")
        and ("_atomic_" in i.mnemonic or ("_load_" in i.mnemonic and _passes_caches(i)))
    ]
    return any(
        any(target(branch) <= at < branch.address for at in seen)
        for branch in instructions
        if branch.mnemonic in BRANCHES
    )


def _passes_caches(load: Instruction) -> bool:
    fields = load.fields
    return bool(fields.get("glc") or fields.get("sc1") or fields.get("scope", 0) > 1)


def target(ins: Instruction) -> int:
    offset = ins.fields["simm16"]
    return ins.address + 4 + 4 * (offset - (offset >> 15 << 16))


def condition(ins: Instruction) -> Condition | None:
    name = ins.mnemonic
    if name.startswith("s_cbranch_scc"):
        wanted = name.endswith("1")
        return lambda w: w.scc if wanted else ~w.scc
    if name.startswith("s_cbranch_"):
        register = EXEC if "exec" in name else VCC
        zero = name.endswith(("ecz", "ccz"))

        def test(w: Waves) -> Array:
            value = w.s[register]
            if w.lanes == 64:
                value = value | w.s[register + 1]
            empty: Array = value == 0
            return empty if zero else ~empty

        return test
    return None
