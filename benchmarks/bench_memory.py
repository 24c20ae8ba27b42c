"""Memory of a process that launches for long: does it level off?

    python benchmarks/bench_memory.py [--device cpu] [--launches 1000000] [--sizes 5000] [--new]
        [--threads 1] [--by numpy]

Calls of `add` on NumPy arrays whose results are dropped, of sizes from 1 to `--sizes`, each
next one far from the last, so that all of them come before one comes again. With more sizes
than calls that are remembered (8192), calls are bound and forgotten all the time. `--new`: no
shape comes twice; they have two dimensions. `--threads`: so many make the launches. `--by numpy`:
NumPy adds them itself, to tell what its own arrays add. Prints the
resident memory (`VmRSS`, MiB) on the way and how many calls and kernels the process remembers;
fails where the last two thirds of the launches added more than `--allow` MiB.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gc
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import xtarget
from xtarget._compile import functions
from xtarget._launch import run

#: Parts of all launches after which memory is read, besides the first, which loads what it needs.
MARKS = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)
#: Launches after which a process that meets new shapes only should add nothing.
SETTLED = 20_000


def resident() -> float:
    """This process's resident memory, MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("/proc/self/status has no VmRSS: this needs Linux.")


def stride_of(sizes: int) -> int:
    """A step through all sizes, with no neighbours after each other."""
    step = max(1, int(sizes * 0.618))
    while np.gcd(step, sizes) != 1:
        step += 1
    return step


def lengths(launches: int, sizes: int) -> np.ndarray[Any, Any]:
    """Of each launch, all below `sizes`."""
    step = stride_of(sizes)
    return np.arange(launches, dtype=np.int64) * step % sizes + 1


def new_shapes(launches: int) -> np.ndarray[Any, Any]:
    """Rows and columns of each launch, no two the same, the smallest first, then in any order."""
    most = 64
    while sum(most // rows for rows in range(1, most + 1)) < launches:
        most *= 2
    pairs = [(r, c) for r in range(1, most + 1) for c in range(1, most // r + 1)]
    return np.random.default_rng(0).permutation(np.array(pairs))[:launches]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--sizes", type=int, default=5000)
    parser.add_argument("--new", action="store_true", help="no shape comes twice")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--by", choices=("xtarget", "numpy"), default="xtarget")
    parser.add_argument("--allow", type=float, default=32.0, help="MiB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shapes = (
        new_shapes(options.launches) if options.new else lengths(options.launches, options.sizes)
    )
    shapes = shapes.reshape(options.launches, -1)
    largest = int(shapes.prod(axis=1).max())
    a, b = np.arange(largest, dtype=np.float32), np.ones(largest, np.float32)
    info = xtarget.device(options.device).info
    print(f"{info.name} ({info.product}), load {os.getloadavg()[0]:.1f}")
    parts = (int(part * options.launches) for part in MARKS)
    marks = sorted({1, *parts, min(SETTLED, options.launches)})
    start = time.monotonic()
    rows = []

    def launched(x: Any, y: Any) -> Any:
        return xtarget.run("add", x, y, device=options.device)

    add: Any = np.add if options.by == "numpy" else launched

    def launch(first: int, end: int) -> None:
        for count in range(first, end, options.threads):
            shape = tuple(shapes[count].tolist())
            size = math.prod(shape)
            x, y = a[:size].reshape(shape), b[:size].reshape(shape)
            result = add(x, y)
            if count % 10_007 == 0:
                np.testing.assert_array_equal(result, x + y)

    threads = concurrent.futures.ThreadPoolExecutor(options.threads)
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        gc.collect()
        row = {
            "launches": mark,
            "seconds": round(time.monotonic() - start, 1),
            "rss_mib": round(resident(), 1),
            "calls": len(run._calls),
            "functions": len(functions._functions),
        }
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        if after is not None:
            begun = range(mark, mark + options.threads)
            for done in [threads.submit(launch, first, after) for first in begun]:
                done.result()
    third = next(r for r in rows if r["launches"] >= options.launches * 0.3)
    settled = next(r for r in rows if r["launches"] >= min(SETTLED, options.launches))
    grown, since = (rows[-1]["rss_mib"] - float(row["rss_mib"]) for row in (third, settled))
    print(f"the last two thirds added {grown:.1f} MiB; all after {SETTLED:,}: {since:.1f} MiB")
    if options.json:
        options.json.write_text(json.dumps({"device": info.product, "rows": rows}, indent=2))
    return int(grown > options.allow)


if __name__ == "__main__":
    sys.exit(main())
