"""The cap on the cache's size: what was used last stays, what is in use stays, and it holds."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sized_caches
from sized_caches import SIZE, TARGET, cap_of, filled, has, key, open_cache, place, put, stamp, used

from xtarget._cache import evict, lock
from xtarget._cache.scan import scan


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_the_cap_holds(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, 10)
    for n in range(60):
        put(cache, n)
        assert used(cache) <= cap_of(cache)
    assert has(cache, 59)
    assert used(cache) >= 0.6 * cap_of(cache)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, 10)
    for n in range(9):
        put(cache, n)
        stamp(cache, n, 1000 - n)
    assert cache.get(TARGET, "k", key(0)) is not None  # a hit is a use
    for n in range(9, 12):
        put(cache, n)
    assert has(cache, 0)
    assert not has(cache, 1)
    assert not has(cache, 2)
    assert has(cache, 11)


def test_access_times_do_not_matter(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, 10)
    for n in range(9):
        put(cache, n)
        then = time.time() - 1000 + n
        os.utime(cache.own.mark_path(place(n)), (time.time() - n * 1e6, then))
    for n in range(9, 12):
        put(cache, n)
    assert has(cache, 8)
    assert not has(cache, 0)


def test_a_stamp_of_the_future_is_as_good_as_now(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, 10)
    for n in range(9):
        put(cache, n)
        stamp(cache, n, -1e6)
    put(cache, 9)
    put(cache, 10)
    assert used(cache) <= cap_of(cache)


def test_an_entry_that_is_read_or_written_is_not_removed(tmp_path: Path) -> None:
    cache = filled(tmp_path, None, 3)
    with (
        cache.own.mark_path(place(0)).open() as reader,
        lock.brief(evict.writers_path(cache.own.base), fcntl.LOCK_SH, 0) as writing,
        lock.try_hold(evict.lock_path(cache.own.base, place(1).stem)) as flight,
    ):
        assert writing
        assert flight
        fcntl.flock(reader, fcntl.LOCK_SH)
        evict.sweep(cache.own.base, cache.own.usage, 0)
        assert [has(cache, n) for n in range(3)] == [True, True, False]
    evict.sweep(cache.own.base, cache.own.usage, 0)
    assert used(cache) == 0


def test_an_entry_that_was_used_since_it_was_found_is_not_removed(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, None)
    put(cache, 0)
    stamp(cache, 0, 1000)
    (found,) = scan(cache.own.base)
    assert cache.get(TARGET, "k", key(0)) is not None
    assert evict.remove(cache.own.base, found) is None
    assert has(cache, 0)


def test_readers_see_all_of_an_entry_or_none_while_it_is_evicted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path, None)
    stop = threading.Event()

    def evict_all() -> None:
        while not stop.is_set():
            evict.sweep(cache.own.base, cache.own.usage, 0)

    thread = threading.Thread(target=evict_all)
    thread.start()
    try:
        for n in range(300):
            with cache.flight(TARGET, "k", key(n % 3)):
                put(cache, n % 3)
            found = cache.get(TARGET, "k", key(n % 3))
            assert found is None or found.binary == bytes([n % 3]) * SIZE
    finally:
        stop.set()
        thread.join(30)
    assert "damaged" not in caplog.text


@pytest.mark.parametrize("busy", [True, False])
def test_nobody_writes_an_entry_while_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """Where writers never pause, each entry is removed under its own lock."""
    cache, seen = open_cache(tmp_path, None), []
    put(cache, 0)
    path, unlink = evict.lock_path(cache.own.base, place(0).stem), os.unlink
    writers = evict.writers_path(cache.own.base)

    def look(name: str) -> None:
        if str(name).endswith(".json"):
            with (
                lock.try_hold(path) as flight,
                lock.brief(writers, fcntl.LOCK_SH if busy else fcntl.LOCK_EX, 0) as writing,
            ):
                seen.append((flight is not None, writing))
        unlink(name)

    monkeypatch.setattr(os, "unlink", look)
    with writers.open("w") as writer:
        if busy:
            fcntl.flock(writer, fcntl.LOCK_SH)
        assert evict.sweep(cache.own.base, cache.own.usage, 0) == 1
    assert seen == [(False, True)] if busy else [(True, False)]
    monkeypatch.undo()
    assert list(path.parent.iterdir()) == [writers]


def test_a_sweep_lets_writers_in_between_its_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, told = open_cache(tmp_path, None), []
    for n in range(5):
        put(cache, n)
    monkeypatch.setattr(evict, "_SLICE", -1.0)  # each is over at once
    monkeypatch.setattr(evict, "_REMOVERS", 1)

    def write(freed: int) -> None:
        with lock.brief(evict.writers_path(cache.own.base), fcntl.LOCK_SH, 0) as writing:
            told.append((freed // SIZE, writing))

    found = sorted(scan(cache.own.base), key=lambda entry: entry.stamp)
    removed, _ = evict.remove_all(cache.own.base, found, 2 * SIZE, write)
    assert removed == 2
    assert told == [(1, True), (2, True)]
    assert [has(cache, n) for n in range(5)] == [False, False, True, True, True]


def test_a_writer_goes_on_when_whoever_removes_entries_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(tmp_path, None)
    put(cache, 0)
    monkeypatch.setattr("xtarget._cache.store._FOR_SWEEP", 0.05)
    with evict.writers_path(cache.own.base).open("w") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        put(cache, 1)
    assert has(cache, 1)


def test_marks_that_may_only_be_read_are_evicted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, opened = open_cache(tmp_path, None), os.open
    put(cache, 0)

    def refused(path: Any, flags: int, *args: Any, **named: Any) -> int:  # root may write all
        if str(path).endswith(".json") and flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *args, **named)

    monkeypatch.setattr(os, "open", refused)
    assert evict.sweep(cache.own.base, cache.own.usage, 0) == 1


def test_entries_that_lay_there_before_the_first_note_count(tmp_path: Path) -> None:
    cache = filled(tmp_path, None, 10)
    (cache.own.base / ".usage").unlink()
    capped = open_cache(tmp_path, 5)
    put(capped, 10)
    assert used(capped) <= cap_of(capped)


def test_a_cap_smaller_than_one_entry_keeps_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = filled(tmp_path, 0.5, 3)
    assert not has(cache, 0)
    assert caplog.text.count("larger than the whole cache may be") == 1
    assert "XTARGET_CACHE_SIZE" in caplog.text


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import sized_caches as t
import os
os.fsync = lambda _: None
cache = t.open_cache(Path(sys.argv[1]), 12)
for n in range(60):
    t.put(cache, int(sys.argv[3]) * 1000 + n)
"""


def test_the_cap_holds_under_several_processes(tmp_path: Path) -> None:
    folder, here = tmp_path / "cache", str(Path(sized_caches.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, folder, here, str(n)], env=environment)
        for n in range(4)
    ]
    most = 0
    cache = open_cache(folder, 12)
    while any(writer.poll() is None for writer in writers):
        most = max(most, used(cache))
        time.sleep(0.01)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert used(cache) <= cap_of(cache)
    # while one process sweeps, each of the others may add an entry or two
    assert most <= cap_of(cache) + 10 * SIZE
