"""Find which halves of the operands each half of a 64-bit result depends on.

LLVM leaves a half of a pair unwritten where no bit that it uses depends on it. Of an address it may
take only the lower half of v_mad_u64_u32, whose addend then has no upper half. To call the whole
result undefined would be a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .waves import Flow

__all__ = ["flow"]

#: The lower half depends on lower halves only: carries go up.
_UP = re.compile(
    r"^[vs]_(?:(?:add|sub|mul)(?:_nc|_lo)?_u64|lshl(?:rev)?_b64|lshl_add_u64|mad_[ui]64_[ui]32)$"
)
#: The upper half depends on upper halves only.
_DOWN = re.compile(r"^[vs]_(?:lshr(?:rev)?_b64|ashr(?:rev)?_i64)$")
#: Each half depends on the same half of the operands.
_APART = re.compile(
    r"^[vs]_(?:mov|not|and|or|xor|xnor|nand|nor|and_not1|or_not1|cselect|cmov)_b64$"
)


def flow(name: str, operands: Sequence[tuple[int, ...]], writes: tuple[int, ...]) -> Flow:
    """Return which registers of the result depend on which registers of the operands.

    Args:
        name: the mnemonic.
        operands: the registers of each; a pair's lower one first, none for a constant.
        writes: the registers of the result.
    """
    every = tuple(register for reads in operands for register in reads)
    if len(writes) != 2:
        return ((every, writes),)
    low, high = ((writes[0],), (writes[1],))
    lower = tuple(reads[0] for reads in operands if reads)
    # an operand of one register (a shift's amount, a factor) has a part in both halves
    upper = tuple(reads[-1] for reads in operands if reads)
    if _UP.match(name):
        return ((lower, low), (every, high))
    if _DOWN.match(name):
        return ((every, low), (upper, high))
    if _APART.match(name):
        return ((lower, low), (upper, high))
    return ((every, writes),)
