"""The loads that belong to a compare-and-swap.

LLVM makes an atomic operation that the arch does not have of a load and swaps that are retried
until no one comes between them; one on 16 bits becomes one on their word.
"""

from __future__ import annotations

from dataclasses import replace

from . import pairs
from .decode import Instruction

__all__ = ["with_swaps"]


def with_swaps(instructions: list[Instruction]) -> list[Instruction]:
    """Note which loads may belong to a compare-and-swap."""
    swaps = [n for n, i in enumerate(instructions) if "_atomic_cmpswap_b" in i.mnemonic]
    retried = {_first_try(instructions, number) for number in swaps}
    words = any(instructions[n].mnemonic.endswith("_b32") for n in swaps)
    return [
        replace(
            i, whole_words=words and i.mnemonic.endswith("_load_b32"), retried=number in retried
        )
        if swaps and "_load_b" in i.mnemonic
        else i
        for number, i in enumerate(instructions)
    ]


def _first_try(instructions: list[Instruction], number: int) -> int | None:
    """Return which instruction loads what a swap compares with; None if none does."""
    swap = instructions[number]
    bits = swap.mnemonic.rpartition("_")[2]
    register = swap.fields["data"] + (2 if bits == "b64" else 1)  # behind the new value
    for before in range(number - 1, -1, -1):
        ins = instructions[before]
        if ins.mnemonic.startswith(("v_cmp", "v_read")):  # to scalar registers
            continue
        for part in pairs.halves(ins) if ins.format == "vopd" else (ins,):
            copied = _copies(part)
            if register in copied:
                break
            loads = "_load_" in part.mnemonic
            slot = "data" if loads and part.format == "mubuf" else "vdst"
            if part.fields.get(slot) == register:
                wanted = part.format in ("global", "flat", "mubuf")
                wanted &= part.mnemonic.endswith(f"_load_{bits}")
                return before if wanted else None
        else:
            continue
        source = copied[register]
        if source < 256:  # where all lanes have one place
            return _scalar_load(instructions[:before], source, bits)
        register = source - 256
    return None


def _copies(ins: Instruction) -> dict[int, int]:
    """By vector register that an instruction copies to: the operand, by its code."""
    fields = ins.fields
    if ins.mnemonic == "v_mov_b32":
        return {fields["vdst"]: fields["src0"]}
    if ins.mnemonic == "v_mov_b64":
        return {fields["vdst"] + i: fields["src0"] + i for i in range(2)}
    if ins.mnemonic == "v_pk_mov_b32":
        high = fields["opsel"]
        return {fields["vdst"] + i: fields[f"src{i}"] + (high >> i & 1) for i in range(2)}
    return {}


def _scalar_load(instructions: list[Instruction], register: int, bits: str) -> int | None:
    """Return which of them loads a scalar register last; None if another one writes it."""
    for number, ins in reversed(list(enumerate(instructions))):
        fields = ins.fields
        if ins.format == "smem" and fields.get("sdata") == register:
            return number if ins.mnemonic == f"s_load_{bits}" else None
        if ins.format.startswith("sop") and fields.get("sdst") == register:
            if ins.mnemonic != "s_mov_b32":
                return None
            register = fields["ssrc0"]
        if ins.mnemonic.startswith("v_read") and fields.get("vdst") == register:
            return None
    return None
