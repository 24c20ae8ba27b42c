#!/usr/bin/env python3
"""Build one bundle by the processes of this machine and by workers of a Dask cluster on it.

    python benchmarks/bench_fleet.py [--workers 4] [--rounds 2] [--kernel add ...]

Every build has a cache of its own. At the end one is made whose first busy worker is killed: it has
to be complete, with each key once in the store.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from dask_clusters import cluster, one_killed

from xtarget import Target
from xtarget._bundle.builder.build import Order, Report, build
from xtarget._executors.opening import opened

KERNELS = ("add", "gelu", "softmax", "sum", "layer_norm", "matmul")


def built(order: Order, executor: Executor | None, workers: int) -> tuple[float, Report, Path]:
    """Seconds, the report, and the cache's folder."""
    folder = Path(tempfile.mkdtemp(prefix="xtarget-fleet-"))
    os.environ["XTARGET_CACHE_DIR"] = str(folder / "cache")
    start = time.perf_counter()
    report = build(order, folder / "a.xtb", workers=workers, seconds=300, executor=executor)
    return time.perf_counter() - start, report, folder / "cache"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kernel", action="append")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    order = Order(tuple(given.kernel or KERNELS), ("float32",), (Target("nvidia", "sm_90"),))
    processes, dask = [], []
    with cluster(given.workers) as client, opened(f"dask:{client.scheduler.address}") as executor:
        built(order, executor, cores)  # the workers have imported Triton then
        for _ in range(given.rounds):
            processes.append(built(order, None, cores)[0])
            dask.append(built(order, executor, cores)[0])
        with one_killed(client) as killed:
            seconds, report, folder = built(order, executor, cores)
    # beside the entries lies the bundle's section
    names = {path.name for path in folder.rglob("*.json") if path.parent.name == "sm_90"}
    entries = [name for name in names if not name.startswith("bundle-")]
    facts = {
        "cores": cores, "workers": given.workers, "variants": report.variants,
        "processes_s": [round(s, 1) for s in processes], "dask_s": [round(s, 1) for s in dask],
        "ratio": round(min(processes) / min(dask), 2),
        "ratios": [round(p / d, 2) for p, d in zip(processes, dask, strict=True)],
        "killed": len(killed), "killed_s": round(seconds, 1), "compiled": report.compiled,
        "errors": report.errors, "entries": len(entries),
    }  # fmt: skip
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
