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

import xtarget

SECONDS = 0.5


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
                for _ in range(50):
                    launch()
                done += 50
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

    print(f"launches per second, {info.product}")
    for name, make in (("run(add, out=o)", ours), ("torch.add(out=o)", torchs)):
        rates = [rate(make, count) for count in (1, 4, 8)]
        told = ", ".join(f"{one:9,.0f}" for one in rates)
        print(f"  {name:18} 1, 4, 8 threads: {told}  (8 to 1: {rates[2] / rates[0]:.2f})")


if __name__ == "__main__":
    main()
