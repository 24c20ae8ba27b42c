"""Matrix products of real shapes, long rows, reductions to one, transposed copies and scans against
torch on an NVIDIA GPU, in one process.

    python benchmarks/bench_speed.py [--only TEXT] [--json FILE]

Each result is checked first, against torch in float64, and for being the same twice. Then two
times of each, in turns: by events around one call (host included; median of 30) and as a graph of
many calls (the device alone; median of 7). Inputs rotate past the L2. Ratios are torch's time /
ours; percentages are of the copy and the matrix product that torch made at the beginning.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import xtarget

#: Bytes of inputs to rotate through: more than any L2.
_ROTATED = 256 << 20


@dataclass(frozen=True)
class Case:
    """A computation.

    Attributes:
        inputs: makes the arrays of a call.
        call: what our kernel is called with, `out` given.
        theirs: the same by torch.
        work: bytes, or floating-point operations where `matrix`.
        out: whether torch's function takes `out`.
        exact: the result of arrays in float64; None: torch's own.
    """

    name: str
    kernel: str
    inputs: Callable[[], tuple[Any, ...]]
    theirs: Callable[..., Any]
    work: float
    matrix: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    out: bool = False
    exact: Callable[..., Any] | None = None


def _randn(*shape: int, dtype: Any) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def _product(m: int, n: int, k: int, layout: str, dtype: Any, *, memory: bool = False) -> Case:
    def inputs() -> tuple[Any, ...]:
        a = _randn(k, m, dtype=dtype).T if layout[0] == "T" else _randn(m, k, dtype=dtype)
        b = _randn(n, k, dtype=dtype).T if layout[1] == "T" else _randn(k, n, dtype=dtype)
        return a, b

    size = 2 if dtype is torch.bfloat16 else 4
    work = (m * k + k * n + m * n) * size if memory else 2 * m * n * k
    name = f"{'bf16' if size == 2 else 'fp32'} {layout} {m}x{n}x{k}"
    return Case(name, "matmul", inputs, torch.matmul, work, not memory, out=True)


def cases() -> Iterator[Case]:
    half, single = torch.bfloat16, torch.float32
    for n, k in ((4096, 4096), (14336, 4096)):
        for m in (1, 4, 16, 32, 64):
            yield _product(m, n, k, "NT", half, memory=True)
        yield _product(16, n, k, "NN", half, memory=True)
    for size in (512, 1024, 2048):
        for layout in ("NN", "NT"):
            yield _product(size, size, size, layout, half)
    for layout in ("NN", "NT", "TN", "TT"):
        for m, n, k in ((4096,) * 3, (8192,) * 3, (4096, 4096, 14336), (8192, 8192, 1024)):
            yield _product(m, n, k, layout, half)
    yield _product(4096, 4096, 64, "NT", half, memory=True)
    for m, n, k in ((333, 1001, 777), (1500, 1500, 1500), (3001, 4111, 2777)):
        for layout in ("NN", "NT"):
            yield _product(m, n, k, layout, half)
    for size in (1024, 2048, 4096):
        for layout in ("NN", "NT"):
            yield _product(size, size, size, layout, single)
    for dtype, shape in ((half, (128, 131072)), (single, (128, 131072)), (half, (4096, 32768)),
                         (single, (4096, 32768))):  # fmt: skip
        yield Case(
            f"softmax {str(dtype).removeprefix('torch.')} {shape[0]}x{shape[1]}",
            "softmax",
            lambda dtype=dtype, shape=shape: (_randn(*shape, dtype=dtype),),
            lambda x, out=None: torch.softmax(x, -1, out=out),
            2 * shape[0] * shape[1] * dtype.itemsize,
            out=True,
        )
    for power in (20, 24, 28):
        for name in ("sum", "max"):
            yield Case(
                f"{name} fp32 2^{power}",
                name,
                lambda power=power: (_randn(1 << power, dtype=single).abs(),),
                getattr(torch, name),
                4 << power,
            )
    for dtype in (single, half):
        yield Case(
            f"transposed copy {str(dtype).removeprefix('torch.')} 8192^2",
            "transpose",
            lambda dtype=dtype: (_randn(8192, 8192, dtype=dtype),),
            lambda x: x.T.contiguous(),
            2 * 8192**2 * dtype.itemsize,
        )
    yield Case(
        "cumsum fp32 2^26",
        "cumsum",
        lambda: (_randn(1 << 26, dtype=single),),
        lambda x, out=None: torch.cumsum(x, 0, out=out),
        8 << 26,
        out=True,
    )


def _error(found: Any, exact: Any) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def check(case: Case, args: tuple[Any, ...]) -> str:
    """The fault of our result; empty if it is right."""
    options = dict(case.options)
    exact = case.theirs(*(x.double() for x in args))
    theirs = case.theirs(*args)
    ours = torch.empty_like(theirs, memory_format=torch.contiguous_format).fill_(float("nan"))
    xtarget.run(case.kernel, *args, out=ours, **options)
    again = xtarget.run(case.kernel, *args, **options)
    if not torch.equal(ours, again):
        return "differs from run to run"
    bound = 2 * _error(theirs, exact) + 1e-6
    found = _error(ours, exact)
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
    x = _randn(1 << 28, dtype=torch.float32)
    y = torch.empty_like(x)
    a, b = (_randn(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    ways: list[list[Callable[[], Any]]] = [
        [lambda: y.copy_(x)], [lambda: torch.matmul(a, b, out=c)]
    ]  # fmt: skip
    copy, product = by_events(ways)
    return 2 * 4 * x.numel() / copy, 2 * 8192**3 / product


def measure(case: Case) -> tuple[list[float], list[float]]:
    """Seconds of torch and of ours: by events, and by graphs."""
    first = case.inputs()
    count = max(1, min(4, _ROTATED // sum(x.numel() * x.element_size() for x in first)))
    sets = [first] + [case.inputs() for _ in range(count - 1)]
    options = dict(case.options)
    theirs: list[Callable[[], Any]] = []
    ours: list[Callable[[], Any]] = []
    for args in sets:
        out = torch.empty_like(case.theirs(*args), memory_format=torch.contiguous_format)
        if case.out:
            theirs.append(lambda args=args, out=out: case.theirs(*args, out=out))
        else:
            theirs.append(lambda args=args: case.theirs(*args))
        ours.append(lambda args=args, out=out: xtarget.run(case.kernel, *args, out=out, **options))
    for way in (*theirs, *ours):
        way()
    events = by_events([theirs, ours])
    return events, by_graphs([theirs, ours], max(events))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default="", help="cases whose names have this text")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    torch.manual_seed(0)
    copy, product = limits()
    name = torch.cuda.get_device_name()
    print(
        f"{name}, torch {torch.__version__}; a copy {copy / 1e12:.2f} TB/s, "
        f"bf16 8192^3 {product / 1e12:.0f} TFLOP/s"
    )
    figures, wrong = [], []
    for case in cases():
        if options.only not in case.name:
            continue
        told = check(case, case.inputs())
        if told:
            wrong.append(f"{case.name}: {told}")
        events, graphs = measure(case)
        limit = product if case.matrix else copy
        rate, unit = (case.work / graphs[1] / 1e12, "TFLOP/s" if case.matrix else "TB/s")
        share = case.work / graphs[1] / limit
        figures.append(
            {"case": case.name, "rate": rate, "unit": unit, "of limit": share,
             "events": events, "graphs": graphs}
        )  # fmt: skip
        print(
            f"{case.name:32} {graphs[1] * 1e6:8.1f} us {rate:7.2f} {unit:7} "
            f"{share:4.0%}  torch / ours: {graphs[0] / graphs[1]:5.2f} "
            f"on the device, {events[0] / events[1]:5.2f} with the host",
            flush=True,
        )
    for line in wrong:
        print("WRONG:", line)
    if options.json:
        limited = {"copy": copy, "product": product}
        options.json.write_text(json.dumps({"limits": limited, "cases": figures}, indent=1))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
