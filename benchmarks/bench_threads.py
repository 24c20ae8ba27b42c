"""Launches per second of one and of several threads, `add` with out= on tensors of their own.

python benchmarks/bench_threads.py [--device nvidia:0]
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from bench_launch import InC, bound

import xtarget
from xtarget._values.types import LaunchConfig

SECONDS = 0.5
#: Launches of the loop in C.
AT_ONCE = 50


def rate(make: Callable[[], Callable[[], Any]], count: int) -> float:
    """Launches per second of `count` threads in all, the better of two rounds."""
    best = 0.0
    for _ in range(2):
        ends = [0] * count
        stop = threading.Event()

        def work(number: int, ends: list[int] = ends, stop: threading.Event = stop) -> None:
            launch = make()
            for _ in range(10):
                launch()
            done = 0
            while not stop.is_set():
                for _ in range(20):
                    launch()
                done += 20
            ends[number] = done

        threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)  # the time in which launches are counted
        stop.set()
        for thread in threads:
            thread.join()
        best = max(best, sum(ends) / (time.perf_counter() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    info = xtarget.device(options.device).info
    place = "cuda" if info.vendor in ("nvidia", "amd") else "cpu"

    def ours() -> Callable[[], Any]:
        a, b, o = (torch.ones(4096, device=place) for _ in range(3))
        return lambda: xtarget.run("add", a, b, out=o)

    def torchs() -> Callable[[], Any]:
        a, b, o = (torch.ones(4096, device=place) for _ in range(3))
        return lambda: torch.add(a, b, out=o)

    def driver() -> Callable[[], Any]:
        """The driver's own launch, in a loop in C that needs no interpreter."""
        a, b, o = (torch.ones(4096, device=place) for _ in range(3))
        xtarget.run("add", a, b, out=o)
        (launch,) = bound("torch")._launches
        made = launch.function.native(LaunchConfig(launch.grid))
        values = [*(array.data_ptr() for array in (a, b, o)), 4096, 0, 0]
        loop = InC(made, launch.grid[0], values)
        return lambda: loop.many(AT_ONCE)

    ways = [("run(add, out=o)", ours, 1), ("torch.add(out=o)", torchs, 1)]
    if info.vendor == "nvidia":
        ways.append(("the driver's, in C", driver, AT_ONCE))
    print(f"launches per second, {info.product}")
    for name, make, each in ways:
        rates = [each * rate(make, count) for count in (1, 4, 8)]
        told = ", ".join(f"{one:9,.0f}" for one in rates)
        print(f"  {name:18} 1, 4, 8 threads: {told}  (8 to 1: {rates[2] / rates[0]:.2f})")


if __name__ == "__main__":
    main()
