"""Host time of a launch: `xtarget.run("add", a, b, out=o)` on 4096 floats, and the ways below it.

    python benchmarks/bench_launch.py [--device nvidia:0] [--only PATTERN] [--json FILE]

Microseconds per launch, the least of 7 rounds of 2000 back-to-back launches; all ways take turns in
one process, so their ratios hold on a noisy machine where the numbers alone do not.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xtarget
from xtarget._launch import run as launching
from xtarget._values.types import LaunchConfig

ROUNDS, LAUNCHES, N = 7, 2000, 4096
#: Arrays whose addresses are launched with.
kept: list[Any] = []


#: A loop over the driver's own launch: what no way can be below.
FLOOR = """
typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);
int many(launch start, void *function, unsigned grid, unsigned block, unsigned shared,
         unsigned long long *values, int count, int launches) {
  void *places[64];
  for (int i = 0; i < count; i++) places[i] = &values[i];
  int status = 0;
  while (launches-- && !status)
    status = start(function, grid, 1, 1, block, 1, 1, shared, 0, places, 0);
  return status;
}
"""


class InC:
    """Launches of a function with the same values, in a loop in C."""

    def __init__(self, native: Any, grid: int, values: list[int]) -> None:
        folder = Path(tempfile.mkdtemp())
        (folder / "floor.c").write_text(FLOOR)
        made = folder / "floor.so"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-o", made, folder / "floor.c"], check=True
        )
        function = ctypes.CDLL(str(made)).many
        where = [ctypes.c_void_p(native.entry), ctypes.c_void_p(native.function)]
        words = (ctypes.c_uint64 * len(values))(*values)
        rest = [grid, native.block[0], native.shared_bytes, words, len(values)]
        self.many = lambda launches: function(*where, *rest, launches)

    def __call__(self) -> Any:
        status = self.many(1)
        assert status == 0, f"the driver says {status}"


def measure(ways: dict[str, Callable[[], Any]], wait: Callable[[], Any]) -> dict[str, float]:
    """Least microseconds per call of each way."""
    for way in ways.values():
        way()
    wait()
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            if isinstance(way, InC):
                way.many(LAUNCHES)
            else:
                for _ in range(LAUNCHES):
                    way()
            seconds = time.perf_counter() - start
            wait()
            best[name] = min(best[name], seconds / LAUNCHES * 1e6)
    return best


def bound(kind: str) -> Any:
    """The bound call of `add` with out that was made last for an array library."""
    calls = [c for k, c in launching._calls.items() if k[0] == "add" and k[-1] == "out"]
    return next(c for c in reversed(calls) if c.kind.name == kind)


def numpy_ways(device: str) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    a, b, o = (np.ones(N, np.float32) for _ in range(3))
    ways: dict[str, Callable[[], Any]] = {
        "numpy.add(a, b, out=o)": lambda: np.add(a, b, out=o),
        "run(add, NumPy, out=o)": lambda: xtarget.run("add", a, b, out=o, device=device),
    }
    add = xtarget.get("add")
    ways["k(NumPy, out=o)"] = lambda: add(a, b, out=o, device=device)
    ways["launch(), NumPy"] = add.prepare(a, b, out=o, device=device)
    xa, xb, xo = (xtarget.asarray(x, device=device) for x in (a, b, o))
    ways["run(add, xtarget, out=o)"] = lambda: xtarget.run("add", xa, xb, out=xo)
    ways["k(xtarget, out=o)"] = lambda: add(xa, xb, out=xo)
    ways["launch(), xtarget"] = add.prepare(xa, xb, out=xo)
    opened = xtarget.device(device)
    ways["run(add, xtarget, out=o)"]()
    call = bound("xtarget")
    prepared, stream = call.direct, opened.default_stream
    values = [xa.address, xb.address, xo.address]
    ways["prepared launch alone"] = lambda: prepared(values, stream)
    return ways, opened.synchronize


def spirv_ways(device: str) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    """Beside NumPy's and ours: the run time's own binding, its kernel and arguments ready."""
    ways, wait = numpy_ways(device)
    opened = xtarget.device(device)
    stream = opened.default_stream
    arrays = [xtarget.asarray(np.ones(N, np.float32), device=device) for _ in range(4)]
    a, b, o, other = (array.address for array in arrays)
    kept.extend(arrays)
    layout = xtarget.spec.ArrayType("float32", (N,), (1,))
    (artifact,) = xtarget.compile("add", layout, layout, target=opened.info.target)
    module = opened.load(artifact)
    grid = (-(-N // 1024), 1, 1)
    fixed = [N, *(0 for parameter in artifact.parameters if parameter.hidden)]
    prepared = module.function().prepare(LaunchConfig(grid), [None, None, None, *fixed])
    pairs = itertools.cycle([(a, b, o), (other, a, b)])
    floor = _dpctl_submit if opened.info.vendor == "intel" else _pyopencl_enqueue
    enqueue = [floor(module, stream.handle, arrays, artifact, grid, count) for count in (1, 2)]
    finish = stream.handle.wait if opened.info.vendor == "intel" else stream.handle.finish

    def finished(start: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> None:
            start()
            finish()

        return both

    return {
        "the binding, the same values": enqueue[0],
        "the binding, and finish": finished(enqueue[0]),
        "the binding, other values, finish": finished(enqueue[1]),
        "prepared, the same values": lambda: prepared((a, b, o), stream),
        "the binding, other values": enqueue[1],
        "prepared, other values": lambda: prepared(next(pairs), stream),
        **ways,
    }, wait


def _pyopencl_enqueue(
    module: Any, queue: Any, arrays: list[Any], artifact: Any, grid: tuple[int, ...], choices: int
) -> Callable[[], Any]:
    """Alone, or after setting the three addresses where there are several choices of them."""
    import pyopencl as cl

    kernel = cl.Kernel(module.raw, artifact.entry)
    memory = [cl.SVM((ctypes.c_char * 1).from_address(array.address)) for array in arrays]
    a, b, o, other = memory
    kernel.set_args(a, b, o, np.int32(N), *[a] * (len(artifact.parameters) - 4))
    work, block = (grid[0] * artifact.block[0], 1, 1), artifact.block
    if choices == 1:
        return lambda: cl.enqueue_nd_range_kernel(queue, kernel, work, block)
    turns = itertools.cycle([(a, b, o), (other, a, b)])

    def launch() -> None:
        for index, value in enumerate(next(turns)):
            kernel.set_arg(index, value)
        cl.enqueue_nd_range_kernel(queue, kernel, work, block)

    return launch


def _dpctl_submit(
    module: Any, queue: Any, arrays: list[Any], artifact: Any, grid: tuple[int, ...], choices: int
) -> Callable[[], Any]:
    import dpctl.memory

    a, b, o, other = (dpctl.memory.MemoryUSMDevice(4 * N, queue=queue) for _ in arrays)
    rest = [ctypes.c_int32(N), *[a] * (len(artifact.parameters) - 4)]
    turns = itertools.cycle([[a, b, o, *rest], [other, a, b, *rest]][:choices])
    work, block = [1, 1, grid[0] * artifact.block[0]], [1, 1, artifact.block[0]]
    return lambda: queue.submit_async(module.raw, next(turns), work, block)


def cuda_ways(device: str) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    """The field on CUDA: cuda.core, torch, CuPy, Triton."""
    import cuda.core as core
    import torch

    a, b, o = (torch.ones(N, device="cuda") for _ in range(3))
    xtarget.run("add", a, b, out=o)
    call = bound("torch")
    opened = xtarget.device(device)
    stream = opened.default_stream
    values = [t.data_ptr() for t in (a, b, o)]

    layout = xtarget.spec.ArrayType("float32", (N,), (1,))
    (artifact,) = xtarget.compile("add", layout, layout, target=opened.info.target)
    kernel = core.ObjectCode.from_cubin(artifact.binary).get_kernel(artifact.entry)
    config = core.LaunchConfig(
        grid=-(-N // 1024), block=artifact.block[0], shmem_size=artifact.shared_bytes
    )
    fixed = [ctypes.c_int32(N), 0, 0]
    add = xtarget.get("add")
    on = core.LEGACY_DEFAULT_STREAM
    native = call._launches[0].function.native(LaunchConfig(call._launches[0].grid))
    run = xtarget.run  # a module with names that are loaded late takes 0.05 us to give one
    ways: dict[str, Callable[[], Any]] = {
        "cuLaunchKernel, in C": InC(native, call._launches[0].grid[0], [*values, N, 0, 0]),
        "cuda.core launch": lambda: core.launch(on, config, kernel, *values, *fixed),
        "prepared launch alone": lambda: call.direct(values, stream),
        "xtarget.run(add, torch, out=o)": lambda: xtarget.run("add", a, b, out=o),
        "run(add, torch, out=o)": lambda: run("add", a, b, out=o),
        "k(torch, out=o)": lambda: add(a, b, out=o),
        "launch(), torch": add.prepare(a, b, out=o),
        "run(add, torch)": lambda: xtarget.run("add", a, b),
        "torch.add(a, b, out=o)": lambda: torch.add(a, b, out=o),
        "torch a + b": lambda: a + b,
    }
    xa, xb, xo = (xtarget.asarray(np.ones(N, np.float32), device=device) for _ in range(3))
    ways["run(add, xtarget, out=o)"] = lambda: xtarget.run("add", xa, xb, out=xo)
    ways["launch(), xtarget"] = add.prepare(xa, xb, out=xo)
    na, nb, no = (np.ones(N, np.float32) for _ in range(3))
    ways["run(add, NumPy, out=o), copies"] = lambda: xtarget.run(
        "add", na, nb, out=no, device=device
    )
    ways["run(sum, torch, dim=1)"] = lambda: xtarget.run("sum", s, dim=1)
    ways["run(sum, torch, axis=1)"] = lambda: xtarget.run("sum", s, axis=1)
    s, t = (torch.randn(64, 1024, device="cuda") for _ in range(2))
    p, q, r = (torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(3))
    ways["run(softmax, torch, out=o)"] = lambda: xtarget.run("softmax", s, out=t)
    ways["run(matmul, torch, out=o)"] = lambda: xtarget.run("matmul", p, q, out=r)
    ways |= _ways_of_several(torch)
    try:
        import cupy
    except ImportError:
        pass
    else:
        ca, cb, co = (cupy.ones(N, cupy.float32) for _ in range(3))
        ways["run(add, CuPy, out=o)"] = lambda: run("add", ca, cb, out=co)
        ways["launch(), CuPy"] = add.prepare(ca, cb, out=co)
        ways["run(add, CuPy)"] = lambda: xtarget.run("add", ca, cb)
        ways["cupy.add(a, b, out=o)"] = lambda: cupy.add(ca, cb, co)
        kept.extend((ca, cb, co))
    try:
        ways |= _triton_way(a, b, o)
    except ImportError:
        print("Triton is not installed: left out")
    return ways, torch.cuda.synchronize


def _ways_of_several(torch: Any) -> dict[str, Callable[[], Any]]:
    """Calls that are several launches: of parts, and of their results."""
    x, one = torch.ones(1 << 20, device="cuda"), torch.ones((), device="cuda")
    thin, wide = (torch.ones(shape, device="cuda") for shape in ((16, 4096), (4096, 16)))
    square = torch.ones(16, 16, device="cuda")
    return {
        "run(sum 2^20, torch, out=o)": lambda: xtarget.run("sum", x, out=one),
        "launch() of it": xtarget.get("sum").prepare(x, out=one),
        "run(sum 2^20, torch)": lambda: xtarget.run("sum", x),
        "torch.sum(2^20)": lambda: torch.sum(x),
        "run(std 2^20, torch)": lambda: xtarget.run("std", x),
        "torch.std(2^20)": lambda: torch.std(x),
        "run(matmul 16x4096x16, out=o)": lambda: xtarget.run("matmul", thin, wide, out=square),
        "torch.matmul(…, out=o)": lambda: torch.matmul(thin, wide, out=square),
    }


def _triton_way(a: Any, b: Any, o: Any) -> dict[str, Callable[[], Any]]:
    from triton_add import add

    grid = (-(-N // 1024),)
    return {"Triton jit_fn[grid](…)": lambda: add[grid](a, b, o, N, BLOCK=1024)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default=None)
    parser.add_argument("--only", metavar="PATTERN", default="", help="ways beside the floor")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    device = options.device or xtarget.default_device().name
    info = xtarget.device(device).info
    find = {"nvidia": cuda_ways, "cpu": spirv_ways, "intel": spirv_ways}
    ways, wait = find.get(info.vendor, numpy_ways)(device)
    first = next(iter(ways))
    ways = {n: way for n, way in ways.items() if n == first or re.search(options.only, n)}
    figures = measure(ways, wait)
    floor = figures[first]
    print(f"host microseconds per launch, {N} floats, {info.product} ({info.runs_on})")
    from xtarget._core import told

    print(f"core: {told()}; the first line is the floor")
    for name, value in figures.items():
        print(f"  {name:34} {value:7.2f}  {value / floor:5.2f} x")
    if options.json:
        options.json.write_text(json.dumps({"device": info.product, "us": figures}, indent=1))


if __name__ == "__main__":
    main()
