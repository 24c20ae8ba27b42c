#!/usr/bin/env python3
"""Run Triton's own tests, from a checkout of them, on the `spirv` back end and the CPU.

    ci/triton_conformance.py --tests DIR/python/test/unit --sample 1500 -o report.json

Each file has a worker process, which is replaced when a case crashes it or takes too long, so that
no case hides another. ci/triton_conformance.toml lists what does not apply, with the reasons. The
report is written as the run goes on; `--resume` goes on from one, `--summary` adds several up.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from triton_conformance_process import HERE, PATIENCE, LostError, Worker, environment
from triton_conformance_report import (
    BAD,
    Report,
    ReportError,
    Result,
    check_same,
    joined,
    merged_versions,
    read,
)

RULES = HERE / "triton_conformance.toml"
FILES = (
    "language/test_core.py",
    "language/test_standard.py",
    "language/test_random.py",
    "language/test_conversions.py",
    "language/test_libdevice.py",
    "language/test_tensor_descriptor.py",
    "language/test_annotations.py",
    "language/test_tuple.py",
    "language/test_reproducer.py",
    "language/test_decorator.py",
    "language/test_module.py",
    "language/test_mxfp.py",
)
#: Seconds between two states of the report on disk.
SAVE_SECONDS = 20.0


@dataclass(frozen=True)
class Rule:
    """Cases that do not apply: those whose id matches, and the reason."""

    pattern: re.Pattern[str]
    reason: str


def read_rules(path: Path) -> list[Rule]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Rule(re.compile(pattern), entry["reason"])
        for entry in data["not_applicable"]
        for pattern in entry["cases"]
    ]


def reason_for(rules: list[Rule], case: str) -> str | None:
    return next((rule.reason for rule in rules if rule.pattern.search(case)), None)


def choose(cases: list[str], options: argparse.Namespace) -> list[str]:
    """This shard's part of a random sample, in random order: a run that is cut short is one too."""
    picked = list(cases)
    random.Random(options.seed).shuffle(picked)
    if options.sample:
        picked = picked[: options.sample]
    index, count = options.shard
    return picked[index - 1 :: count]


def run_file(
    file: str,
    options: argparse.Namespace,
    folder: Path,
    env: dict[str, str],
    rules: list[Rule],
    done: set[str],
) -> Iterator[Result]:
    """Results of one file, as they come, without those that are `done`."""

    def start() -> Worker:
        return Worker(options.tests / file, options.tests, folder, env)

    def matches(case: str) -> bool:
        return options.match is None or re.search(options.match, case) is not None

    worker: Worker | None = None
    try:
        worker = start()
        applicable = []
        for case in worker.cases:
            reason = reason_for(rules, case)
            if reason is None:
                applicable.append(case)
            elif case not in done and matches(case):
                yield Result(case, "not applicable", 0.0, 0.0, reason)
        for case in choose(applicable, options):
            if case in done or not matches(case):
                continue
            worker = worker or start()
            began, cpu = time.monotonic(), worker.cpu_seconds()
            try:
                outcome, cause = worker.run(case, options.seconds)
                cpu = worker.cpu_seconds() - cpu
            except LostError as lost:
                worker, outcome, cause, cpu = None, lost.outcome, lost.cause, lost.cpu_seconds
            yield Result(case, outcome, round(time.monotonic() - began, 2), round(cpu, 2), cause)
    except LostError as lost:  # by a worker that could not start
        yield Result(file, "crashed", 0.0, 0.0, str(lost))
    finally:
        if worker is not None:
            worker.close()


def versions() -> dict[str, Any]:
    done = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        **{name: version(name) for name in ("triton", "llvmlite", "torch", "pyopencl")},
        "commits": [done.stdout.strip() or "no checkout"],
    }


def begin(options: argparse.Namespace) -> Report:
    """An empty report, or the one to go on with.

    Raises:
        ReportError: that one is of another sample or of other versions.
    """
    report = Report(options.seed, options.seconds, versions())
    if options.resume is not None:
        earlier = read(options.resume)
        check_same(earlier, options.seed, options.seconds)
        report.versions = merged_versions(earlier.versions, report.versions)
        for result in earlier.results.values():
            if "::" in result.id and not (options.retry and result.outcome in BAD):
                report.add(result)
    return report


def shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shard; write 1/4 for the first of 4.")
    return int(index), int(count)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tests", type=Path, help="the folder python/test/unit")
    parser.add_argument("--files", nargs="+", default=FILES, help="relative to --tests")
    parser.add_argument("--sample", type=int, default=0, help="at most so many cases of each file")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--shard", type=shard, default=(1, 1), help="i/n: the i-th of n parts")
    parser.add_argument("--match", help="of the sample, only cases whose id matches this pattern")
    parser.add_argument("--seconds", type=float, default=40.0, help="limit of one case")
    parser.add_argument("--cache", type=Path, help="keep compiled code here (otherwise: nowhere)")
    parser.add_argument("--rules", type=Path, default=RULES, help="what does not apply")
    parser.add_argument("--resume", type=Path, help="leave out what this report has, and keep it")
    parser.add_argument(
        "--retry", action="store_true", help="with --resume: run its failures again"
    )
    parser.add_argument(
        "--summary", type=Path, nargs="+", metavar="REPORT", help="add reports up, and run nothing"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print every case")
    parser.add_argument("-o", "--output", type=Path, help="a report as JSON")
    options = parser.parse_args(arguments)
    if options.summary:
        return options
    if options.tests is None:
        parser.error("--tests is missing: the folder python/test/unit of a checkout.")
    if options.retry and options.resume is None:
        parser.error("--retry is for --resume REPORT, whose failures it runs again.")
    options.tests = options.tests.resolve()
    missing = [file for file in options.files if not (options.tests / file).is_file()]
    if missing:
        parser.error(
            f"{options.tests} has no {', '.join(missing)}. --tests is the folder python/test/unit "
            "of a checkout of intel/intel-xpu-backend-for-triton."
        )
    return options


def stop(number: int, frame: object) -> None:
    """End the run. What is still to do, the report above all, is not to be interrupted again."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(options: argparse.Namespace, report: Report) -> None:
    """Run all that is chosen, into the report."""
    rules = read_rules(options.rules)
    done = set(report.results)
    saved = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="triton-conformance-") as name:
        folder = Path(name)
        cache = options.cache.resolve() if options.cache else folder / "cache"
        with environment(folder, cache) as env:
            # the case's limit is the one that counts, not that of one kernel
            env["XTARGET_JIT_SECONDS"] = str(PATIENCE * options.seconds)
            for file in options.files:
                for result in run_file(file, options, folder, env, rules, done):
                    report.add(result)
                    if result.outcome in BAD or options.verbose:
                        print(result, flush=True)
                    if options.output and time.monotonic() - saved > SAVE_SECONDS:
                        report.write(options.output)
                        saved = time.monotonic()


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        if options.summary:
            report = joined(options.summary)
            for result in report.failures():
                print(result)
        else:
            report = begin(options)
            signal.signal(signal.SIGTERM, stop)
            try:
                run(options, report)
            except KeyboardInterrupt:
                print("The run was ended; --resume goes on from its report.", file=sys.stderr)
            finally:
                if options.output:
                    report.write(options.output)
    except ReportError as error:
        print(error, file=sys.stderr)
        return 2
    report.print()
    return int(bool(report.failures()))


if __name__ == "__main__":
    sys.exit(main())
