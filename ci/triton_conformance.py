#!/usr/bin/env python3
"""Run Triton's own tests, from a checkout of them, on the `spirv` back end and the CPU.

    ci/triton_conformance.py --tests DIR/python/test/unit --sample 1500 -o report.json

Each file has a worker process, which is replaced when a case crashes it or takes too long, so that
no case hides another. ci/triton_conformance.toml lists what does not apply, with the reasons.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
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
#: Outcomes that say something of the back end, and of these the bad ones.
JUDGED = ("passed", "failed", "crashed", "timed out")
BAD = JUDGED[1:]
OUTCOMES = (*JUDGED, "skipped", "xfailed", "not applicable")
#: A machine that does other work at the same time gets this many times the limit on the clock.
PATIENCE = 5
COLLECT_SECONDS = 600
POLL_SECONDS = 0.5


@dataclass
class Result:
    """One case.

    Attributes:
        seconds: on the clock.
        cause: of a failure or a skip, or why the case does not apply.
    """

    id: str
    outcome: str
    seconds: float
    cause: str


class LostError(Exception):
    """The worker died or had to be killed; the outcome of its case, and the cause."""

    def __init__(self, outcome: str, cause: str) -> None:
        super().__init__(cause)
        self.outcome = outcome
        self.cause = cause


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


# ----------------------------------------------------------------------------------------- workers


@contextlib.contextmanager
def environment(folder: Path, cache: Path) -> Iterator[dict[str, str]]:
    """What a worker needs to find this checkout as an installed back end of Triton."""
    door = folder / "door"
    info = door / "xtarget-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xtarget\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[triton.backends]\nspirv = xtarget_triton\n")
    given = os.environ.get("PYTHONPATH")
    paths = [str(door), str(ROOT / "src"), str(HERE), *([given] if given else [])]
    yield {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TRITON_DEFAULT_BACKEND": "spirv",
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "XTARGET_CACHE_DIR": str(cache / "xtarget"),
    }


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of all below it, the dead ones that were waited for too."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total, family = 0, [process]
    while family:
        member = family.pop()
        total += ticks.get(member, 0)
        family += [child for child, parent in parents.items() if parent == member]
    return total / os.sysconf("SC_CLK_TCK")


class Worker:
    """A process that has collected one file and runs its cases on demand.

    Attributes:
        cases: ids of all that it collected.
    """

    def __init__(self, file: Path, tests: Path, folder: Path, env: dict[str, str]) -> None:
        take_orders, give_orders = os.pipe()
        take_answers, give_answers = os.pipe()
        self._orders, self._answers = give_orders, take_answers
        self._buffer = b""
        self._log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, closed by `close`
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", str(file), f"--rootdir={tests}"),
                *("-c", os.devnull, "--noconftest", "-p", "triton_conformance_worker"),
                *("-p", "no:cacheprovider", "-W", "ignore", "-q", f"--basetemp={folder / 'tmp'}"),
            ],
            cwd=folder,
            env={**env, "XTARGET_CONFORMANCE": f"{take_orders},{give_answers}"},
            pass_fds=(take_orders, give_answers),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(take_orders)
        os.close(give_answers)
        first = self._answer(COLLECT_SECONDS)
        if "uncollected" in first:
            self._end()
            raise LostError("crashed", f"cannot be collected: {first['uncollected']}")
        self.cases: list[str] = first["collected"]

    def run(self, case: str, limit: float) -> tuple[str, str]:
        """Outcome and cause of one case.

        Raises:
            LostError: the process is gone; a new worker has to go on.
        """
        with contextlib.suppress(BrokenPipeError):  # the answer that does not come says why
            os.write(self._orders, f"{case}\n".encode())
        answer = self._answer(limit)
        return answer["outcome"], answer["cause"]

    def _answer(self, limit: float) -> dict[str, Any]:
        """The next line, within `limit` seconds of the processor and `PATIENCE` times as much on
        the clock: what else the machine does must not fail a case.
        """
        began, cpu = time.monotonic(), cpu_seconds(self._process.pid)
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], POLL_SECONDS)
            if ready:
                chunk = os.read(self._answers, 1 << 20)
                if not chunk:
                    raise LostError("crashed", self._end())
                self._buffer += chunk
                continue
            clock = time.monotonic() - began
            if clock <= limit:
                continue
            used = cpu_seconds(self._process.pid) - cpu
            if used > limit or clock > PATIENCE * limit:
                self._end()
                raise LostError(
                    "timed out", f"{used:.0f} s of the processor, {clock:.0f} s on the clock"
                )
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> str:
        """Kill the worker and what it started; how it ended and its last words."""
        try:
            status: int | None = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.seek(0)
        text = self._log.read().decode(errors="replace").strip()
        self.close()
        if status is None:
            how = "was killed"
        else:
            how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended: {status}"
        start = text.rfind("Fatal Python error")  # then the place comes first, and modules last
        return f"{how}: {text[start : start + 600] if start >= 0 else text[-400:]}"

    def close(self) -> None:
        for descriptor in (self._orders, self._answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._orders = self._answers = -1
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):  # what it started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._log.close()


# ----------------------------------------------------------------------------------------- running


def choose(cases: list[str], options: argparse.Namespace) -> list[str]:
    """This shard's part of a random sample, in random order: a run that is cut short is one too."""
    picked = list(cases)
    random.Random(options.seed).shuffle(picked)
    if options.sample:
        picked = picked[: options.sample]
    index, count = options.shard
    return picked[index - 1 :: count]


def run_file(
    file: str, options: argparse.Namespace, folder: Path, env: dict[str, str], rules: list[Rule]
) -> Iterator[Result]:
    """Results of one file, as they come."""

    def start() -> Worker:
        return Worker(options.tests / file, options.tests, folder, env)

    worker: Worker | None = None
    try:
        worker = start()
        applicable = []
        for case in worker.cases:
            reason = reason_for(rules, case)
            if options.match and not re.search(options.match, case):
                continue
            if reason is None:
                applicable.append(case)
            else:
                yield Result(case, "not applicable", 0.0, reason)
        for case in choose(applicable, options):
            worker = worker or start()
            began = time.monotonic()
            try:
                outcome, cause = worker.run(case, options.seconds)
            except LostError as lost:
                worker, outcome, cause = None, lost.outcome, lost.cause
            yield Result(case, outcome, round(time.monotonic() - began, 2), cause)
    except LostError as lost:  # by a worker that could not start
        yield Result(file, "crashed", 0.0, str(lost))
    finally:
        if worker is not None:
            worker.close()


def summary(results: dict[str, list[Result]]) -> dict[str, dict[str, Any]]:
    """Counts of each file, and the share of judged cases that passed."""
    lines: dict[str, dict[str, Any]] = {}
    for file, cases in results.items():
        counts = Counter(case.outcome for case in cases)
        judged = sum(counts[outcome] for outcome in JUDGED)
        lines[file] = {outcome: counts[outcome] for outcome in OUTCOMES}
        lines[file]["share"] = round(counts["passed"] / judged, 4) if judged else None
    return lines


def write_report(path: Path | None, options: argparse.Namespace, results: Any) -> None:
    if path is None:
        return
    from importlib.metadata import version

    report = {
        "versions": {name: version(name) for name in ("triton", "llvmlite", "torch", "pyopencl")},
        "seed": options.seed,
        "sample": options.sample,
        "shard": list(options.shard),
        "seconds": options.seconds,
        "files": summary(results),
        "failures": [
            asdict(case) for cases in results.values() for case in cases if case.outcome in BAD
        ],
        "cases": [
            [case.id, case.outcome, case.seconds] for cases in results.values() for case in cases
        ],
    }
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def print_table(results: dict[str, list[Result]]) -> None:
    print(f"\n{'file':42}" + "".join(f"{outcome:>15}" for outcome in OUTCOMES) + f"{'share':>9}")
    for file, line in summary(results).items():
        share = "-" if line["share"] is None else f"{100 * line['share']:.2f} %"
        print(f"{file:42}" + "".join(f"{line[o]:>15}" for o in OUTCOMES) + f"{share:>9}")


def shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 1/4 for the first of four.")
    return int(index), int(count)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tests", type=Path, required=True, help="the folder python/test/unit")
    parser.add_argument("--files", nargs="+", default=FILES, help="relative to --tests")
    parser.add_argument("--sample", type=int, default=0, help="at most so many cases of each file")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--shard", type=shard, default=(1, 1), help="i/n: the i-th of n parts")
    parser.add_argument("--match", help="only cases whose id matches this regular expression")
    parser.add_argument("--seconds", type=float, default=40.0, help="limit of one case")
    parser.add_argument("--cache", type=Path, help="keep compiled code here (otherwise: nowhere)")
    parser.add_argument("--rules", type=Path, default=RULES, help="what does not apply")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every case")
    parser.add_argument("-o", "--output", type=Path, help="a report as JSON")
    options = parser.parse_args(arguments)
    options.tests = options.tests.resolve()
    missing = [file for file in options.files if not (options.tests / file).is_file()]
    if missing:
        parser.error(
            f"{options.tests} has no {', '.join(missing)}. --tests is the folder python/test/unit "
            "of a checkout of intel/intel-xpu-backend-for-triton."
        )
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    rules = read_rules(options.rules)
    results: dict[str, list[Result]] = {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the report is written then too
    with tempfile.TemporaryDirectory(prefix="triton-conformance-") as name:
        folder = Path(name)
        cache = options.cache.resolve() if options.cache else folder / "cache"
        with environment(folder, cache) as env:
            # the case's limit is the one that counts, not that of one kernel
            env["XTARGET_JIT_SECONDS"] = str(PATIENCE * options.seconds)
            try:
                for file in options.files:
                    cases = results.setdefault(file, [])
                    for result in run_file(file, options, folder, env, rules):
                        cases.append(result)
                        if result.outcome in BAD:
                            cause = " ".join(result.cause.split())[:400]
                            print(f"{result.outcome}: {result.id}: {cause}", flush=True)
                        elif options.verbose:
                            print(f"{result.outcome}: {result.id} ({result.seconds} s)", flush=True)
                        elif len(cases) % 100 == 0:
                            print(f"... {file}: {len(cases)}", file=sys.stderr, flush=True)
            finally:
                write_report(options.output, options, results)
    print_table(results)
    return int(any(case.outcome in BAD for cases in results.values() for case in cases))


if __name__ == "__main__":
    sys.exit(main())
