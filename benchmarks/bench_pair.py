"""The cost of a change: this checkout against another one, in processes that take turns.

    git worktree add /tmp/before 7b90c5b
    python benchmarks/bench_pair.py --before /tmp/before [--only PART] [--rounds 15]

launch: microseconds of processor time of the calling thread for `run("add", a, b, out=o)` on the
CPU (with XTARGET_CORE=python also without the vendor's part of it), and for reading the three
arrays alone. The floor is
what torch's or NumPy's own attributes cost that any reader needs.
start: a second process (warm cache) that imports xtarget and runs one kernel on NumPy arrays:
processor time of the process and its children, over that of `import numpy`, and its modules.
threads: calls a second of one and of four threads that launch the same.
compile: milliseconds of processor time, children included, in which the compilers make add, softmax
and matmul of 1024x1024 float32 for the CPU and sm_90, and the CPU's run time machine code of them
(`jit`). Nothing is cached. The kernels are each checkout's own.

Each figure is the least and the median of the rounds; the ratio is the median of those taken pair
by pair, with its quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAUNCH = """
import json, os, sys, time
import numpy as np
import xtarget
try:
    from xtarget._launch.run import _calls, _describers
    try:
        from xtarget._launch.sized import BoundLaunch
    except ImportError:  # a checkout from before 2026-11-24
        from xtarget._launch.call import BoundLaunch
except ImportError:  # a checkout from before the rooms
    from xtarget._call import BoundLaunch
    from xtarget._run import _calls, _describers

try:
    from xtarget._launch.run import forget_calls
except ImportError:  # a checkout that serves no call by its class
    forget_calls = _calls.clear
n, run, ways = 4096, xtarget.run, {}
# the compiled core keeps launches of its own, which cannot be left out here
in_python = os.environ.get("XTARGET_CORE") == "python"
arrays = {"NumPy": [np.ones(n, np.float32) for _ in range(3)]}
arrays["own"] = [xtarget.asarray(x, device="cpu:0") for x in arrays["NumPy"]]
try:
    import torch
except ImportError:
    pass
else:
    arrays["torch"] = [torch.ones(n) for _ in range(3)]

def numpy_floor(x):
    x.ctypes, x.dtype, x.shape, x.strides, x.flags

def torch_floor(x):
    x.data_ptr(), x.dtype, x.shape, x.stride(), x.device

class Nothing:
    def __call__(self, values, stream):
        pass
    def synchronize(self):
        pass

def add(name, a, b, o):
    def call(device):
        return lambda: run("add", a, b, out=o, device=device)
    def without(way):
        # the same call, whose launch and wait do nothing
        def prepare():
            way()
            bound = list(_calls.values())[-1]
            was = bound.direct, bound._launches, bound.synchronous
            bound.direct = bound.direct and Nothing()
            bound._launches = tuple(BoundLaunch(Nothing(), l.order, ()) for l in was[1])
            bound.synchronous = False
            def restore():
                bound.direct, bound._launches, bound.synchronous = was
            return restore
        return way, prepare
    if name != "own":
        ways[f"{name}, device=cpu"] = call("cpu:0"), None
        if in_python:
            ways[f"{name}, device=cpu, no launch"] = without(call("cpu:0"))
    ways[name] = call(None), None
    if in_python:
        ways[f"{name}, no launch"] = without(call(None))
    run("add", a, b, out=o)
    describe = _describers[type(a)]
    ways[f"describe {name} x 3"] = lambda: (describe(a), describe(b), describe(o)), None
    floor = dict(NumPy=numpy_floor, torch=torch_floor).get(name)
    if floor:
        ways[f"floor {name} x 3"] = lambda: (floor(a), floor(b), floor(o)), None

for name, three in arrays.items():
    add(name, *three)
print(json.dumps(list(ways)), flush=True)
clock = time.thread_time
for line in sys.stdin:
    way, prepare = ways[line.strip()]
    forget_calls()
    restore = prepare() if prepare else None
    best = float("inf")
    for _ in range(10):
        start = clock()
        for _ in range(200):
            way()
        best = min(best, clock() - start)
    if restore:
        restore()
    print(best / 200 * 1e6, flush=True)
"""

START = """
import numpy as np
a = np.arange(4096, dtype=np.float32)
if __import__("sys").argv[1:] != ["bare"]:
    import xtarget
    assert (xtarget.run("add", a, a, device="cpu") == a + a).all()
"""
IMPORT = "import xtarget; xtarget.run"
NAMES = START + "\nimport sys; print(*sorted(sys.modules))"

THREADS = """
import json, threading, time
import numpy as np
import xtarget

def work(barrier, done, number, seconds=0.4):
    a, b, o = (np.ones(4096, np.float32) for _ in range(3))
    run = xtarget.run
    run("add", a, b, out=o, device="cpu:0")
    barrier.wait()
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        run("add", a, b, out=o, device="cpu:0")
        count += 1
    done[number] = count / seconds

found = {}
for threads in (1, 4):
    best = 0.0
    for _ in range(3):
        barrier, done = threading.Barrier(threads), {}
        all_ = [threading.Thread(target=work, args=(barrier, done, i)) for i in range(threads)]
        [t.start() for t in all_]
        [t.join() for t in all_]
        best = max(best, sum(done.values()))
    found[f"{threads} threads, us a call"] = 1e6 / best
print(json.dumps(found))
"""

COMPILE = """
import json, sys
from pathlib import Path
import xtarget
sys.path.insert(0, str(Path(xtarget.__file__).parents[2] / "benchmarks"))
from bench_compile import catalog_requests, processor_seconds
try:
    from xtarget._devices.registry import compiler
    from xtarget._values.types import Target
except ImportError:  # a checkout from before the rooms
    from xtarget._registry import compiler
    from xtarget._types import Target

KERNELS = ["add", "softmax", "matmul"]
device, work, artifacts = xtarget.device("cpu:0"), {}, []
for arch in ("cpu:spirv64", "nvidia:sm_90"):
    target = Target.parse(arch)
    for what, request in catalog_requests(target, KERNELS, ["float32"]):
        own = compiler(target.vendor)
        artifact = own.compile(request, target)
        work[f"{arch} {what}"] = lambda own=own, request=request, target=target: own.compile(
            request, target
        )
        if arch.startswith("cpu"):
            work[f"jit {what}"] = lambda artifact=artifact: device.load(artifact).close()
for way in work.values():
    way()
print(json.dumps(list(work)), flush=True)
for line in sys.stdin:
    start = processor_seconds()
    for _ in range(2):
        work[line.strip()]()
    print((processor_seconds() - start) / 2 * 1e3, flush=True)
"""


Pair = tuple[dict[str, float], dict[str, float]]


def environment(checkout: Path, cache: str) -> dict[str, str]:
    found = {
        name: value
        for name, value in os.environ.items()
        if name == "XTARGET_CORE" or not name.startswith(("XTARGET_", "PYTHON"))
    }
    return {**found, "PYTHONPATH": str(checkout / "src"), "XTARGET_CACHE_DIR": cache}


def output(code: str, variables: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    ).stdout


class Measuring:
    """A process that measures one of its ways when it is told to."""

    def __init__(self, code: str, variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self.ways: list[str] = json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def measure(self, way: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(way + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def in_processes(code: str) -> Callable[[list[dict[str, str]], int], list[Pair]]:
    """Both processes live at the same time and take turns of some milliseconds, so that they meet
    the same noise; after each three rounds they are new ones."""

    def measured(both: list[dict[str, str]], rounds: int) -> list[Pair]:
        pairs: list[Pair] = []
        while len(pairs) < rounds:
            two = [Measuring(code, variables) for variables in both]
            try:
                ways = [way for way in two[0].ways if way in two[1].ways]
                for _ in range(3):
                    found: tuple[dict[str, float], dict[str, float]] = ({}, {})
                    for way in ways:
                        order = (0, 1) if len(pairs) % 2 == 0 else (1, 0)
                        for which in order:
                            found[which][way] = two[which].measure(way)
                    pairs.append(found)
            finally:
                for one in two:
                    one.close()
        return pairs

    return measured


def in_turns(measure: Callable[[dict[str, str]], dict[str, float]]) -> Any:
    def pairs(both: list[dict[str, str]], rounds: int) -> list[Pair]:
        all_ = []
        for number in range(rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            found = {which: measure(both[which]) for which in order}
            all_.append((found[0], found[1]))
        return all_

    return pairs


def by_json(code: str) -> Callable[[dict[str, str]], dict[str, float]]:
    def measure(variables: dict[str, str]) -> dict[str, float]:
        found: dict[str, float] = json.loads(output(code, variables))
        return found

    return measure


def processor_ms(code: str, variables: dict[str, str], *arguments: str) -> float:
    """Of the least of 3 processes, with all their threads and children."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output(code, variables, *arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3

    return min(once() for _ in range(3))


def start(variables: dict[str, str]) -> dict[str, float]:
    return {
        "import xtarget, ms": processor_ms(IMPORT, variables),
        "import numpy alone, ms": processor_ms(START, variables, "bare"),
        "run(add), ms": processor_ms(START, variables),
    }


def table(pairs: list[Pair]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name in pairs[0][0]:
        ratios = sorted(after[name] / max(before[name], 1e-9) for before, after in pairs)
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        rows[name] = {
            "least": [min(pair[which][name] for pair in pairs) for which in (0, 1)],
            "before": statistics.median(before[name] for before, _ in pairs),
            "after": statistics.median(after[name] for _, after in pairs),
            "ratio": middle,
            "quartiles": [low, high],
        }
    return rows


def show(title: str, rows: dict[str, Any]) -> None:
    print(f"{title:<34}{'least':>18}{'median before':>14}{'after':>9}{'ratio':>8}   quartiles")
    for name, row in rows.items():
        low, high = row["quartiles"]
        print(
            f"  {name:<32}{row['least'][0]:9.2f}{row['least'][1]:9.2f}"
            f"{row['before']:14.2f}{row['after']:9.2f}{row['ratio']:8.3f}"
            f"   {low:.3f} to {high:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--only", choices=("launch", "start", "threads", "compile"), default=None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    parts: dict[str, Callable[[list[dict[str, str]], int], list[Pair]]] = {
        "launch": in_processes(LAUNCH),
        "start": in_turns(start),
        "threads": in_turns(by_json(THREADS)),
        "compile": in_processes(COMPILE),
    }
    all_rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        both = [environment(options.before.resolve(), one), environment(here, other)]
        names = []
        for variables in both:  # the caches fill
            output(START, variables)
            names.append(set(output(NAMES, variables).split()))
        for part, measure in parts.items():
            if options.only not in (None, part):
                continue
            pairs = measure(both, options.rounds)
            show(part, table(pairs))
            all_rows[part] = table(pairs)
        if options.only in (None, "start"):
            before, after = names
            print(f"modules of run(add): {len(before)} before, {len(after)} after")
            print("  only before:", *sorted(before - after))
            print("  only after:", *sorted(after - before))
            all_rows["modules"] = [len(before), len(after)]
    if options.json is not None:
        options.json.write_text(json.dumps(all_rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
