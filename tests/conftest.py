"""Options and the report that all tests share.

`--vendor NAME` (again for more) restricts the tests that need a device to these vendors; `none` to
no device at all. A test that ran on a device says so with `mark_ran_on`; the summary at the end
counts its results by what they ran on, and calls no CPU run time silicon.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

# the fake vendor enters as an installed package does: a folder on the path with its entry points
sys.path.insert(0, str(Path(__file__).parent / "fake_vendor"))
sys.path.insert(0, str(Path(__file__).parent))  # for what several suites share

_RAN_ON = "xtarget_ran_on"
#: Results by what they ran on. Reports of xdist's workers come here too.
_counts: dict[str, Counter[str]] = defaultdict(Counter)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vendor",
        action="append",
        default=[],
        metavar="NAME",
        choices=("nvidia", "amd", "intel", "cpu", "emu", "fake", "none"),
        help="only this vendor's devices (repeatable); none: no device at all",
    )


@pytest.fixture
def mark_ran_on(request: pytest.FixtureRequest) -> Any:
    """Call with a vendor's id, what it runs on, and the product (or the reason for no device)."""

    def mark(vendor: str, runs_on: str, what: str) -> None:
        request.node.user_properties.append((_RAN_ON, f"{vendor}: {runs_on} ({what})"))

    return mark


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    place = next((str(value) for name, value in report.user_properties if name == _RAN_ON), None)
    if place is None or (report.when != "call" and report.outcome == "passed"):
        return
    _counts[place][report.outcome if report.when == "call" else _setup_outcome(report)] += 1


def _setup_outcome(report: pytest.TestReport) -> str:
    return "skipped" if report.outcome == "skipped" else "error"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _counts:
        return
    terminalreporter.section("what the tests ran on")
    for place, results in sorted(_counts.items()):
        numbers = ", ".join(f"{count} {outcome}" for outcome, count in sorted(results.items()))
        terminalreporter.line(f"{place}: {numbers}")
