"""`xtarget verify --executor`: workers verify, each on a device of its own machine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._compile.bars import progress_bar
from .._executors.opening import Given, opened
from .._executors.processes import Processes
from .._system.output import write_output
from .._values.errors import XTargetError
from .._verify import page, report
from .._verify.spread import Spread, spread
from .._verify.verify import Row
from .base import PROCESSES, echo
from .tables import echo_wrapped
from .verify import print_rows, told_of, wanted_of

__all__ = ["verify_on_workers"]


def verify_on_workers(
    kernels: tuple[str, ...],
    wanted: Spread,
    executor: Given,
    *,
    file: str | None,
    html_file: str | None,
    as_json: bool,
) -> tuple[bool, bool]:
    """Print a table for each kind of device, and write as many reports.

    Args:
        wanted: its dtypes may be none, for all.
        executor: any, or the name of one; `processes`: those of this machine.

    Returns:
        whether everything is right, and whether it was interrupted.

    Raises:
        XTargetError: there is no executor, or no worker has verified anything.
    """
    asked = wanted_of(kernels, wanted.dtypes, wanted.extent, (file, html_file))
    wanted = replace(wanted, dtypes=asked.dtypes)
    specs = [spec for spec in asked.specs if set(spec.dtypes) & set(asked.dtypes)]
    order = {spec.name: number for number, spec in enumerate(specs)}
    found: dict[str, tuple[dict[str, Any], list[Row]]] = {}
    lost: list[Row] = []
    interrupted, done = False, 0
    here = executor == PROCESSES
    with (
        Processes(len(os.sched_getaffinity(0))) if here else opened(executor) as workers,
        progress_bar("verify", "kernels", "the first kernel") as show,
    ):
        assert workers is not None
        try:
            for place, rows in spread(workers, specs, wanted):
                done += 1
                show(done, len(specs), rows[0].kernel)
                if place is None:
                    lost += rows
                else:
                    kind = json.dumps({**place, "name": ""})
                    found.setdefault(kind, (place, []))[1].extend(rows)
        except KeyboardInterrupt:
            interrupted = True
    if not found and not interrupted:
        raise XTargetError(f"no worker has verified a kernel: {lost[0].reason}" if lost else (
            "there is nothing to verify: no kernel takes these dtypes. Name others."
        ))  # fmt: skip
    places = list(found.values())
    if places:  # what no worker has done is of no device: it stands in the first report
        places[0][1].extend(lost)
    documents = []
    for place, rows in places:
        rows.sort(key=lambda row: order[row.kernel])
        documents.append(
            report.document(rows, place, extent=wanted.extent, interrupted=interrupted)
        )
    good = not any(row.status in ("wrong", "failed") for _, rows in places for row in rows)
    good = good and not asked.left_out
    written = _written(documents, file, html_file)
    if as_json:
        told = {"reports": documents, "left_out": asked.left_out, "ok": good and not interrupted}
        echo(json.dumps(told, indent=2))
        return good, interrupted
    for place, rows in places:
        print_rows(rows, told_of(place))
        by = {where: sum(row.where == where for row in rows) for where in _places(rows)}
        echo_wrapped("by " + ", ".join(f"{where} ({count})" for where, count in by.items()))
    for sentence in asked.left_out:
        echo_wrapped(sentence)
    for one in written:
        echo(f"written: {one}")
    if interrupted:
        echo_wrapped(f"interrupted: {done} of {len(specs)} kernels were verified.")
    return good, interrupted


def _places(rows: list[Row]) -> list[str]:
    return sorted({row.where for row in rows if row.where})


def _written(documents: list[dict[str, Any]], file: str | None, html_file: str | None) -> list[str]:
    """The files that were written: a report for each kind of device, numbered if there are several;
    one page of all."""
    written = []
    if file is not None:
        path = Path(file)
        for number, document in enumerate(documents, 1):
            own = path.with_name(f"{path.stem}.{number}{path.suffix}")
            into = own if len(documents) > 1 else path
            write_output(into, report.written(document))
            written.append(str(into))
    if html_file is not None and documents:
        several = len(documents) > 1
        content = page.support_html(documents) if several else page.html(documents[0], ())
        write_output(Path(html_file), content)
        written.append(html_file)
    return written
