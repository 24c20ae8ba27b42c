"""A report of `xtarget verify` beside an older one: what is worse, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._system.package import FOLDER
from .._values.errors import XTargetError
from .._values.value_classes import value_class
from .report import COMPILED, read, ulp_of

__all__ = ["RELEASE", "Drift", "check_same_kind", "drift", "released"]

#: What `--compare` calls the report that is stored with this version.
RELEASE = "release"
_GOOD = ("right", COMPILED)


@value_class(frozen=True, slots=True)
class Drift:
    """The difference of two reports, in sentences.

    Attributes:
        worse: results that were right, and errors that grew.
        notes: what is not the same in the two.
    """

    worse: tuple[str, ...]
    notes: tuple[str, ...]


def released(target: str, runs_on: str) -> Path:
    """The stored report of a target, the largest if there are several: of `docs/reports`, which
    wheels have inside the package.

    Raises:
        XTargetError: there is none.
    """
    there: list[str] = []
    found: list[tuple[int, Path]] = []
    for folder in (Path(FOLDER) / "_reports", Path(FOLDER).parent.parent / "docs" / "reports"):
        for file in sorted(folder.glob("*.json")):
            report = read(file)
            device = report["device"]
            if (device["target"], device["runs_on"]) == (target, runs_on):
                found.append((len(report["rows"]), file))
            there.append(f"{device['target']}, {device['runs_on']}")
    if found:
        return max(found)[1]
    raise XTargetError(
        f"no report of {target}, {runs_on}, is stored with this version"
        + (f"; there are those of {'; '.join(there)}. " if there else ". ")
        + "Compare with a file that `xtarget verify --report` wrote."
    )


def check_same_kind(old: Mapping[str, Any], device: Mapping[str, Any], name: str) -> None:
    """Refuse to compare what ran with what was only compiled.

    Raises:
        XTargetError: one of the reports is of calls, and the other is not.
    """
    kinds = [one["runs_on"] == COMPILED for one in (old["device"], device)]
    if kinds[0] != kinds[1]:
        ran = f"compiling for {old['device']['target']}" if kinds[0] else "calls on a device"
        raise XTargetError(
            f"{name} is a report of {ran}, and this one is {'not' if kinds[0] else 'compiled only'}"
            f". Compare {'with --target' if kinds[0] else 'without --target'}."
        )


def drift(old: Mapping[str, Any], new: Mapping[str, Any]) -> Drift:
    """Rows that are worse than in an older report: results that were right, and errors of more than
    twice as many units in the last place. Where there were fewer calls then, errors are not
    compared."""
    before = {(row["kernel"], row["dtype"]): row for row in old["rows"]}
    worse, fewer, unknown = [], 0, 0
    for row in new["rows"]:
        was = before.pop((row["kernel"], row["dtype"]), None)
        name = f"{row['kernel']} {row['dtype']}"
        if was is None:
            unknown += 1
        elif was["status"] in _GOOD and row["status"] != was["status"]:
            worse.append(
                f"{name} was {was['status']} and is {row['status']}: "
                f"{row['reason'] or row['wrong']}"
            )
        elif was["cases"] < row["cases"]:
            fewer += 1
        elif ulp_of(row) > max(1.0, 2 * ulp_of(was)):
            worse.append(f"{name}: error of {ulp_of(row):.3g} ulp, which was {ulp_of(was):.3g}")
    return Drift(tuple(worse), tuple(_notes(old, new, fewer, unknown, len(before))))


def _notes(
    old: Mapping[str, Any], new: Mapping[str, Any], fewer: int, unknown: int, left: int
) -> list[str]:
    notes = []
    if old["xtarget"] != new["xtarget"]:
        notes.append(f"the older report is of xtarget {old['xtarget']}, this one {new['xtarget']}.")
    places = [f"{one['device']['target']}, {one['device']['runs_on']}" for one in (old, new)]
    if places[0] != places[1]:
        notes.append(f"the older report is of {places[0]}, this one of {places[1]}.")
    of = "kernels with their dtypes"
    if unknown:
        notes.append(f"{unknown} {of} are not in the older report.")
    if fewer:
        notes.append(f"{fewer} {of} had fewer calls then: their errors are not compared.")
    if left:
        notes.append(f"{left} {of} of the older report were not run now.")
    return notes
