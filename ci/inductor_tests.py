#!/usr/bin/env python3
"""torch's own tests of Inductor on the CPU, through Triton and xtarget, and through Inductor's C++.

`ci/inductor_tests.py test_torchinductor.py -o report.jsonl --every 5` runs each fifth test of
`CommonTemplate`, each in a process of its own. The file is in torch's repository and in Debian's
sources (`apt-get source --download-only pytorch`), not in torch's wheel; it needs the package
expecttest. Of another torch than the installed one, a test that needs what this one lacks fails in
both ways.
A test that fails runs once more with C++: what fails there too is not counted.
A report that exists is continued. `--summary` prints what it says.
"""

from __future__ import annotations

import argparse
import ast
import collections
import importlib
import json
import os
import signal
import sys
import traceback
import unittest
from pathlib import Path
from typing import Any


def name_missing(path: Path) -> None:
    """Let names that the file imports of torch, and this torch lacks, fail when they are called."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch."):
            module = importlib.import_module(node.module or "")
            for name in (alias.name for alias in node.names):
                if hasattr(module, name) or hasattr(module, "__path__"):  # or a module of its own
                    continue

                def missing(*_: Any, name: str = f"{node.module}.{name}", **__: Any) -> None:
                    raise AttributeError(f"this torch lacks {name}")

                setattr(module, name, missing)


def load(path: Path) -> Any:
    """The class of torch's tests for the device "cpu"."""
    sys.path.insert(0, str(path.resolve().parent))
    name_missing(path)
    module = __import__(path.stem)
    # torch skips what Triton's own back end for CPUs could not do; ours is asked
    module.is_triton_cpu_backend = lambda device: False
    body = {"common": module.check_model, "device": "cpu"}
    tests = type("CpuTests", (module.TestCase,), body)
    module.copy_tests(module.CommonTemplate, tests, "cpu")
    return tests


def outcome(tests: Any, name: str) -> tuple[str, str]:
    """How one test ends, and the end of its message."""
    result = unittest.TestResult()
    tests.setUpClass()
    tests(name).run(result)
    for word, found in (("failed", result.failures), ("failed", result.errors)):
        if found:
            return word, found[0][1][-1500:]
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return ("failed", "unexpected success") if result.unexpectedSuccesses else ("passed", "")


def apart(tests: Any, name: str, *, triton: bool, seconds: int) -> tuple[str, str]:
    """`outcome` in a child process, which is ended after these seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            if triton:
                from xtarget.torch import enable_inductor

                enable_inductor()
            said = outcome(tests, name)
        except BaseException:
            said = "failed", traceback.format_exc()[-1500:]
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)

    def late(*_: Any) -> None:
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    if text:
        word, message = json.loads(text)
        return word, message
    late_one = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return ("late", f"{seconds} s") if late_one else ("died", f"status {status}")


def summary(rows: list[dict[str, str]]) -> None:
    counts = collections.Counter(row["triton"] for row in rows)
    print(dict(counts))
    worse = [row for row in rows if row.get("cpp") == "passed"]
    for row in worse:
        lines = row["message"].strip().splitlines() or [""]
        print(f"{row['name']}: {row['triton']}: {lines[-1][:160]}")
    passed = counts["passed"]
    whole = passed + len(worse)
    if whole:
        print(f"{passed} of {whole} that C++ passes ({passed / whole:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--report", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seconds", type=int, default=240, help="the most for one test")
    parser.add_argument("--only", help="tests whose name holds this word; the report is not read")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    if options.report.exists() and not options.only:
        rows = [json.loads(line) for line in options.report.read_text().splitlines()]
    if not options.summary:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        tests = load(options.file)
        names = sorted(name for name in dir(tests) if name.startswith("test_"))
        if options.only:
            names = [name for name in names if options.only in name]
        done = {row["name"] for row in rows}
        for name in [name for name in names[options.first :: options.every] if name not in done]:
            word, message = apart(tests, name, triton=True, seconds=options.seconds)
            row = {"name": name, "triton": word, "message": message}
            if word not in ("passed", "skipped"):
                row["cpp"], _ = apart(tests, name, triton=False, seconds=options.seconds)
            rows.append(row)
            with options.report.open("a") as report:
                print(json.dumps(row), file=report)
    summary(rows)


if __name__ == "__main__":
    main()
