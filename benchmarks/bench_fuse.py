"""A fused chain beside the same operators one after another, NumPy, torch and torch.compile.

    python benchmarks/bench_fuse.py [--elements N] [--device D]

Six elementwise operators on N float32 numbers, results written to memory that is there. Each line
is the time of the other divided by that of the fused function, both measured in turns; medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import xtarget


@xtarget.fuse
def fused(x: Any, bias: Any) -> Any:
    return np.tanh(xtarget.run("silu", x * 0.5 + bias) - x) * 2


def unfused(x: Any, bias: Any) -> Any:
    y = xtarget.run("add", xtarget.run("mul", x, 0.5), bias)
    y = xtarget.run("sub", xtarget.run("silu", y), x)
    return xtarget.run("mul", xtarget.run("tanh", y), 2)


def in_numpy(x: Any, bias: Any) -> Any:
    y = x * np.float32(0.5) + bias
    y = y / (1 + np.exp(-y)) - x
    return np.tanh(y) * np.float32(2)


def in_torch(x: Any, bias: Any) -> Any:
    import torch

    return torch.tanh(torch.nn.functional.silu(x * 0.5 + bias) - x) * 2


def measure(ways: dict[str, Callable[[], Any]], wait: Callable[[], Any]) -> dict[str, float]:
    """Median seconds of each way, in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(14):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            wait()
            if turn >= 4:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--device")
    given = parser.parse_args()
    rows = given.elements // 1024
    x = np.random.default_rng(0).normal(size=(rows, 1024)).astype(np.float32)
    bias = x[0].copy()
    name = given.device or xtarget.default_device().name
    ways: dict[str, Callable[[], Any]] = {}
    wait: Callable[[], Any] = xtarget.device(name).synchronize
    if importlib.util.find_spec("torch"):
        import torch

        place = "cuda" if name.startswith("nvidia") else "cpu"
        tx, tb = torch.from_numpy(x).to(place), torch.from_numpy(bias).to(place)
        ways["torch"] = lambda: in_torch(tx, tb)
        compiled = torch.compile(in_torch)
        ways["torch.compile"] = lambda: compiled(tx, tb)
        ax, ab = tx, tb
    else:
        ax, ab = xtarget.asarray(x, device=name), xtarget.asarray(bias, device=name)
    ways["xtarget, one after another"] = lambda: unfused(ax, ab)
    if name.startswith("cpu"):
        ways["NumPy"] = lambda: in_numpy(x, bias)
    ways["fused"] = lambda: fused(ax, ab)
    times = measure(ways, wait)
    print(f"{given.elements} float32 on {name}; fused: {times['fused'] * 1e6:.0f} us")
    for way, seconds in times.items():
        print(f"{way:28} {seconds / times['fused']:6.2f} x  {seconds * 1e6:10.0f} us")


if __name__ == "__main__":
    main()
