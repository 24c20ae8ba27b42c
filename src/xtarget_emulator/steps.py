"""From an instruction to the step that executes it.

A kernel may set the mode in which an overflow to half precision or less gives the largest number;
then there are two steps for what that has an effect on.
"""

from __future__ import annotations

import re
from dataclasses import replace

from xtarget._values.errors import UnsupportedInstruction

from . import (
    bits as definedness,
)
from . import (
    clocks,
    conversions,
    lds,
    masks,
    matrix,
    moves,
    operands,
    packed,
    pairs,
    scalar,
    valu,
    vmem,
)
from .decode import Instruction
from .operands import unsupported
from .ordering import wait_step
from .valu import Step
from .waves import Waves

__all__ = ["MODES", "NOTHING", "step_of"]

_BUILDERS = (
    pairs.build, masks.build, valu.build, clocks.build, conversions.build, scalar.build, vmem.build,
    lds.build, moves.build, packed.build, matrix.build,
)  # fmt: skip
#: What has no effect on values where instructions complete at once.
NOTHING = {
    "s_nop", "s_clause", "s_delay_alu", "s_waitcnt", "s_waitcnt_depctr", "s_waitcnt_vmcnt",
    "s_waitcnt_vscnt", "s_wait_alu",
    "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt",
    "s_wait_storecnt_dscnt", "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_expcnt", "s_wait_idle",
    "s_sleep", "s_sleep_var", "s_wait_event", "s_setprio", "s_sendmsg", "s_sethalt",
    "s_inst_prefetch", "s_set_inst_prefetch_distance", "s_icache_inv", "s_ttracedata",
    "s_ttracedata_imm", "s_incperflevel", "s_decperflevel", "s_wakeup", "s_code_end",
}  # fmt: skip
MODES = ("s_setreg_b32", "s_setreg_imm32_b32")
#: HW_REG_MODE, and its bits: rounding (0 is to nearest even), subnormals (1 keeps them), FP16_OVFL.
_MODE, _ROUNDING, _SUBNORMALS, _OVERFLOW = 1, range(4), range(4, 8), 23
#: What has a result of half precision or less.
_NARROW = re.compile(
    r"^v_(?!cmp|cvt|mfma|wmma_f32|dot2_f32)\w*_f16$|^v_cvt_(pk_|pkrtz_)?f16_|"
    r"^v_cvt_\w*(fp8|bf8|fp6|bf6|fp4)_\w*f(32|16)$|^v_cvt_scalef32_\w*f16_|^v_wmma_f16|"
    r"^v_fma_mix(lo|hi)_f16$"
)
_SCALAR_HALF = re.compile(r"^s_(add|sub|mul|fmac)_f16$|^s_cvt_(pk_rtz_)?f16_|^v_s_\w*_f16$")


def step_of(ins: Instruction, clamps: bool) -> Step:
    """Return the step; for an unsupported instruction, a step that says so when it is reached.

    Args:
        clamps: the kernel sets modes, so that `Waves.saturates` may be on.
    """
    if ins.mnemonic in NOTHING:
        return wait_step(ins) or (lambda w: None)
    try:
        if ins.mnemonic in ("s_barrier_signal", *MODES):
            return _state(ins)
        step = _built(ins)
        if step is not None and clamps and _SCALAR_HALF.search(ins.mnemonic):
            raise unsupported(ins, "where an overflow mode is set")
        if step is not None and clamps and _NARROW.search(ins.mnemonic):
            return _by_mode(step, _built(replace(ins, saturates=True)))
        if step is not None:
            return step
        error = unsupported(ins)
    except UnsupportedInstruction as refused:
        error = refused
    except KeyError as missing:
        error = unsupported(ins, f"a form without {missing}")

    def refuse(w: Waves) -> None:
        raise error

    return refuse


def _built(ins: Instruction) -> Step | None:
    step = next((step for build in _BUILDERS if (step := build(ins)) is not None), None)
    return None if step is None else definedness.refined(ins, step)


def _by_mode(plain: Step, saturating: Step | None) -> Step:
    assert saturating is not None
    return lambda w: (saturating if w.saturates else plain)(w)


def _state(ins: Instruction) -> Step:
    if ins.mnemonic == "s_barrier_signal":
        # the workgroup's barrier, -1
        if ins.fields["ssrc0"] != 193:
            raise unsupported(ins, "a named barrier")

        def signal(w: Waves) -> None:
            w.signalled = True

        return signal
    register, first = ins.fields["simm16"] & 63, ins.fields["simm16"] >> 6 & 31
    bits = range(first, first + (ins.fields["simm16"] >> 11) + 1)
    if register != _MODE or not set(bits) <= {*_ROUNDING, *_SUBNORMALS, _OVERFLOW}:
        raise unsupported(ins, "a change of another mode")
    if ins.mnemonic == "s_setreg_imm32_b32":
        assert ins.literal is not None
        literal = ins.literal
        _check_modes(ins, literal, bits)
        return lambda w: _switch(w, literal, bits)
    found = operands.plain(ins, ins.fields["sdst"], "u32")

    def switch_to(w: Waves) -> None:
        w.demand(found.reads, "as a mode", everywhere=True)
        value = found.get(w)
        if (value != value[0]).any():
            raise unsupported(ins, "to modes that differ between warps")
        _check_modes(ins, int(value[0, 0]), bits)
        _switch(w, int(value[0, 0]), bits)

    return switch_to


def _check_modes(ins: Instruction, value: int, bits: range) -> None:
    """The modes that are always on here may be set again, as LLVM does."""
    for place, bit in enumerate(bits):
        on = value >> place & 1
        if (bit in _ROUNDING and on) or (bit in _SUBNORMALS and not on):
            raise unsupported(ins, "a change of the rounding or denormal mode")


def _switch(w: Waves, value: int, bits: range) -> None:
    if _OVERFLOW in bits:
        w.saturates = bool(value >> bits.index(_OVERFLOW) & 1)
