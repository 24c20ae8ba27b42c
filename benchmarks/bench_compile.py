"""How long compiling takes, kernel by kernel, after the first one in a process. Needs no GPU.

    python benchmarks/bench_compile.py [--target TARGET]... [--kernel NAME]... [--dtype DTYPE]...
                                       [--language [STEP]]

The catalog's kernels for each target (default: the SPIR-V vendors, sm_90 and gfx942), through the
compilers themselves: nothing is cached. `--language` adds, for SPIR-V, the kernels of
tests/compile/spirv_kernels.py, every STEP-th of them. Prints median and worst on the clock, and the
median of processor time, children included, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xtarget
from xtarget._cli.arguments import choose_inputs
from xtarget._cli.values import CallOptions
from xtarget._devices import registry
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import CompileRequest, Target

TARGETS = ("cpu:spirv64", "intel:spirv64", "nvidia:sm_90", "amd:gfx942")
DTYPES = ("float32", "float16", "int32")
SHAPE = (1024, 1024)
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Took:
    """One compilation: seconds on the clock and of processors."""

    what: str
    clock: float
    processor: float


def catalog_requests(
    target: Target, kernels: list[str], dtypes: list[str]
) -> Iterator[tuple[str, CompileRequest]]:
    for name, spec in xtarget.catalog().items():
        if kernels and name not in kernels:
            continue
        for dtype in (d for d in spec.dtypes if d in dtypes):
            inputs = choose_inputs(name, CallOptions((SHAPE,), dtype))
            for request in planning.compile_requests(libraries.find(name), inputs.args, {}, target):
                yield f"{request.source.name} {dtype}", request


def language_requests(step: int) -> Iterator[tuple[str, CompileRequest]]:
    sys.path.insert(0, str(ROOT / "tests" / "compile"))
    import spirv_kernels
    from spirv_requests import request

    for name in list(spirv_kernels.CASES)[::step]:
        yield f"{name} (language)", request(spirv_kernels.CASES[name])


def processor_seconds(pid: str = "self") -> float:
    """Of a process and of all that it has started, those that still run included (Linux)."""
    try:
        # behind the name in brackets: utime, stime, cutime, cstime are fields 14 to 17
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [p.read_text().split() for p in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(child) for some in children for child in some)


def measure(compiler: Any, target: Target, requests: list[tuple[str, CompileRequest]]) -> None:
    compiler.compile(requests[0][1], target)
    took = []
    for what, request in requests:
        start, before = time.perf_counter(), processor_seconds()
        compiler.compile(request, target)
        took.append(Took(what, time.perf_counter() - start, processor_seconds() - before))
    worst = max(took, key=lambda t: t.clock)
    clock = statistics.median(t.clock for t in took) * 1e3
    processor = statistics.median(t.processor for t in took) * 1e3
    print(
        f"{target}: {len(took)} kernels, median {clock:.0f} ms, worst {worst.clock * 1e3:.0f} ms "
        f"({worst.what}); processor: median {processor:.0f} ms, in all "
        f"{sum(t.processor for t in took):.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", help="vendor:arch; repeatable")
    parser.add_argument("--kernel", action="append", default=[], help="only this; repeatable")
    parser.add_argument("--dtype", action="append", help="only this; repeatable")
    parser.add_argument("--language", type=int, nargs="?", const=1, metavar="STEP")
    given = parser.parse_args()
    for text in given.target or TARGETS:
        target = Target.parse(text)
        requests = list(catalog_requests(target, given.kernel, given.dtype or list(DTYPES)))
        compiler = registry.compiler(target.vendor)
        measure(compiler, target, requests)
        if given.language and target.arch == "spirv64":
            measure(compiler, target, list(language_requests(given.language)))


if __name__ == "__main__":
    main()
