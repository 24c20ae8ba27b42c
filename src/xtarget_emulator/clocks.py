"""Scalar instructions that ask the hardware something: its clocks, and which unit a wave runs on.

Source: AMD, "CDNA3", "RDNA3" and "RDNA4" ISA, S_MEMTIME, S_MEMREALTIME, S_SENDMSG_RTN, S_GETREG.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .decode import Instruction
from .operands import unsupported
from .valu import Step
from .waves import SGPR, Waves

__all__ = ["build"]

_TICK_NS = 10  # the constant clock of all of them has 100 MHz
#: s_sendmsg_rtn: MSG_RTN_GET_REALTIME.
_ASK_TIME = 0x83
#: Hardware registers by number: a clock's lower 20 (RDNA3) or 32 bits, its upper ones, and places
#: of which there is one here (CDNA's HW_ID and XCC_ID, RDNA's HW_ID1 and HW_ID2).
_CLOCK, _CLOCK_HIGH, _PLACES = 29, 30, {True: (4, 20), False: (23, 24)}


def build(ins: Instruction) -> Step | None:
    """The step; None when the instruction is none of these."""
    name, fields = ins.mnemonic, ins.fields
    if name in ("s_memtime", "s_memrealtime"):
        return _ask(fields["sdata"], 2, _ticks)
    if name.startswith("s_sendmsg_rtn_b"):
        if fields["ssrc0"] != _ASK_TIME:
            raise unsupported(ins, f"message 0x{fields['ssrc0']:x}")
        return _ask(fields["sdst"], int(name[-2:]) // 32, _ticks)
    if name == "s_getreg_b32":
        return _ask(fields["sdst"], 1, _register(ins))
    return None


def _ticks() -> int:
    return time.perf_counter_ns() // _TICK_NS


def _register(ins: Instruction) -> Callable[[], int]:
    number, first = ins.fields["simm16"] & 63, ins.fields["simm16"] >> 6 & 31
    ones = (2 << (ins.fields["simm16"] >> 11)) - 1
    if number == _CLOCK and not ins.cdna:
        bits = 32 if ins.arch == "gfx1201" else 20
        return lambda: (_ticks() & (1 << bits) - 1) >> first & ones
    if number == _CLOCK_HIGH and ins.arch == "gfx1201":
        return lambda: _ticks() >> 32 + first & ones
    if number in _PLACES[ins.cdna]:
        return lambda: 0
    raise unsupported(ins, f"hardware register {number}")


def _ask(register: int, words: int, value: Callable[[], int]) -> Step:
    """A step that puts the same value into every wave's scalar register (pair)."""

    def step(w: Waves) -> None:
        found = value()
        for i in range(words):
            w.s[register + i] = np.uint32(found >> 32 * i & 0xFFFFFFFF)
            w.undefined.pop(SGPR + register + i, None)

    return step
