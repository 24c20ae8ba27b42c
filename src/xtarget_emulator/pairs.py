"""VOPD: two operations in one instruction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decode import Instruction
from .masks import blank_choice
from .memory import Array
from .operands import Put, unsupported, vector_put
from .valu import Step, sources
from .vector import ALU
from .waves import VCC, Waves

__all__ = ["build", "halves"]


def build(ins: Instruction) -> Step | None:
    """The step of a dual instruction, whose halves read before either writes."""
    if ins.format != "vopd":
        return None
    steps = [_half_of_pair(half) for half in halves(ins)]
    (compute_x, put_x, blank_x, write_x), (compute_y, put_y, blank_y, write_y) = steps

    def step(w: Waves) -> None:
        x, y = compute_x(w), compute_y(w)
        bad_x, bad_y = blank_x(w), blank_y(w)
        put_x(w, x)
        put_y(w, y)
        w.mark(bad_x, write_x)
        w.mark(bad_y, write_y)

    return step


def halves(ins: Instruction) -> list[Instruction]:
    """The two operations as instructions."""
    found = []
    for half, name in (("x", ins.mnemonic), ("y", ins.second)):
        register = ins.fields["vdst" + half]
        if half == "y":
            register = register << 1 | (ins.fields["vdstx"] & 1 ^ 1)
        fields = {
            "src0": ins.fields["src" + half + "0"],
            "vsrc1": ins.fields["vsrc" + half + "1"],
            "vdst": register,
        }
        found.append(
            Instruction(ins.address, ins.size, name, "vop2", ins.arch, fields, ins.literal)
        )
    return found


def _half_of_pair(
    ins: Instruction,
) -> tuple[Callable[[Waves], Array], Put, Callable[[Waves], Array | None], tuple[int, ...]]:
    """Its value, where that goes, the lanes that get nothing, and the register."""
    register = ins.fields["vdst"]
    if ins.mnemonic == "v_cndmask_b32":
        a, b = sources(ins, ("u32", "u32"))
        put = vector_put(ins, register, "u32")

        def choose(w: Waves) -> Array:
            return np.where(w.read_mask(VCC), b.get(w), a.get(w))

        def blank(w: Waves) -> Array | None:
            if not w.undefined:
                return None
            return blank_choice(w, a, b, w.read_mask(VCC), w.unknown_mask(VCC))

        return choose, put, blank, (register,)
    rule = ALU.get(ins.mnemonic)
    if rule is None:
        raise unsupported(ins, "as half of a dual instruction")
    result, kinds, function = rule
    found = sources(ins, kinds)
    put = vector_put(ins, register, result)

    def compute(w: Waves) -> Array:
        # copied, as it may be a view of the register that the other half writes
        return np.array(function(*(s.get(w) for s in found)))

    reads = tuple(r for s in found for r in s.reads)
    return compute, put, lambda w: w.blank(reads), (register,)
