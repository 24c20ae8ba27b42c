"""Results of Triton's own tests: how they are kept, added up and told."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

#: Outcomes that say something of the back end, and of these the bad ones.
JUDGED = ("passed", "failed", "crashed", "timed out")
BAD = JUDGED[1:]
OUTCOMES = (*JUDGED, "skipped", "xfailed", "not applicable")
#: A column of the table: passed, but over the limit on the clock of a machine that had other work.
SLOW = "slow"
_CAUSE_SHOWN = 400


class ReportError(Exception):
    """Reports that cannot be read or added up; the message is for people."""


@dataclass(frozen=True)
class Result:
    """One case.

    Attributes:
        seconds: on the clock.
        cpu_seconds: of the processor, in all processes of the case.
        cause: of a failure or a skip, or why the case does not apply.
    """

    id: str
    outcome: str
    seconds: float
    cpu_seconds: float
    cause: str

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]

    def __str__(self) -> str:
        if self.outcome in BAD:
            return f"{self.outcome}: {self.id}: {' '.join(self.cause.split())[:_CAUSE_SHOWN]}"
        return f"{self.outcome}: {self.id} ({self.seconds} s, processor {self.cpu_seconds} s)"


@dataclass
class Report:
    """All results of a run, or of several.

    Attributes:
        seed: of the random order of cases.
        limit: seconds a case may take.
        versions: of packages, and the commits of xtarget that ran, in order.
        results: by id.
    """

    seed: int
    limit: float
    versions: dict[str, Any]
    results: dict[str, Result] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.results[result.id] = result

    def table(self) -> dict[str, dict[str, Any]]:
        """Counts of each file and of all, and the share of judged cases that passed."""
        groups: dict[str, list[Result]] = {}
        for result in self.results.values():
            groups.setdefault(result.file, []).append(result)
        if len(groups) > 1:
            groups["all"] = list(self.results.values())
        return {name: self._line(results) for name, results in groups.items()}

    def _line(self, results: list[Result]) -> dict[str, Any]:
        counts = Counter(result.outcome for result in results)
        judged = sum(counts[outcome] for outcome in JUDGED)
        return {
            **{outcome: counts[outcome] for outcome in OUTCOMES},
            SLOW: sum(r.outcome == "passed" and r.seconds > self.limit for r in results),
            "share": round(counts["passed"] / judged, 4) if judged else None,
        }

    def failures(self) -> list[Result]:
        return [result for result in self.results.values() if result.outcome in BAD]

    def write(self, path: Path) -> None:
        """Whole or not at all: a run may be ended at any time and go on from here."""
        data = {
            "seed": self.seed,
            "limit": self.limit,
            "versions": self.versions,
            "files": self.table(),
            "failures": [astuple(result) for result in self.failures()],
            "cases": [astuple(result) for result in self.results.values()],
        }
        path = path.resolve()  # where a link leads to
        if path.exists() and not path.is_file():
            raise SystemExit(f"{path} is no regular file; name another one")
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)

    def print(self) -> None:
        columns = (*OUTCOMES, SLOW)
        print(f"\n{'file':42}" + "".join(f"{name:>15}" for name in columns) + f"{'share':>9}")
        for file, line in self.table().items():
            share = "-" if line["share"] is None else f"{100 * line['share']:.2f} %"
            print(f"{file:42}" + "".join(f"{line[c]:>15}" for c in columns) + f"{share:>9}")


def read(path: Path) -> Report:
    """A report that `Report.write` wrote.

    Raises:
        ReportError: there is none, or it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        report = Report(data["seed"], data["limit"], data["versions"])
        for case in data["cases"]:
            report.add(Result(*case))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path} is not a report of this program: {error!r}.") from error
    return report


def joined(paths: Iterable[Path]) -> Report:
    """Several reports as one; of a case in more than one of them, the last result counts.

    Raises:
        ReportError: they are of different samples, or were judged by different limits.
    """
    first, *others = map(read, paths)
    for other in others:
        check_same(first, other.seed, other.limit)
        first.results |= other.results
        first.versions = merged_versions(first.versions, other.versions)
    return first


def check_same(report: Report, seed: int, limit: float) -> None:
    """Refuse to add up what is not of one sample.

    Raises:
        ReportError: it is not.
    """
    if (report.seed, report.limit) != (seed, limit):
        raise ReportError(
            f"the report has seed {report.seed} and a limit of {report.limit} s a case, and these "
            f"are {seed} and {limit} s. Together they would be no random sample. Give the same."
        )


def merged_versions(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Versions of both, with all commits in the order in which they ran.

    Raises:
        ReportError: a package's version is another.
    """
    changed = [name for name in after if name != "commits" and before.get(name) != after[name]]
    if changed:
        raise ReportError(
            f"the report was made with other versions of {', '.join(changed)}; its results and "
            "new ones cannot stand in one table. Start a new report."
        )
    commits = [*before["commits"], *after["commits"]]
    return {**after, "commits": list(dict.fromkeys(commits))}
