"""The memory of a graph: results and temporaries that lie where they lay at every replay.

The launches of a graph run one after another. So what was dropped while the graph was captured is
given out again within it: the memory of a graph is that of the most it needs at one time.
"""

from __future__ import annotations

from ..targets.base import Buffer, Device, Stream

__all__ = ["GraphMemory", "Piece"]

#: Sizes are rounded up to multiples of this, so that pieces fit each other.
_STEP = 512


class GraphMemory:
    """Memory of one graph. It stays as long as the graph, or an array in it.

    Attributes:
        nbytes: of all of it.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: list[Buffer] = []
        self._unused: list[Buffer] = []
        self.nbytes = 0
        self._growing = True

    def piece(self, nbytes: int) -> Piece:
        """Uninitialised memory that nothing else in the graph uses.

        Raises:
            OutOfMemoryError: the device has none left.
        """
        size = max(-(-nbytes // _STEP) * _STEP, _STEP)
        fitting = [buffer for buffer in self._unused if size <= buffer.nbytes <= 2 * size]
        if fitting:
            buffer = min(fitting, key=lambda one: one.nbytes)
            self._unused.remove(buffer)
        else:
            buffer = self._device.alloc(size)
            self._buffers.append(buffer)
            self.nbytes += size
        return Piece(self, buffer, nbytes)

    def give_back(self, buffer: Buffer) -> None:
        """Nothing that is recorded from now on shares the piece's memory with what used it."""
        if self._growing:
            self._unused.append(buffer)

    def close(self) -> None:
        """The graph is whole: who drops an array now has used it with a replay."""
        self._growing = False
        self._unused.clear()


class Piece:
    """A piece of a graph's memory, as `targets.base.Buffer`."""

    __slots__ = ("_buffer", "_given", "address", "memory", "nbytes")

    def __init__(self, memory: GraphMemory, buffer: Buffer, nbytes: int) -> None:
        self.memory, self._buffer, self._given = memory, buffer, True
        self.address, self.nbytes = buffer.address, nbytes

    def write(self, source: memoryview, stream: Stream) -> None:
        self._buffer.write(source, stream)

    def read(self, destination: memoryview, stream: Stream) -> None:
        self._buffer.read(destination, stream)

    def close(self) -> None:
        given, self._given = self._given, False
        if given:
            self.memory.give_back(self._buffer)

    def __del__(self) -> None:
        self.close()
