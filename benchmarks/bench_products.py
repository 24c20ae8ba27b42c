"""Random matrix products of 16 bits on an NVIDIA GPU against torch, and other choices for the slow.

    python benchmarks/bench_products.py [--seeds 21,22] [--count 28] [--below 0.85] [--seconds 110]

Classes of each seed: `any` (sides of 33 to 5000), `eights` and `sixteens` (multiples of these),
`narrow` (one side of 33 to 127); and `linear`: few rows times a large matrix, always with other
choices. Each is compared with torch's result and timed as a graph of calls, the device alone, with
three sets of inputs; ratios are torch's time / ours. Products below `--below` are made again with
the choices that a model puts near the best. `--plan` needs no GPU: it says what is chosen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import xtarget
from xtarget._compile.functions import compile_together
from xtarget._kernels import libraries, tunings
from xtarget._launch import planning
from xtarget._launch.specializing import requests
from xtarget._values.types import Target
from xtarget.spec import ArrayType

_TARGET = "nvidia:sm_90"
_UNITS = 132
#: Tiles, warps, stages and ways that are tried for few rows, and tiles are no higher than the first
#: of these that has all rows.
_HEIGHTS = 16, 32, 64
_FEW = (
    (32, 128, 4, 4, "few"), (32, 128, 4, 6, "few"), (32, 256, 4, 3, "few"), (64, 64, 4, 5, "few"),
    (64, 64, 4, 7, "few"), (64, 128, 4, 3, "few"), (64, 128, 4, 4, "few"), (64, 128, 4, 5, "few"),
    (128, 64, 4, 4, "few"), (128, 64, 4, 6, "few"), (128, 128, 4, 3, "few"),
    (64, 64, 4, 8, "described"), (64, 128, 4, 4, "described"), (64, 128, 4, 5, "described"),
    (128, 64, 4, 6, "described"), (32, 256, 4, 4, "described"), (128, 128, 4, 3, "described"),
)  # fmt: skip


class Shape(NamedTuple):
    """A product: its class, sizes, and layout (N by rows, T by columns)."""

    kind: str
    m: int
    n: int
    k: int
    layout: str
    dtype: str = "bfloat16"

    def __str__(self) -> str:
        return f"{self.kind:6} {self.m} x {self.n} x {self.k} {self.layout} {self.dtype}"


class Way(NamedTuple):
    """A choice as `tuned_matmul` has it."""

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    way: str
    parts: int


def shapes(seeds: list[int], count: int, kinds: list[str]) -> Iterator[Shape]:
    if "linear" in kinds:
        for m in (1, 4, 16, 64):
            yield Shape("linear", m, 14336, 4096, "NT")
    for seed in seeds:
        chosen = random.Random(seed)
        for kind in (one for one in kinds if one != "linear"):
            for _ in range(count if kind == "any" else count // 2):
                sides = [chosen.randint(33, 5000) for _ in range(3)]
                if kind in ("eights", "sixteens"):
                    step = 8 if kind == "eights" else 16
                    sides = [max(48, side // step * step) for side in sides]
                if kind == "narrow":
                    sides[chosen.randrange(2)] = chosen.randint(33, 127)
                layout = chosen.choice(("NN", "NT", "TN", "TT"))
                yield Shape(kind, *sides, layout)


def types(shape: Shape) -> tuple[ArrayType, ArrayType]:
    m, n, k = shape.m, shape.n, shape.k
    a = (1, m) if shape.layout[0] == "T" else (k, 1)
    b = (1, k) if shape.layout[1] == "T" else (n, 1)
    return ArrayType(shape.dtype, (m, k), a), ArrayType(shape.dtype, (k, n), b)


class Try(NamedTuple):
    """How a product is made: a choice, and whether operands whose rows are fetched slowly are read
    where they are (`kept`) or `copied`; empty: as the plan decides.
    """

    way: Way
    halved: str = ""

    def __str__(self) -> str:
        w = self.way
        tile = f"{w.way} {w.m}x{w.n}x{w.k} {w.num_warps} {w.num_stages} /{w.parts}"
        return f"{tile} {self.halved}".rstrip()


class Planner:
    """Plans of products, without a device."""

    def __init__(self) -> None:
        self._kernel = libraries.find("matmul")
        self.plan(Shape("any", 300, 400, 520, "NN"))
        name = next(one for one in sys.modules if one.endswith(".plans.tuned_matmul"))
        self._tuned = sys.modules[name]
        self._model = sys.modules[name.replace("tuned_matmul", "tuning_matmul")]
        self._described = sys.modules[name.replace("tuned_matmul", "described")]

    def plan(self, shape: Shape) -> tuple[Way, list[Any]]:
        """What is chosen, and the binaries that it needs."""
        given = types(shape)
        call = planning.call_of(
            self._kernel, given, {}, Target.parse(_TARGET), _UNITS, aligned=(True, True)
        )
        with tunings.trying({}) as seen:
            plan = planning.make_plan(self._kernel, call)
        found = requests(self._kernel, plan, given, (True, True))
        way = Way(*seen[-1].choice) if seen else Way(0, 0, 0, 0, 0, "forced", 0)
        return way, [one for launch, one, _ in found if 0 not in launch.grid]

    @contextlib.contextmanager
    def forced(self, one: Try) -> Iterator[None]:
        """Plans make products in this way."""
        tuned, described, model = self._tuned, self._described, self._model
        before = tuned.chosen, described._stay
        way = one.way
        choice = model.Choice(model.MatmulTile(*way[:5]), way.way, "measured", way.parts)
        tuned.chosen = lambda call, wanted, problem: choice
        if one.halved == "kept":
            described._stay = lambda call, wanted, problem: [True, True]
        elif one.halved:
            described._stay = lambda call, wanted, problem: [
                not described.halved(problem.a), not described.halved(problem.b)
            ]  # fmt: skip
        try:
            yield
        finally:
            tuned.chosen, described._stay = before

    def _wanted(self, shape: Shape) -> tuple[Any, list[bool]]:
        """The product that a choice is made for, and which operands are not copied."""
        asked: list[Any] = []
        stays: list[list[bool]] = []
        chosen, stay = self._tuned.chosen, self._described._stay

        def noted(call: Any, wanted: Any, problem: Any) -> list[bool]:
            stays.append(stay(call, wanted, problem))
            return stays[-1]

        self._tuned.chosen = lambda *given: asked.append(given[1]) or chosen(*given)
        self._described._stay = noted
        try:
            self.plan(shape)
        finally:
            self._tuned.chosen, self._described._stay = chosen, stay
        return asked[-1], stays[-1] if stays else [True, True]

    def near(self, shape: Shape, within: float) -> list[Try]:
        """Choices by their estimated time, those within a factor of the best."""
        if shape.kind == "linear":
            height = next(one for one in _HEIGHTS if one >= shape.m)
            return [Try(Way(height, n, k, warps, stages, way, 0)) for n, k, warps, stages, way
                    in _FEW if (height + n) * k * stages * 2 < 220 << 10]  # fmt: skip
        model, (wanted, stays) = self._model, self._wanted(shape)
        found: dict[Way, float] = {}
        for row in self._tuned.choices.rows(wanted.vendor, wanted.arch, "matmul of copies"):
            tile = model.MatmulTile(*row.config)
            way = row.text.get("way", "tiles")
            if not row.cost or not model.allowed(wanted, model.Choice(tile, way)):
                continue
            if row.text.get("out", wanted.out) != wanted.out:
                continue
            for estimate, parts, _ in model._estimated(wanted, row):
                one = Way(*tile, way, parts)
                found[one] = min(estimate, found.get(one, estimate))
        best = min(found.values(), default=0)
        ways = [one for one in sorted(found, key=found.__getitem__) if found[one] <= within * best]
        tries = [Try(way) for way in ways]
        a, b = (kept.strides for kept in types(shape))
        slow = self._described.halved(a), self._described.halved(b)
        if shape.kind == "eights" and any(slow):
            if not all(stays):
                tries += [Try(way, "kept") for way in ways[:4]]
            if any(s and k for s, k in zip(slow, stays, strict=True)):
                tries += [Try(way, "copied") for way in ways[:3]]
        return tries


class Timer:
    """Times on the GPU."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def arrays(self, shape: Shape) -> tuple[Any, Any]:
        torch, dtype = self.torch, getattr(self.torch, shape.dtype)

        def made(rows: int, columns: int, letter: str) -> Any:
            if letter == "T":
                return torch.randn(columns, rows, device="cuda", dtype=dtype).T
            return torch.randn(rows, columns, device="cuda", dtype=dtype)

        return made(shape.m, shape.k, shape.layout[0]), made(shape.k, shape.n, shape.layout[1])

    def graph(self, calls: list[Any]) -> float:
        from bench_speed import by_events, by_graphs  # which needs a GPU

        for call in calls:
            call()
        (once,) = by_events([calls])
        return by_graphs([calls], once)[0]

    def ours(self, sets: list[Any], outs: list[Any]) -> float:
        """Seconds of our product, planned anew."""
        for changed in libraries.on_change:
            changed("matmul")
        return self.graph(
            [
                lambda s=s, o=o: xtarget.run("matmul", *s, out=o)
                for s, o in zip(sets, outs, strict=True)
            ]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seeds", default="21,22,23,24,25,26")
    parser.add_argument("--count", type=int, default=22)
    parser.add_argument("--kinds", default="linear,any,eights,narrow")
    parser.add_argument("--below", type=float, default=0.85)
    parser.add_argument("--within", type=float, default=1.6)
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    begun = time.monotonic()
    planner = Planner()
    wanted = list(shapes([*map(int, given.seeds.split(","))], given.count, given.kinds.split(",")))
    chosen: dict[Shape, Way] = {}
    needed: dict[Any, None] = {}
    for shape in wanted:
        chosen[shape], own = planner.plan(shape)
        needed |= dict.fromkeys(own)
    print(f"{len(wanted)} products, {len(needed)} binaries, {time.monotonic() - begun:.0f} s")
    if given.plan:
        for shape in wanted:
            print(shape, *chosen[shape], len(planner.near(shape, given.within)))
        return
    torch = (timer := Timer()).torch
    torch.manual_seed(0)
    from xtarget._devices import registry

    device = registry.open_device("nvidia:0")
    cores = len(os.sched_getaffinity(0))

    def compiled(several: dict[Any, None]) -> None:
        jobs = [(one, device.info.target, device.info.compile_options) for one in several]
        failed = [error for _, error in compile_together(jobs, cores, device) if error]
        took = time.monotonic() - begun
        print(f"{len(jobs)} binaries, {took:.0f} s {failed[:2] or ''}", flush=True)

    compiled(needed)
    rows: list[dict[str, Any]] = []
    kept: dict[Shape, tuple[list[Any], list[Any]]] = {}
    for shape in wanted:
        if time.monotonic() - begun > given.seconds * 0.6:
            print("the time is over")
            break
        sets = [timer.arrays(shape) for _ in range(3)]
        outs = [torch.empty(shape.m, shape.n, device="cuda", dtype=sets[0][0].dtype) for _ in sets]
        theirs = timer.graph(
            [lambda s=s, o=o: torch.matmul(*s, out=o) for s, o in zip(sets, outs, strict=True)]
        )
        right = outs[0].clone()
        outs[0].fill_(float("nan"))
        xtarget.run("matmul", *sets[0], out=outs[0])
        error = float((outs[0].float() - right.float()).norm() / right.float().norm())
        if not error < 5e-3:
            print("WRONG", shape, error)
        ours = timer.ours(sets, outs)
        rows.append({"shape": shape, "way": chosen[shape], "ours": ours, "theirs": theirs})
        if theirs / ours < given.below or shape.kind == "linear":
            kept[shape] = sets, outs
        if kept and torch.cuda.memory_allocated() > 50 << 30:
            kept.pop(next(reversed(kept)))
    print(f"timed at {time.monotonic() - begun:.0f} s; {len(kept)} to try", flush=True)
    for kind in given.kinds.split(","):
        ratios = [one["theirs"] / one["ours"] for one in rows if one["shape"].kind == kind]
        if ratios:
            mean, low = statistics.geometric_mean(ratios), sum(one < 0.75 for one in ratios)
            print(
                f"{kind}: {len(ratios)} products, geometric mean {mean:.3f}, least "
                f"{min(ratios):.2f}, {low} below 0.75"
            )
    tries = {shape: planner.near(shape, given.within) for shape in kept}
    needed = {}
    for shape, several in tries.items():
        for one in several:
            with planner.forced(one):
                needed |= dict.fromkeys(planner.plan(shape)[1])
    compiled(needed)
    for row in rows:
        shape, ratio = row["shape"], row["theirs"] / row["ours"]
        if shape not in kept:
            continue
        row["tried"] = found = []
        sets, outs = kept[shape]
        for one in tries[shape]:
            if time.monotonic() - begun > given.seconds:
                break
            try:
                with planner.forced(one):
                    found.append((one, timer.ours(sets, outs)))
            except Exception as error:  # a choice that does not fit is told
                print(shape, one, f"{type(error).__name__}: {error}"[:200])
        found.sort(key=lambda tried: tried[1])
        shown = 8 if shape.kind == "linear" else 3
        best = ", ".join(f"{one} {row['theirs'] / s:.2f}" for one, s in found[:shown])
        print(f"{shape}: {row['ours'] * 1e6:.1f} us, {ratio:.2f} by {Try(row['way'])}; {best}")
    if given.json:
        given.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
