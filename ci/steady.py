#!/usr/bin/env python3
"""Run pytest; run what failed once more, alone.

    ci/steady.py pytest ARGUMENT...

Thousands of tests side by side on a busy machine: a test that fails there and passes alone says
something of the load or of its neighbours, and hides what the other tests say. So a few failing
tests (at most MOST) run again in one process, with nothing beside it. Those that fail again fail
the run. Those that pass are unsteady: they are printed, and `ci/test.sh` names them in its last
line, for somebody to mend. $XTARGET_TEST_REPORTS is a folder for JUnit files of both runs, which
`xtarget ci merge` reads. More failures than that are no accident, and are not run again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

MOST = 5
#: pytest's exit status for "tests were run, and some failed".
SOME_FAILED = 1


def junit(again: bool = False) -> list[str]:
    """The option by which a run writes its file into $XTARGET_TEST_REPORTS, where that is set."""
    if not os.environ.get("XTARGET_TEST_REPORTS"):
        return []
    folder = Path(os.environ["XTARGET_TEST_REPORTS"]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    first = [one for one in folder.glob("tests-*.xml") if "-again" not in one.name]
    number = len(first) if again else len(first) + 1
    name = f"tests-{number:02}{'-again' if again else ''}.xml"
    return [f"--junitxml={folder / name}"]


def run(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """pytest's exit status, and the counts and failures that tests/conftest.py writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "summary"
        environment = {**os.environ, "XTARGET_TEST_SUMMARY": str(file)}
        status = subprocess.call([sys.executable, "-m", "pytest", *arguments], env=environment)
        record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return status, {"counts": {}, "failures": [], **record}


def devices(arguments: list[str]) -> list[str]:
    """The arguments that say where tests run."""
    pairs = pairwise(arguments)
    return [word for pair in pairs if pair[0] == "--vendor" for word in pair]


def steady(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """Run, and run again what failed."""
    status, first = run([*arguments, *junit()])
    failed = list(dict.fromkeys(first["failures"]))
    if status != SOME_FAILED or not 0 < len(failed) <= MOST:
        return status, first
    print(f"ci/steady.py: {len(failed)} failed; they run again, alone.", flush=True)
    status, second = run(["-q", *devices(arguments), *junit(again=True), *failed])
    still = set(second["failures"])
    unsteady = [name for name in failed if name not in still] if status in (0, SOME_FAILED) else []
    for name in unsteady:
        print(f"ci/steady.py: unsteady, it failed among the others and passed alone: {name}")
    return status, {
        "counts": first["counts"],
        "failures": [name for name in failed if name not in unsteady],
        "unsteady": unsteady,
    }


def main(arguments: list[str]) -> int:
    if arguments[:1] != ["pytest"]:
        print(__doc__, file=sys.stderr)
        return 2
    status, record = steady(arguments[1:])
    if file := os.environ.get("XTARGET_TEST_SUMMARY"):
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
