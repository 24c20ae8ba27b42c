"""One wave, to execute single instructions on registers of known contents.

The instructions are put together by tinygrad's encoders, from which the emulator decodes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xtarget_emulator.decode import GENERATIONS, decode
from xtarget_emulator.group import Group
from xtarget_emulator.memory import Arena
from xtarget_emulator.steps import step_of
from xtarget_emulator.waves import EXEC, SGPR, Waves

_REGISTERS, _LDS_BYTES = 128, 1024


def wave(arch: str) -> Waves:
    """A wave with all registers undefined and zeros in LDS."""
    lanes = 64 if arch.startswith("gfx9") else 32
    scratch = np.zeros((1, lanes, 0), np.uint8)
    group = Group(Arena(1 << 20), np.zeros((1, 3), np.int64), 1, _LDS_BYTES, scratch)
    group.lds[:] = 0
    group.lds_blank[:] = False
    group.lds_blank_left = False
    return Waves.fresh(group, np.zeros(1, np.int64), _REGISTERS, _REGISTERS, lanes)


def encoded(arch: str, name: str, *operands: Any, **fields: int) -> bytes:
    """An instruction's bytes. Operands as `v3`, `s[4:5]`, or numbers."""
    from tinygrad.renderer.amd import dsl

    module = importlib.import_module(
        f"tinygrad.runtime.autogen.amd.{GENERATIONS[arch]}.ins",
    )
    values = []
    for operand in operands:
        if isinstance(operand, str):
            kind, _, rest = operand.partition("[")
            bank = getattr(dsl, kind[0])
            if rest:
                first, _, last = rest.rstrip("]").partition(":")
                values.append(bank[int(first) : int(last)])
            else:
                values.append(bank[int(kind[1:])])
        else:
            values.append(operand)
    form = next(
        getattr(module, name + end) for end in ("", "_e64", "_e32") if hasattr(module, name + end)
    )
    result: bytes = form(*values, **fields).to_bytes()
    return result


def put(w: Waves, vector: Mapping[int, Any] = {}, scalar: Mapping[int, int] = {}) -> None:
    """Give registers their contents; a vector register's as 32-bit elements."""
    for register, values in vector.items():
        array = np.asarray(values)
        w.vu[register][0] = np.resize(array.view(np.uint32), w.lanes)
        w.undefined.pop(register, None)
    for number, value in scalar.items():
        w.s[number] = np.uint32(value)
        w.undefined.pop(SGPR + number, None)
        if number in (EXEC, EXEC + 1):
            w.set_exec()


def execute(arch: str, w: Waves, code: bytes, saturates: bool = False) -> None:
    """Execute instructions."""
    w.saturates = saturates
    with np.errstate(all="ignore"):
        for instruction in decode(code, arch):
            step_of(instruction, True)(w)
