#!/usr/bin/env python3
"""Bytes of a bundle's sections of the whole catalog, packed by zlib and by zstd, for each target.

    python benchmarks/bundle_sizes.py [--target nvidia:sm_90 ...] [--jobs N] [KERNEL ...]

Few calls of each operator in float32 (the first of its `ahead`, or those of its `examples`), not
all that `bundle build` finds: a build takes minutes. A cache of its own. Needs the extra `zstd`
below Python 3.14.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import xtarget
from xtarget import Target
from xtarget._bundle.builder import classes
from xtarget._bundle.builder.build import Order, build
from xtarget._bundle.format import BundleFile
from xtarget._kernels import libraries

TARGETS = ("nvidia:sm_90", "amd:gfx942", "intel:spirv64", "cpu:spirv64")


def few_calls(names: list[str]) -> tuple[str, ...]:
    """Have builders see few calls of these kernels; those that can be built."""
    classes.COMPUTE_UNITS = (132,)
    classes.explore = lambda *given: None
    found = []
    for name in names:
        kernel = libraries.find(name)
        spec = kernel.spec
        if "float32" not in spec.dtypes or (spec.ahead is None and spec.examples is None):
            continue
        if spec.ahead is not None:
            one = list(spec.ahead(False))[:1]
            spec = replace(spec, ahead=lambda full, one=one: one)
            libraries._kernels[name] = kernel.of(spec)
        found.append(name)
    return tuple(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", nargs="*")
    parser.add_argument("--target", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    os.environ["XTARGET_CACHE_DIR"] = tempfile.mkdtemp(prefix="xtarget-sizes-")
    names = few_calls(given.kernel or sorted(xtarget.catalog()))
    print(f"{len(names)} operators")
    for text in given.target or TARGETS:
        target, sizes, start = Target.parse(text), [], time.perf_counter()
        for compression in ("zlib", "zstd"):
            path = Path(tempfile.mkdtemp(prefix="xtarget-sizes-"), "all.xtb")
            order = Order(names, ("float32",), (target,))
            report = build(order, path, workers=given.jobs, seconds=120, compression=compression)
            (section,) = BundleFile(path).manifest["targets"]
            sizes.append(section["size"])
        print(
            f"{text:16} {report.variants:5} variants  zlib {sizes[0]:9,}  zstd {sizes[1]:9,}  "
            f"{sizes[1] / sizes[0]:.3f}  {len(report.errors)} errors, "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
