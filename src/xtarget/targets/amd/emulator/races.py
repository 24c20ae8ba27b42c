"""Data races: two accesses without a barrier between them, of which one writes. Here between the
waves of a block in LDS; global memory is in `global_races`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .memory import Array, Fault

if TYPE_CHECKING:
    from .global_races import GlobalRaces
    from .waves import Group, Waves

__all__ = ["Races"]

_NOBODY, _MANY = -1, -2


class Races:
    """Who touched each byte of LDS since the last barrier: a wave, nobody, or several.

    Attributes:
        memory: the launch's record of global memory.
    """

    def __init__(self, group: Group, memory: GlobalRaces) -> None:
        self.memory, self._room = memory, group.room
        self._writer: Array = np.full(group.lds.size, _NOBODY, np.int32)
        self._reader: Array = np.full(group.lds.size, _NOBODY, np.int32)

    def barrier(self, blocks: Array) -> None:
        """For these blocks of the group, what came before is in order with what comes after."""
        self._writer.reshape(-1, self._room)[blocks] = _NOBODY
        self._reader.reshape(-1, self._room)[blocks] = _NOBODY
        self.memory.barrier(blocks)

    def _bytes(self, w: Waves, place: Array, nbytes: int) -> tuple[Array, Array, Array]:
        lanes = np.flatnonzero(w.mask)
        wave = np.broadcast_to(w.numbers[:, None], w.mask.shape).reshape(-1)[lanes]
        where = place.reshape(-1)[lanes][:, None] + np.arange(nbytes)
        return where, np.broadcast_to(wave[:, None], where.shape), lanes

    def lds_read(self, w: Waves, place: Array, nbytes: int) -> None:
        where, wave, lanes = self._bytes(w, place, nbytes)
        writer = self._writer[where]
        self._refuse(
            (writer != _NOBODY) & (writer != wave), lanes, where, writer, "reads", "wrote", w
        )
        reader = self._reader[where]
        self._reader[where] = np.where((reader == _NOBODY) | (reader == wave), wave, _MANY)
        # several waves of this very access
        late = self._reader[where]
        self._reader[where[(late != wave) & (late != _MANY)]] = _MANY

    def lds_write(self, w: Waves, place: Array, nbytes: int) -> None:
        where, wave, lanes = self._bytes(w, place, nbytes)
        writer, reader = self._writer[where], self._reader[where]
        self._refuse(
            (writer != _NOBODY) & (writer != wave), lanes, where, writer, "writes", "wrote", w
        )
        self._refuse(
            (reader != _NOBODY) & (reader != wave), lanes, where, reader, "writes", "read", w
        )
        self._writer[where] = wave
        late = self._writer[where]
        self._refuse(late != wave, lanes, where, late, "writes", "wrote", w)

    @staticmethod
    def _refuse(
        wrong: Array, lanes: Array, where: Array, other: Array, verb: str, did: str, w: Waves
    ) -> None:
        if not wrong.any():
            return
        index, byte = np.argwhere(wrong)[0]
        number = int(other[index, byte])
        who = "several warps" if number < 0 else f"warp {number % w.group.waves_per_block}"
        raise Fault(
            f"{verb} LDS at {int(where[index, byte]) % w.group.room}, which {who} {did} without a "
            "barrier since (a data race)",
            int(lanes[index]),
        )
