"""A device's memory as another process has it, at the device's own addresses.

libhsakmt's model keeps all memory in one anonymous file and maps each allocation twice: where the
host uses it, and at `base` + the device's address. The second one is followed here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from pathlib import Path

import numpy as np

from xtarget._values.errors import XTargetError
from xtarget_emulator.memory import Arena, Array, Block

__all__ = ["Aperture"]

_FILE = "hsakmt_model"
#: What the model reserves for each device.
_ROOM = 1 << 38
_NORESERVE = 0x4000
_FIXED = 0x10
_ROW = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) .*$", re.M)


class Aperture(Arena):
    """The memory that is mapped to a device. All of it counts as initialised: what HIP and the host
    write is not seen here.

    Args:
        process: whose memory it is.
        base: where that process has the device's address 0.
    """

    def __init__(self, process: int, base: int) -> None:
        self._maps = Path(f"/proc/{process}/maps")
        self._there = base
        self._base = 0
        self._seen_rows: list[str] = []
        self._file = self._open(process)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            *[ctypes.c_int] * 3,
            ctypes.c_long,
        ]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        self._pages = mmap.mmap(-1, _ROOM, flags=flags)
        self._seen = mmap.mmap(-1, _ROOM, flags=flags)
        self.bytes: Array = np.frombuffer(self._pages, np.uint8)
        self.written: Array = np.frombuffer(self._seen, np.uint8)
        self._here = self.bytes.ctypes.data
        self.views = {
            1: self.bytes,
            2: self.bytes.view(np.uint16),
            4: self.bytes.view(np.uint32),
            8: self.bytes.view(np.uint64),
        }
        self._starts, self._blocks = [], {}
        self._last = Block(0, 0, "nothing")
        self.capacity, self.used = _ROOM, 0
        self.labels = {}

    @staticmethod
    def _open(process: int) -> int:
        folder = Path(f"/proc/{process}/fd")
        for entry in folder.iterdir():
            try:
                if _FILE in os.readlink(entry):
                    return os.open(entry, os.O_RDWR)
            except OSError:  # closed meanwhile
                continue
        raise XTargetError(f"process {process} has no file {_FILE}: it does not use the model")

    def update(self) -> None:
        """Follow what the process has allocated and freed since the last time."""
        low, high = self._there, self._there + _ROOM
        rows = [
            match[0]
            for match in _ROW.finditer(self._maps.read_text())
            if _FILE in match[0] and low <= int(match[1], 16) < high
        ]
        if rows == self._seen_rows:
            return
        for row in set(rows) - set(self._seen_rows):
            self._map(row)
        self._seen_rows = rows
        self._blocks = {}
        for row in rows:
            start, end, rights, _ = self._parse(row)
            writable = "w" in rights
            self._blocks[start] = Block(start, end, "memory of the device", writable, full=True)
        self._starts = sorted(self._blocks)
        self._last = Block(0, 0, "nothing")

    def _parse(self, row: str) -> tuple[int, int, str, int]:
        match = _ROW.match(row)
        assert match is not None
        start, end, offset = (int(match[i], 16) for i in (1, 2, 4))
        return start - self._there, end - self._there, match[3], offset

    def _map(self, row: str) -> None:
        start, end, _, offset = self._parse(row)
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        place = self._libc.mmap(
            self._here + start, end - start, rights, mmap.MAP_SHARED | _FIXED, self._file, offset
        )
        if place != self._here + start:
            raise XTargetError(f"memory cannot be shared: {os.strerror(ctypes.get_errno())}")

    def _scattered(self, *args: object) -> tuple[Array, bool]:  # type: ignore[override]
        offsets, _ = super()._scattered(*args)  # type: ignore[arg-type]
        return offsets, True

    def read(self, address: int, nbytes: int) -> bytes:
        span = self.span(address, nbytes)
        if span is None:
            raise XTargetError(f"{nbytes} bytes at 0x{address:x} are not in memory of the device")
        return span.tobytes()
