"""An emulated device's memory over many buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from xtarget_emulator import memory
from xtarget_emulator.memory import Arena


def _resident() -> int:
    """This process's memory, bytes."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Rss")


def _one(arena: Arena, nbytes: int) -> int:
    """Allocate, write and free; the address."""
    block = arena.allocate(nbytes, "a buffer")
    assert block is not None
    span = arena.span(block.start, nbytes)
    assert span is not None
    assert not span.any()
    span[:] = 7
    arena.mark(block.start, nbytes)
    assert arena.free(block.start)
    return block.start


@pytest.mark.parametrize("nbytes", [1, 100, 4096, 100_000])
def test_what_is_freed_goes_back_to_the_host(nbytes: int) -> None:
    arena = Arena(1 << 30)
    _one(arena, nbytes)
    before = _resident()
    addresses = {_one(arena, nbytes) for _ in range(3000)}
    assert _resident() - before < 4 << 20  # 24 MB and more of touched pages
    assert len(addresses) == 3000, "a stale address is noticed"
    assert arena.used == 0


def test_room_that_is_free_is_one_piece_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (memory._MOST_PIECES, 100):
        monkeypatch.setattr(memory, "_MOST_PIECES", most)
        arena = Arena(1 << 24)
        kept = arena.allocate(100, "kept")
        assert kept is not None
        for _ in range(2000):  # more than have room beside each other
            _one(arena, 100)
            assert len(arena._free) <= most + 1
        large = arena.allocate(arena.capacity - 4096, "large")
        assert large is not None
        assert large.start >= kept.end or large.end <= kept.start
        assert arena.block_at(kept.start) is kept
