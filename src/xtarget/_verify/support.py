"""The support table: reports of several devices and targets, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._values.types import COMPUTED, DTYPES
from .._values.value_classes import value_class
from .report import COMPILED, ulp_of

__all__ = ["Support", "join", "markdown"]

_FAMILIES = {"integers": "iu", "floats": "f"}
#: In the order of a cell; in capitals what should not be there.
_WORDS = {
    "wrong": "WRONG",
    "failed": "FAILED",
    "right": "right",
    COMPILED: COMPILED,
    "refused": "refused",
}


@value_class(frozen=True, slots=True)
class Support:
    """The support table: kernels, and the devices on which they ran.

    Attributes:
        heads: for each target and what it runs on, the products, versions and dates.
        rows: the kernels, with a cell for each of these.
        notes: why something was refused, is wrong or failed.
    """

    heads: Mapping[str, str]
    rows: Sequence[tuple[str, tuple[str, ...]]]
    notes: Sequence[str]


def join(reports: Iterable[Mapping[str, Any]]) -> Support:
    """Join the reports of several devices and targets. A later report of the same target replaces
    an earlier one's results."""
    columns: dict[str, dict[str, dict[str, Mapping[str, Any]]]] = {}
    heads: dict[str, list[str]] = {}
    for report in reports:
        device = report["device"]
        column = f"{device['target']}, {device['runs_on']}"
        told = f"{device['product']}, xtarget {report['xtarget']}, {report['date']}"
        if told not in heads.setdefault(column, []):
            heads[column].append(told)
        of = columns.setdefault(column, {})
        for row in report["rows"]:
            of.setdefault(row["kernel"], {})[row["dtype"]] = row
    order = sorted(columns, key=lambda column: (_rank(column), column))
    rows: list[tuple[str, tuple[str, ...]]] = []
    for kernel in sorted({kernel for of in columns.values() for kernel in of}):
        known = {dtype for of in columns.values() for dtype in of.get(kernel, {})}
        rows.append((kernel, tuple(_cell(columns[c].get(kernel, {}), known) for c in order)))
    return Support(
        {column: "; ".join(heads[column]) for column in order}, rows, _notes(columns, order)
    )


def markdown(table: Support) -> str:
    """A line for each kernel, a column for each target and what it ran on; then the reasons."""
    lines = [
        "| kernel | " + " | ".join(table.heads) + " |",
        "| --- |" + " --- |" * len(table.heads),
    ]
    for kernel, cells in table.rows:
        escaped = (cell.replace("|", "\\|") for cell in cells)
        lines.append(f"| {kernel} | " + " | ".join(escaped) + " |")
    lines += ["", *(f"- {column}: {head}" for column, head in table.heads.items())]
    if table.notes:
        lines += ["", "Refused, wrong or failed, with the reason:", ""]
        lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _rank(column: str) -> int:
    """Devices of silicon come first, targets that were only compiled for last."""
    runs_on = column.rpartition(", ")[2]
    order = ("silicon", "CPU runtime", "emulator")
    return order.index(runs_on) if runs_on in order else len(order)


def _cell(rows: Mapping[str, Mapping[str, Any]], known: set[str]) -> str:
    """The dtypes of each status by family, and the largest error of those that are right."""
    if not rows:
        return "not run"
    parts = []
    for status, word in _WORDS.items():
        found = [row for row in rows.values() if row["status"] == status]
        if found:
            worst = max(map(ulp_of, found)) if status == "right" else 0.0
            error = f" ({worst:.3g} ulp)" if worst else ""
            parts.append(f"{word}: {_names({row['dtype'] for row in found})}{error}")
    if known - set(rows):
        left = _names(known - set(rows))
        parts.append(f"not run: {left if left.count(' ') < 3 else 'other types'}")
    return "; ".join(parts)


def _names(dtypes: set[str]) -> str:
    """`bool integers float32`: one word where all of a family are there."""
    left, words = set(dtypes), dict[str, int]()
    order = list(DTYPES)
    for word, kinds in _FAMILIES.items():
        family = {name for name in COMPUTED if DTYPES[name].kind in kinds}
        if family <= left:
            left -= family
            words[word] = min(map(order.index, family))
    words |= {name: order.index(name) if name in order else len(order) for name in left}
    return " ".join(sorted(words, key=words.__getitem__))


def _notes(
    columns: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]], order: Sequence[str]
) -> list[str]:
    """One for each kernel and reason, whatever number of dtypes and targets has it."""
    found: dict[tuple[str, str], tuple[set[str], list[str]]] = {}
    for column in order:
        for kernel, rows in columns[column].items():
            for dtype, row in rows.items():
                why = str(row["reason"] or "; ".join(row["wrong"][:2]))
                if row["status"] in ("refused", "wrong", "failed") and why:
                    dtypes, where = found.setdefault((kernel, why), (set(), []))
                    dtypes.add(dtype)
                    if column not in where:
                        where.append(column)
    return [
        f"{kernel}, {_names(dtypes)} ({'; '.join(where)}): {why}"
        for (kernel, why), (dtypes, where) in sorted(found.items())
    ]
