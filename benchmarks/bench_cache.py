"""The cache on disk in numbers: a hit, a hit in a full cache, eviction, what `ls` and `why` cost.

    python benchmarks/bench_cache.py [--entries 100000] [--folder DIR] [--json FILE]

Entries are 10 kB binaries with a 5 kB text beside them, of 64 kernels. A hit is everything from the
key to the checked artifact; its time is the median of 2,000 different entries in random order, in
turns with a cache of 100 entries. Evicting is a whole sweep, as a writer above the cap does it; in
a second one another process reads and writes meanwhile. The last lines are the figures that are
wanted. Most of the time goes into writing the files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from xtarget import Artifact, Target
from xtarget._artifacts.entry import Entry, Place, artifact_fields, make_entry
from xtarget._cache import SCHEMA, Cache, evict, explain, key_of, lock
from xtarget._system.files import make_folders
from xtarget._values.environment import CacheSettings
from xtarget._values.types import Parameter

TARGET = Target("nvidia", "sm_90")
KERNELS = 64
#: Name of the figure, what it is, and how much it may be.
WANTED = (
    ("hit_ms_100", "a hit at 100 entries, ms", 1.0),
    ("hit_ms", "a hit at {entries} entries, ms", 1.0),
    ("flat", "the second by the first", 1.3),
    ("evict_s", "evicting {evicted} of {entries}, s", 2.0),
    ("longest_lock_ms", "longest that a lock was held meanwhile, ms", 50.0),
)


def parts_of(number: int) -> list[tuple[str, str]]:
    return [("target", str(TARGET)), ("source", "0" * 64), ("constants", f"N={number}")]


def name_of(number: int) -> str:
    return f"kernel{number % KERNELS}"


def fill(folder: Path, count: int) -> Cache:
    cache = Cache(folder, CacheSettings(folder, max_bytes=None))
    for number in range(count):
        # not cache.put: 100,000 renames are ten minutes on a slow disk
        place, entry = made(number)
        at = make_folders(folder, (SCHEMA, *place.folders))
        for suffix, data in {**entry.files, "json": entry.mark}.items():
            (at / f"{place.stem}.{suffix}").write_bytes(data)
    return cache


def hit_seconds(cache: Cache, numbers: list[int]) -> list[float]:
    times = []
    for number in numbers:
        key = key_of(parts_of(number))
        start = time.perf_counter()
        found = cache.get(TARGET, name_of(number), key)
        times.append(time.perf_counter() - start)
        assert found is not None
    return times


def lock_times() -> list[float]:
    """From now on, how long the lock that writers share was held by who removes entries, and how
    long each entry's own was."""
    held: list[float] = []

    def timed(way: Callable[..., AbstractContextManager[bool]]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def measured(*given: Any) -> Iterator[bool]:
            with way(*given) as alone:
                start = time.perf_counter()
                yield alone
                if given[0].name != "sweep.lock":  # which nobody waits for
                    held.append(time.perf_counter() - start)

        return measured

    lock.brief, lock.try_hold = timed(lock.brief), timed(lock.try_hold)
    return held


def use_meanwhile(folder: Path, count: int) -> subprocess.Popen[str]:
    """Another process that reads and writes until its input ends, and then prints the longest time
    of a hit and of a write, in seconds."""
    program = f"""
import sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import bench_cache as bench
cache = bench.Cache({folder!r}, bench.CacheSettings({folder!r}, max_bytes=None))
place, entry = bench.made({count} + 5)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print("ready", flush=True)
longest = [0.0, 0.0]
while not ended.is_set():
    start = time.perf_counter()
    cache.own.write(place, entry)
    middle = time.perf_counter()
    cache.own.read(place)
    longest = [max(longest[0], time.perf_counter() - middle), max(longest[1], middle - start)]
    time.sleep(0.002)
print(*longest)
""".replace("PosixPath", "bench.Path")
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def made(number: int) -> tuple[Place, Entry]:
    parts = parts_of(number)
    artifact = Artifact(
        target=TARGET,
        format="cubin",
        entry="kernel",
        binary=number.to_bytes(8, "little") * 1280,
        num_warps=4,
        warp_size=32,
        shared_bytes=0,
        parameters=tuple(Parameter(name, "*fp32") for name in "abcdef"),
        texts={"ptx": "// text\n" * 640},
    )
    place = Place(TARGET, name_of(number), key_of(parts))
    files, fields = artifact_fields(artifact)
    facts = {"key_parts": parts, "artifact": fields, "compile_seconds": 1.0}
    return place, make_entry(place, files, facts)


def measure(folder: Path, count: int) -> dict[str, Any]:
    small, large = fill(folder / "small", 100), fill(folder / "large", count)
    chance = random.Random(0)
    os.sync()  # what filling left to write is not what is measured
    numbers = chance.sample(range(count), min(count, 2000))
    few = [chance.randrange(100) for _ in numbers]
    times: dict[str, list[float]] = {"small": [], "large": []}
    for _ in range(3):  # in turns; the first turn fills the kernel's tables of names
        times = {"small": [], "large": []}
        for start in range(0, len(numbers), 100):
            times["small"] += hit_seconds(small, few[start : start + 100])
            times["large"] += hit_seconds(large, numbers[start : start + 100])
    hit_small, hit_large = statistics.median(times["small"]), statistics.median(times["large"])
    figures: dict[str, Any] = {
        "entries": count,
        "hit_ms_100": hit_small * 1e3,
        "hit_ms": hit_large * 1e3,
        "hit_ms_p99": sorted(times["large"])[int(0.99 * len(times["large"]))] * 1e3,
        "flat": hit_large / hit_small,
    }
    start = time.perf_counter()
    listed = sum(1 for _ in explain.entries(large.own, explain.Chosen()))
    figures["ls_s"] = time.perf_counter() - start
    start = time.perf_counter()
    parts = parts_of(count + 1)
    explain.why(large, TARGET, name_of(count + 1), parts, key_of(parts))
    figures["why_s"] = time.perf_counter() - start
    total = sum(found.nbytes for found in evict.scan(large.own.base))
    held = lock_times()
    goal = int(total * (1 - min(10_000, count // 2) / listed))
    large.own.usage.reset(total, large.own.usage.mark())
    large.own.usage.max_bytes = int(goal / 0.8)
    start, start_cpu = time.perf_counter(), time.process_time()
    removed = evict.sweep(large.own.base, large.own.usage)
    figures |= {
        "evicted": removed,
        "evict_s": time.perf_counter() - start,
        "evict_cpu_s": time.process_time() - start_cpu,
        "longest_lock_ms": max(held) * 1e3,
    }
    with use_meanwhile(large.root, count) as other:
        evict.sweep(large.own.base, large.own.usage, goal - goal // 10)
        longest = [1e3 * float(word) for word in other.communicate("")[0].split()]
    figures |= {"longest_hit_meanwhile_ms": longest[0], "longest_write_meanwhile_ms": longest[1]}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=None, help="where; default: temporary")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        start = time.perf_counter()
        figures = measure(Path(folder), options.entries)
        figures["all_s"] = time.perf_counter() - start
    for name, value in figures.items():
        print(f"  {name:26} {value:10.3f}" if isinstance(value, float) else f"  {name:26} {value}")
    ok = True
    print(f"{'figure':44} {'reached':>9} {'wanted':>9}")
    for name, what, most in WANTED:
        what = what.format(**figures)
        reached = figures[name] <= most
        ok &= reached
        print(f"{what:44} {figures[name]:9.3f} {most:9.3f}{'' if reached else '  NOT as wanted'}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    raise SystemExit(not ok)


if __name__ == "__main__":
    main()
