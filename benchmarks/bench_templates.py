"""How long the text of a kernel takes that has a template: of each operator, in this process.

A text is what the route `template` gives the driver: the kernel's own text is read, its steps are
found, and the template's holes are filled. The median of some turns, each anew; what other kernels
share (files that were read before) is there.

python benchmarks/bench_templates.py [--dtype float32] [--each] [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import ArgumentError
from xtarget._values.types import CompileRequest, Target
from xtarget._verify.compiled import SHAPES, layouts
from xtarget._verify.verify import NoAnswerError
from xtarget.spec import KernelSpec
from xtarget.targets._template import elementwise
from xtarget.targets._template.route import TemplateRoute
from xtarget.targets._template.spirv import SpirvTemplates
from xtarget.targets.nvidia.template import PtxTemplates

ROUTES: tuple[tuple[str, Target, TemplateRoute], ...] = (
    ("PTX", Target("nvidia", "sm_90"), PtxTemplates()),
    ("SPIR-V", Target("cpu", "spirv64"), SpirvTemplates(16)),
)


def requests(spec: KernelSpec, dtype: str, target: Target) -> Sequence[CompileRequest]:
    """Of the first example that launches something."""
    for shape in SHAPES:
        try:
            args = layouts(spec, dtype, shape)
            made = planning.compile_requests(libraries.find(spec.name), args, {}, target)
        except (ArgumentError, NoAnswerError):
            continue
        if made:
            return made
    return ()


def seconds(route: TemplateRoute, request: CompileRequest, target: Target, turns: int) -> float:
    found = []
    for _ in range(turns):
        elementwise._made.cache_clear()
        begun = time.thread_time()
        route.compile(request, target)
        found.append(time.thread_time() - begun)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--each", action="store_true", help="a line for each operator")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for language, target, route in ROUTES:
        found: dict[str, float] = {}
        for name, spec in xtarget.catalog().items():
            if given.dtype not in spec.dtypes or spec.examples is None:
                continue
            if given.names and name not in given.names:
                continue
            made = requests(spec, given.dtype, target)
            if made and not any(route.refusal(one, target) for one in made):
                found[name] = sum(seconds(route, one, target, given.turns) for one in made)
        if given.each:
            for name in sorted(found, key=found.__getitem__):
                print(f"{language:7} {name:24} {found[name] * 1e6:8.0f} µs")
        times = sorted(found.values())
        quarters = statistics.quantiles(times, n=4)
        few = sum(one <= 200e-6 for one in times)
        print(
            f"{language}: {len(times)} operators, {given.dtype}: least {times[0] * 1e6:.0f}, "
            f"quarter {quarters[0] * 1e6:.0f}, median {quarters[1] * 1e6:.0f}, three quarters "
            f"{quarters[2] * 1e6:.0f}, most {times[-1] * 1e6:.0f} µs "
            f"({max(found, key=found.__getitem__)}); {few} within 200 µs"
        )


if __name__ == "__main__":
    main()
