"""Reports of `xtarget bench`: written, read, and compared with an older one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from .. import __version__
from .._system.reports import read_report
from .._values.errors import XTargetError
from .._values.value_classes import value_class
from .measure import OWN, Measured, Measurement

__all__ = ["Change", "Comparison", "check_devices", "compare", "device_facts", "document", "read"]

SCHEMA: Final = 1
_NUMBERS = ("median", "lower", "upper", "low", "high", "speed")


@value_class(frozen=True, slots=True)
class Change:
    """One case of two reports.

    Attributes:
        ratio: new time over old: 2 is twice as slow.
        slower, faster: beyond the threshold, and the intervals of the medians do not meet.
    """

    name: str
    old: float
    new: float
    ratio: float
    slower: bool
    faster: bool


@value_class(frozen=True, slots=True)
class Comparison:
    """Attributes:
    notes: what is not the same in the two reports.
    """

    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def slower(self) -> list[Change]:
        return [change for change in self.changes if change.slower]


def device_facts(measurement: Measurement, limits: Mapping[str, Any]) -> dict[str, Any]:
    """One device of a report: what it is, what was compared, and its limits."""
    info = measurement.info
    return {
        "name": info.name,
        "target": str(info.target),
        "product": info.product,
        "driver": info.driver_version,
        "runs_on": info.runs_on,
        "peers": measurement.ways,
        "limits": dict(limits),
    }


def document(
    devices: Sequence[Mapping[str, Any]],
    rows: Iterable[Measured],
    notes: Sequence[str],
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """The report as JSON. Times are in seconds."""
    return {
        "kind": "xtarget bench",
        "schema": SCHEMA,
        "xtarget": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "devices": list(devices),
        "rows": [row.facts() for row in rows],
        "notes": list(notes),
        "interrupted": interrupted,
    }


def read(path: Path) -> dict[str, Any]:
    """A report that was written.

    Raises:
        XTargetError: it cannot be read, or is something else.
    """
    with read_report(path, "bench", SCHEMA) as found:
        if found["kind"] != "xtarget bench":
            raise ValueError(f"it is of the kind {found['kind']!r}")
        for device in found["devices"]:
            if not {"name", "target", "product", "runs_on", "limits"} <= set(device):
                raise ValueError("a device lacks a part")
        for row in found["rows"]:
            _key(row)
            for name in _NUMBERS:
                row[name] = float(row[name])
    return dict(found)


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("device", "kernel", "dtype", "size", "way"))


def compare(old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> Comparison:
    """Our times in two reports, case by case; the peers' are not ours to judge.

    Args:
        threshold: part of the old time that a new one may be longer (0.1: ten percent).

    Raises:
        XTargetError: the reports have no case in common, or are of different devices.
    """
    notes = []
    if old["xtarget"] != new["xtarget"]:
        notes.append(f"the older report is of xtarget {old['xtarget']}, this one {new['xtarget']}.")
    check_devices(old, new["devices"])
    before = {_key(row): row for row in old["rows"] if row["way"] == OWN}
    changes = []
    for row in new["rows"]:
        was = before.pop(_key(row), None)
        if row["way"] != OWN or was is None:
            continue
        ratio = row["median"] / max(was["median"], 1e-12)
        name = f"{row['kernel']} {row['dtype']}[{row['size']}] on {row['device']}"
        changes.append(
            Change(
                name,
                was["median"],
                row["median"],
                ratio,
                ratio > 1 + threshold and row["low"] > was["high"],
                1 / max(ratio, 1e-12) > 1 + threshold and row["high"] < was["low"],
            )
        )
    if not changes and not new["interrupted"]:
        raise XTargetError(
            "the two reports have no case in common. Measure the same kernels, sizes, dtype and "
            "device as in the older one."
        )
    if before:
        notes.append(f"{len(before)} cases of the older report were not measured now.")
    return Comparison(tuple(changes), tuple(notes))


def check_devices(old: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to compare times of different processors.

    Raises:
        XTargetError: a device of that name is another one now.
    """
    was = {device["name"]: device for device in old["devices"]}
    for device in devices:
        before = was.get(device["name"])
        if before is not None and any(
            before[part] != device[part] for part in ("target", "product", "runs_on")
        ):
            raise XTargetError(
                f"the older report is of another device: its {device['name']} is "
                f"{before['product']} ({before['target']}, {before['runs_on']}), and here it is "
                f"{device['product']} ({device['target']}, {device['runs_on']}). Compare reports "
                "of one device."
            )
