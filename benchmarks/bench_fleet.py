#!/usr/bin/env python3
"""Build one bundle by the processes of this machine and by workers of a Dask cluster on it.

    python benchmarks/bench_fleet.py [--workers 4] [--rounds 2] [--kernel add ...]

Every build has a cache of its own. Pairs in one process, processes and Dask by turns, by the clock
and by processor seconds of all processes, which say what a loaded machine hides: there, four
workers get more of it than two processes. The workers keep their compilers from build to build; the
first build of theirs, which starts them, is told apart. At the end one is made whose first busy
worker is killed: it has to be complete, with each key once in the store.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench_compile import processor_seconds
from dask_clusters import cluster, one_killed

from xtarget import Target
from xtarget._bundle.builder.build import Order, Report, build
from xtarget._executors.opening import opened

KERNELS = ("add", "gelu", "softmax", "sum", "layer_norm", "matmul")


class Built(NamedTuple):
    """A build: seconds by the clock and of processors, what it made, and the cache's folder."""

    seconds: float
    processors: float
    report: Report
    cache: Path


def built(order: Order, executor: Executor | None, workers: int) -> Built:
    folder = Path(tempfile.mkdtemp(prefix="xtarget-fleet-"))
    os.environ["XTARGET_CACHE_DIR"] = str(folder / "cache")
    start, before = time.perf_counter(), processor_seconds()
    report = build(order, folder / "a.xtb", workers=workers, seconds=300, executor=executor)
    processors = processor_seconds() - before
    return Built(time.perf_counter() - start, processors, report, folder / "cache")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kernel", action="append")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    order = Order(tuple(given.kernel or KERNELS), ("float32",), (Target("nvidia", "sm_90"),))
    pairs = []
    with cluster(given.workers) as client, opened(f"dask:{client.scheduler.address}") as executor:
        first = built(order, executor, cores)  # the workers have imported Triton then
        for _ in range(given.rounds):
            pairs.append((built(order, None, cores), built(order, executor, cores)))
        with one_killed(client) as killed:
            last = built(order, executor, cores)
    # beside the entries lies the bundle's section
    names = {path.name for path in last.cache.rglob("*.json") if path.parent.name == "sm_90"}
    entries = [name for name in names if not name.startswith("bundle-")]
    facts = {
        "cores": cores, "workers": given.workers, "variants": last.report.variants,
        "processes_s": [round(p.seconds, 1) for p, _ in pairs],
        "dask_s": [round(d.seconds, 1) for _, d in pairs],
        "ratios": [round(p.seconds / d.seconds, 2) for p, d in pairs],
        "processes_cpu_s": [round(p.processors, 1) for p, _ in pairs],
        "dask_cpu_s": [round(d.processors, 1) for _, d in pairs],
        "cpu_ratios": [round(p.processors / d.processors, 2) for p, d in pairs],
        "first_dask_s": round(first.seconds, 1), "first_dask_cpu_s": round(first.processors, 1),
        "killed": len(killed), "killed_s": round(last.seconds, 1),
        "compiled": last.report.compiled, "errors": last.report.errors, "entries": len(entries),
    }  # fmt: skip
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
