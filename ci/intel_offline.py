#!/usr/bin/env python3
"""Build every kernel for an Intel GPU with ocloc, and count what it spills. Needs no GPU.

Each kernel and dtype with num_warps 1, 4, 8 and sub-groups of 16 and 32: the SPIR-V has to pass
spirv-val and ocloc, and at the setting that `intel:DEVICE` chooses for the kernel (its ladder) no
register should be spilled. Prints a table of those that spill, and the totals. Exit status 1 when a
module is invalid or does not build.

    ci/unpack_debs.sh /tmp/ocloc intel-opencl-icd > /tmp/ocloc.env
    . /tmp/ocloc.env && ci/intel_offline.py --device pvc
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import xtarget
from xtarget._cli.arguments import choose_inputs
from xtarget._cli.values import CallOptions
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import CompileError
from xtarget._values.types import CompileRequest, Target
from xtarget.targets._spirv.compiler import SpirvCompiler
from xtarget.targets.intel import ocloc
from xtarget.targets.intel.compiler import LADDER

WARPS = (1, 4, 8)
SIZES = (32, 16)
#: What NumPy has no answer for although the kernel takes the dtype beside others.
REFUSED = {("sub", "bool")}


@dataclass
class Counts:
    """Totals; `failed` are sentences."""

    modules: int = 0
    valid: int = 0
    built: int = 0
    settings: int = 0
    clean: int = 0
    failed: list[str] = field(default_factory=list)


def requests(
    target: Target, wanted: list[str], dtypes: list[str], shape: tuple[int, ...]
) -> Iterator[tuple[str, str, CompileRequest]]:
    """(kernel, dtype, request) of the catalog, one for each launch of a call."""
    for name, spec in xtarget.catalog().items():
        if wanted and name not in wanted:
            continue
        for dtype in spec.dtypes:
            if (name, dtype) in REFUSED or (dtypes and dtype not in dtypes):
                continue
            inputs = choose_inputs(name, CallOptions((shape,), dtype))
            kernel = libraries.find(name)
            for request in planning.compile_requests(kernel, inputs.args, {}, target):
                yield name, dtype, request


def valid(spirv: bytes, counts: Counts, what: str) -> None:
    tool = shutil.which("spirv-val")
    if tool is None:
        return
    done = subprocess.run(
        [tool, "--target-env", "spv1.4", "-"], input=spirv, capture_output=True, check=False
    )
    if done.returncode:
        counts.failed.append(f"{what}: spirv-val: {done.stderr.decode(errors='replace').strip()}")
    else:
        counts.valid += 1


def spills(request: CompileRequest, device: str, counts: Counts, what: str) -> dict[str, int]:
    """Spilled registers by setting (`32`, `16`, `16 large`), as far as they were tried."""
    compiler = SpirvCompiler("intel", 32)
    found: dict[str, int] = {}
    for size in SIZES:
        counts.modules += 1
        sized = replace(request, options=(*request.options, ("warp_size", size)))
        where = f"{what} sub-group {size}"
        try:
            made = compiler.compile(sized, Target("intel", "spirv64"))
            valid(made.binary, counts, where)
            built = ocloc.build(made.binary, made.entry, device, "")
            counts.built += 1
            found[str(size)] = built.spilled
            if built.spilled and (size, ocloc.LARGE_REGISTERS) in LADDER:
                large = ocloc.build(made.binary, made.entry, device, ocloc.LARGE_REGISTERS)
                found[f"{size} large"] = large.spilled
        except CompileError as error:
            counts.failed.append(f"{where}: {error}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="pvc", help="in ocloc's words; default pvc")
    parser.add_argument("--kernel", action="append", default=[], help="only this; repeatable")
    parser.add_argument("--dtype", action="append", default=[], help="only this; repeatable")
    parser.add_argument("--shape", default="1024x1024", help="of the arrays; default 1024x1024")
    parser.add_argument("--own", action="store_true", help="the kernels' own num_warps only")
    given = parser.parse_args()
    if ocloc.find() is None:
        print("ocloc is not on the PATH: see the first lines of this file.", file=sys.stderr)
        return 1
    target = Target("intel", given.device)
    counts, started, seen = Counts(), time.monotonic(), set()
    print(f"| kernel | dtype | num_warps | {' | '.join(map(str, SIZES))} | 16 large |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    shape = tuple(map(int, given.shape.split("x")))
    for name, dtype, request in requests(target, given.kernel, given.dtype, shape):
        for num_warps in dict.fromkeys((request.num_warps, *(() if given.own else WARPS))):
            own = " (its own)" if num_warps == request.num_warps else ""
            sized = replace(request, num_warps=num_warps)
            if sized in seen:
                continue
            seen.add(sized)
            what = f"{request.source.name} {dtype} num_warps {num_warps}"
            found = spills(sized, given.device, counts, what)
            if not found:
                continue
            counts.settings += 1
            counts.clean += min(found.values()) == 0
            if any(found.values()):
                cells = [str(found.get(key, "")) for key in ("32", "16", "16 large")]
                print(f"| {name} | {dtype} | {num_warps}{own} | {' | '.join(cells)} |", flush=True)
    seconds = time.monotonic() - started
    checked = "spirv-val clean" if shutil.which("spirv-val") else "spirv-val is not installed"
    print(
        f"\n{given.device}: {counts.modules} modules, {counts.valid} {checked}, {counts.built} "
        f"built; of {counts.settings} kernels with a num_warps, {counts.clean} spill nothing at "
        f"the chosen setting; {seconds:.0f} s; {ocloc.identity()}"
    )
    for line in counts.failed:
        print(f"- {line}")
    return 1 if counts.failed or not counts.modules else 0


if __name__ == "__main__":
    sys.exit(main())
