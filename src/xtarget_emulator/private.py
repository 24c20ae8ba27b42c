"""Private memory (scratch): each lane has its own; registers are spilled to it."""

from __future__ import annotations

import numpy as np

from . import shadow
from .access import NAME, SIZES, load_part
from .decode import Instruction
from .memory import Fault
from .operands import Source, plain
from .valu import Step
from .waves import ACC, Waves

__all__ = ["SWIZZLED", "buffer", "build"]

#: In the second word of a buffer's description: it is all lanes' private memory.
SWIZZLED = 1 << 31


def build(ins: Instruction) -> Step | None:
    """The step of a scratch instruction; None when it is none of these."""
    off = 127 if ins.cdna else 124
    fields = ins.fields
    parts = []
    if fields["saddr"] != off:
        parts.append((plain(ins, fields["saddr"], "u32"), 0))
    if fields.get("sve"):
        parts.append((plain(ins, 256 + fields["addr"], "u32"), 0))
    return _access(ins, parts, "vdst")


def buffer(ins: Instruction) -> Step | None:
    """The same for gfx90a's way, a buffer instruction on the buffer of all lanes' memory."""
    fields = ins.fields
    # an offset that is not a lane's own counts in bytes of the whole wave
    parts = [(plain(ins, fields["soffset"], "u32"), 6)]
    if fields["offen"]:
        parts.append((plain(ins, 256 + fields["addr"], "u32"), 0))
    return _access(ins, parts, "data")


def _access(ins: Instruction, parts: list[tuple[Source, int]], loaded: str) -> Step | None:
    """A load or store at the sum of the instruction's offset and `parts`, each shifted right.

    Args:
        loaded: field of the register that a load writes to.
    """
    match = NAME.match(ins.mnemonic)
    if match is None or match[2]:
        return None
    way, _lds, d16, high, suffix = match.groups()
    nbytes, dtype = SIZES[suffix]
    fields = ins.fields
    offset = fields["offset"]
    register = fields[loaded if way == "load" else "data"]
    register += ACC if fields.get("acc") else 0
    words = max(1, nbytes // 4)

    def step(w: Waves) -> None:
        memory, unseen = w.group.scratch, w.group.scratch_blank
        place = np.full((w.count, w.lanes), offset, np.int64)
        for part, shift in parts:
            w.demand(part.reads, "as a place in private memory")
            place = place + (part.get(w) >> np.uint32(shift))
        lane = w.first((place < 0) | (place + nbytes > memory.shape[2]))
        if lane is not None:
            raise Fault(
                f"accesses private memory at {place.reshape(-1)[lane]}, beyond its "
                f"{memory.shape[2]} bytes",
                lane,
            )
        place = np.where(w.mask, place, 0)
        wave, lane_index = w.numbers[:, None], w.lane
        for i in range(words):
            row, size = w.vu[register + i], min(nbytes, 4)
            if way == "load":
                raw = np.zeros((w.count, w.lanes, size), np.uint8)
                blank = np.zeros((w.count, w.lanes, size), bool)
                for b in range(size):
                    raw[..., b] = memory[wave, lane_index, place + 4 * i + b]
                    blank[..., b] = unseen[wave, lane_index, place + 4 * i + b]
                if size < 4:
                    part_value = raw.view(dtype)[..., 0]
                    value = load_part(part_value, row, bool(d16), bool(high))
                else:
                    value = raw.view(np.uint32)[..., 0]
                np.copyto(row, value, where=w.mask)
                shadow.loaded_part(
                    w, register + i, blank, dtype if size < 4 else np.uint32, bool(d16), bool(high)
                )
            else:
                word = np.array(row >> 16 if high else row)
                raw = word.view(np.uint8).reshape(w.count, w.lanes, 4)
                octets = shadow.octets(w, register + i)
                waves, lanes = np.nonzero(w.mask)
                for b in range(size):
                    where = (w.numbers[waves], lanes, place[waves, lanes] + 4 * i + b)
                    memory[where] = raw[waves, lanes, b]
                    none = False
                    if octets is not None:
                        none = octets[waves, lanes, b + (2 if high else 0)]
                    unseen[where] = none

    return step
