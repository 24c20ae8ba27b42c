"""Reports of `xtarget verify`: written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from .._kernels.variants import OWN
from .._system.reports import read_report
from .._values.types import DeviceInfo, Target
from .verify import Row

__all__ = ["COMPILED", "document", "place_of", "read", "ulp_of", "written"]

SCHEMA = 1
#: What a report of a target that is not here ran on.
COMPILED = "compiled"
#: Parts of a row that are left out where they are these.
_DEFAULTS: dict[str, Any] = {
    "cases": 0, "refused": 0, "wrong": [], "max_ulp": 0.0, "of_tolerance": 0.0, "worst_at": "",
    "reason": "", "impl": OWN, "where": "",
}  # fmt: skip


def place_of(device: DeviceInfo | Target) -> dict[str, Any]:
    """A device, or a target that is compiled for, as reports name it."""
    if isinstance(device, Target):
        name = str(device)
        return {"name": name, "target": name, "product": "no device", "runs_on": COMPILED}
    return {
        "name": device.name,
        "target": str(device.target),
        "product": device.product,
        "driver": device.driver_version,
        "runs_on": device.runs_on,
    }


def document(
    rows: Sequence[Row],
    device: DeviceInfo | Target | Mapping[str, Any],
    *,
    extent: str = "usual",
    interrupted: bool = False,
    before: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The report of one device, or of compiling for a target, as JSON.

    Args:
        device: or what `place_of` says of it.
        before: rows of an earlier run that stay.
    """
    return {
        "schema": SCHEMA,
        "xtarget": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "extent": extent,
        "interrupted": interrupted,
        "device": dict(device) if isinstance(device, Mapping) else place_of(device),
        "rows": [*before, *(row.facts() for row in rows)],
    }


def written(found: Mapping[str, Any]) -> bytes:
    """The report as a file: a row on each line, without what `read` knows by itself."""
    head = json.dumps({k: v for k, v in found.items() if k != "rows"}, indent=1)
    rows = ",\n  ".join(json.dumps(_short(row)) for row in found["rows"])
    return f'{head[:-2]},\n "rows": [\n  {rows}\n ]\n}}\n'.encode()


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    told = {k: v for k, v in row.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in told.items()}


def read(path: Path) -> dict[str, Any]:
    """A report that was written.

    Raises:
        XTargetError: it cannot be read, or is something else.
    """
    with read_report(path, "verify", SCHEMA) as found:
        for name in ("name", "target", "product", "runs_on"):
            found["device"][name] = str(found["device"][name])
        for row in found["rows"]:
            if not {"kernel", "dtype", "status"} <= set(row):
                raise ValueError("a row lacks a part")
            row.update({**_DEFAULTS, **row})
    return dict(found)


def ulp_of(row: Mapping[str, Any]) -> float:
    """The largest error of a row; JSON has no infinity."""
    found = row.get("max_ulp")
    return float("inf") if found is None else float(found)
