#!/usr/bin/env python3
"""Compile every kernel for every target of ci/matrix.toml through `xtarget compile`.

One process for each kernel and dtype, as many at a time as there are CPUs, or as an executor's
workers are. Needs no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import zlib
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
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
ONE_OF = 24
#: Rows that are always compiled.
ALWAYS = {"add", "sum", "softmax", "layer_norm", "matmul", "conv2d", "attention", "sort"}
#: In the short form, rows that are not always compiled are compiled for each third target, a third
#: of them for the first, fourth, ..., a third for the second, fifth, ..., the rest for the others.
STRIDE = 3
#: How often a line says how far it is.
PROGRESS_SECONDS = 20
#: Exit status, standard error and the files that were written.
Done = tuple[int, str, dict[str, bytes]]


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


def compiled(name: str, dtype: str, options: tuple[str, ...], asked: dict[str, str]) -> Done:
    """Compile a kernel; a worker's xtarget has to be the version of who asks (`asked`)."""
    from xtarget._executors.asking import versions

    if versions() != asked:
        return 1, f"{socket.gethostname()} has {versions()}, and who asks has {asked}", {}
    with tempfile.TemporaryDirectory() as folder:
        done = xtarget("compile", name, "--dtype", dtype, "-o", folder, *options)
        files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    return done.returncode, done.stderr.strip(), files


@contextlib.contextmanager
def workers(name: str) -> Iterator[Executor]:
    """The executor of a name; `processes`: threads that wait for one process each."""
    from xtarget._executors.opening import opened

    with opened(name) as executor:
        if executor is not None:
            yield executor
        else:
            with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
                yield threads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--long", action="store_true", help="every row and dtype")
    parser.add_argument("--kernel", action="append", help="only this kernel; repeatable")
    parser.add_argument("--target", action="append", help="only this target; repeatable")
    parser.add_argument(
        "--executor", default="processes", help="processes, dask:ADDRESS, ray:ADDRESS or mpi"
    )
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    from xtarget import ArgumentError
    from xtarget._executors.asking import versions
    from xtarget._executors.opening import checked

    try:
        checked(given.executor)
    except ArgumentError as error:
        parser.error(str(error))
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
        others = name not in ALWAYS and zlib.crc32(name.encode()) % ONE_OF
        if others and not (given.kernel or given.long):
            continue
        dtypes = [dtype for dtype in kernel["dtypes"] if (name, dtype) not in REFUSED]
        if name in FLOATING:
            dtypes = [dtype for dtype in dtypes if "float" in dtype]
        if name == "index_put":  # whose last argument is an index in the examples
            dtypes = ["int64"]
        if not given.long:
            dtypes = ["float32" if "float32" in dtypes else dtypes[0]]
        own = targets
        if name not in ALWAYS and not (given.kernel or given.long or given.target):
            own = targets[zlib.crc32(f"{name} {dtypes[0]}".encode()) % STRIDE :: STRIDE]
        options = ("--shape", SHAPE) if kernel["inputs"] else ()
        options += tuple(text for target in own for text in ("--target", target))
        jobs += [(name, dtype, options) for dtype in dtypes]
    started, failed = time.monotonic(), 0
    said = started
    with workers(given.executor) as executor:
        pending = {
            executor.submit(compiled, name, dtype, options, versions()): (name, dtype)
            for name, dtype, options in jobs
        }
        for count, future in enumerate(as_completed(pending), 1):
            name, dtype = pending.pop(future)
            try:
                status, told, files = future.result()
            except Exception as error:  # whatever an executor raises whose worker is lost
                status, told, files = 1, f"{type(error).__name__}: {error}", {}
            folder = given.output / dtype
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in files.items():
                (folder / file).write_bytes(content)
            if status:
                failed += 1
                print(f"{name} {dtype}: {told}", file=sys.stderr)
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
