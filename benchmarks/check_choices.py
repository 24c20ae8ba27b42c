"""Calls by the tables of choices against the same calls by the rules, and against torch, in turn.

    python benchmarks/check_choices.py [--device nvidia:0] [--seconds 60]

Each way has the same inputs, which take turns; medians of 7 rounds. Above 1 the table is faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from tune_suite import Case, arrays, gpu_cases

import xtarget
from xtarget._devices import registry
from xtarget._kernels import tunings
from xtarget._launch import trials
from xtarget._launch.samples import TorchClock, summarize

_THEIRS: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul,
    "sum": lambda x, axis=None: torch.sum(x) if axis is None else torch.sum(x, axis),
}


def check(case: Case, device: str) -> str:
    kernel, shapes, dtype, layout, options = case
    args = arrays(case, device)
    with tunings.trying({}) as seen:
        xtarget.get(kernel).prepare(*args, **options)
    if not seen or seen[0].how not in ("measured", "derived") or not seen[0].where:
        return ""
    one = seen[0]
    table = one.asked.table
    tried = trials.Trials(kernel, args, None, registry.open_device(device), options, (), {})
    ours, rule = tried.compare([{table: one.choice}, {table: one.asked.default}])
    clock = TorchClock(torch.cuda, 0)
    sets = [tuple(map(trials.copied, args)) for _ in range(min(len(tried._sets), 8))]
    calls = [lambda a=a: _THEIRS[kernel](*a, **options) for a in sets]
    clock.time(calls)
    count = max(8, min(500, round(4e-3 / max(ours.median, 1e-6))))
    theirs = summarize(
        [clock.time([calls[i % len(calls)] for i in range(count)]) / count for _ in range(7)]
    )
    shown = " ".join("x".join(map(str, shape)) for shape in shapes)
    return (
        f"{kernel} {dtype} {shown} {layout} {options or ''}: table {ours.median * 1e6:.1f} us "
        f"({ours.lower * 1e6:.1f}..{ours.upper * 1e6:.1f}), rule {rule.median * 1e6:.1f}: "
        f"{rule.median / ours.median:.2f} x; torch {theirs.median * 1e6:.1f}: "
        f"{theirs.median / ours.median:.2f} x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    for case in gpu_cases():
        if case[0] in _THEIRS and time.monotonic() < end:
            line = check(case, given.device)
            if line:
                print(line, flush=True)


if __name__ == "__main__":
    main()
