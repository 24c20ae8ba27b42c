"""How long the text of a kernel takes that has a template: of each operator, in this process.

A text is what the route `template` gives the driver; from the request to the artifact, by thread
time, the least of some turns. Three ways: `anew`: the kernel's own text is read, its steps are
found, and holes are filled; `prepared`: the body is in the file that wheels have, which
`ci/prepare_texts.py` writes into a checkout; `again`: this process has made that text before. What
kernels share (files that were read before) is there.

python benchmarks/bench_templates.py [--dtype float32 ... | --dtype all] [--each] [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import ArgumentError
from xtarget._values.types import CompileRequest, Target
from xtarget._verify.compiled import SHAPES, layouts
from xtarget._verify.verify import NoAnswerError
from xtarget.spec import KernelSpec
from xtarget.targets._template import prepared
from xtarget.targets._template.route import TemplateRoute
from xtarget.targets._template.spirv import SpirvTemplates
from xtarget.targets.nvidia.template import PtxTemplates

ROUTES: tuple[tuple[str, Target, TemplateRoute], ...] = (
    ("PTX", Target("nvidia", "sm_90"), PtxTemplates()),
    ("SPIR-V", Target("cpu", "spirv64"), SpirvTemplates(16)),
)
WAYS = ("anew", "prepared", "again")


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


def least(call: Callable[[], object], turns: int) -> float:
    found = []
    for _ in range(turns):
        begun = time.thread_time()
        call()
        found.append(time.thread_time() - begun)
    return min(found)


def seconds(
    route: TemplateRoute, request: CompileRequest, target: Target, turns: int
) -> Iterator[tuple[str, float]]:
    """The time of each way that the request has."""

    def asked() -> None:
        route.refusal(request, target)
        route.compile(request, target)

    def forgotten() -> None:
        route._made.cache_clear()
        asked()

    file = prepared.file()
    if file is not None and file.get(route.key(request)) is not None:
        yield "prepared", least(forgotten, turns)
    yield "again", least(asked, turns)
    there, prepared.file = prepared.file, lambda: None  # as in a checkout without the file
    yield "anew", least(forgotten, turns)
    prepared.file = there


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--each", action="store_true", help="a line for each operator")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for language, target, route in ROUTES:
        found: dict[str, dict[str, float]] = {way: {} for way in WAYS}
        for name, spec in xtarget.catalog().items():
            if spec.examples is None or (given.names and name not in given.names):
                continue
            for dtype in spec.dtypes:
                if dtype not in given.dtype and given.dtype != ["all"]:
                    continue
                for n, one in enumerate(requests(spec, dtype, target)):
                    if not route.refusal(one, target):
                        for way, took in seconds(route, one, target, given.turns):
                            found[way][f"{name} {dtype} {n}"] = took * 1e6
        for way in WAYS:
            if given.each:
                for about, took in sorted(found[way].items(), key=lambda item: item[1]):
                    print(f"{language:7} {way:8} {about:40} {took:8.0f} µs")
            times = sorted(found[way].values())
            if len(times) > 1:
                few = sum(one <= 100 for one in times)
                print(
                    f"{language:7} {way:8} {len(times)} texts: least {times[0]:.0f}, median "
                    f"{statistics.median(times):.0f}, 90 % {times[len(times) * 9 // 10]:.0f}, most "
                    f"{times[-1]:.0f} µs ({max(found[way], key=found[way].__getitem__)}); {few} "
                    "within 100"
                )


if __name__ == "__main__":
    main()
