"""`xtarget verify`: are the kernels right on this machine?"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._compile.bars import progress_bar
from .._devices import choice, registry
from .._kernels import libraries
from .._system.output import check_output, write_output
from .._values.errors import ArgumentError, XTargetError
from .._values.types import COMPUTED, DTYPES, Target
from .._verify import page, report, support
from .._verify.drift import RELEASE, Drift, check_same_kind, drift, released
from .._verify.every_value import EXTENT, VALUED, takes_every_value
from .._verify.spread import Spread, made
from .._verify.verify import Row
from ..spec import KernelSpec
from .base import echo
from .tables import echo_wrapped, print_table

__all__ = ["merge_reports", "print_rows", "told_of", "verify_kernels", "wanted_of"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The kernels, dtypes and devices to verify.

    Attributes:
        left_out: a sentence for each kernel that was named and cannot be verified. The others are,
            and the command does not end well.
    """

    specs: list[KernelSpec]
    dtypes: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def _chosen(kernels: Sequence[str]) -> tuple[list[KernelSpec], tuple[str, ...]]:
    """The kernels that were named, or all, which can be verified; and sentences for the others that
    were named."""
    catalog = libraries.catalog()
    specs = [libraries.find(name).spec for name in kernels] if kernels else list(catalog.values())
    lacks = {
        spec.name: [part for part in ("reference", "examples") if getattr(spec, part) is None]
        for spec in specs
    }
    whole = [spec for spec in specs if not lacks[spec.name]]
    left_out = tuple(
        f"{name} cannot be verified: its spec has no {' and no '.join(parts)}. Add what is "
        "missing, or leave the kernel out."
        for name, parts in lacks.items()
        if parts and kernels
    )
    if left_out and not whole:
        raise ArgumentError(" ".join(left_out))
    return whole, left_out


def wanted_of(
    kernels: Sequence[str], dtypes: Sequence[str], extent: str, outputs: Sequence[str | None]
) -> Wanted:
    """The kernels and dtypes to verify; the files to write are checked.

    Raises:
        ArgumentError: there is no such kernel or dtype, none of the named ones can be verified, or
            a file cannot be written.
    """
    for dtype in dtypes:
        if dtype not in DTYPES:
            near = difflib.get_close_matches(dtype, DTYPES, 1)
            hint = f" Did you mean {near[0]}?" if near else f" There are {', '.join(DTYPES)}."
            raise ArgumentError(f"there is no dtype {dtype!r}.{hint}")
    for output in filter(None, outputs):
        check_output(Path(output))
    specs, left_out = _chosen(kernels)
    wanted = tuple(dtypes) or COMPUTED
    if extent == EXTENT:
        wanted = tuple(dtype for dtype in wanted if dtype in VALUED)
        if not kernels:
            specs = [spec for spec in specs if takes_every_value(spec)]
    return Wanted(specs, wanted, left_out)


def told_of(place: Mapping[str, Any]) -> str:
    """The counts of a place (`report.place_of`), as the end of a sentence."""
    if place["runs_on"] == report.COMPILED:
        return f"compiled for {place['target']}"
    return f"calls on {place['name']} ({place['product']}, {place['runs_on']})"


def verify_kernels(
    kernels: Sequence[str],
    dtypes: Sequence[str],
    device: str | None,
    target: str | None,
    *,
    extent: str,
    file: str | None,
    html_file: str | None,
    older: str | None,
    resume: bool,
    as_json: bool,
) -> tuple[bool, bool]:
    """Print the table.

    Args:
        target: compile for it and launch nothing.
        extent: one of `cases.EXTENTS`, or `every_value.EXTENT`.
        older: the report to compare with; `drift.RELEASE`: the one that is stored for this place.
        resume: do what the report of `file` lacks, and keep its rows.

    Returns:
        whether everything is right and nothing is worse than before, and whether it was
        interrupted: what was compared until then is printed and written.
    """
    asked = wanted_of(kernels, dtypes, extent, (file, html_file))
    specs, wanted = asked.specs, asked.dtypes
    before = None if older in (None, RELEASE) else report.read(Path(older))
    where = registry.open_device(_device(device)).info if target is None else Target.parse(target)
    empty = report.document((), where)
    earlier = _earlier(Path(file), empty) if resume and file is not None else empty
    kept = earlier["rows"]
    if kept and earlier["extent"] != extent:
        extent_told = f"{earlier['extent']}; later rows: {extent}"
    else:
        extent_told = extent
    if older == RELEASE:
        place = empty["device"]
        before = report.read(released(place["target"], place["runs_on"]))
    if before is not None:
        check_same_kind(before, empty["device"], str(older))
    known = frozenset((row["kernel"], row["dtype"]) for row in kept)
    told = told_of(empty["device"])
    pairs = ((spec.name, dtype) for spec in specs for dtype in wanted if dtype in spec.dtypes)
    total = sum(pair not in known for pair in pairs)
    rows: list[Row] = []
    interrupted = False
    try:
        with progress_bar("verify", "kernels with their dtypes", "the first kernel") as show:
            for row in made(specs, Spread(wanted, extent), where, known):
                rows.append(row)
                show(len(rows), total, f"{row.kernel} {row.dtype}")
    except KeyboardInterrupt:
        interrupted = True
    document = report.document(
        rows, where, extent=extent_told, interrupted=interrupted, before=kept
    )
    found = Drift((), ()) if before is None else drift(before, document)
    if file is not None:
        write_output(Path(file), report.written(document))
    if html_file is not None:
        write_output(Path(html_file), page.html(document, found.worse))
    good = not any(row["status"] in ("wrong", "failed") for row in document["rows"])
    good = good and not found.worse and not asked.left_out
    if as_json:
        compared = {"worse": found.worse, "notes": found.notes, "ok": good and not interrupted}
        document = {**document, "left_out": asked.left_out}
        echo(json.dumps({**document, **compared}, indent=2))
        return good, interrupted
    print_rows(rows, told)
    if kept:
        echo(f"{len(kept)} rows of {file} were there and stay.")
    for note in (*asked.left_out, *found.notes):
        echo_wrapped(note)
    for sentence in found.worse:
        echo_wrapped(f"worse than {older}: {sentence}")
    for written in filter(None, (file, html_file)):
        echo(f"written: {written}")
    if interrupted:
        kept_in = (
            f"{file} has them, and the same command with --resume goes on from there."
            if file is not None
            else "With --report FILE they are kept, and --resume goes on from there."
        )
        told = f"{len(rows)} of {total} kernels with their dtypes were compared"
        echo_wrapped(f"interrupted: {told}. {kept_in}")
    return good, interrupted


def _device(wanted: str | None) -> str:
    return choice.default_device() if wanted is None else registry.find_device(wanted)


def _earlier(file: Path, here: Mapping[str, Any]) -> Mapping[str, Any]:
    """An earlier report of the same place and version; where there is no file, the empty one.

    Raises:
        XTargetError: it is of another.
    """
    if not file.exists():
        return here
    found = report.read(file)
    parts = [
        (one["xtarget"], *(one["device"][part] for part in ("target", "product", "runs_on")))
        for one in (found, here)
    ]
    if parts[0] != parts[1]:
        raise XTargetError(
            f"{file} is of {', '.join(parts[0][1:])} with xtarget {parts[0][0]}, and here is "
            f"{', '.join(parts[1][1:])} with {parts[1][0]}: --resume cannot go on with it. Write "
            "another file."
        )
    return found


def print_rows(rows: Sequence[Row], where: str) -> None:
    """A line for each kernel; then what is wrong, case by case."""
    kernels: dict[str, list[Row]] = {}
    for row in rows:
        kernels.setdefault(row.kernel, []).append(row)
    lines = []
    for kernel, of in kernels.items():
        states = [
            f"{status}: {' '.join(row.dtype for row in of if row.status == status)}"
            for status in ("right", "compiled", "refused", "wrong", "failed")
            if any(row.status == status for row in of)
        ]
        ulp = max(row.max_ulp for row in of)
        cases = sum(row.cases for row in of)
        share = max(row.of_tolerance for row in of)
        errors = f"{ulp:.3g}" if ulp else "", f"{share:.0%}" if share else ""
        lines.append((kernel, str(cases), *errors, "; ".join(states)))
    print_table(("kernel", "calls", "max ulp", "of allowed", "dtypes"), lines)
    for row in rows:
        if row.status in ("wrong", "failed"):
            for case in row.wrong[:5]:
                echo(f"{row.status.upper()} {row.kernel} {case}")
        elif row.status == "refused":
            echo_wrapped(f"refused {row.kernel} {row.dtype}: {row.reason}")
    calls = sum(row.cases for row in rows)
    wrong = sum(row.status in ("wrong", "failed") for row in rows)
    verdict = "all right" if not wrong else f"{wrong} of {len(rows)} kernels with dtypes NOT right"
    echo(f"{calls} {where}: {verdict}")


def merge_reports(
    files: Sequence[str], output: str | None, html_file: str | None, *, as_json: bool
) -> None:
    """Print the support table of several reports, or write it, as Markdown and as a page."""
    if not files:
        raise ArgumentError("--merge takes the reports of `xtarget verify --report`. Name them.")
    for wanted in (output, html_file):
        if wanted is not None:
            if os.path.realpath(wanted) in map(os.path.realpath, files):
                raise ArgumentError(f"{wanted} is one of the reports to join. Choose another name.")
            check_output(Path(wanted))
    reports = [report.read(Path(file)) for file in files]
    if html_file is not None:
        write_output(Path(html_file), page.support_html(reports))
    joined = support.join(reports)
    table = support.markdown(joined)
    if output is not None:
        write_output(Path(output), table.encode())
    if as_json:
        echo(json.dumps(asdict(joined), indent=2))
    elif output is None and html_file is None:
        echo(table.rstrip("\n"))
