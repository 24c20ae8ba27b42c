"""The compiled core's own part of a call: processor time of the thread, µs.

    python benchmarks/bench_core.py [--rounds 15]

A C function that does nothing stands for the driver's launch, so that no GPU is needed; calls on
torch's tensors of the host are treated like those of a GPU. The last column counts the functions
of Python, and of C called by Python, that ran during a call.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import xtarget
from xtarget._arrays.torch import TorchKind
from xtarget._launch import native
from xtarget._launch.call import BoundCall
from xtarget._launch.native_launches import launches_of, launches_of_class
from xtarget._values.types import LaunchConfig
from xtarget.targets._objects.module import CLOSINGS
from xtarget.targets.cpu.module import CpuFunction
from xtarget.targets.optional import NativeLaunch

CALLS = 2000
NOTHING = """
int launch(void) { return 0; }
int fill(void) { return 0; }
int current(void **context) { *context = (void *)1; return 0; }
"""


class Code:
    stays = True


CODE = Code()


def launch_nothing() -> None:
    """Have the functions of the CPU be launched by a C function that does nothing."""
    folder = Path(tempfile.mkdtemp())
    (folder / "nothing.c").write_text(NOTHING)
    made = folder / "nothing.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, folder / "nothing.c"], check=True)
    library = ctypes.CDLL(str(made))
    launch, fill, current = (
        ctypes.cast(one, ctypes.c_void_p).value or 0
        for one in (library.launch, library.fill, library.current)
    )

    def started(function: Any, config: LaunchConfig) -> NativeLaunch:
        return NativeLaunch(
            launch,
            0,
            current,
            1,
            (1, 1, 1),
            0,
            module=function._module,
            code=CODE,
            fills=(fill, fill, fill),
            closings=CLOSINGS,
        )

    CpuFunction.native = started  # type: ignore[attr-defined]  # it has none

    def alone(call: BoundCall) -> BoundCall:
        found = call.copy()
        found.synchronous = False
        return found

    parts: Any = native
    parts.launches_of = lambda call: launches_of(alone(call))
    parts.launches_of_class = lambda one: launches_of_class(replace(one, call=alone(one.call)))
    place = TorchKind.place_in_c
    kind: Any = TorchKind
    kind.place_in_c = lambda own, dtype, _: place(own, dtype, None)


def functions_in(call: Callable[[], Any]) -> int:
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    call()
    sys.setprofile(None)
    return max(count - 2, 0)  # the lambda, and what ends the profile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    launch_nothing()
    n = 1 << 18
    values = np.ones(n, np.float32)
    a, b, o = (torch.from_numpy(values.copy()) for _ in range(3))
    x, one = torch.ones(70, 48), torch.empty(())
    w = torch.ones(48, 48)
    own, own_one = (xtarget.asarray(v, device="cpu") for v in (values, values[0]))
    add, prepared = xtarget.get("add"), xtarget.get("sum").prepare(a, out=one)
    single = add.prepare(a, b, out=o)
    ways: dict[str, Callable[[], Any]] = {
        "add, torch, out=": lambda: xtarget.run("add", a, b, out=o),
        "launch() of add, torch": single,
        "add, torch": lambda: xtarget.run("add", a, b),
        "torch.empty of the result": lambda: torch.empty(n),
        "sum (2 launches), torch, out=": lambda: xtarget.run("sum", a, out=one),
        "launch() of sum, torch": prepared,
        "sum (2 launches), torch": lambda: xtarget.run("sum", a),
        "std (2 launches), torch, out=": lambda: xtarget.run("std", a, out=one),
        "matmul (2 launches), torch": lambda: xtarget.run("matmul", x, w),
        "sum (2 launches), ours, out=": lambda: xtarget.run("sum", own, out=own_one),
    }
    best = dict.fromkeys(ways, float("inf"))
    for way in ways.values():
        for _ in range(20):
            way()
    for _ in range(options.rounds):
        for name, way in ways.items():
            start = time.thread_time()
            for _ in range(CALLS):
                way()
            best[name] = min(best[name], (time.thread_time() - start) / CALLS * 1e6)
    for name, microseconds in best.items():
        print(f"{name:32} {microseconds:7.2f} {functions_in(ways[name]):4}")


if __name__ == "__main__":
    main()
