"""The cost of a call of `torch.ops.xtarget.add` on the host beside what torch asks for an operator
from Python. A floor is the cost of an operator that only makes its result, beyond making it
(`torch.empty_like`): one of `torch.library.custom_op`, and one of `torch.library.Library.impl`,
which has neither gradients nor checks. Our operator is to cost at most the floor and 1 µs beyond
what `xtarget.run` costs, which makes the same launch. Rounds of all ways in turn, in one process;
the least of each.

    python benchmarks/bench_torch_op.py [--device cpu] [--elements 64]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from turns import least_seconds

import xtarget
import xtarget.torch

_ROUNDS, _CALLS = 60, 300


@torch.library.custom_op("xtarget_floor::custom", mutates_args=())
def _custom(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("xtarget_floor::custom_run", mutates_args=())
def _custom_run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return xtarget.run("add", x, y)  # type: ignore[no-any-return]  # it gives what it is given


def plain() -> Callable[..., torch.Tensor]:
    """An operator by `torch.library.Library`, without what `custom_op` adds."""
    library = torch.library.Library("xtarget_floor", "FRAGMENT")
    library.define("plain(Tensor x, Tensor y) -> Tensor")
    library.impl("plain", lambda x, y: torch.empty_like(x), "CompositeExplicitAutograd")
    globals()["_kept"] = library  # torch forgets the operator with it
    operator: Callable[..., torch.Tensor] = torch.ops.xtarget_floor.plain
    return operator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="torch's: cpu, cuda, xpu")
    parser.add_argument("--elements", type=int, default=64)
    asked = parser.parse_args()
    x = torch.rand(asked.elements, device=asked.device)
    custom, bare, own = _custom, plain(), torch.ops.xtarget.add
    ways: dict[str, Callable[[], object]] = {
        "torch.empty_like(x)": lambda: torch.empty_like(x),
        "custom_op that returns it": lambda: custom(x, x),
        "Library.impl that returns it": lambda: bare(x, x),
        "x + x": lambda: x + x,
        "custom_op that calls xtarget.run": lambda: _custom_run(x, x),
        'xtarget.run("add", x, x)': lambda: xtarget.run("add", x, x),
        "torch.ops.xtarget.add(x, x)": lambda: own(x, x),
    }
    wait = torch.cuda.synchronize if x.is_cuda else list  # list: nothing to wait for
    least = least_seconds(ways, _ROUNDS, _CALLS, wait)
    micro = {name: seconds * 1e6 for name, seconds in least.items()}
    for name, value in micro.items():
        print(f"{name:33} {value:7.2f} µs")
    nothing = micro["torch.empty_like(x)"]
    beyond = micro["torch.ops.xtarget.add(x, x)"] - micro['xtarget.run("add", x, x)']
    print(f"torch.ops beyond run: {beyond:.2f} µs")
    for name in ("custom_op", "Library.impl"):
        floor = micro[f"{name} that returns it"] - nothing
        print(f"floor of {name}: {floor:.2f} µs; torch.ops beyond it: {beyond - floor:+.2f} µs")


if __name__ == "__main__":
    main()
