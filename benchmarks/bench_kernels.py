"""Kernels against torch on a GPU, or against NumPy on the CPU, on the same data in one process.

    python benchmarks/bench_kernels.py [--device nvidia:0] [--json FILE]

GPU: median of 30 runs by events, both ways taking turns, caches flushed by the size of the data.
CPU: least of 5 runs that take turns; then, as NumPy's BLAS keeps a core busy for 0.1 s after each
product, least of 5 in a row, after a pause. Ratios are theirs / ours: above 1 we are faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xtarget

Case = tuple[str, float, str, Callable[[], Any], Callable[[], Any]]


def gpu_cases() -> Iterator[Case]:
    """(name, amount of work, unit, ours, torch's) with work in GB or GFLOP."""
    import torch
    import torch.nn.functional as F

    def randn(*shape: int, dtype: Any = torch.bfloat16) -> Any:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    run = xtarget.run
    x, y = randn(1 << 28, dtype=torch.float32), randn(1 << 28, dtype=torch.float32)
    out = torch.empty_like(x)
    gb = x.numel() * 4 / 1e9
    yield (
        "add fp32 2^28",
        3 * gb,
        "GB",
        lambda: run("add", x, y, out=out),
        lambda: torch.add(x, y, out=out),
    )
    yield (
        "exp fp32 2^28",
        2 * gb,
        "GB",
        lambda: run("exp", x, out=out),
        lambda: torch.exp(x, out=out),
    )
    yield "gelu fp32 2^28", 2 * gb, "GB", lambda: run("gelu", x, out=out), lambda: F.gelu(x)
    yield "sum fp32 2^28", gb, "GB", lambda: run("sum", x), lambda: x.sum()
    small = x[: 1 << 24]
    yield "sum fp32 2^24", gb / 16, "GB", lambda: run("sum", small), lambda: small.sum()
    for rows, columns in ((4096, 4096), (4096, 16384), (32768, 4096)):
        z = randn(rows, columns)
        o = torch.empty_like(z)
        w = torch.ones(columns, device="cuda", dtype=z.dtype)
        gb, label = 2 * z.numel() * 2 / 1e9, f"bf16 {rows}x{columns}"
        yield (
            f"softmax {label}",
            gb,
            "GB",
            lambda z=z, o=o: run("softmax", z, out=o),
            lambda z=z: torch.softmax(z, -1),
        )
        yield (
            f"layer_norm {label}",
            gb,
            "GB",
            lambda z=z, o=o, w=w: run("layer_norm", z, w, w, out=o),
            lambda z=z, w=w: F.layer_norm(z, (z.shape[-1],), w, w),
        )
        yield (
            f"rms_norm {label}",
            gb,
            "GB",
            lambda z=z, o=o, w=w: run("rms_norm", z, w, out=o),
            lambda z=z, w=w: F.rms_norm(z, (z.shape[-1],), w),
        )
    for n in (1024, 2048, 4096, 8192):
        a, b = randn(n, n), randn(n, n)
        c = torch.empty_like(a)
        yield (
            f"matmul bf16 {n}^3",
            2 * n**3 / 1e9,
            "GFLOP",
            lambda a=a, b=b, c=c: run("matmul", a, b, out=c),
            lambda a=a, b=b, c=c: torch.matmul(a, b, out=c),
        )
    a, b = randn(16, 4096), randn(4096, 4096)
    yield (
        "matmul bf16 16x4096x4096",
        2 * 16 * 4096**2 / 1e9,
        "GFLOP",
        lambda: run("matmul", a, b),
        lambda: a @ b,
    )


def cpu_cases(device: str) -> Iterator[Case]:
    rng = np.random.default_rng(0)

    def run(*args: Any, **options: Any) -> Any:
        return xtarget.run(*args, device=device, **options)

    def randn(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    x, y, o = randn(1 << 24), randn(1 << 24), np.empty(1 << 24, np.float32)
    yield (
        "add fp32 2^24",
        3 * x.nbytes / 1e9,
        "GB",
        lambda: run("add", x, y, out=o),
        lambda: np.add(x, y, out=o),
    )
    yield (
        "add fp32 2^24, new result",
        3 * x.nbytes / 1e9,
        "GB",
        lambda: run("add", x, y),
        lambda: np.add(x, y),
    )
    z = randn(4096, 4096)
    softmax, norm = (xtarget.catalog()[n].reference for n in ("softmax", "layer_norm"))
    assert softmax is not None
    assert norm is not None
    w = np.ones(4096, np.float32)
    p = o.reshape(z.shape)

    def softmax_in_place() -> None:
        """NumPy without new memory but for a number a row."""
        np.subtract(z, z.max(axis=-1, keepdims=True), out=p)
        np.exp(p, out=p)
        np.divide(p, p.sum(axis=-1, keepdims=True), out=p)

    yield (
        "softmax fp32 4096^2, out=",
        2 * z.nbytes / 1e9,
        "GB",
        lambda: run("softmax", z, out=p),
        softmax_in_place,
    )
    yield (
        "softmax fp32 4096^2",
        2 * z.nbytes / 1e9,
        "GB",
        lambda: run("softmax", z),
        lambda: softmax(z),
    )
    yield (
        "layer_norm fp32 4096^2",
        2 * z.nbytes / 1e9,
        "GB",
        lambda: run("layer_norm", z, w, w),
        lambda: norm(z, w, w),
    )
    yield (
        "softmax fp32 4096^2, columns",
        2 * z.nbytes / 1e9,
        "GB",
        lambda: run("softmax", z, axis=0),
        lambda: softmax(z, axis=0),
    )
    for axis, along in ((1, "rows"), (0, "columns")):
        yield (
            f"sum fp32 4096^2, {along}",
            z.nbytes / 1e9,
            "GB",
            lambda axis=axis: run("sum", z, axis=axis),
            lambda axis=axis: z.sum(axis),
        )
    yield (
        "matrix 4096^2 times vector fp32",
        z.nbytes / 1e9,
        "GB",
        lambda: run("matmul", z, w),
        lambda: z @ w,
    )
    for rows in (1, 2, 4):
        few = randn(rows, 4096)
        yield (
            f"{rows} x 4096 times matrix 4096^2 fp32",
            z.nbytes / 1e9,
            "GB",
            lambda few=few: run("matmul", few, z),
            lambda few=few: few @ z,
        )
    a, b = randn(1024, 1024), randn(1024, 1024)
    half_a, half_b = a.astype(np.float16), b.astype(np.float16)
    for kind, left, right in (("fp32", a, b), ("fp16 (NumPy fp32)", half_a, half_b)):
        yield (
            f"matmul {kind} 1024^3",
            2 * 1024**3 / 1e9,
            "GFLOP",
            lambda left=left, right=right: run("matmul", left, right),
            lambda: a @ b,
        )


def gpu_seconds(ways: list[Callable[[], Any]]) -> list[float]:
    import torch

    times: list[list[float]] = [[] for _ in ways]
    for _ in range(30):
        for way, seconds in zip(ways, times, strict=True):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            way()
            stop.record()
            stop.synchronize()
            seconds.append(start.elapsed_time(stop) / 1e3)
    return [statistics.median(seconds) for seconds in times]


def cpu_seconds(ways: list[Callable[[], Any]]) -> list[float]:
    best = [float("inf")] * len(ways)
    for _ in range(5):
        for index, way in enumerate(ways):
            best[index] = min(best[index], *timeit.repeat(way, number=1, repeat=1))
    return best


def cpu_seconds_alone(way: Callable[[], Any]) -> float:
    time.sleep(0.2)
    return min(timeit.repeat(way, number=1, repeat=5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    info = xtarget.device(options.device).info
    on_gpu = info.vendor == "nvidia"
    if not on_gpu and info.vendor != "cpu":
        parser.error(f"there is nothing to compare with on {info.name}")
    figures: list[dict[str, Any]] = []
    print(f"{info.product} ({info.runs_on}); theirs is {'torch' if on_gpu else 'NumPy'}")
    for name, work, unit, ours, theirs in gpu_cases() if on_gpu else cpu_cases(info.name):
        for way in (ours, theirs):
            way()
        mine, other = (gpu_seconds if on_gpu else cpu_seconds)([ours, theirs])
        figures.append({"case": name, "ours": work / mine, "theirs": work / other, "unit": unit})
        line = (
            f"  {name:30} {work / mine:9.1f} {unit + '/s':8} theirs {work / other:9.1f}  "
            f"{other / mine:5.2f} x"
        )
        if not on_gpu:
            mine, other = cpu_seconds_alone(ours), cpu_seconds_alone(theirs)
            figures[-1]["in a row"] = other / mine
            line += f"; in a row {work / mine:6.1f}, {work / other:6.1f}: {other / mine:5.2f} x"
        print(line)
    if options.json:
        options.json.write_text(json.dumps({"device": info.product, "cases": figures}, indent=1))


if __name__ == "__main__":
    main()
