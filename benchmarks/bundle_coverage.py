#!/usr/bin/env python3
"""How many random calls of every kernel find their binaries in what a bundle is built of. Plans
only: nothing is compiled, no GPU, some minutes.

    benchmarks/bundle_coverage.py [--target T] [--dtype D] [--calls N] [KERNEL ...]

Calls are those of the kernels' examples for random lengths, half of them multiples of 16, on a
device of 132 compute units, for which nothing is built."""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

from xtarget import Target
from xtarget._bundle import reader
from xtarget._bundle.builder.classes import asked, classes
from xtarget._kernels import libraries, library_code
from xtarget._launch import planning
from xtarget._launch.specializing import requests
from xtarget._values.errors import XTargetError
from xtarget.spec import ArrayType, Example, ScalarType

UNITS = 132
_Call = tuple[Example, tuple[ArrayType | ScalarType, ...]]


def length(rng: np.random.Generator, most: int) -> int:
    n = round(np.exp(rng.uniform(0, np.log(most))))
    return n // 16 * 16 or n if rng.random() < 0.5 else n


def is_served(
    kernel: libraries.RegisteredKernel,
    call: _Call,
    target: Target,
    built: dict[bytes, list[frozenset[str]]],
) -> bool:
    """Raises XTargetError: no call is like this."""
    example, types = call
    whole = [True] * len(types)
    for general in (False, True):
        made = planning.call_of(
            kernel, types, example.options, target, UNITS, aligned=whole, general=general
        )
        plan = planning.make_plan(kernel, made)
        if all(
            any(v <= set(one.aligned) for v in built.get(reader.class_key(one), ()))
            for launch, one, _ in requests(kernel, plan, types, whole)
            if 0 not in launch.grid
        ):
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--target", type=Target.parse, default=Target.parse("nvidia:sm_90"))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--calls", type=int, default=20)
    given = parser.parse_args()
    served, calls, missed = Counter[str](), Counter[str](), Counter[str]()
    variants: dict[bytes, set[tuple[str, ...]]] = {}
    start = time.process_time()
    with library_code.without_imports():
        for name in given.kernels or sorted(libraries.catalog()):
            kernel = libraries.find(name)
            if given.dtype not in kernel.spec.dtypes or kernel.spec.examples is None:
                continue
            built: dict[bytes, list[frozenset[str]]] = {}
            for one in classes(kernel, given.dtype, given.target, views=False, full=False):
                key = reader.class_key(one.request)
                built[key] = list(map(frozenset, one.variants))
                variants.setdefault(key, set()).update(one.variants)
            rng = np.random.default_rng([11, len(name)])
            kind = "with `ahead`" if kernel.spec.ahead else "without"
            done = 0
            for _ in range(5 * given.calls):
                shape = (length(rng, 2**20),) if rng.random() < 0.3 else None
                call = asked(
                    kernel.spec, given.dtype, shape or (length(rng, 8192), length(rng, 8192))
                )
                if call is None or done == given.calls:
                    continue
                try:
                    found = is_served(kernel, call, given.target, built)
                except XTargetError:
                    continue
                done += 1
                calls[kind] += 1
                served[kind] += found
                missed[name] += not found
    for kind, count in calls.items():
        print(f"{kind}: {served[kind]} of {count} calls served, {served[kind] / count:.2%}")
    print(f"{len(variants)} classes, {sum(map(len, variants.values()))} variants")
    print(f"{time.process_time() - start:.0f} s of processor time")
    print("not served:", {name: n for name, n in missed.most_common() if n} or "none")


if __name__ == "__main__":
    main()
