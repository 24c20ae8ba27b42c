"""Many different modules, one after the other, through a run time's compiler in one process.

    python benchmarks/soak_jit.py [--device cpu:0] [--modules 1500] [--in-process]

Without `--in-process` as the library does it: in children, which are replaced after 100 builds.
With it the compiler works in this process, as it did when long-lived processes were seen to crash.
The modules are those of the catalog that are quickest to build, each under several names of its
entry, so that no run time has seen one before. Prints failures, and this process's memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import xtarget
from xtarget._cli.arguments import choose_inputs
from xtarget._cli.values import CallOptions
from xtarget._compile import functions
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import XTargetError
from xtarget._values.types import Artifact

_KERNELS = 60
_SKIPPED = {("sub", "bool")}


def artifacts(device: str) -> list[Artifact]:
    """One of each kernel and dtype of the catalog; the smallest."""
    target = xtarget.device(device).info.target
    found: dict[bytes, Artifact] = {}
    for name, spec in xtarget.catalog().items():
        for dtype in spec.dtypes:
            if (name, dtype) in _SKIPPED:
                continue
            inputs = choose_inputs(name, CallOptions(((64, 64),), dtype))
            kernel = libraries.find(name)
            for request in planning.compile_requests(kernel, inputs.args, {}, target):
                made = functions.artifact(request, target)
                found[made.binary] = made
    return sorted(found.values(), key=lambda artifact: len(artifact.binary))[:_KERNELS]


def modules(given: list[Artifact], count: int) -> Iterator[Artifact]:
    """Each of them under names of the same length, which is all that makes them different."""
    for number in range(count):
        artifact = given[number % len(given)]
        old, number = artifact.entry, number // len(given)
        new = "k" + "".join(chr(97 + number // 26**n % 26) for n in range(len(old) - 1))
        binary = artifact.binary.replace(old.encode() + b"\0", new.encode() + b"\0")
        yield replace(artifact, entry=new, binary=binary)


def memory() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--modules", type=int, default=1500)
    parser.add_argument("--in-process", action="store_true")
    given = parser.parse_args()
    device = xtarget.device(given.device)
    known = artifacts(given.device)
    print(f"{len(known)} modules of {len(known[0].binary)} to {len(known[-1].binary)} bytes")
    build = None
    if given.in_process:
        from xtarget.targets.cpu.jit import open_device

        build = open_device(device.native_key)
    failed, started, first = 0, time.monotonic(), memory()
    for number, artifact in enumerate(modules(known, given.modules), 1):
        try:
            if build is not None:
                build(artifact.binary, artifact.entry, "")
            else:
                device.load(artifact).close()
        except XTargetError as error:
            failed += 1
            print(f"{artifact.entry}: {error}")
        if number % 100 == 0:
            seconds = time.monotonic() - started
            print(
                f"{number:5} modules, {failed} failed, {seconds:5.0f} s, {memory():.0f} MB",
                flush=True,
            )
    print(f"{memory() - first:.0f} MB more than before the first of {given.modules}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
