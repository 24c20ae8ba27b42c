"""Operators of real shapes against torch on an NVIDIA GPU, in one process.

    python benchmarks/bench_speed.py [--only TEXT,TEXT] [--family products] [--json FILE]

`benchmarks/speed/` has the computations by family. Each result is checked first, against torch in
float64 or float32, and for being the same twice. Then two times of each: by events around one call
(host included, in turns; median of 30) and as a graph of many calls (the device alone; median of
7). Inputs rotate past the L2. Ratios are torch's time / ours; percentages are of the copy and the
matrix product that torch made at the beginning. A star marks a ratio below the one asked for.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from speed.case import Case, randn

#: Families: modules of `benchmarks/speed`.
_FAMILIES = ("products", "rows", "attention", "convolution")
#: Bytes of inputs to rotate through: more than any L2.
_ROTATED = 256 << 20


def _error(found: Any, exact: Any) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def check(case: Case, args: tuple[Any, ...]) -> str:
    """The fault of our result; empty if it is right."""
    exact = case.exact or (lambda *arrays: case.theirs(*(x.double() for x in arrays)))
    right = exact(*args).double()
    theirs = case.theirs(*args)
    again = case.run(*args)
    if case.reuses:
        ours = torch.empty_like(again).fill_(-1 if not again.is_floating_point() else math.nan)
        case.run(*args, out=ours)
    else:
        ours = case.run(*args)
    if not torch.equal(ours, again):
        return "differs from run to run"
    bound = 2 * _error(theirs, right) + 1e-6 if case.allowed is None else case.allowed
    found = _error(ours, right)
    return "" if found <= bound else f"error {found:.1e}, allowed {bound:.1e}"


def _seconds(start: Any, stop: Any) -> float:
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1e3


def _events() -> tuple[Any, Any]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def by_events(ways: list[list[Callable[[], Any]]]) -> list[float]:
    """Seconds of a call of each, host included."""
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(30):
        for way, seconds in zip(ways, times, strict=True):
            start, stop = _events()
            torch.cuda.synchronize()
            start.record()
            way[turn % len(way)]()
            stop.record()
            seconds.append(_seconds(start, stop))
    return [statistics.median(seconds) for seconds in times]


def by_graphs(ways: list[list[Callable[[], Any]]], once: float) -> list[float]:
    """Seconds of a call of each, the device alone."""
    graphs, counts = [], []
    for way in ways:
        rounds = max(1, min(16, int(2e-3 / max(once, 1e-6)))) // len(way) or 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(rounds):
                for one in way:
                    one()
        graphs.append(graph)
        counts.append(rounds * len(way))
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(8):
        for graph, count, seconds in zip(graphs, counts, times, strict=True):
            start, stop = _events()
            start.record()
            graph.replay()
            stop.record()
            took = _seconds(start, stop) / count
            if turn:  # the first replay uploads the graph
                seconds.append(took)
    return [statistics.median(seconds) for seconds in times]


def limits() -> tuple[float, float]:
    """Bytes per second of a copy, and operations per second of a bf16 product, by torch."""
    x = randn(1 << 28, dtype=torch.float32)
    y = torch.empty_like(x)
    a, b = (randn(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    ways: list[list[Callable[[], Any]]] = [
        [lambda: y.copy_(x)], [lambda: torch.matmul(a, b, out=c)]
    ]  # fmt: skip
    copy, product = by_events(ways)
    return 2 * 4 * x.numel() / copy, 2 * 8192**3 / product


def measure(case: Case) -> tuple[list[float], list[float]]:
    """Seconds of torch and of ours: by events, and by graphs; nan where it cannot be captured."""
    first = case.inputs()
    count = min(4, -(-_ROTATED // sum(x.numel() * x.element_size() for x in first)))
    sets = [first] + [case.inputs() for _ in range(count - 1)]
    theirs: list[Callable[[], Any]] = []
    ours: list[Callable[[], Any]] = []
    for args in sets:
        if case.out:
            made = torch.empty_like(case.theirs(*args))
            theirs.append(lambda args=args, out=made: case.theirs(*args, out=out))
        else:
            theirs.append(lambda args=args: case.theirs(*args))
        if case.reuses:
            own = torch.empty_like(case.run(*args))
            ours.append(lambda args=args, out=own: case.run(*args, out=out))
        else:
            ours.append(lambda args=args: case.run(*args))
    for way in (*theirs, *ours):
        way()
    events = by_events([theirs, ours])
    graphs = []
    for way in (theirs, ours):  # torch.autograd in a graph may be refused: ours is measured still
        try:
            graphs += by_graphs([way], max(events))
        except RuntimeError as error:
            print(f"  no graph: {str(error).splitlines()[0][:100]}")
            torch.cuda.synchronize()
            graphs.append(math.nan)
    return events, graphs


def cases(families: str) -> Iterator[Case]:
    for family in families.split(",") if families else _FAMILIES:
        yield from importlib.import_module(f"speed.{family}").cases()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default="", help="cases whose names have one of these texts")
    parser.add_argument("--family", default="", help=f"of {', '.join(_FAMILIES)}")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    torch.manual_seed(0)
    copy, product = limits()
    name = torch.cuda.get_device_name()
    print(
        f"{name}, torch {torch.__version__}; a copy {copy / 1e12:.2f} TB/s, "
        f"bf16 8192^3 {product / 1e12:.0f} TFLOP/s"
    )
    figures: list[dict[str, Any]] = []
    wrong = []
    for case in cases(options.family):
        if not any(text in case.name for text in options.only.split(",")):
            continue
        try:
            told = check(case, case.inputs())
            if told:
                wrong.append(f"{case.name}: {told}")
            events, graphs = measure(case)
        except Exception as error:  # a case that fails is told at the end; the others are measured
            traceback.print_exc()
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
            torch.cuda.empty_cache()
            continue
        own = events[1] if math.isnan(graphs[1]) else graphs[1]
        ratio = (events[0] if math.isnan(graphs[0]) else graphs[0]) / own
        limit = product if case.matrix else copy
        rate, unit = (case.work / own / 1e12, "TFLOP/s" if case.matrix else "TB/s")
        figures.append(
            {"case": case.name, "rate": rate, "unit": unit, "of limit": case.work / own / limit,
             "ratio": ratio, "asked": case.asked, "events": events, "graphs": graphs}
        )  # fmt: skip
        print(
            f"{case.name:44} {own * 1e6:8.1f} us {rate:7.2f} {unit:7} "
            f"{case.work / own / limit:4.0%}  torch / ours: {ratio:5.2f}"
            f"{'*' if ratio < case.asked else ' '} on the device, "
            f"{events[0] / events[1]:5.2f} with the host",
            flush=True,
        )
        torch.cuda.empty_cache()
    of_random = [one["ratio"] for one in figures if one["case"].startswith("random")]
    if of_random:
        print(
            f"{len(of_random)} random products: geometric mean "
            f"{statistics.geometric_mean(of_random):.2f}, least {min(of_random):.2f}"
        )
    for line in wrong:
        print("WRONG:", line)
    if options.json:
        limited = {"copy": copy, "product": product}
        options.json.write_text(json.dumps({"limits": limited, "cases": figures}, indent=1))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
