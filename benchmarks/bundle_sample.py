#!/usr/bin/env python3
"""The time and size of a bundle of the whole catalog, estimated from a sample of its variants.

    python benchmarks/bundle_sample.py [--target nvidia:sm_90] [--sample 100] [--seed 0] [--jobs 2]

All variants that `bundle build --dtype float32` would make are listed; as many as `--sample`, drawn
at random, are compiled in `--jobs` processes, each of which packs its own as the section of a
bundle is packed. Prints processor seconds and packed bytes of a variant, with the standard error of
the mean, and what follows for all of them. Nothing is cached.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing import get_context

from bench_compile import processor_seconds

import xtarget
from xtarget._bundle.builder.build import Order
from xtarget._bundle.builder.classes import Class
from xtarget._bundle.builder.orders import classes_of
from xtarget._bundle.builder.sections import section_of
from xtarget._compile.workers import Job
from xtarget._devices import registry
from xtarget._values.errors import XTargetError
from xtarget._values.types import Artifact, CompileRequest, Target

#: A kernel, the number of its request, and what tells requests of all kernels apart.
Variant = tuple[str, int, str]


def requests_of(name: str, target: Target) -> list[tuple[Class, CompileRequest]]:
    """Return what is built of one kernel."""
    found = classes_of(Order((name,), ("float32",), (target,)))[target]
    return [(one, request) for one in found for request in one.requests()]


def listed(given: tuple[str, str]) -> list[Variant]:
    name, target = given
    try:
        found = requests_of(name, Target.parse(target))
    except XTargetError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return []
    texts = (repr(request).encode() for _, request in found)
    return [(name, i, hashlib.sha256(text).hexdigest()) for i, text in enumerate(texts)]


def compiled(given: tuple[Sequence[Variant], str, str]) -> tuple[list[float], list[int], int]:
    """Processor seconds of each, bytes of each packed alone, and of all packed together."""
    target = Target.parse(given[1])
    compiler = registry.compiler(target.vendor)
    entries: list[tuple[Job, Class, Artifact]] = []
    seconds: list[float] = []
    for name, number, _ in given[0]:
        one, request = requests_of(name, target)[number]
        try:
            if not entries:
                compiler.compile(request, target)  # imports, too
            start = processor_seconds()
            artifact = compiler.compile(request, target)
        except XTargetError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        seconds.append(processor_seconds() - start)
        entries.append((Job(target, one.origin, one.source, request, ""), one, artifact))
    alone = [len(section_of(target, [entry], (), given[2]).content) for entry in entries]
    return seconds, alone, len(section_of(target, entries, (), given[2]).content)


def told(values: Sequence[float]) -> str:
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):.3f} +- {error:.3f} (largest {max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernel", nargs="*", help="default: all")
    parser.add_argument("--target", default="nvidia:sm_90")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--compression", choices=("zlib", "zstd"), default="zstd")
    given = parser.parse_args()
    names = given.kernel or sorted(xtarget.catalog())
    start = time.perf_counter()
    with get_context("spawn").Pool(given.jobs) as pool:
        asked = [(name, given.target) for name in names]
        distinct: dict[str, Variant] = {}
        for variants in pool.imap(listed, asked, chunksize=2):
            for variant in variants:
                distinct.setdefault(variant[2], variant)
        every = list(distinct.values())
        print(f"{len(every)} variants, listed in {time.perf_counter() - start:.0f} s", flush=True)
        drawn = random.Random(given.seed).sample(every, min(given.sample, len(every)))
        shares = [drawn[i :: given.jobs] for i in range(given.jobs)]
        parts = [(share, given.target, given.compression) for share in shares if share]
        start = time.perf_counter()
        results = pool.map(compiled, parts, chunksize=1)
        print(f"{len(drawn)} compiled in {time.perf_counter() - start:.0f} s on the clock")
    seconds = [one for result in results for one in result[0]]
    alone = [one / 1024 for result in results for one in result[1]]
    together = sum(result[2] for result in results) / 1024 / len(alone)
    print(f"processor seconds a variant: {told(seconds)}")
    print(f"KiB a variant, packed alone: {told(alone)}; in {len(results)} parts: {together:.1f}")
    whole = statistics.fmean(seconds) * len(every)
    mib = together * len(every) / 1024
    print(f"all {len(every)}: {whole / 60:.0f} min of processor time, {mib:.1f} MiB")


if __name__ == "__main__":
    main()
