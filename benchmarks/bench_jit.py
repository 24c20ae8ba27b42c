"""How long the CPU's run time takes over every kernel of the catalog in every dtype.

    python benchmarks/bench_jit.py [--kernel NAME] [--over SECONDS]

Cold: from SPIR-V to machine code. Warm: from the machine code that the cache keeps. A kernel is
called on shapes that reach its different forms; each load on the device is timed by itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

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


def measure(names: list[str], over: float) -> None:
    import ml_dtypes

    device = xtarget.device("cpu:0")
    load, cold, warm = type(device).load, [], []
    what = ""

    def timed(self: Any, artifact: Any, native: bytes | None = None) -> Any:
        start = time.perf_counter()
        module = load(self, artifact, native)
        cold.append((time.perf_counter() - start, f"{what} {artifact.entry}", artifact.warp_size))
        code = module.native()
        start = time.perf_counter()
        load(self, artifact, code).close()
        warm.append((time.perf_counter() - start, cold[-1][1]))
        return module

    type(device).load = timed  # type: ignore[method-assign]
    for name in names:
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
        mine = [entry for entry in cold if entry[1].startswith(f"{name} ")]
        slowest = max(mine, default=(0.0, "nothing", 1))
        print(f"{name}: {len(mine)} loads, slowest {slowest[0]:.2f} s {slowest[1]}", flush=True)
    seconds = sorted(cold, reverse=True)
    print(
        f"cold: {len(cold)} loads, median {statistics.median(t for t, *_ in cold):.3f} s, slowest:"
    )
    for took, label, warp in seconds[:8]:
        print(f"  {took:7.3f} s  {label}{'' if warp == 1 else '  (lanes stayed threads)'}")
    print(f"over {over:g} s: {[label for took, label, _ in seconds if took > over] or 'none'}")
    print(
        f"lanes stayed threads: {sorted({label for _, label, warp in cold if warp > 1}) or 'none'}"
    )
    print(f"warm: median {statistics.median(t for t, _ in warm) * 1e3:.2f} ms, slowest:")
    for took, label in sorted(warm, reverse=True)[:4]:
        print(f"  {took * 1e3:7.2f} ms {label}")


if __name__ == "__main__":
    main()
