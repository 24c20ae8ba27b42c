#!/usr/bin/env python3
"""The cost of bundles: opening, taking a kernel out, sizes, building again and in parallel, and
starting without Triton. Needs Triton to build; no GPU.

    benchmarks/bench_bundle.py                   a small bundle, minutes
    benchmarks/bench_bundle.py --bundle FILE     opening, taking, sizes of a bundle that there is
    benchmarks/bench_bundle.py --parallel        also the build with 1 and with 2 processes
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xtarget
from xtarget._bundle import format
from xtarget._bundle.reader import Bundle

TARGETS = "nvidia:sm_80,nvidia:sm_90,amd:gfx942,amd:gfx1100,intel:spirv64"
START = """
import numpy as np, xtarget
a = np.ones(4096, np.float32)
assert (xtarget.run("add", a, a, device="cpu") == a + a).all()
"""


def median_ms(function: Callable[[], Any], runs: int = 31) -> float:
    """Milliseconds."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def seconds(command: list[str], **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    return time.perf_counter() - start


def opening(path: Path) -> None:
    """Opening, taking one kernel (a fresh bundle each time), and sizes."""
    bundle = Bundle(path)
    size = path.stat().st_size
    variants = sum(k["variants"] for s in bundle.file.sections.values() for k in s.kernels.values())
    print(f"{path}: {size} bytes, {len(bundle.targets)} targets, {variants} variants")
    print(f"  open                     {median_ms(lambda: Bundle(path)):8.3f} ms   wanted <= 5")
    target = bundle.targets[-1]
    key = bytes.fromhex(next(iter(bundle.file.records(target)))["key"])

    def take(fresh: Bundle) -> None:
        record = fresh.file.record(target, key)
        assert record is not None
        fresh.artifact(target, record["variants"][0])

    first = [Bundle(path) for _ in range(31)]
    print(
        f"  first kernel of a target {median_ms(lambda: take(first.pop())):8.3f} ms   wanted <= 1"
    )
    print(f"  any further kernel       {median_ms(lambda: take(bundle)):8.3f} ms   wanted <= 1")
    print("  bytes of a variant: raw, and as part of the file")
    for where, section in bundle.file.sections.items():
        packed: dict[str, int] = {}
        for record in bundle.file.records(where):
            name = dict(record["parts"])["kernel"]
            for variant in record["variants"]:
                marks = [variant[n] for n in ("binary", "portable") if n in variant]
                packed[name] = packed.get(name, 0) + sum(m["size"] for m in marks)
        for name, kernel in sorted(section.kernels.items()):
            count = kernel["variants"]
            print(
                f"    {where!s:16} {name:16} {count:5} variants  {kernel['bytes'] // count:7}"
                f"  {packed[name] // count:7}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--parallel", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="an interpreter without Triton")
    given = parser.parse_args()
    if given.bundle:
        opening(given.bundle)
        return
    print(f"format version {format.VERSION}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "kernels.xtb")
        build = [sys.executable, "-m", "xtarget", "bundle", "build", "-o", path]
        order = ["--kernel", "relu,exp,gelu", "--target", TARGETS]
        if given.parallel:
            took = [
                seconds([*build, *order, "--jobs", jobs], XTARGET_CACHE_DIR=f"{folder}/cache{jobs}")
                for jobs in ("1", "2")
                if not Path(path).unlink(missing_ok=True)
            ]
            print(f"  1 process {took[0]:.1f} s, 2 {took[1]:.1f} s: {took[0] / took[1]:.2f} x")
        cache = f"{folder}/cache2"
        seconds([*build, *order], XTARGET_CACHE_DIR=cache)
        again = seconds([*build, *order], XTARGET_CACHE_DIR=cache)
        Path(path).unlink()
        elsewhere = seconds([*build, *order], XTARGET_CACHE_DIR=cache)
        print(
            f"  built again: up to date {again:.2f} s, file gone, from the cache {elsewhere:.2f} s"
        )
        opening(Path(path))
        if not any(info.vendor == "cpu" for info in xtarget.devices()):
            print("  process that runs add: not measured, there is no OpenCL CPU run time here")
            return
        seconds([*build, "--kernel", "add", "--target", "cpu"], XTARGET_CACHE_DIR=cache)
        ways = {
            "bundle, no Triton" if given.python != sys.executable else "bundle": [given.python],
            "cache, Triton installed": [sys.executable],
        }
        for name, python in ways.items():
            environment = {"XTARGET_CACHE_DIR": f"{folder}/{name}"}
            if name.startswith("bundle"):
                environment["XTARGET_BUNDLES"] = path
            took = [seconds([*python, "-c", START], **environment) for _ in range(6)]
            print(
                f"  process that runs add, {name}: first {took[0]:.2f} s, later "
                f"{statistics.median(took[1:]):.2f} s"
            )


if __name__ == "__main__":
    main()
