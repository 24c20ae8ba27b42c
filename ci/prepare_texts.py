#!/usr/bin/env python3
"""Prepare the bodies of kernels for the route `template`: those of the operators' usual calls.

    ci/prepare_texts.py [--out FILE] [OPERATOR...]     by one process for each core; the file is
                                                       this checkout's, where xtarget looks for it

Of each operator and dtype: contiguous arrays, and a number in the place of the last input. A body
is kept if it is the same with other sizes, and if a block takes as many elements as they say.
`hatch_build.py` calls it for wheels.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import ArgumentError
from xtarget._values.types import CompileRequest, Target
from xtarget._verify.compiled import SHAPES, layouts
from xtarget._verify.verify import NoAnswerError
from xtarget.spec import KernelSpec
from xtarget.targets._template import prepared
from xtarget.targets._template.prepared import Body
from xtarget.targets._template.route import TemplateRoute
from xtarget.targets._template.spirv import SpirvTemplates
from xtarget.targets.nvidia.template import PtxTemplates

#: A body is one for all archs and vendors of its language.
ROUTES: tuple[tuple[Target, TemplateRoute], ...] = (
    (Target("nvidia", "sm_90"), PtxTemplates()),
    (Target("cpu", "spirv64"), SpirvTemplates(16)),
)
#: Other sizes, with which a body has to be the same.
OTHERS = (
    {"BLOCK": 512, "BLOCK_M": 512, "STEPS": 4, "STREAM": True},
    {"BLOCK": 64, "BLOCK_M": 64, "STEPS": 1, "STREAM": False},
)


def calls(spec: KernelSpec, dtype: str) -> Iterator[Sequence[Any]]:
    """The arguments of calls."""
    for shape in SHAPES:
        try:
            args = layouts(spec, dtype, shape)
        except NoAnswerError:
            continue
        yield args
        if len(args) > 1 and args[-1] is not None:
            yield [*args[:-1], 2.5 if "float" in args[-1].dtype else 3]


def requests(spec: KernelSpec, dtype: str, target: Target) -> Iterator[CompileRequest]:
    for args in calls(spec, dtype):
        try:
            yield from planning.compile_requests(libraries.find(spec.name), args, {}, target)
        except ArgumentError:  # bools have no difference
            continue


def with_sizes(request: CompileRequest, sizes: dict[str, int]) -> CompileRequest:
    constants = ((name, sizes.get(name, value)) for name, value in request.constants)
    return replace(request, constants=tuple(constants))


def body(route: TemplateRoute, request: CompileRequest) -> Body | None:
    """The body of all sizes; None if there is none."""
    if not prepared.size_of(dict(request.constants)):
        return None
    first: Body | None = None
    for sizes in ({}, *OTHERS):
        one = with_sizes(request, sizes)
        made = route.anew(one)
        if isinstance(made, str) or made[1] != prepared.each_of(one):
            return None
        if first is None:
            first = made[0]
        elif made[0] != first:
            return None
    return first


def of_operators(names: Sequence[str]) -> dict[bytes, Body]:
    found: dict[bytes, Body] = {}
    for name in names:
        spec = xtarget.catalog()[name]
        for dtype in spec.dtypes:
            for target, route in ROUTES:
                for request in requests(spec, dtype, target):
                    key = route.key(request)
                    made = None if key in found else body(route, request)
                    if made is not None:
                        found[key] = made
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(prepared.FILE))
    parser.add_argument("operator", nargs="*")
    given = parser.parse_args()
    begun, cores = time.monotonic(), len(os.sched_getaffinity(0))
    names = given.operator or [n for n, s in xtarget.catalog().items() if s.examples is not None]
    found: dict[bytes, Body] = {}
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        for part in pool.map(of_operators, [names[n::32] for n in range(32)]):
            found |= part
    content = prepared.packed(found)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes(content)
    took = time.monotonic() - begun
    print(f"{given.out}: {len(found)} bodies, {len(content):,} bytes, {took:.0f} s")


if __name__ == "__main__":
    main()
