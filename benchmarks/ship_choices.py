"""Make a table of choices to ship of what `tune_suite.py` measured: without each one's results, and
with the plan's own rule where nothing is clearly faster than it.

    python benchmarks/ship_choices.py -o kernels/choices/tuned/cpu-spirv64.json SUITE.json ... \
        [--derived DERIVED.json]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from xtarget._kernels.tuning_files import DEFAULT, Entry, merged, read_file, text_of

#: A choice stands instead of the default if it takes less than this part of the default's time.
_WORTH = 0.95


def key(text: str) -> frozenset[str]:
    return frozenset(text.split(", "))


def key_of(entry: Entry) -> frozenset[str]:
    return frozenset(f"{name}={value}" for name, value in {**entry.sizes, **entry.words}.items())


def defaults(path: Path) -> dict[frozenset[str], str]:
    """By key of a question: the default's text, of the trials beside a file of entries."""
    trials = json.loads(path.with_suffix(".trials").read_text(encoding="utf-8"))
    return {key(one["key"]): one["is"] for one in trials if one["number"] == 0}


def shipped(entry: Entry, usual: str) -> Entry:
    best, default = (entry.results[text].seconds for text in (entry.best, usual))
    if best and default and best > _WORTH * default:
        entry = replace(entry, best=DEFAULT)
    return replace(entry, results={})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--derived", type=Path, help="entries that are taken as they are")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    found = []
    for path in given.files:
        known = defaults(path)
        # a file has all that is stored, of which these trials are a part
        found += [
            shipped(entry, known[key_of(entry)])
            for entry in read_file(path)
            if key_of(entry) in known
        ]
    more = read_file(given.derived) if given.derived else []
    entries = merged(found, more)
    given.output.write_text(text_of(entries), encoding="utf-8")
    print(f"{given.output}: {len(entries)} choices")


if __name__ == "__main__":
    main()
