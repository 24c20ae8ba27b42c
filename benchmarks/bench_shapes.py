"""Host time of calls with a shape that the process has never seen, binaries loaded.

    python benchmarks/bench_shapes.py [--device nvidia:0] [--shapes 300] [--json FILE]

A server sees a new length at nearly every step. For each kind of call this prints the median
microseconds per call for shapes that were seen before and for shapes that were not. torch (on CUDA;
NumPy elsewhere) and Triton's own launching of `add` do the same work in the same process, in turns.

Nothing is allocated: results go to views of memory that exists. A new shape is used once. The few
calls that need another binary compile or load it; the median leaves them out. The least of the
medians of 5 rounds counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xtarget

ROUNDS = 5


@dataclass(frozen=True)
class Case:
    """One kind of call.

    Attributes:
        name: what varies from call to call.
        arguments: from a size to the arguments of `ours` and `peer`, the result last.
        ours: the call of xtarget.
        peer: the same work of the array library.
        first: the smallest size; sizes go up from it.
    """

    name: str
    arguments: Callable[[int], tuple[Any, ...]]
    ours: Callable[..., Any]
    peer: Callable[..., Any]
    first: int = 1025


def cases(pool: Any, like: Any, device: str | None) -> Iterator[Case]:
    """The calls, on views of `pool` (a flat array of 2^24 float32).

    Args:
        like: the array library, `torch` or `numpy`.
        device: where host arrays go; None for arrays that lie on a device.
    """
    place = {} if device is None else {"device": device}

    def view(start: int, *shape: int) -> Any:
        size = int(np.prod(shape))
        return pool[start : start + size].reshape(shape)

    def run(kernel: str) -> Callable[..., Any]:
        return lambda *args: xtarget.run(kernel, *args[:-1], out=args[-1], **place)

    def softmax(x: Any, out: Any) -> None:
        if like is np:
            np.exp(x - x.max(axis=-1, keepdims=True), out=out)
            out /= out.sum(axis=-1, keepdims=True)
        else:
            like.softmax(x, -1, out=out)

    half = 1 << 23
    yield Case(
        "add: n",
        lambda n: (view(0, n), view(half // 2, n), view(half, n)),
        run("add"),
        lambda a, b, out: like.add(a, b, out=out),
    )
    yield Case(
        "softmax: rows", lambda n: (view(0, n, 64), view(half, n, 64)), run("softmax"), softmax
    )
    yield Case(
        "softmax: row length",
        lambda n: (view(0, 64, n), view(half, 64, n)),
        run("softmax"),
        softmax,
    )
    yield Case(
        "matmul: m",
        lambda m: (view(0, m, 256), view(half // 2, 256, 256), view(half, m, 256)),
        run("matmul"),
        lambda a, b, out: like.matmul(a, b, out=out),
        65,
    )
    yield Case(
        "sum(axis=1): rows",
        lambda n: (view(0, n, 64), view(half, n)),
        lambda x, out: xtarget.run("sum", x, axis=1, out=out, **place),
        lambda x, out: like.sum(x, 1, out=out),
    )


def triton_add(pool: Any) -> Case:
    from triton_add import add

    half = 1 << 23

    def launch(a: Any, b: Any, out: Any) -> None:
        add[(-(-len(out) // 1024),)](a, b, out, len(out), BLOCK=1024)

    return Case(
        "Triton's JIT, add: n",
        lambda n: (pool[:n], pool[half // 2 : half // 2 + n], pool[half : half + n]),
        launch,
        launch,
    )


def median_us(way: Callable[..., Any], calls: list[tuple[Any, ...]]) -> float:
    """Median host microseconds of one call each."""
    taken = []
    for arguments in calls:
        start = time.perf_counter()
        way(*arguments)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


def measure(case: Case, shapes: int, wait: Callable[[], Any]) -> dict[str, float]:
    """Medians of seen and new shapes, ours and the peer's."""
    size = case.first
    seen_calls = [case.arguments(size)] * shapes
    for way in (case.ours, case.peer):
        for multiple in (size, size + 7, -(-size // 16) * 16):  # binaries that sizes choose from
            way(*case.arguments(multiple))
    size += 32
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        new = [case.arguments(size + i) for i in range(shapes)]
        size += shapes
        for name, way, calls in (
            ("ours, seen", case.ours, seen_calls),
            ("ours, new", case.ours, new),
            ("peer, seen", case.peer, seen_calls),
            ("peer, new", case.peer, new),
        ):
            value = median_us(way, calls)
            wait()
            best[name] = min(best.get(name, value), value)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default=None)
    parser.add_argument("--shapes", type=int, default=300, help="new shapes in each of 5 rounds")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    device = options.device or xtarget.default_device().name
    info = xtarget.device(device).info
    if info.vendor == "nvidia":
        import torch

        pool: Any = torch.rand(1 << 24, device="cuda")
        all_cases = [*cases(pool, torch, None), triton_add(pool)]
        wait: Callable[[], Any] = torch.cuda.synchronize
        peer = "torch"
    else:
        pool = np.random.default_rng(0).random(1 << 24, dtype=np.float32)
        all_cases = list(cases(pool, np, device))
        wait = xtarget.device(device).synchronize
        peer = "NumPy"
    figures = {case.name: measure(case, options.shapes, wait) for case in all_cases}
    print(f"host microseconds per call, median, {info.product} ({info.runs_on}); peer: {peer}")
    print(f"  {'':22} {'seen':>9} {'new':>9} {'new/seen':>9} {'peer seen':>10} {'peer new':>9}")
    for name, row in figures.items():
        ours, new = row["ours, seen"], row["ours, new"]
        print(
            f"  {name:22} {ours:9.1f} {new:9.1f} {new / ours:8.1f}x "
            f"{row['peer, seen']:10.1f} {row['peer, new']:9.1f}"
        )
    if options.json:
        options.json.write_text(json.dumps({"device": info.product, "us": figures}, indent=1))


if __name__ == "__main__":
    main()
