"""How long the CPU's run time takes over every kernel of the catalog in every dtype.

    python benchmarks/bench_jit.py [--kernel NAME] [--over SECONDS]

Cold: from SPIR-V to machine code. Warm: from the machine code that the cache keeps, the least of
five. A kernel is called on shapes that reach its different forms; each load on the device is timed
by itself. The seconds are those of processors, children included, which other work on the machine
disturbs less than the clock; what the clock said stands beside them for the slowest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench_compile import processor_seconds

import xtarget
from xtarget import XTargetError

FLAT = ("add", "sub", "mul", "div", "maximum", "relu", "gelu", "exp", "where")
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip


def calls(name: str, dtype: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments and options that reach the forms of a kernel."""

    def ones(*shape: int) -> Any:
        return np.ones(shape, dtype)

    if name in FLAT:
        count = {"where": 3, "relu": 1, "gelu": 1, "exp": 1}.get(name, 2)
        yield [ones(5000) for _ in range(count)], {}
        yield [ones(100, 200).T if i else ones(200, 100) for i in range(count)], {}
    elif name in ("sum", "max"):
        yield [ones(100, 5000)], {"axis": 1}
        yield [ones(5000, 100)], {"axis": 0}
        yield [ones(200_000)], {}
    elif name == "matmul":
        yield [ones(200, 100), ones(100, 200)], {}
        yield [ones(9, 100), ones(100, 20)], {}
        yield [ones(1, 10_000), ones(10_000, 5)], {}
    else:
        vectors = {"softmax": 0, "rms_norm": 1}.get(name, 2)
        for n in (512, 77, 5000):
            yield [ones(64, n), *(ones(n) for _ in range(vectors))], {}
        if name == "softmax":
            yield [ones(512, 64)], {"axis": 0}
            yield [ones(5000, 64)], {"axis": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernel", action="append", help="only this kernel; repeatable")
    parser.add_argument("--over", type=float, default=5.0, help="list loads slower than this")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xtarget-jit-") as folder:
        os.environ["XTARGET_CACHE_DIR"] = folder  # read when the first kernel is looked for
        measure(given.kernel or sorted(xtarget.catalog()), given.over)


@dataclass(frozen=True, order=True)
class Load:
    """One load: seconds of processors and on the clock."""

    cold: float
    clock: float
    warm: float
    what: str
    threads: bool

    def __str__(self) -> str:
        return (
            f"{self.cold:7.3f} s ({self.clock:.3f} on the clock)  warm {self.warm * 1e3:.2f} ms  "
            f"{self.what}{'  (lanes stayed threads)' if self.threads else ''}"
        )


def measure(names: list[str], over: float) -> None:
    import ml_dtypes

    device = xtarget.device("cpu:0")
    load, loads = type(device).load, []
    what = ""

    def timed(self: Any, artifact: Any, native: bytes | None = None) -> Any:
        start, before = time.perf_counter(), processor_seconds()
        module = load(self, artifact, native)
        if native is not None:
            return module
        cold, clock = processor_seconds() - before, time.perf_counter() - start
        code, warm = module.native(), []
        for _ in range(5):
            start = time.process_time()
            load(self, artifact, code).close()
            warm.append(time.process_time() - start)
        threads = artifact.warp_size > 1
        loads.append(Load(cold, clock, min(warm), f"{what} {artifact.entry}", threads))
        return module

    type(device).load = timed  # type: ignore[method-assign]  # what is timed
    for name in names:
        count = len(loads)
        for dtype in DTYPES:
            what = f"{name} {dtype}"
            kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
            try:
                for arguments, options in calls(name, kind):
                    xtarget.run(name, *arguments, device="cpu:0", **options)
            except xtarget.ArgumentError:
                continue  # the kernel does not take this dtype
            except XTargetError as error:
                print(f"  {what}: {error}")
        mine = loads[count:]
        print(f"{name}: {len(mine)} loads, slowest {max(mine, default='none')}", flush=True)
    slowest = sorted(loads, reverse=True)
    print(f"cold: {len(loads)} loads, median {statistics.median(one.cold for one in loads):.3f} s")
    for one in slowest[:12]:
        print(f"  {one}")
    print(f"over {over:g} s: {[one.what for one in slowest if one.cold > over] or 'none'}")
    threads = sorted({one.what for one in loads if one.threads})
    print(f"lanes stayed threads: {threads or 'none'}")
    print(f"warm: median {statistics.median(one.warm for one in loads) * 1e3:.2f} ms, slowest:")
    for one in sorted(loads, key=lambda one: one.warm, reverse=True)[:8]:
        print(f"  {one}")


if __name__ == "__main__":
    main()
