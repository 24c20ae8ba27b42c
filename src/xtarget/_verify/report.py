"""Reports of `xtarget verify`: written, compared with an older one, merged into a support table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from .._system.files import read_regular
from .._values.errors import XTargetError
from .._values.types import DeviceInfo
from .verify import Row

__all__ = ["Support", "document", "drift", "read", "support", "support_table"]

SCHEMA = 1
_MOST_BYTES = 64 << 20


def document(
    rows: Sequence[Row], device: DeviceInfo, *, long: bool, interrupted: bool = False
) -> dict[str, Any]:
    """The report of one device as JSON."""
    return {
        "schema": SCHEMA,
        "xtarget": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "long": long,
        "interrupted": interrupted,
        "device": {
            "name": device.name,
            "target": str(device.target),
            "product": device.product,
            "driver": device.driver_version,
            "runs_on": device.runs_on,
        },
        "rows": [row.facts() for row in rows],
    }


def read(path: Path) -> dict[str, Any]:
    """A report that was written.

    Raises:
        XTargetError: it cannot be read, or is something else.
    """
    try:
        found = json.loads(read_regular(path, _MOST_BYTES))
        if found["schema"] != SCHEMA:
            raise XTargetError(
                f"{path} is a report of schema {found['schema']}; this xtarget reads {SCHEMA}. "
                "Run xtarget verify again with this version."
            )
        for name in ("name", "target", "product", "runs_on"):
            found["device"][name] = str(found["device"][name])
        for row in found["rows"]:
            if not {"kernel", "dtype", "status", "reason", "max_ulp", "wrong"} <= set(row):
                raise ValueError("a row lacks a part")
    except OSError as error:
        raise XTargetError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise XTargetError(
            f"{path} is no report of `xtarget verify --report`: {type(error).__name__}: {error}."
        ) from error
    return dict(found)


def drift(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Sentences about what is worse than in an older report: results that were right, and errors
    that are more than twice as many units in the last place."""
    before = {(row["kernel"], row["dtype"]): row for row in old["rows"]}
    worse = []
    for row in new["rows"]:
        was = before.get((row["kernel"], row["dtype"]))
        if was is None:
            continue
        name = f"{row['kernel']} {row['dtype']}"
        if was["status"] == "right" != row["status"]:
            worse.append(
                f"{name} was right and is {row['status']}: {row['reason'] or row['wrong']}"
            )
        elif _ulp(row) > max(1.0, 2 * _ulp(was)):
            worse.append(f"{name}: error of {_ulp(row):.3g} ulp, which was {_ulp(was):.3g}")
    return worse


def _ulp(row: Mapping[str, Any]) -> float:
    found = row.get("max_ulp")
    return float("inf") if found is None else float(found)


@dataclass(frozen=True, slots=True)
class Support:
    """What ran where.

    Attributes:
        heads: for each target and what it runs on, the products, versions and dates.
        rows: the kernels, with a cell for each of these.
    """

    heads: Mapping[str, str]
    rows: Sequence[tuple[str, tuple[str, ...]]]


def support(reports: Iterable[Mapping[str, Any]]) -> Support:
    """Join the reports of several devices. A later report of the same target replaces an earlier
    one's results."""
    columns: dict[str, dict[str, dict[str, Mapping[str, Any]]]] = {}
    heads: dict[str, str] = {}
    for report in reports:
        device = report["device"]
        column = f"{device['target']}, {device['runs_on']}"
        heads[column] = f"{device['product']}, xtarget {report['xtarget']}, {report['date']}"
        of = columns.setdefault(column, {})
        for row in report["rows"]:
            of.setdefault(row["kernel"], {})[row["dtype"]] = row
    order = sorted(columns)
    kernels = sorted({kernel for of in columns.values() for kernel in of})
    return Support(
        {column: heads[column] for column in order},
        [
            (kernel, tuple(_cell([*columns[c].get(kernel, {}).values()]) for c in order))
            for kernel in kernels
        ],
    )


def support_table(reports: Iterable[Mapping[str, Any]]) -> str:
    """The reports of several devices as one table in Markdown: a line for each kernel, a column for
    each target and what it ran on."""
    table = support(reports)
    lines = [
        "| kernel | " + " | ".join(table.heads) + " |",
        "| --- |" + " --- |" * len(table.heads),
    ]
    for kernel, cells in table.rows:
        escaped = (cell.replace("|", "\\|") for cell in cells)
        lines.append(f"| {kernel} | " + " | ".join(escaped) + " |")
    lines += ["", *(f"- {column}: {head}" for column, head in table.heads.items())]
    return "\n".join(lines) + "\n"


def _cell(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many dtypes are right, the largest error, and each dtype that is not right by name."""
    if not rows:
        return "not run"
    right = [row for row in rows if row["status"] == "right"]
    parts = [f"{len(right)} dtype{'s' * (len(right) > 1)} right"] if right else []
    floats = [_ulp(row) for row in right if _ulp(row)]
    if floats:
        parts[0] += f", {max(floats):.3g} ulp"
    for status in ("wrong", "failed", "refused"):
        names = [row["dtype"] for row in rows if row["status"] == status]
        if names:
            word = status if status == "refused" else status.upper()
            parts.append(f"{word}: {' '.join(names)}")
    return "; ".join(parts)
