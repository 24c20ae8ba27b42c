"""Fused functions beside the same operators one after another, NumPy, torch and torch.compile.

    python benchmarks/bench_fuse.py [--case NAME ...] [--elements N] [--columns N] [--dtype T]
        [--calls N] [--device D]

Each line is the time of the other divided by that of the fused function, both measured in turns;
medians. `--calls`: so many calls, one after the other, are timed together.
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
from xtarget import run


class Six:
    """Six elementwise operators on one array."""

    arrays = ("rows",)

    @staticmethod
    def ours(x: Any) -> Any:
        y = run("relu", run("add", run("mul", x, 2), 1))
        return run("abs", run("sub", run("mul", y, 0.5), 1))

    @staticmethod
    def numpy(x: Any) -> Any:
        return np.abs(np.maximum(x * np.float32(2) + 1, 0) * np.float32(0.5) - 1)

    @staticmethod
    def torch(x: Any) -> Any:
        import torch

        return torch.abs(torch.relu(x * 2 + 1) * 0.5 - 1)


class Chain:
    """Six elementwise operators."""

    arrays = ("rows", "columns")

    @staticmethod
    def ours(x: Any, bias: Any) -> Any:
        y = run("sub", run("silu", run("add", run("mul", x, 0.5), bias)), x)
        return run("mul", run("tanh", y), 2)

    @staticmethod
    def numpy(x: Any, bias: Any) -> Any:
        y = x * np.float32(0.5) + bias
        y = y / (1 + np.exp(-y)) - x
        return np.tanh(y) * np.float32(2)

    @staticmethod
    def torch(x: Any, bias: Any) -> Any:
        import torch

        return torch.tanh(torch.nn.functional.silu(x * 0.5 + bias) - x) * 2


class Softmax:
    """A softmax written out."""

    arrays = ("rows",)

    @staticmethod
    def ours(x: Any) -> Any:
        y = run("mul", x, 0.125)
        power = run("exp", run("sub", y, run("max", y, axis=-1, keepdims=True)))
        return run("div", power, run("sum", power, axis=-1, keepdims=True))

    @staticmethod
    def numpy(x: Any) -> Any:
        y = x * np.float32(0.125)
        power = np.exp(y - y.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True)

    @staticmethod
    def torch(x: Any) -> Any:
        y = x * 0.125
        power = (y - y.amax(-1, keepdim=True)).exp()
        return power / power.sum(-1, keepdim=True)


def gelu_by_numpy(y: Any) -> Any:
    """NumPy has no erf, so the form with tanh."""
    inner = np.float32(0.7978845608) * (y + np.float32(0.044715) * y * y * y)
    return np.float32(0.5) * y * (1 + np.tanh(inner))


def gelu_and_residual(kernel: str) -> Callable[..., Any]:
    """An operator with weight and bias, gelu and a residual."""

    def ours(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        return run("add", run("gelu", run(kernel, x, weight, bias)), residual)

    return ours


class Norm:
    """layer_norm, gelu and a residual."""

    arrays = ("rows", "columns", "columns", "rows")
    ours = staticmethod(gelu_and_residual("layer_norm"))

    @staticmethod
    def numpy(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        apart = x - x.mean(-1, keepdims=True)
        y = apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + np.float32(1e-5))
        return gelu_by_numpy(y * weight + bias) + residual

    @staticmethod
    def torch(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        from torch.nn import functional

        return functional.gelu(functional.layer_norm(x, weight.shape, weight, bias)) + residual


class Linear:
    """linear, bias, gelu and a residual."""

    arrays = ("rows", "square", "columns", "rows")
    ours = staticmethod(gelu_and_residual("linear"))

    @staticmethod
    def numpy(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        return gelu_by_numpy(x @ weight.T + bias) + residual

    @staticmethod
    def torch(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        from torch.nn import functional

        return functional.gelu(functional.linear(x, weight, bias)) + residual


class Dense:
    """matmul, bias, gelu."""

    arrays = ("rows", "square", "columns")

    @staticmethod
    def ours(x: Any, weight: Any, bias: Any) -> Any:
        return run("gelu", run("add", run("matmul", x, weight), bias))

    @staticmethod
    def numpy(x: Any, weight: Any, bias: Any) -> Any:
        y = x @ weight + bias
        inner = np.float32(0.7978845608) * (y + np.float32(0.044715) * y * y * y)
        return np.float32(0.5) * y * (1 + np.tanh(inner))

    @staticmethod
    def torch(x: Any, weight: Any, bias: Any) -> Any:
        from torch.nn import functional

        return functional.gelu(x @ weight + bias)


class Attention:
    """A scaled query, attention of 8 heads, gate, residual."""

    arrays = ("heads", "heads", "heads", "heads", "heads")

    @staticmethod
    def ours(q: Any, k: Any, v: Any, gate: Any, residual: Any) -> Any:
        return run("attention", q * 0.5, k, v) * gate + residual

    @staticmethod
    def numpy(q: Any, k: Any, v: Any, gate: Any, residual: Any) -> Any:
        scores = (q * np.float32(0.5)) @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        power = np.exp(scores - scores.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True) @ v * gate + residual

    @staticmethod
    def torch(q: Any, k: Any, v: Any, gate: Any, residual: Any) -> Any:
        from torch.nn import functional

        own = (one[None] for one in (q * 0.5, k, v))
        return functional.scaled_dot_product_attention(*own)[0] * gate + residual


CASES: dict[str, Any] = {
    "six": Six,
    "chain": Chain,
    "softmax": Softmax,
    "norm": Norm,
    "linear": Linear,
    "dense": Dense,
    "attention": Attention,
}


def measure(
    ways: dict[str, Callable[[], Any]], wait: Callable[[], Any], calls: int
) -> dict[str, float]:
    """Median seconds of a call of each way, in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(14):
        for name, way in ways.items():
            start = time.perf_counter()
            for _ in range(calls):
                way()
            wait()
            if turn >= 4:
                times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(own) for name, own in times.items()}


def compare(case: Any, rows: int, columns: int, name: str, dtype: str, calls: int) -> None:
    shapes: dict[str, tuple[int, ...]] = {
        "rows": (rows, columns),
        "columns": (columns,),
        "square": (columns, columns),
        "heads": (8, rows // 8, columns),
    }
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shapes[one], np.float32).astype(dtype) for one in case.arrays]
    fused = xtarget.fuse(case.ours)
    ways: dict[str, Callable[[], Any]] = {}
    wait: Callable[[], Any] = xtarget.device(name).synchronize
    own: list[Any]
    if importlib.util.find_spec("torch"):
        import torch

        place = "cuda" if name.startswith("nvidia") else "cpu"
        own = [torch.from_numpy(array).to(place) for array in arrays]
        ways["torch"] = lambda: case.torch(*own)
        compiled = torch.compile(case.torch)
        ways["torch.compile"] = lambda: compiled(*own)
    else:
        own = [xtarget.asarray(array, device=name) for array in arrays]
    ways["xtarget, one after another"] = lambda: case.ours(*own)
    if name.startswith("cpu"):
        ways["NumPy"] = lambda: case.numpy(*arrays)
    ways["fused"] = lambda: fused(*own)
    times = measure(ways, wait, calls)
    launches = fused.explain(*own).partition("\n")[0].partition(". ")[2]
    head = f"{case.__doc__} {dtype} {rows} x {columns} on {name}"
    print(f"{head}: {times['fused'] * 1e6:.0f} us. {launches}")
    for way, seconds in times.items():
        print(f"{way:28} {seconds / times['fused']:6.2f} x  {seconds * 1e6:10.0f} us", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "float64"))
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--device")
    given = parser.parse_args()
    name = given.device or xtarget.default_device().name
    rows = given.elements // given.columns
    for case in given.case or CASES:
        compare(CASES[case], rows, given.columns, name, given.dtype, given.calls)


if __name__ == "__main__":
    main()
