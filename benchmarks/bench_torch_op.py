"""The cost of a call of `torch.ops.xtarget.add` on the host beside `xtarget.run`, and what torch
asks for an operator from Python that only makes its result. Rounds of all ways in turn, in one
process; the least of each.

    python benchmarks/bench_torch_op.py [--device cpu] [--elements 64]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import xtarget
import xtarget.torch

_ROUNDS, _CALLS = 60, 300


@torch.library.custom_op("xtarget_floor::custom", mutates_args=())
def _custom(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _plain() -> Callable[..., torch.Tensor]:
    """An operator by `torch.library.Library`, without what `custom_op` adds."""
    library = torch.library.Library("xtarget_floor", "FRAGMENT")
    library.define("plain(Tensor x, Tensor y) -> Tensor")
    library.impl("plain", lambda x, y: torch.empty_like(x), "CompositeExplicitAutograd")
    globals()["_kept"] = library  # torch forgets the operator with it
    operator: Callable[..., torch.Tensor] = torch.ops.xtarget_floor.plain
    return operator


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    for _ in range(_CALLS):
        call()
    return (time.perf_counter() - begun) / _CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="torch's: cpu, cuda, xpu")
    parser.add_argument("--elements", type=int, default=64)
    asked = parser.parse_args()
    x = torch.rand(asked.elements, device=asked.device)
    custom, plain, own = _custom, _plain(), torch.ops.xtarget.add
    ways: dict[str, Callable[[], object]] = {
        "torch.empty_like(x)": lambda: torch.empty_like(x),
        "custom_op that returns it": lambda: custom(x, x),
        "Library.impl that returns it": lambda: plain(x, x),
        "x + x": lambda: x + x,
        'xtarget.run("add", x, x)': lambda: xtarget.run("add", x, x),
        "torch.ops.xtarget.add(x, x)": lambda: own(x, x),
    }
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(_ROUNDS):
        for name, call in ways.items():
            least[name] = min(least[name], _seconds(call))
        if x.is_cuda:
            torch.cuda.synchronize()
    micro = {name: seconds * 1e6 for name, seconds in least.items()}
    for name, value in micro.items():
        print(f"{name:30} {value:7.2f} µs")
    nothing, floor, direct, run, op = (
        micro[name]
        for name in (
            "torch.empty_like(x)",
            "custom_op that returns it",
            "Library.impl that returns it",
            'xtarget.run("add", x, x)',
            "torch.ops.xtarget.add(x, x)",
        )
    )
    print(f"torch.ops beyond run: {op - run:.2f} µs")
    print(
        f"beyond empty_like: custom_op {floor - nothing:.2f}, Library.impl {direct - nothing:.2f}"
    )


if __name__ == "__main__":
    main()
