"""Graphs and residency on one device: replays beside torch's, growth of memory, many modules.

    python benchmarks/bench_graphs.py --device nvidia:0 [replay growth threads modules]
    python benchmarks/bench_graphs.py --device cpu --shapes 100000 growth

`replay`: a graph of 100 kernels, beside torch.cuda.CUDAGraph of the same 100 kernels, and of
torch's own. `growth`: resident memory of launches with ever new shapes, by 1 and 8 threads, after
the first 20,000. `threads`: launches of a prepared call by 8 threads, beside 1. `modules`: 500
kernels under XTARGET_MODULES (100): time of a call whose kernel is not loaded, beside the driver's
own load, lookup and unload of such a binary, which come between these calls: alone, one after the
other, they take a third less. One kernel is compiled; the others are its binary with another number
in it.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace as changed
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import xtarget
from xtarget._compile import functions

_KERNELS = 100
_MODULES = 500
#: What the kernel that is compiled adds, and its bytes.
_MARK = 1234.5


def _seconds(work: Callable[[], Any], settle: Callable[[], Any], rounds: int = 7) -> float:
    """The best of some rounds, each with what it has started done."""
    best = float("inf")
    for _ in range(rounds):
        settle()
        start = time.perf_counter()
        work()
        settle()
        best = min(best, time.perf_counter() - start)
    return best


def _arrays(device: str, n: int) -> Any:
    if device.startswith("nvidia"):
        import torch

        return torch.ones(n, device="cuda"), torch.ones(n, device="cuda")
    return tuple(xtarget.asarray(np.ones(n, np.float32), device=device) for _ in range(2))


def replay(device: str, n: int = 1 << 12, times: int = 200) -> None:
    a, b = _arrays(device, n)
    settle = xtarget.device(device).synchronize
    with xtarget.capture(device) as graph:
        for _ in range(_KERNELS):
            xtarget.run("add", a, b, out=a)

    def ours() -> None:
        for _ in range(times):
            graph.replay()

    mine = _seconds(ours, settle) / times
    print(f"replay of {graph.launches} kernels: {mine * 1e6:.1f} us")
    if not device.startswith("nvidia"):
        launch = xtarget.get("add").prepare(a, b, out=a)

        def one_by_one() -> None:
            for _ in range(times * _KERNELS):
                launch()

        alone = _seconds(one_by_one, settle, 3) / times
        print(f"  {_KERNELS} prepared launches: {alone * 1e6:.1f} us")
        return
    import torch

    for name, call in (
        ("the same kernels", lambda: xtarget.run("add", a, b, out=a)),
        ("torch's own", lambda: torch.add(a, b, out=a)),
    ):
        call()
        theirs = torch.cuda.CUDAGraph()
        with torch.cuda.graph(theirs):
            for _ in range(_KERNELS):
                call()

        def replays(theirs: Any = theirs) -> None:
            for _ in range(times):
                theirs.replay()

        found = _seconds(replays, settle) / times
        print(f"  torch.cuda.CUDAGraph of {name}: {found * 1e6:.1f} us, {mine / found:.3f} x")


def _resident() -> float:
    """MiB."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def growth(device: str, shapes: int, numbers: list[int]) -> None:
    for number in numbers:
        settle = xtarget.device(device).synchronize
        a, b = _arrays(device, 1 << 21)
        out = xtarget.run("add", a, b)

        def launches(
            first: int, count: int, step: int, arrays: Any = (a, b, out), settle: Any = settle
        ) -> None:
            x, y, z = arrays
            for at in range(first, first + count * step, step):
                n = 1 + at % (1 << 21)
                if at % 1000 < step:  # what waits to run is not growth
                    settle()
                xtarget.run("add", x[:n], y[:n], out=z[:n])

        gate = threading.Barrier(number + 1)

        def work(first: int, step: int = number, gate: threading.Barrier = gate) -> None:
            launches(first, 20_000 // step, step)
            for _ in range(2):
                gate.wait()
            launches(20_000 + first, shapes // step, step)
            for _ in range(2):
                gate.wait()

        workers = [threading.Thread(target=work, args=(first,)) for first in range(number)]
        for worker in workers:
            worker.start()
        gate.wait()
        before, start = _resident(), time.perf_counter()
        gate.wait()
        gate.wait()
        seconds, after = time.perf_counter() - start, _resident()
        gate.wait()
        for worker in workers:
            worker.join()
        print(
            f"growth with {number} threads after 20,000 launches, of {shapes:,} more of ever new "
            f"shapes: {after - before:+.2f} MiB, {shapes / seconds:,.0f} launches/s"
        )


def threads(device: str, count: int = 50_000) -> None:
    rates = {}
    for number in (1, 2, 4, 8):
        sets = [_arrays(device, 1024) for _ in range(number)]

        def work(arrays: Any, each: int) -> None:
            a, b = arrays
            for _ in range(each):
                xtarget.run("add", a, b, out=a)

        for arrays in sets:
            work(arrays, 100)
        workers = [threading.Thread(target=work, args=(arrays, count // number)) for arrays in sets]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rates[number] = count / (time.perf_counter() - start)
        xtarget.device(device).synchronize()
    text = ", ".join(f"{number}: {rate:,.0f}/s" for number, rate in rates.items())
    print(f"launches by threads: {text}; 8 make {rates[8] / rates[1]:.2f} x what 1 does")


def modules(device: str) -> None:
    """Kernels of a library of its own, which differ in a number."""
    os.environ.setdefault("XTARGET_MODULES", "100")
    source = "import triton\nimport triton.language as tl\n\n"
    for number in range(_MODULES):
        source += (
            f"@triton.jit\ndef k{number}(x, out, n, BLOCK: tl.constexpr):\n"
            "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            f"    tl.store(out + i, tl.load(x + i, mask=i < n) + {_MARK}, mask=i < n)\n\n\n"
        )
    catalog = """
from xtarget.spec import *
def kernel(number):
    def plan(call):
        x = call.array(0)
        out = call.output(x.shape, x.dtype)
        args = {"x": Input(0), "out": Output(0), "n": x.size}
        grid = ((x.size + 255) // 256, 1, 1)
        return Plan((out,), (Launch(f"many:k{number}", args, {"BLOCK": 256}, grid),))
    return KernelSpec(f"many.k{number}", ("x",), plan, complete=True)
KERNELS = [kernel(number) for number in range(%d)]
"""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "many.py").write_text(source)
        (Path(folder) / "catalog.py").write_text(catalog % _MODULES)
        xtarget.load_library(folder)
        x = _arrays(device, 1000)[0]
        settle = xtarget.device(device).synchronize
        names = [f"many.k{number}" for number in range(_MODULES)]
        start, functions.artifact = time.perf_counter(), _of_one(functions.artifact)
        for name in names:
            xtarget.run(name, x)
        print(f"modules: {_MODULES} loaded in {time.perf_counter() - start:.0f} s")
        wrong, taken, loads, unloads = 0, [], [], []
        for turn in range(2):
            for number, name in enumerate(names):
                if device.startswith("nvidia") and number % 5 == 0:
                    settle()
                    load, unload = _driver_load(_MODULES * (1 + turn) + number)
                    loads.append(load)
                    unloads.append(unload)
                settle()
                start = time.perf_counter()
                out = xtarget.run(name, x)
                taken.append(time.perf_counter() - start)
                wrong += not bool(
                    (np.asarray(out.cpu() if hasattr(out, "cpu") else out) == 1 + number).all()
                )
        print(f"  wrong: {wrong}; {xtarget.memory_stats()}")
        miss = statistics.median(taken)
        print(f"  a call whose kernel may be unloaded: {miss * 1e6:.0f} us (median)")
        if loads:
            own, whole = (
                statistics.median(loads),
                statistics.median(loads) + statistics.median(unloads),
            )
            print(
                f"  the driver's own load and lookup: {own * 1e6:.0f} us; {miss / own:.2f} x; with "
                f"its unload: {whole * 1e6:.0f} us; {miss / whole:.2f} x"
            )
        elif device.startswith("cpu"):
            own = _opencl_load(device)
            print(f"  pyopencl's own load and lookup: {own * 1e6:.0f} us; {miss / own:.2f} x")


def _of_one(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The artifacts of all kernels, made of one that is compiled."""
    made: list[Any] = []
    mark = struct.pack("<f", _MARK)

    def artifact(request: Any, *given: Any, **named: Any) -> Any:
        if request.source.name[:1] != "k":
            return compiled(request, *given, **named)
        if not made:
            made.append(compiled(request, *given, **named))
            assert mark in made[0].binary
        number = struct.pack("<f", float(request.source.name[1:]))
        return changed(made[0], binary=made[0].binary.replace(mark, number))

    return artifact


def _driver_load(number: int) -> tuple[float, float]:
    """Seconds that CUDA's driver takes to load one of these binaries and to look its kernel up, and
    to unload it.

    Args:
        number: of one that was never loaded: the driver may know code again.
    """
    from cuda.bindings import driver

    named = SimpleNamespace(source=SimpleNamespace(name=f"k{number}"))
    artifact = functions.artifact(named)  # type: ignore[arg-type]
    start = time.perf_counter()
    _, library = driver.cuLibraryLoadData(artifact.binary, None, None, 0, None, None, 0)
    _, kernel = driver.cuLibraryGetKernel(library, artifact.entry.encode())
    _, _function = driver.cuKernelGetFunction(kernel)
    loaded = time.perf_counter()
    driver.cuLibraryUnload(library)
    return loaded - start, time.perf_counter() - loaded


def _opencl_load(device: str) -> float:
    """Seconds of a load by pyopencl, from the machine code that the run time has made of it."""
    import pyopencl as cl

    from xtarget.targets.cpu.program import machine_code

    found = [f for (_, r), f in functions._functions.items() if r.source.name[:1] == "k"][:50]
    context, times = xtarget.device(device).default_stream.handle.context, []
    for function in found:
        artifact = function.artifact
        code = machine_code(artifact.binary, function._module.native())
        start = time.perf_counter()
        program = cl.Program(context, context.devices, [code]).build()
        cl.Kernel(program, artifact.entry)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="*", default=["replay", "growth", "threads", "modules"])
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--shapes", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 8], help="of growth")
    given = parser.parse_args()
    device = xtarget.device(given.device).info.name
    print(xtarget.device(device).info.product)
    for name in given.what:
        if name == "growth":
            growth(device, given.shapes, given.threads)
        else:
            {"replay": replay, "threads": threads, "modules": modules}[name](device)


if __name__ == "__main__":
    main()
