"""The targets and conditions of branches, and the contents of the loops that they form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .decode import Instruction
from .memory import Array
from .ordering import bypasses
from .waves import EXEC, SCC, SGPR, VCC, Waves

__all__ = ["BRANCHES", "Condition", "condition", "loops_over", "target"]

BRANCHES = {"s_branch", "s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz",
             "s_cbranch_execz", "s_cbranch_execnz"}  # fmt: skip
#: Which of the waves go to the branch's target.
Condition: TypeAlias = Callable[[Waves], Array]
_DECIDES = "to decide where to go on"


def loops_over(instructions: list[Instruction]) -> bool:
    """Does a loop have an instruction that sees what other blocks do meanwhile: an atomic operation
    on global memory, or a load that passes by the caches?"""
    seen = [
        i.address
        for i in instructions
        if i.format in ("global", "flat", "mubuf")
        and ("_atomic_" in i.mnemonic or ("_load_" in i.mnemonic and bypasses(i)))
    ]
    return any(
        any(target(branch) <= at < branch.address for at in seen)
        for branch in instructions
        if branch.mnemonic in BRANCHES
    )


def target(ins: Instruction) -> int:
    offset = ins.fields["simm16"]
    return ins.address + 4 + 4 * (offset - (offset >> 15 << 16))


def condition(ins: Instruction) -> Condition | None:
    """Return a branch's condition; None if `ins` is not a branch, or if all waves take it.

    The condition raises Unknown where it depends on a register that was never written.
    """
    name = ins.mnemonic
    if name.startswith("s_cbranch_scc"):
        wanted = name.endswith("1")

        def flag(w: Waves) -> Array:
            w.demand((SCC,), _DECIDES, everywhere=True)
            return w.scc if wanted else ~w.scc

        return flag
    if name.startswith("s_cbranch_"):
        register = EXEC if "exec" in name else VCC
        zero = name.endswith(("ecz", "ccz"))

        def test(w: Waves) -> Array:
            value = w.s[register]
            if w.lanes == 64:
                value = value | w.s[register + 1]
            empty: Array = value == 0
            if register == VCC:
                _decided(w)
            return empty if zero else ~empty

        return test
    return None


def _decided(w: Waves) -> None:
    """Raises Unknown where VCC is 0 or not by bits that hold nothing."""
    unknown = w.unknown_mask(VCC)
    if unknown is None:
        return
    wrong = unknown & ~(w.read_mask(VCC) & ~unknown).any(axis=1)[:, None]
    if wrong.any():
        raise w.unknown(SGPR + VCC, _DECIDES, *divmod(int(np.argmax(wrong)), w.lanes))
