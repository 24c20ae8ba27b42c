"""Host time of Triton's own launch, `add[grid](x, y, out, n)`, on our `spirv` back end and the CPU.

    python benchmarks/bench_triton.py [--json FILE]

Microseconds per launch of one block, complete on return; the least of 9 rounds of 500 launches. All
ways take turns in one process, so their ratios hold on a noisy machine where the numbers alone do
not. The last line is what xtarget adds to `import triton`, in a process that does not use it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "spirv")
ROUNDS, LAUNCHES, N = 9, 500, 256
FLOOR = "the binding's enqueue and finish"
DOOR = ["xtarget_triton", "xtarget_triton.compiler", "xtarget_triton.driver"]


def measure(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Least microseconds per call of each way."""
    best = dict.fromkeys(ways, float("inf"))
    for way in ways.values():
        way()
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            for _ in range(LAUNCHES):
                way()
            best[name] = min(best[name], (time.perf_counter() - start) / LAUNCHES * 1e6)
    return best


def choose_our_back_end() -> None:
    """As in a process that found an installed xtarget; a checkout has no entry points."""
    import triton

    from xtarget._triton_backend.driver import SpirvDriver
    from xtarget.targets._spirv.frontend.backend import register

    register()
    triton.runtime.driver._active = SpirvDriver()


def launch_ways() -> dict[str, Callable[[], Any]]:
    import pyopencl as cl
    from triton_add import add

    import xtarget
    from xtarget._triton_backend.launcher import Binary

    arrays = [np.ones(N, np.float32) for _ in range(3)]
    x, y, out = arrays
    made = add[(1,)](x, y, out, N, BLOCK=N)
    binary: Binary = made.function
    (loaded,) = binary.loaded.values()
    prepared = next(iter(loaded._launches.values()))
    device = xtarget.device("cpu:0")
    stream = device.default_stream
    values = [array.ctypes.data for array in arrays] + [N]

    kernel = cl.Kernel(loaded.function._module.raw, made.metadata.name)
    extra = [np.uint64(0)] * (kernel.num_args - 4)
    kernel.set_args(*(cl.SVM(array) for array in arrays), np.int32(N), *extra)
    block = (made.metadata.num_warps * made.metadata.warp_size, 1, 1)
    queue = stream.handle

    def floor() -> None:
        cl.enqueue_nd_range_kernel(queue, kernel, block, block)
        queue.finish()

    def ours() -> None:
        prepared(values, stream)
        stream.synchronize()

    ways = {
        FLOOR: floor,
        "our prepared launch and finish": ours,
        "add[grid], NumPy arrays": lambda: add[(1,)](x, y, out, N, BLOCK=N),
    }
    try:
        import torch
    except ImportError:
        return ways
    a, b, o = (torch.ones(N) for _ in range(3))
    bound = add[(1,)]
    ways["add[grid], torch tensors"] = lambda: add[(1,)](a, b, o, N, BLOCK=N)
    ways["the same, add[grid] kept"] = lambda: bound(a, b, o, N, BLOCK=N)
    ways["torch.add(a, b, out=o)"] = lambda: torch.add(a, b, out=o)
    return ways


def door_microseconds() -> float:
    """The time Triton takes to import us, after all that it imports itself; the least of 20."""
    code = (
        "import sys, time, importlib, triton\n"
        f"names, took = {DOOR}, []\n"
        "for _ in range(20):\n"
        "    for name in names: sys.modules.pop(name, None)\n"
        "    start = time.perf_counter()\n"
        "    for name in names: importlib.import_module(name)\n"
        "    took.append(time.perf_counter() - start)\n"
        "print(min(took) * 1e6)\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "TRITON_DEFAULT_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="the figures as JSON")
    options = parser.parse_args()
    choose_our_back_end()
    figures = measure(launch_ways())
    for name, microseconds in figures.items():
        print(f"{name:40}{microseconds:8.2f} µs{microseconds / figures[FLOOR]:8.2f} ×")
    figures["import triton: our part"] = door_microseconds()
    print(f"{'import triton: our part':40}{figures['import triton: our part']:8.2f} µs")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
