"""Reports of `xtarget verify` as pages: of one device, and the support table of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._pages import page as frame
from . import support

__all__ = ["html", "support_html"]

_CLASSES = {
    "right": "good",
    "compiled": "good",
    "wrong": "bad",
    "failed": "bad",
    "refused": "dim",
}


def html(found: Mapping[str, Any], worse: Sequence[str]) -> bytes:
    """The page of one device.

    Args:
        worse: what is worse than in an older report, in sentences.
    """
    return frame.page("xtarget verify", _parts(found, worse))


def _parts(found: Mapping[str, Any], worse: Sequence[str]) -> Iterator[str]:
    device, rows = found["device"], found["rows"]
    counts = {status: sum(row["status"] == status for row in rows) for status in _CLASSES}
    yield frame.facts({
        "device": f"{device['name']}, {device['product']}",
        "target": f"{device['target']}, driver {device.get('driver', 'unknown')}",
        "runs on": device["runs_on"],
        "xtarget": f"{found['xtarget']}, {found['date']}",
        "calls": f"{sum(row['cases'] for row in rows)} compared",
        "kernels and dtypes": ", ".join(f"{n} {status}" for status, n in counts.items() if n),
    })  # fmt: skip
    yield frame.section(
        "How to read it",
        text="Each row is a kernel with one element type, called with hard shapes, values and "
        "layouts, and compared with its reference in float64. The error is in units in the last "
        "place of the result's type (0.5 is rounded rightly), and as a share of what the kernel is "
        "allowed. Refused: the kernel does not take this type, for the reason given.",
    )
    if found.get("interrupted"):
        yield frame.section("Interrupted", text="The run was stopped; what it compared is here.")
    if worse:
        yield frame.section("Worse than the older report", frame.notes(worse))
    bad = [row for row in rows if row["status"] in ("wrong", "failed")]
    if bad:
        yield frame.section("Not right", _table(bad))
    yield frame.section("All kernels", _table(rows))


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        (
            row["status"],
            row["kernel"],
            row["dtype"],
            str(row.get("cases", "")),
            _number(row["max_ulp"]),
            _share(row.get("of_tolerance", 0.0)),
            "; ".join(row["wrong"][:3]) or row["reason"],
        )
        for row in rows
    ]
    columns = ("result", "kernel", "dtype", "calls", "max ulp", "of allowed", "why")
    return frame.table(columns, lines, frozenset({3, 4, 5}), frozenset({6}), _CLASSES)


def _number(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.3g}" if value else ""


def _share(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.0%}" if value else ""


def support_html(reports: Sequence[Mapping[str, Any]]) -> bytes:
    """The support table of several devices as a page."""
    table = support.join(reports)
    lines = [(kernel, *cells) for kernel, cells in table.rows]
    texts = frozenset(range(1, len(table.heads) + 1))
    return frame.page(
        "xtarget: what ran where",
        [
            frame.facts(table.heads),
            frame.section(
                "Kernels",
                frame.table(
                    ("kernel", *table.heads), lines, texts=texts,
                    classes={"WRONG": "bad", "FAILED": "bad", "not run": "dim", "refused": "dim"},
                ),
                text="Cells say for which element types a kernel's results are right there, with "
                "the largest error in units in the last place; or that its binaries were made and "
                "looked at (compiled), that it takes no such type (refused), or was not run.",
            ),
            *([frame.section("Reasons", frame.notes(table.notes))] if table.notes else []),
        ],
    )  # fmt: skip
