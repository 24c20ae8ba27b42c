"""Removing entries: after killed writers, by sweepers that stop, and where locks are missing."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sized_caches import SIZE, TARGET, cap_of, filled, has, key, open_cache, place, put, used

from xtarget._cache import counters, evict, explain, lock
from xtarget._cache.scan import scan
from xtarget._cache.usage import Usage


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


HALF_WAY = """
import os, signal, sys
from pathlib import Path
from xtarget import Artifact, Target; from xtarget._system import files as _files
from xtarget._cache import Cache, key_of
from xtarget._values.environment import CacheSettings
folder, number, step, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
calls = 0
def stop(real):
    def call(*args, **named):
        global calls
        calls += 1
        if calls == step:
            if end == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            print("there", flush=True)
            sys.stdin.read()
        return real(*args, **named)
    return call
_files.fill, os.replace = stop(_files.fill), stop(os.replace)
parts = [("n", str(number))]
made = Artifact(Target("nvidia", "sm_90"), "cubin", "k", bytes(1000), 4, 32, 0, parameters=())
cache = Cache(folder, CacheSettings(folder, max_bytes=None))
key = key_of(parts)
with cache.flight(made.target, "k", key):
    cache.put("k", key, parts, made)
"""


def writer(folder: Path, number: int, step: int, end: str) -> subprocess.Popen[str]:
    """Another process that writes an entry, and is killed, or waits, before that step of it."""
    command = [sys.executable, "-c", HALF_WAY, str(folder), str(number), str(step), end]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if end == "killed":
        process.wait()
    else:
        assert process.stdout.readline() == "there\n"
    return process


def everything(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


@pytest.mark.sample(2, each=("step", "who"))
@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("who", ["writer", "prune", "clear"])
def test_what_killed_writers_left_goes_and_what_living_ones_write_stays(
    tmp_path: Path, step: int, who: str
) -> None:
    living = writer(tmp_path, 1, step, "lives")
    theirs = everything(tmp_path)
    dead = writer(tmp_path, 2, step, "killed")
    assert dead.returncode == -signal.SIGKILL
    assert len(everything(tmp_path)) > len(theirs)
    cache = open_cache(tmp_path, None)
    if who == "writer":
        put(cache, 3)
        cache.get(TARGET, "k", key(3))
    elif who == "prune":
        explain.prune(cache, None, explain.Chosen())
    else:
        explain.clear(cache, explain.Chosen())
    stem, lost = (cache.own.mark_path(place(n)).stem for n in (1, 2))
    now = everything(tmp_path)
    assert [name for name in theirs if stem in name] == [name for name in now if stem in name]
    left = [name for name in now if lost in name]
    assert left == []
    living.communicate()
    assert living.returncode == 0
    assert has(cache, 1)
    explain.prune(cache, None, explain.Chosen())
    assert [n for n in everything(tmp_path) if not n.endswith((".json", ".cubin"))] == [
        ".usage",
        "writers",
    ]


def test_files_that_a_killed_sweeper_left_without_a_mark_go(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, None)
    put(cache, 0)
    put(cache, 1)
    cache.own.mark_path(place(0)).unlink()
    folder = cache.own.folder(place(0))
    (folder / "theirs.txt").write_text("somebody's own")
    evict.sweep(cache.own.base, cache.own.usage)
    assert sorted(path.suffix for path in folder.iterdir()) == [".cubin", ".json", ".txt"]
    assert has(cache, 1)


def test_a_sweeper_that_was_stopped_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evict, "_STALLED", 0.05)
    monkeypatch.setattr(evict, "_WAIT_FOR_ROOM", 60.0)
    monkeypatch.setattr(evict, "_watches", {})
    monkeypatch.setattr("xtarget._cache.store._FOR_SWEEP", 0.05)
    cache = filled(tmp_path, 4, 4)
    path, before = evict.lock_path(cache.own.base, "sweep"), counters.counted()[0]
    with (
        path.open("w") as sweeping,
        evict.writers_path(cache.own.base).open("w") as slice_,
    ):
        fcntl.flock(sweeping, fcntl.LOCK_EX)
        fcntl.flock(slice_, fcntl.LOCK_EX)
        for n in range(4, 20):
            put(cache, n)
            assert has(cache, n)
    after = counters.counted()[0]
    assert after["takeovers"] - before.get("takeovers", 0) == 2, "of the sweep, and of its slice"


def test_a_sweeper_at_work_is_not_overtaken(tmp_path: Path) -> None:
    path = tmp_path / ".locks" / "sweep.lock"
    path.parent.mkdir()
    watch = lock.Watch(path, 0.0)
    with lock.try_hold(path) as held:
        assert held
        for _ in range(5):
            time.sleep(0.01)  # clocks of file systems go in steps
            assert held.beat()
            assert not watch.take_over()
        assert watch.take_over()
        assert not held.beat(), "it is told"
        with lock.try_hold(path) as other:
            assert other
            assert path.exists()
    assert not path.exists()


def test_a_sweeper_that_was_overtaken_stops_and_leaves_the_new_ones_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evict, "_SLICE", 0.0)
    cache = filled(tmp_path, None, 5)
    found = sorted(scan(cache.own.base), key=lambda entry: entry.stamp)
    removed, _ = evict.remove_all(cache.own.base, found, 5 * SIZE, lambda freed: False)
    assert removed < 5
    path = evict.lock_path(cache.own.base, "sweep")
    with lock.try_hold(path) as first:
        assert first
        path.unlink()
        path.write_text("")
    assert path.exists()


def test_entries_are_evicted_where_an_exclusive_lock_needs_a_file_open_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS: flock(2), "in order to place an exclusive lock, the file must be opened for writing"."""
    flock = fcntl.flock

    def nfs(descriptor: int, how: int) -> None:
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if (how & fcntl.LOCK_EX and access == os.O_RDONLY) or (
            how & fcntl.LOCK_SH and access == os.O_WRONLY
        ):
            raise OSError(9, "Bad file descriptor")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", nfs)
    cache = filled(tmp_path, 3, 10)
    assert has(cache, 9)
    assert sum(has(cache, n) for n in range(10)) <= 3


def test_without_locks_a_full_cache_keeps_nothing_more_waits_for_nobody_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    cache = filled(tmp_path, 3, 3)
    monkeypatch.setattr(evict, "_WAIT_FOR_ROOM", 10_000.0)
    for n in range(3, 6):
        put(cache, n)
    assert has(cache, 0)
    assert not has(cache, 5)
    assert caplog.text.count("has no locks") == 1


def test_an_entry_that_a_sweeper_did_not_count_is_swept_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = filled(tmp_path, 5, 5)
    usage = cache.own.usage
    assert usage.add(10 * SIZE)[0] > cap_of(cache)
    with lock.try_hold(evict.lock_path(cache.own.base, "sweep")) as sweeping:
        assert sweeping
        waiting = threading.Thread(
            target=evict.keep_below, args=(cache.own.base, usage, cap_of(cache))
        )
        waiting.start()
        time.sleep(0.1)
        assert waiting.is_alive()
        assert has(cache, 4)
    waiting.join()
    assert usage.add(0)[0] <= cap_of(cache)


def test_new_notes_in_a_file_of_the_same_number_are_new(tmp_path: Path) -> None:
    """A file system may give the number of the old notes' file to that of the next ones."""
    noted, sweeper = (Usage(tmp_path, None) for _ in range(2))
    for _ in range(2):
        total, before = noted.add(1000)
    assert total == 2000
    sweeper.reset(300, sweeper.mark())
    sweeper.add(20)
    new = sweeper.path.read_bytes()
    sweeper.path.unlink()
    with open(sweeper.path, "wb") as file:  # every other field of the status may be the old one's
        file.write(new)
    status = os.stat(sweeper.path)
    noted._seen = (status.st_ino, noted._seen[0][1]), noted._seen[1]
    total, after = noted.add(0)
    assert total == 320
    assert after != (status.st_ino, before[1])


def test_entries_are_evicted_where_no_thread_can_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of the interpreter, and where the system has no thread left."""

    def refused(self: ThreadPoolExecutor, *_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    cache = open_cache(tmp_path, 4)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", refused)
    for n in range(12):
        put(cache, n)
    assert has(cache, 11)
    assert used(cache) <= cap_of(cache)
