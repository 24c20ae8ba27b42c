#!/usr/bin/env python3
"""The last line of `ci/test.sh`: what happened, in words.

    ci/test_summary.py TIERS STATUS SECONDS FILE STEP

FILE has a line of JSON for each run of pytest, which ci/steady.py writes; STEP is the command that
failed, if one did.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

#: Names of failing tests that fit a line that people read.
MOST_NAMES = 10


def duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def summary(tiers: str, status: int, seconds: int, file: Path, step: str) -> str:
    """The line."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    unsteady: list[str] = []
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            counts.update(run["counts"])
            failures += run["failures"]
            unsteady += run.get("unsteady", ())
    numbers = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    tests = f": {numbers}" if numbers else ""
    took = duration(seconds)
    if status == 0:
        again = f"; failed at first and passed alone: {', '.join(unsteady)}" if unsteady else ""
        return f"ci/test.sh {tiers}: all is right{tests} in {took}{again}"
    if status == 130:
        return f"ci/test.sh {tiers}: interrupted after {took}{tests}"
    names = list(dict.fromkeys(failures))
    shown = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    what = f"; failing tests: {shown}{more}" if names else f"; it failed at: {step or 'its start'}"
    return f"ci/test.sh {tiers}: FAILED{tests} in {took}{what}"


if __name__ == "__main__":
    given = sys.argv[1:]
    print(summary(given[0], int(given[1]), int(given[2]), Path(given[3]), given[4]))
