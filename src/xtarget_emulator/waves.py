"""The state of waves that stand at the same instruction: registers as arrays of waves x lanes.

Waves of several blocks are stepped as one. Where a branch parts them, `take` makes two states of
one, and `join` makes one of two that meet again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .group import Group
from .memory import Array, Unknown

__all__ = ["ACC", "EXEC", "M0", "SCC", "SGPR", "VCC", "Flow", "Waves"]

#: Registers that were read, and those whose value came of them; for each part of a result.
Flow: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

#: Place of AGPR 0 among the vector registers.
ACC = 256
VCC, M0, EXEC = 106, 124, 126
_SCALARS = 128
#: In `Waves.undefined`, scalar registers have their number plus this.
SGPR = 1000
#: And the scalar condition code has this one.
SCC = SGPR + 253
#: What a register holds before it is written: as a float, a NaN.
_POISON = 0x7FF7_0BAD
_ONES = np.uint32(0xFFFFFFFF)


class Waves:
    """Registers of some waves of a group.

    Attributes:
        pc: index of the basic block they stand at.
        numbers: which waves of the batch these are.
        block: index of each one's block in the group.
        v: vector registers, registers x waves x lanes; `vu`, `vi`, `vf` are its rows as uint32,
            int32, float32.
        s: scalar registers, registers x waves; `su` are its rows as waves x 1.
        mask: active lanes, waves x lanes; `full` when all are.
        signalled: they have signalled their barrier.
        saturates: the mode FP16_OVFL is on (see `Instruction.saturates`).
        undefined: register to the lanes with bits that hold nothing yet, for registers with such
            lanes; `unknown_of` knows which bits.
        partly: register to what `undefined` had of it, and the bits that hold nothing. Whoever
            changes the first makes the second void.
        shadow: see shadow.py.
    """

    def __init__(
        self, group: Group, numbers: Array, block: Array, v: Array, s: Array, scc: Array
    ) -> None:
        self.group = group
        self.numbers = numbers
        self.block = block
        self.v, self.s, self.scc = v, s, scc
        self.pc = 0
        self.count, self.lanes = v.shape[1:]
        self.vu, self.vi, self.vf = list(v), list(v.view(np.int32)), list(v.view(np.float32))
        columns = s[:, :, None]
        self.su = list(columns)
        self.si = list(columns.view(np.int32))
        self.sf = list(columns.view(np.float32))
        self.undefined: dict[int, Array] = {}
        self.partly: dict[int, tuple[Array, Array]] = {}
        self.shadow: Waves | None = None
        self.at_barrier = -1
        self.signalled = False
        self.saturates = False
        self.full = True
        self.mask: Array = None
        self.lane: Array = np.arange(self.lanes)[None, :]
        self.set_exec()

    @property
    def state(self) -> tuple[bool, bool]:
        """The state that waves share when they are stepped together, beside their place."""
        return self.signalled, self.saturates

    @state.setter
    def state(self, state: tuple[bool, bool]) -> None:
        self.signalled, self.saturates = state

    @classmethod
    def fresh(
        cls, group: Group, block: Array, registers: int, accumulators: int, lanes: int
    ) -> Waves:
        """Waves at the start: everything undefined, all lanes active.

        Args:
            block: index of each wave's block in the group.
        """
        count = len(block)
        rows = ACC + accumulators if accumulators else registers
        v = np.full((rows, count, lanes), _POISON, np.uint32)
        s = np.full((_SCALARS, count), _POISON, np.uint32)
        s[EXEC] = 0xFFFFFFFF
        s[EXEC + 1] = 0xFFFFFFFF if lanes == 64 else 0
        waves = cls(group, np.arange(count), block, v, s, np.zeros(count, bool))
        nothing = np.ones((count, lanes), bool)
        waves.undefined = dict.fromkeys(range(rows), nothing)
        nothing = np.ones((count, 1), bool)
        waves.undefined.update(dict.fromkeys((*range(SGPR, SGPR + 126), SCC), nothing))
        return waves

    def set_exec(self) -> None:
        """Make `mask` and `full` of the EXEC register."""
        low = self.s[EXEC]
        if self.lanes == 32:
            self.full = bool((low == 0xFFFFFFFF).all())
            bits = low
        else:
            bits = np.ascontiguousarray(self.s[EXEC : EXEC + 2].T)
            self.full = bool((bits == 0xFFFFFFFF).all())
        if self.full:
            self.mask = _all_lanes(self.count, self.lanes)
        else:
            self.mask = self.lane_bits(bits)

    def put(self, register: int, value: Array) -> None:
        """Write 32-bit words to a vector register, in active lanes."""
        if self.full:
            self.vu[register][...] = value
        else:
            np.copyto(self.vu[register], value, where=self.mask)

    def first(self, wrong: Array) -> int | None:
        """The first active lane for which `wrong` holds, counted over all waves; None for none."""
        if not self.full:
            wrong = wrong & self.mask
        return int(np.argmax(wrong)) if wrong.any() else None

    def lane_bits(self, words: Array) -> Array:
        """uint32 words (waves, or waves x 2) to waves x lanes of bool."""
        raw = np.ascontiguousarray(words).reshape(self.count, -1).view(np.uint8)
        return np.unpackbits(raw, axis=1, bitorder="little").view(bool)[:, : self.lanes]

    def to_words(self, bits: Array) -> Array:
        """Waves x lanes of bool to uint32: (waves,) or (2, waves)."""
        packed = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
        return packed[:, 0] if self.lanes == 32 else packed.T

    def read_mask(self, register: int) -> Array:
        """A lane mask in a scalar register (pair), as bool."""
        if self.lanes == 32:
            return self.lane_bits(self.s[register])
        return self.lane_bits(self.s[register : register + 2].T)

    def is_partial(self, register: int) -> bool:
        """Return whether only some bits of a register hold nothing; `undefined` has its number."""
        kept = self.partly.get(register)
        return kept is not None and kept[0] is self.undefined.get(register)

    def unknown_of(self, register: int) -> Array | None:
        """The bits of a register that hold nothing, by its number in `undefined`: uint32 of waves
        x lanes, or x 1 of a scalar one; None for none."""
        found = self.undefined.get(register)
        if found is None:
            return None
        kept = self.partly.get(register)
        if kept is not None and kept[0] is found:
            return kept[1]
        return np.where(found, _ONES, np.uint32(0))

    def note_unknown(self, register: int, bits: Array) -> None:
        """Note which bits of a register hold nothing, by its number in `undefined`."""
        self.partly.pop(register, None)
        flag = bits != 0
        if not flag.any():
            self.undefined.pop(register, None)
            return
        self.undefined[register] = flag
        if (bits[flag] != _ONES).any():
            self.partly[register] = flag, bits

    def unknown_bits(self, register: int) -> Array | None:
        """The bits of a scalar register that hold nothing, uint32 of waves x 1; None for none."""
        return self.unknown_of(SGPR + register)

    def set_unknown_bits(self, register: int, bits: Array | None) -> None:
        """Note which bits of a scalar register hold nothing.

        Raises:
            Unknown: it is EXEC.
        """
        if bits is not None and register in (EXEC, EXEC + 1) and bits.any():
            wave = int(np.argmax(bits[:, 0] != 0))
            word = int(bits[wave, 0])
            lane = (word & -word).bit_length() - 1 + 32 * (register - EXEC)
            raise self.unknown(SGPR + EXEC, "to decide which lanes go on", wave, lane)
        if bits is None:
            self.undefined.pop(SGPR + register, None)
        else:
            self.note_unknown(SGPR + register, np.broadcast_to(bits, (self.count, 1)))

    def unknown_mask(self, register: int) -> Array | None:
        """The lanes whose bit of a lane mask holds nothing; None for none."""
        if not self.undefined:
            return None
        words = [self.unknown_bits(register + i) for i in range(self.lanes // 32)]
        if all(word is None for word in words):
            return None
        none = np.zeros((self.count, 1), np.uint32)
        return self.lane_bits(np.hstack([none if word is None else word for word in words]))

    def write_mask(self, register: int, bits: Array, unknown: Array | None = None) -> None:
        """A lane mask to a scalar register (pair).

        Args:
            unknown: the active lanes whose bit comes of what holds nothing.
        """
        if register == 124 and self.lanes == 32:
            return  # the null register
        words = self.to_words(np.broadcast_to(bits, (self.count, self.lanes)))
        if self.lanes == 32:
            self.s[register] = words
        else:
            self.s[register : register + 2] = words
            self.undefined.pop(SGPR + register + 1, None)
        self.undefined.pop(SGPR + register, None)
        if unknown is not None and unknown.any():
            nothing = self.to_words(np.broadcast_to(unknown, (self.count, self.lanes)))
            for i, word in enumerate(nothing.reshape(-1, self.count)):
                self.set_unknown_bits(register + i, word[:, None])
        if register == EXEC:
            self.set_exec()

    def take(self, which: Array) -> Waves:
        """A copy of those waves (a mask)."""
        picked = Waves(
            self.group,
            self.numbers[which],
            self.block[which],
            np.ascontiguousarray(self.v[:, which]),
            np.ascontiguousarray(self.s[:, which]),
            self.scc[which],
        )
        picked.pc, picked.state, picked.at_barrier = self.pc, self.state, self.at_barrier
        for register, lanes in self.undefined.items():
            left = lanes[which]
            if left.any():
                picked.undefined[register] = left
        for register in self.partly:
            bits = self.unknown_of(register)
            if bits is not None:
                picked.note_unknown(register, bits[which])
        return picked

    @classmethod
    def join(cls, parts: list[Waves]) -> Waves:
        """One state of several at the same place, in the order of the waves."""
        numbers = np.concatenate([p.numbers for p in parts])
        order = np.argsort(numbers, kind="stable")
        joined = cls(
            parts[0].group,
            numbers[order],
            np.concatenate([p.block for p in parts])[order],
            np.concatenate([p.v for p in parts], axis=1)[:, order],
            np.concatenate([p.s for p in parts], axis=1)[:, order],
            np.concatenate([p.scc for p in parts])[order],
        )
        joined.pc, joined.state = parts[0].pc, parts[0].state
        for register in set().union(*(p.undefined for p in parts)):
            width = 1 if register >= SGPR else joined.lanes
            pieces = [p.undefined.get(register, np.zeros((p.count, width), bool)) for p in parts]
            joined.undefined[register] = np.concatenate(
                [
                    x if x.shape == (p.count, width) else np.broadcast_to(x, (p.count, width))
                    for x, p in zip(pieces, parts, strict=True)
                ]
            )[order]
        for register in set().union(*(p.partly for p in parts)):
            bits = [p.unknown_of(register) for p in parts]
            width = 1 if register >= SGPR else joined.lanes
            none = [np.zeros((p.count, width), np.uint32) for p in parts]
            words = [n if b is None else b for n, b in zip(none, bits, strict=True)]
            joined.note_unknown(register, np.concatenate(words)[order])
        return joined

    def demand(
        self,
        registers: tuple[int, ...],
        doing: str,
        everywhere: bool = False,
        those: Array | None = None,
    ) -> None:
        """Raise Unknown where an active lane would use a register that holds nothing.

        Args:
            doing: the end of "uses vN, which was never written, …".
            everywhere: inactive lanes count too.
            those: which lanes count, where not all active ones do.
        """
        for register in registers:
            lanes = self.undefined.get(register)
            if lanes is None:
                continue
            wrong = np.broadcast_to(lanes, self.mask.shape)
            if not everywhere:
                wrong = wrong & (self.mask if those is None else those)
            if wrong.any():
                raise self.unknown(register, doing, *divmod(int(np.argmax(wrong)), self.lanes))

    def unknown(self, register: int, doing: str, wave: int, lane: int) -> Unknown:
        """The error for a use of a register that holds nothing."""
        name = f"s{register - SGPR}" if register >= SGPR else f"v{register}"
        if ACC <= register < SGPR:
            name = f"a{register - ACC}"
        name = {SGPR + VCC: "vcc", SGPR + EXEC: "a mask", SCC: "scc"}.get(register, name)
        return Unknown(
            f"uses {name}, which holds no value that was ever written (it is uninitialised, or was "
            f"read from uninitialised memory), {doing}",
            wave * self.lanes + lane,
        )

    def blank(self, reads: Sequence[int]) -> Array | None:
        """Return lanes in which one of the registers holds nothing; None if there are none."""
        bad = None
        for register in reads:
            found = self.undefined.get(register)
            if found is not None:
                bad = found if bad is None else bad | found
        return bad

    def defined(
        self, reads: tuple[int, ...], writes: tuple[int, ...], lanes: Array | None = None
    ) -> None:
        """Note that `writes` were made of `reads`, in active lanes (or in `lanes`)."""
        if self.undefined:
            self.mark(self.blank(reads), writes, lanes)

    def flowed(self, flow: Flow, lanes: Array | None = None) -> None:
        """The same for results that were made at once, each of other registers."""
        if self.undefined:
            bad = [self.blank(reads) for reads, _ in flow]
            for blank, (_, writes) in zip(bad, flow, strict=True):
                self.mark(blank, writes, lanes)

    def mark(self, bad: Array | None, writes: tuple[int, ...], lanes: Array | None = None) -> None:
        """Note that active lanes of `writes` hold nothing where `bad`, and something elsewhere.
        EXEC has no effect on scalar registers."""
        undefined = self.undefined
        mask = self.mask if lanes is None else lanes
        for register in writes:
            old = undefined.get(register)
            if bad is None and old is None:
                continue
            if self.partly and register in self.partly:
                if register < SGPR and not (lanes is None and self.full):
                    before = self.unknown_of(register)
                    before = np.uint32(0) if before is None else before
                    after = np.uint32(0) if bad is None else np.where(bad, _ONES, np.uint32(0))
                    self.note_unknown(register, np.where(mask, after, before))
                    continue
                del self.partly[register]
            if register >= SGPR or (lanes is None and self.full):
                new = bad
            else:
                new = np.where(mask, False if bad is None else bad, False if old is None else old)
            if new is not None and new.any():
                # a scalar register's is one of its own: see `partly`
                copied = np.array(new) if register >= SGPR else _of_lanes(new, self.mask)
                undefined[register] = copied
            else:
                undefined.pop(register, None)


def _of_lanes(bits: Array, mask: Array) -> Array:
    return bits if bits.shape == mask.shape else np.broadcast_to(bits, mask.shape)


_full: dict[tuple[int, int], Array] = {}


def _all_lanes(count: int, lanes: int) -> Array:
    found = _full.get((count, lanes))
    if found is None:
        found = _full[count, lanes] = np.ones((count, lanes), bool)
        found.flags.writeable = False
    return found
