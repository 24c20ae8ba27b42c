"""`xtarget ci merge`: what the jobs of a workflow say, as one table and a badge."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from .._system.files import read_regular
from .._system.output import check_output, write_output
from .._values.errors import ArgumentError
from .._values.text import one_line
from .._verify import report, support
from .base import echo

__all__ = ["Job", "badge", "merge", "read_jobs"]

_MOST_BYTES = 256 << 20
#: `ci/steady.py` writes what it ran once more, alone, beside the file of the first run.
_AGAIN = "-again"
_OUTCOMES = ("passed", "failed", "skipped", "unsteady")
_COLOURS = {True: ("brightgreen", "#2f8f4e"), False: ("red", "#b3261e")}
_MOST_NAMES = 50


@dataclass(slots=True)
class Job:
    """The reports of one job of a workflow.

    Attributes:
        counts: tests by `_OUTCOMES`; unsteady: failed among the others and passed alone.
        failures: names of tests, and what was wrong in reports of verify.
        reports: of `xtarget verify`.
    """

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failures


def read_jobs(places: Sequence[str]) -> list[Job]:
    """The jobs of files, each of which is one, and of folders, of which each folder inside is one.

    Raises:
        ArgumentError: a file is neither JUnit's XML nor a report of verify, or there is none.
    """
    files: dict[str, list[Path]] = {}
    for text in places:
        place = Path(text)
        if not place.is_dir():
            files.setdefault(place.stem.removesuffix(_AGAIN), []).append(place)
            continue
        for file in sorted(place.rglob("*")):
            if file.suffix in (".xml", ".json") and file.is_file():
                inside = file.relative_to(place).parts
                name = inside[0] if len(inside) > 1 else file.stem.removesuffix(_AGAIN)
                files.setdefault(name, []).append(file)
    if not files:
        raise ArgumentError(
            f"there is no report in {', '.join(places) or 'nothing'}. Name files of `pytest "
            "--junitxml` and `xtarget verify --report`, or folders with them."
        )
    return [_job(name, found) for name, found in files.items()]


def _job(name: str, files: Iterable[Path]) -> Job:
    job = Job(name)
    results: dict[Path, dict[str, str]] = {}
    for file in dict.fromkeys(files):
        if file.suffix == ".json":
            found = report.read(file)
            job.reports.append(found)
            job.failures += [
                f"verify on {found['device']['name']}: {row['kernel']} {row['dtype']}: "
                f"{'; '.join(row['wrong'][:2]) or row['reason']}"
                for row in found["rows"]
                if row["status"] in ("wrong", "failed")
            ]
        else:
            results[file], seconds = _tests(file)
            job.seconds += seconds
    for file, tests in results.items():
        first = file.with_name(f"{file.stem.removesuffix(_AGAIN)}{file.suffix}")
        if first != file and first in results:
            continue  # read with the first run's
        again = results.get(file.with_name(f"{file.stem}{_AGAIN}{file.suffix}"), {})
        for test, outcome in tests.items():
            final = "unsteady" if (outcome, again.get(test)) == ("failed", "passed") else outcome
            job.counts[final] += 1
            if final == "failed":
                job.failures.append(test)
    return job


def _tests(file: Path) -> tuple[dict[str, str], float]:
    """The outcome of each test of a JUnit file, and the seconds of all."""
    try:
        root = ET.fromstring(read_regular(file, _MOST_BYTES))
        if root.tag not in ("testsuites", "testsuite"):
            raise ValueError(f"its root is {root.tag!r}")
        found: dict[str, str] = {}
        seconds = 0.0
        for case in root.iter("testcase"):
            name = f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::")
            kinds = {child.tag for child in case}
            outcome = (
                "failed" if kinds & {"failure", "error"}
                else "skipped" if "skipped" in kinds else "passed"
            )  # fmt: skip
            if found.get(name) != "failed":  # an error of the teardown is a second case
                found[name] = outcome
            seconds += float(case.get("time") or 0)
    except OSError as error:
        raise ArgumentError(
            f"{file} cannot be read: {error.strerror or error}. Give files of `pytest --junitxml` "
            "and `xtarget verify --report`, or their folder."
        ) from error
    except (ET.ParseError, ValueError) as error:
        raise ArgumentError(
            f"{file} is not a JUnit file of `pytest --junitxml`: {error}. Leave it out, or run the "
            "tests again."
        ) from error
    return found, seconds


def merge(places: Sequence[str], output: str | None, badge_file: str | None, as_json: bool) -> bool:
    """Print or write the table, and write the badge.

    Returns:
        whether nothing failed.
    """
    for file in (output, badge_file):
        if file is not None:
            check_output(Path(file))
    if badge_file is not None and Path(badge_file).suffix not in (".svg", ".json"):
        raise ArgumentError(
            f"{badge_file} is neither .svg nor .json. Name an SVG file, or the JSON that "
            "shields.io reads (endpoint)."
        )
    jobs = read_jobs(places)
    if badge_file is not None:
        write_output(Path(badge_file), badge(jobs, svg=badge_file.endswith(".svg")).encode())
    text = markdown(jobs)
    if output is not None:
        write_output(Path(output), text.encode())
    ok = all(job.ok for job in jobs)
    if as_json:
        told = [
            {"job": job.name, "tests": {kind: job.counts[kind] for kind in _OUTCOMES},
             "seconds": round(job.seconds, 3), "failures": job.failures,
             "verified": sum(len(one["rows"]) for one in job.reports)}
            for job in jobs
        ]  # fmt: skip
        echo(json.dumps({"jobs": told, "ok": ok}, indent=2))
    elif output is None:
        echo(text.rstrip("\n"))
    return ok


def markdown(jobs: Sequence[Job]) -> str:
    """A line for each job, what failed, and the support table of all reports."""
    lines = [
        "| job | passed | failed | skipped | unsteady | seconds | verified |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for job in jobs:
        rows = [row for found in job.reports for row in found["rows"]]
        good = sum(row["status"] in ("right", report.COMPILED) for row in rows)
        cells = [
            job.name,
            *(str(job.counts[kind]) for kind in _OUTCOMES),
            f"{job.seconds:.0f}",
            f"{good} of {len(rows)}" if rows else "",
        ]
        lines.append(
            f"| {' | '.join(one_line(cell).replace('|', chr(92) + '|') for cell in cells)} |"
        )
    failures = [f"{job.name}: {name}" for job in jobs for name in job.failures]
    if failures:
        lines += ["", "Failed:", "", *(f"- {one_line(name)}" for name in failures[:_MOST_NAMES])]
        if len(failures) > _MOST_NAMES:
            lines.append(f"- and {len(failures) - _MOST_NAMES} more")
    reports = [found for job in jobs for found in job.reports]
    text = "\n".join(lines) + "\n"
    return f"{text}\n{support.markdown(support.join(reports))}" if reports else text


def badge(jobs: Sequence[Job], *, svg: bool) -> str:
    """A picture, or the JSON of a shields.io endpoint."""
    total = sum((job.counts for job in jobs), Counter[str]())
    failed = sum(len(job.failures) for job in jobs)
    message = f"{failed} failed" if failed else f"{total['passed']} passed"
    name, colour = _COLOURS[not failed]
    if not svg:
        told = {"schemaVersion": 1, "label": "tests", "message": message, "color": name}
        return json.dumps(told) + "\n"
    left, right = 44, 12 + 7 * len(message)
    said = escape(message)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" '
        f'role="img" aria-label="tests: {said}"><title>tests: {said}</title>'
        f'<rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11"><text x="{left / 2:g}" y="14">tests</text>'
        f'<text x="{left + right / 2:g}" y="14">{said}</text></g></svg>\n'
    )
