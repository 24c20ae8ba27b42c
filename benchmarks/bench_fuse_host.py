"""The cost of a warm call of a fused function for the host, beside `run` of a catalog kernel.

    python benchmarks/bench_fuse_host.py [--library numpy|torch] [--device D] [--side N]

Each line is the time of one call, the median and the least of many turns, in which all are called.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import xtarget
from xtarget import run


@xtarget.fuse
def chain(a: Any, b: Any) -> Any:
    return (a + b) * a


@xtarget.fuse
def product(a: Any, b: Any) -> Any:
    return run("relu", a @ b) + a


@xtarget.fuse
def rows(a: Any, b: Any) -> Any:
    return a / run("sum", a * b, axis=-1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="numpy", choices=("numpy", "torch"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--side", type=int, default=16)
    given = parser.parse_args()
    arrays: list[Any] = [np.ones((given.side, given.side), np.float32) for _ in range(3)]
    wait: Callable[[], Any] = list  # nothing to wait for
    if given.library == "torch":
        import torch

        arrays = [torch.from_numpy(array).to(given.device) for array in arrays]
        if given.device != "cpu":
            wait = torch.cuda.synchronize
    a, b, out = arrays
    cases: dict[str, Callable[[], Any]] = {
        "run add, out": lambda: run("add", a, b, out=out),
        "chain, out": lambda: chain(a, b, out=out),
        "rows, out": lambda: rows(a, b, out=out),
        "product, out": lambda: product(a, b, out=out),
        "run add": lambda: run("add", a, b),
        "chain": lambda: chain(a, b),
    }
    for call in cases.values():
        for _ in range(50):
            call()
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(100):
        for name, call in cases.items():
            wait()
            start = time.perf_counter()
            for _ in range(50):
                call()
            times[name].append((time.perf_counter() - start) / 50 * 1e6)
    for name, own in times.items():
        print(f"{name:14} {statistics.median(own):7.2f} µs, least {min(own):7.2f}")


if __name__ == "__main__":
    main()
