#!/usr/bin/env python3
"""Compile every kernel for every target of ci/matrix.toml through `xtarget compile`.

One process for each kernel and dtype, as many at a time as there are CPUs. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHAPE = "64x96"
SECONDS = 900
#: Dtypes that a kernel takes for some of its arguments only.
REFUSED = {("sub", "bool"), ("quantized_matmul", "float32"), ("fp8_matmul", "float32")}
#: Those whose other arguments are of integers.
FLOATING = {"attention", "multi_head_attention", "paged_attention", "attention_varlen",
            "linear_int8", "linear_int4", "grouped_matmul"}  # fmt: skip
#: Of so many rows one is compiled in the short form: elementwise ones are one kernel, each with a
#: function of its own; others share theirs with a few.
ELEMENTWISE, OTHERS = 24, 6
#: Rows that are always compiled.
ALWAYS = {"add", "sum", "softmax", "layer_norm", "matmul", "conv2d", "attention", "sort"}
#: How often a line says how far it is.
PROGRESS_SECONDS = 20


def xtarget(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of this checkout."""
    path = os.pathsep.join(p for p in (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.run(
        [sys.executable, "-m", "xtarget", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": path},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--long", action="store_true", help="every row and dtype")
    parser.add_argument("--kernel", action="append", help="only this kernel; repeatable")
    parser.add_argument("--target", action="append", help="only this target; repeatable")
    given = parser.parse_args()
    matrix = tomllib.loads((ROOT / "ci" / "matrix.toml").read_text(encoding="utf-8"))
    targets = given.target or matrix["binaries"]["targets"]
    listed = xtarget("kernels", "--json")
    if listed.returncode:
        print(listed.stderr, file=sys.stderr)
        return 1
    jobs = []
    for kernel in json.loads(listed.stdout):
        if given.kernel and kernel["name"] not in given.kernel:
            continue
        name = kernel["name"]
        of = ELEMENTWISE if kernel["elementwise"] else OTHERS
        others = name not in ALWAYS and zlib.crc32(name.encode()) % of
        if others and not (given.kernel or given.long):
            continue
        dtypes = [dtype for dtype in kernel["dtypes"] if (name, dtype) not in REFUSED]
        if name in FLOATING:
            dtypes = [dtype for dtype in dtypes if "float" in dtype]
        if name == "index_put":  # whose last argument is an index in the examples
            dtypes = ["int64"]
        if not given.long:
            dtypes = ["float32" if "float32" in dtypes else dtypes[0]]
        shape = ("--shape", SHAPE) if kernel["inputs"] else ()
        jobs += [(name, dtype, shape) for dtype in dtypes]
    options = [text for target in targets for text in ("--target", target)]

    def compile_one(job: tuple[str, str, tuple[str, ...]]) -> subprocess.CompletedProcess[str]:
        name, dtype, shape = job
        folder = str(given.output / dtype)
        return xtarget("compile", name, "--dtype", dtype, *shape, "-o", folder, *options)

    started, failed = time.monotonic(), 0
    said = started
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for count, (job, done) in enumerate(zip(jobs, pool.map(compile_one, jobs), strict=True), 1):
            name, dtype, _ = job
            if done.returncode:
                failed += 1
                print(f"{name} {dtype}: {done.stderr.strip()}", file=sys.stderr)
            if time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                print(f"compiled {count} of {len(jobs)}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - started
    print(
        f"compiled {len(jobs) - failed} of {len(jobs)} kernel and dtype pairs for {len(targets)} "
        f"targets ({', '.join(targets)}) in {seconds:.0f} s"
    )
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
