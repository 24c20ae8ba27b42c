"""The cost of warm calls of users' kernels on the host beside a call of the catalog: in place, with
several results, several launches, an array left out, a result that begins as zeros. All ways in
turn, in one process; of each the least, and its ratio to `run("add", a, b, out=o)`.

    python benchmarks/bench_author.py [--device cpu] [--library torch] [--elements 64]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from turns import least_seconds

import xtarget
from xtarget.spec import Out, cdiv, step

_ROUNDS, _CALLS = 40, 200


@triton.jit
def _add(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(a + i, inside) + tl.load(b + i, inside), inside)


@triton.jit
def _grow(a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(a + i, tl.load(a + i, inside) + tl.load(b + i, inside), inside)


@triton.jit
def _both(a, b, total, product, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x, y = tl.load(a + i, inside), tl.load(b + i, inside)
    tl.store(total + i, x + y, inside)
    tl.store(product + i, x * y, inside)


@triton.jit
def _biased(a, bias, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(a + i, inside)
    if bias is not None:
        x += tl.load(bias + i, inside)
    tl.store(out + i, x, inside)


_SIZES: dict[str, Any] = {
    "grid": lambda c: (cdiv(c.n, 128),),
    "sizes": {"n": lambda c: c.a.size},
    "constants": {"BLOCK": 128},
}


def _register() -> None:
    both: dict[str, Any] = {"inputs": ("a", "b"), **_SIZES}
    plain: dict[str, Any] = {**both, "complete": True}
    kernel = xtarget.kernel
    kernel(name="author.add", outputs={"out": "a"}, **plain)(_add)
    kernel(name="author.grow", updates=("a",), **both)(_grow)
    kernel(name="author.both", outputs={"total": "a", "product": "a"}, **plain)(_both)
    biased = {**plain, "inputs": ("a", "bias?")}
    kernel(name="author.biased", outputs={"out": "a"}, **biased)(_biased)
    kernel(name="author.zeroed", outputs={"out": Out("a", init=0)}, **both)(_add)

    def twice(c: Any) -> Any:
        yield step(_add, (cdiv(c.n, 128),), out=c.half)
        yield step(_add, (cdiv(c.n, 128),), a=c.half)

    kernel(
        name="author.chain", inputs=("a", "b"), sizes=_SIZES["sizes"], constants={"BLOCK": 128},
        workspaces={"half": "a"}, outputs={"out": "a"}, complete=True,
    )(twice)  # fmt: skip


def _arrays(library: str, device: str, elements: int) -> list[Any]:
    host = np.ones(elements, np.float32)
    if library == "torch":
        import torch

        return [torch.from_numpy(host.copy()).to(device) for _ in range(4)]
    return [host.copy() if library == "numpy" else xtarget.asarray(host) for _ in range(4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="torch's: cpu, cuda, xpu")
    parser.add_argument("--library", default="torch", choices=("torch", "numpy", "xtarget"))
    parser.add_argument("--elements", type=int, default=64)
    asked = parser.parse_args()
    _register()
    a, b, o, p = _arrays(asked.library, asked.device, asked.elements)
    run = xtarget.run
    ways: dict[str, Callable[[], object]] = {
        'run("add", a, b, out=o)': lambda: run("add", a, b, out=o),
        "the same kernel of a user's": lambda: run("author.add", a, b, out=o),
        "in place": lambda: run("author.grow", a, b),
        "two results, out=(o, p)": lambda: run("author.both", a, b, out=(o, p)),
        "an array left out": lambda: run("author.biased", a, None, out=o),
        "zeros first": lambda: run("author.zeroed", a, b, out=o),
        "two launches": lambda: run("author.chain", a, b, out=o),
        'run("add", a, b)': lambda: run("add", a, b),
        "two results": lambda: run("author.both", a, b),
        "an array left out, new result": lambda: run("author.biased", a, None),
    }
    for call in ways.values():
        for _ in range(20):
            call()
    wait: Callable[[], object] = list  # nothing to wait for
    if asked.device == "cuda":
        import torch

        wait = torch.cuda.synchronize
    least = least_seconds(ways, _ROUNDS, _CALLS, wait)
    first = next(iter(least.values()))
    for name, seconds in least.items():
        print(f"{name:32} {seconds * 1e6:8.2f} µs {seconds / first:6.2f} x")


if __name__ == "__main__":
    main()
