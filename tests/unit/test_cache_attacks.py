"""Attacks by somebody who may write in a cache folder: nothing outside of it is touched,
nothing hangs, nothing is believed that was not written by the cache."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xtarget import Artifact, Target
from xtarget._artifacts.entry import Place, make_entry
from xtarget._cache import Cache, evict, explain, key_of, lock
from xtarget._cache.explain import Chosen
from xtarget._values.environment import CacheSettings

TARGET = Target("nvidia", "sm_90")
PARTS = [("n", "0")]
KEY = key_of(PARTS)
PLACE = Place(TARGET, "k", KEY)
ARTIFACT = Artifact(TARGET, "cubin", "k", bytes(1000), 4, 32, 0, parameters=())


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A folder that many may write."""
    folder = tmp_path / "cache"
    return Cache(folder, CacheSettings(folder, shared=True, max_bytes=1 << 20))


@pytest.fixture(autouse=True)
def never_for_long() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise AssertionError("it hangs")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(30)
    yield
    signal.alarm(0)


def put(cache: Cache) -> None:
    cache.put("k", KEY, PARTS, ARTIFACT)


def mark(cache: Cache) -> Path:
    (path,) = cache.root.glob("v1/nvidia/sm_90/k-*.json")
    return path


def strangers(folder: Path, count: int) -> list[Path]:
    """Old files of somebody else."""
    folder.mkdir(parents=True)
    made = []
    for number in range(count):
        path = folder / f"letter-{number}.json"
        path.write_text("precious")
        os.utime(path, (1, 1))
        made.append(path)
    return made


def test_a_quarantine_that_is_a_link_loses_nothing(cache: Cache, tmp_path: Path) -> None:
    theirs = strangers(tmp_path / "theirs", 40)
    put(cache)
    (cache.root / "v1" / ".quarantine").symlink_to(tmp_path / "theirs")
    mark(cache).with_suffix(".cubin").write_bytes(b"damaged")
    assert cache.get(TARGET, "k", KEY) is None
    explain.clear(cache, Chosen())
    assert all(path.exists() for path in theirs)


@pytest.mark.parametrize("link", ["v1", "v1/nvidia", "v1/nvidia/sm_90"])
def test_nothing_is_removed_or_written_behind_a_link(
    cache: Cache, tmp_path: Path, link: str
) -> None:
    theirs = strangers(tmp_path / "theirs/a/b", 3) + strangers(tmp_path / "theirs/c", 3)
    before = {*tmp_path.glob("theirs/**/*")}
    path = cache.root / link
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "theirs")
    put(cache)
    evict.sweep(cache.own.base, cache.own.usage, 0)
    explain.prune(cache, 0, Chosen())
    explain.clear(cache, Chosen())
    after = {*tmp_path.glob("theirs/**/*")}
    shown = {p for p in after if p.relative_to(tmp_path).parts[1][0] != "."}  # .locks, .usage
    assert shown == before
    assert all(path.read_text() == "precious" for path in theirs)


def test_files_that_are_no_entries_stay(cache: Cache) -> None:
    """A folder that is used for something else, too."""
    put(cache)
    theirs = strangers(cache.root / "v1/src/lib", 3)
    for name in ("main.c", ".profile", ".a.b.c", "k-0.cubin", f"k-{'0' * 25}.json"):
        theirs.append(cache.root / "v1/nvidia/sm_90" / name)
        theirs[-1].write_text("precious")
        os.utime(theirs[-1], (1, 1))
    evict.sweep(cache.own.base, cache.own.usage, 0)
    explain.prune(cache, 0, Chosen())
    explain.clear(cache, Chosen())
    assert all(path.exists() for path in theirs)
    assert not list(cache.root.glob(f"v1/nvidia/sm_90/k-{KEY[:24]}*"))


@pytest.mark.parametrize("size", [1 << 40, 100, 3])
def test_notes_that_are_none_cost_no_memory(cache: Cache, size: int) -> None:
    put(cache)
    os.truncate(cache.root / "v1" / ".usage", size)
    put(cache)
    assert cache.get(TARGET, "k", KEY) == ARTIFACT
    os.truncate(cache.root / "v1" / ".usage", size)
    explain.prune(cache, None, Chosen())
    assert (cache.root / "v1" / ".usage").stat().st_size < 100
    assert cache.get(TARGET, "k", KEY) == ARTIFACT


@pytest.mark.parametrize("what", ["fifo", "folder", "link to nothing", "link to itself"])
@pytest.mark.parametrize(
    "place",
    [
        *(".usage", ".locks", ".locks/writers", ".locks/{stem}.lock", ".quarantine"),
        *("nvidia", "nvidia/sm_90/{stem}.json", "nvidia/sm_90/{stem}.cubin"),
    ],
)
def test_what_lies_in_the_place_of_a_file_neither_hangs_nor_fails(
    cache: Cache, place: str, what: str
) -> None:
    put(cache)
    path = cache.root / "v1" / place.format(stem=mark(cache).stem)
    if path.exists():
        path.rename(cache.root / "away")
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
        (path / "full").touch()
    else:
        path.symlink_to(path.name if what == "link to itself" else "nowhere")
    for _ in range(2):
        with cache.flight(TARGET, "k", KEY):
            assert cache.get(TARGET, "k", KEY) in (None, ARTIFACT)
            put(cache)
    explain.totals(cache)
    explain.prune(cache, 0, Chosen())
    explain.clear(cache, Chosen())


def test_huge_files_are_not_read(cache: Cache) -> None:
    put(cache)
    for suffix in ("cubin", "json"):
        put(cache)
        os.truncate(mark(cache).with_suffix(f".{suffix}"), 1 << 40)
        assert cache.get(TARGET, "k", KEY) is None


ODD = [None, True, -1, 1.5, float("nan"), 10**30, "4", [], {}, [[[]]]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    "member",
    [
        *("num_warps", "shared_bytes", "cluster", "entry", "format", "parameters"),
        *("global_scratch", "resources", "cooperative"),
    ],
)
def test_sealed_facts_of_other_types_are_damage(cache: Cache, member: str, odd: Any) -> None:
    put(cache)
    path = mark(cache)
    body = json.loads(path.read_text())["entry"]
    body["artifact"][member] = odd
    files = {"cubin": ARTIFACT.binary}
    path.write_bytes(make_entry(PLACE, files, body).mark)
    found = cache.get(TARGET, "k", KEY)
    # an empty object is all default values
    assert found is None or type(getattr(found, member)) is type(getattr(ARTIFACT, member))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_sealed_key_parts_and_seconds_of_other_types_are_no_error(cache: Cache, odd: Any) -> None:
    put(cache)
    path = mark(cache)
    body = json.loads(path.read_text())["entry"]
    for parts in (odd, [odd], [["n", odd]]):
        path.write_bytes(
            make_entry(
                PLACE,
                {"cubin": ARTIFACT.binary},
                {**body, "key_parts": parts, "compile_seconds": odd},
            ).mark
        )
        cache.find(TARGET, "k", [("n", "1")], ignore="m")
        explain.why(cache, TARGET, "k", [("n", "1")], key_of([("n", "1")]))
        assert cache.get(TARGET, "k", KEY) == ARTIFACT


def test_a_forked_child_keeps_no_lock(tmp_path: Path) -> None:
    for way in (
        lambda: lock.brief(tmp_path / "lock", fcntl.LOCK_EX, 0.0),
        lambda: lock.try_hold(tmp_path / "lock"),
    ):
        with way() as held:
            assert held
            child = os.fork()
            if not child:
                time.sleep(20)
                os._exit(0)
        try:
            with lock.brief(tmp_path / "lock", fcntl.LOCK_EX, 0.0) as again:
                assert again
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
