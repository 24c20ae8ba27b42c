"""What was found to be the fastest on devices of an arch: `kernels/choices/VENDOR-ARCH.json` says
on what it was measured, and has rows by kernel, of which the first that holds is taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FOLDER", "Row", "known", "rows"]

FOLDER = Path(__file__).parents[1] / "choices"

_Range = tuple[int, int | None]


class Row(NamedTuple):
    """One choice.

    Attributes:
        config: the numbers that are chosen.
        ranges: of sizes by name, both ends belong to them; no end is None.
        blocks: how many blocks there are for 100 multiprocessors, in the same way.
        text: words that have to be the call's, or that say more about the choice.
    """

    config: tuple[int, ...]
    ranges: Mapping[str, _Range]
    blocks: _Range
    text: Mapping[str, str]

    def holds(self, **sizes: int) -> bool:
        for name, (low, high) in self.ranges.items():
            if sizes[name] < low or (high is not None and sizes[name] > high):
                return False
        return True


def _row(entry: Mapping[str, Any]) -> Row:
    config, blocks = entry["config"], entry.get("blocks", (0, None))
    ranges = {name: (one[0], one[1]) for name, one in entry.get("sizes", {}).items()}
    text = {name: value for name, value in entry.items() if isinstance(value, str)}
    return Row(tuple(config), ranges, (blocks[0], blocks[1]), text)


@cache
def known(vendor: str, arch: str) -> Mapping[str, Any]:
    """What a file says; nothing where there is none."""
    file = FOLDER / f"{vendor}-{arch}.json"
    if not arch or not file.is_file():
        return {}
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@cache
def rows(vendor: str, arch: str, kernel: str) -> tuple[Row, ...]:
    return tuple(_row(entry) for entry in known(vendor, arch).get("choices", {}).get(kernel, ()))
