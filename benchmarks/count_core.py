"""How many instructions a warm call takes, by who runs them: no clock, so no noise.

    python benchmarks/count_core.py [--calls 200] [--only PATTERN] [--functions PATTERN]

Runs itself under valgrind's callgrind (Debian: valgrind). A C function that does nothing stands for
the driver's launch, as in `bench_core.py`: what is left is the part of Python, of the core, and of
what it asks (torch, the C library). `--only`: which kinds are counted; `--functions`: those whose
functions are listed.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARKS = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void clear(void) { CALLGRIND_ZERO_STATS; }
void dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
"""
#: What an object file's instructions are counted as.
PARTS = {"_native.abi3": "core", "libtorch": "torch", "libc10": "torch", "python": "Python"}


def load_nothing() -> None:
    """Have the CPU load no code: its compiler runs in a process of its own, which finds another
    processor than valgrind shows."""
    from xtarget.targets._objects.module import ModuleBase, QueueFunction
    from xtarget.targets.cpu import device
    from xtarget.targets.cpu.module import CpuFunction

    class Function(QueueFunction):
        native = CpuFunction.native  # type: ignore[attr-defined]  # `launch_nothing` has put it there

        def _global_size(self, grid: Any) -> Any:
            return grid

        def _prepared(self, global_size: Any, args: Any) -> Any:
            return lambda values, stream, size=None: None

    class Module(ModuleBase):
        def function(self, name: str | None = None) -> Any:
            return Function(self)

    def build(context: Any, of: Any, artifact: Any, entry: Any, info: Any, *_: Any) -> Any:
        return Module(True, artifact, info, [artifact.entry])

    module: Any = device
    module.build = build


def kinds(calls: int) -> dict[str, Callable[[], Any]]:
    """A call of each kind; those of new shapes give each length once."""
    import numpy as np
    import torch
    from bench_core import launch_nothing
    from bench_torch_op import plain

    import xtarget
    import xtarget.torch

    launch_nothing()
    load_nothing()
    n = 1 << 14
    floor, operator = plain(), torch.ops.xtarget.add
    values = np.ones(n, np.float32)
    a, b, o = (torch.from_numpy(values.copy()) for _ in range(3))
    x, y, z = (values.copy() for _ in range(3))
    r, s, t = (xtarget.asarray(values, device="cpu") for _ in range(3))
    one = torch.empty(())
    stream = xtarget.device("cpu").stream()
    add = xtarget.get("add")
    lengths = [n - 16 * at for at in range(1, calls + 200)]
    slices = iter([(a[:at], b[:at], o[:at]) for at in lengths])

    def new_shape() -> None:
        p, q, w = next(slices)
        xtarget.run("add", p, q, out=w)

    found: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "run, torch, out=": lambda: xtarget.run("add", a, b, out=o),
        "k(), torch, out=": lambda: add(a, b, out=o),
        "launch(), torch": add.prepare(a, b, out=o),
        "run, torch, new shape": new_shape,
        "run, torch, allocates": lambda: xtarget.run("add", a, b),
        "torch.empty": lambda: torch.empty(n),
        "sum (2 launches), torch, out=": lambda: xtarget.run("sum", a, out=one),
        "sum, torch, dim=0": lambda: xtarget.run("sum", a, dim=0, out=one),
        "run, torch, out=, stream=": lambda: xtarget.run("add", a, b, out=o, stream=stream),
        "run, NumPy, out=": lambda: xtarget.run("add", x, y, out=z),
        "launch(), NumPy": add.prepare(x, y, out=z),
        "run, ours, out=": lambda: xtarget.run("add", r, s, out=t),
        "launch(), ours": add.prepare(r, s, out=t),
        "run, torch, a number, out=": lambda: xtarget.run("mul", a, 2.0, out=o),
        "torch.ops.xtarget.add": lambda: operator(a, b),
        "an operator by Library.impl": lambda: floor(a, b),
        "torch.empty_like": lambda: torch.empty_like(a),
    }
    return found


def count(calls: int, only: str) -> None:
    """The loops; runs under callgrind."""
    library = ctypes.CDLL(os.environ["COUNT_CORE_MARKS"])
    found = {name: call for name, call in kinds(calls).items() if re.search(only, name)}
    for call in found.values():
        for _ in range(150):
            call()
    library.start()
    for name, call in found.items():
        steps = itertools.repeat(None, calls)
        library.clear()
        for _ in steps:
            call()
        library.dump(name.encode())


def costs(text: str) -> dict[str, Counter[str]]:
    """By object file and function, of a dump of callgrind's."""
    names: dict[str, dict[str, str]] = {"ob": {}, "fn": {}}
    now = {"ob": "", "fn": ""}
    found: dict[str, Counter[str]] = {}
    skip = False
    for line in text.splitlines():
        named = re.match(r"(ob|fn)=\((\d+)\)(?: (.*))?$", line)
        other = re.match(r"c(ob|fn)=\((\d+)\) (.*)$", line)
        if other:
            names[other[1]][other[2]] = other[3]
        elif named:
            if named[3]:
                names[named[1]][named[2]] = named[3]
            now[named[1]] = names[named[1]][named[2]]
        elif line.startswith("calls="):
            skip = True
        elif re.match(r"[\d+*-]\S* \d+$", line):
            if not skip:
                found.setdefault(now["ob"], Counter())[now["fn"]] += int(line.split()[1])
            skip = False
    return found


def part_of(file: str) -> str:
    return next((part for key, part in PARTS.items() if key in Path(file).name), "other")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--only", metavar="PATTERN", default="", help="kinds that are counted")
    parser.add_argument("--functions", metavar="PATTERN", help="list the functions of such kinds")
    options = parser.parse_args()
    if "COUNT_CORE_MARKS" in os.environ:
        count(options.calls, options.only)
        return
    with tempfile.TemporaryDirectory() as folder:
        source, marks = Path(folder, "marks.c"), Path(folder, "marks.so")
        source.write_text(MARKS)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", marks, source], check=True)
        environment = os.environ | {"COUNT_CORE_MARKS": str(marks), "OMP_NUM_THREADS": "1"}
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no"]
        command += [f"--callgrind-out-file={folder}/out", sys.executable, __file__]
        done = subprocess.run(
            [*command, "--calls", str(options.calls), "--only", options.only],
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(done.stderr)
        columns = ["all", "core", "Python", "torch", "other"]
        print(f"{'instructions a call':32}" + "".join(f"{one:>8}" for one in columns))
        for file in sorted(Path(folder).glob("out.*"), key=lambda one: int(one.suffix[1:])):
            text = file.read_text()
            told = re.search(r"Client Request: (.*)", text)
            if told is None:
                continue
            found = costs(text)
            parts: Counter[str] = Counter()
            for name, functions in found.items():
                parts[part_of(name)] += functions.total()
            parts["all"] = parts.total()
            print(f"{told[1]:32}" + "".join(f"{parts[c] / options.calls:8.0f}" for c in columns))
            if options.functions and re.search(options.functions, told[1]):
                ranked = Counter(
                    {(part_of(f), fn): n for f, fns in found.items() for fn, n in fns.items()}
                )
                for (part, function), number in ranked.most_common(45):
                    print(f"    {number / options.calls:8.1f} {part:8} {function[:100]}")


if __name__ == "__main__":
    main()
