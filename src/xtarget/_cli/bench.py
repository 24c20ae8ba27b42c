"""`xtarget bench`: how fast are the kernels here?"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._bench import page, report
from .._bench.measure import OWN, Measured, Measurement, limits_of
from .._bench.peers import peer
from .._bench.plots import check_library
from .._bench.workloads import Workload
from .._compile.bars import progress_bar
from .._devices import choice, registry
from .._system.output import check_output, write_output
from .._values.value_classes import value_class
from .arguments import choose_inputs
from .base import echo
from .tables import echo_wrapped, print_table
from .values import CallOptions

__all__ = ["Wanted", "bench_kernels"]

KERNELS = ("add", "exp", "sum", "softmax", "layer_norm", "matmul")
#: Powers of two of the sides, without --sizes: of GPUs, CPUs, and emulators.
_SIDES = {"gpu": range(8, 14), "cpu": range(7, 12), "emulator": range(4, 7)}
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-~=+*#"


@value_class(frozen=True, slots=True)
class Wanted:
    """The settings that the command line gives.

    Attributes:
        threshold: for `older`, a part: 0.1 is ten percent.
        json_file, html_file: where to write.
    """

    kernels: Sequence[str]
    devices: Sequence[str]
    peers: Sequence[str]
    sizes: Sequence[tuple[int, ...]]
    dtypes: Sequence[str]
    seconds: float
    older: str | None
    threshold: float
    json_file: str | None
    html_file: str | None


def bench_kernels(wanted: Wanted, *, as_json: bool) -> tuple[bool, bool]:
    """Measure, print, write.

    Returns:
        whether nothing is slower than in the older report, and whether it was interrupted.
    """
    for file in (wanted.json_file, wanted.html_file):
        if file is not None:
            check_output(Path(file))
    if wanted.html_file is not None:
        check_library()
    old = None if wanted.older is None else report.read(Path(wanted.older))
    _workloads(wanted, ((1, 1),))  # what is written wrongly is said before a device is opened
    names = [registry.find_device(name) for name in wanted.devices] or [choice.default_device()]
    measurements = [
        Measurement(name, wanted.peers, wanted.seconds, peer) for name in dict.fromkeys(names)
    ]
    if old is not None:
        report.check_devices(old, [report.device_facts(one, {}) for one in measurements])
    found = _measure([(one, _workloads(wanted, _sizes(one))) for one in measurements])
    if wanted.json_file is not None:
        write_output(Path(wanted.json_file), (json.dumps(found, indent=1) + "\n").encode())
    if wanted.html_file is not None:
        write_output(Path(wanted.html_file), page.html(found))
    compared = None if old is None else report.compare(old, found, wanted.threshold)
    ok = compared is None or not compared.slower
    if as_json:
        more = {} if compared is None else {
            "compared": [_change(change) for change in compared.changes],
            "compared_notes": list(compared.notes),
        }  # fmt: skip
        echo(json.dumps({**found, **more, "ok": ok}, indent=2))
        return ok, found["interrupted"]
    _print(found)
    if compared is not None:
        _print_changes(compared, wanted)
    for file in (wanted.json_file, wanted.html_file):
        if file is not None:
            echo_wrapped(f"written: {file}")
    return ok, found["interrupted"]


def _sizes(measurement: Measurement) -> tuple[tuple[int, ...], ...]:
    info = measurement.info
    kind = "cpu" if info.vendor == "cpu" else "gpu" if info.runs_on == "silicon" else "emulator"
    return tuple((2**n, 2**n) for n in _SIDES[kind])


def _workloads(wanted: Wanted, sizes: Sequence[tuple[int, ...]]) -> list[Workload]:
    """Each kernel, dtype and size; what does not fit together is said when it is measured.

    Args:
        sizes: if none are wanted.
    """
    found = []
    for kernel in wanted.kernels or KERNELS:
        for dtype in wanted.dtypes or ("float32",):
            for shape in wanted.sizes or sizes:
                inputs = choose_inputs(kernel, CallOptions((shape,), dtype))
                found.append(Workload(inputs.spec, inputs.args, dtype, shape, inputs.options))
    return found


def _measure(chosen: Sequence[tuple[Measurement, Sequence[Workload]]]) -> dict[str, Any]:
    """All of them; what is there at an interruption is kept."""
    rows: list[Measured] = []
    limits: dict[str, list[Measured]] = {one.info.name: [] for one, _ in chosen}
    steps: list[tuple[Measurement, Workload, list[Measured]]] = []
    for one, loads in chosen:
        steps += [(one, load, limits[one.info.name]) for load in one.limits()]
        steps += [(one, load, rows) for load in loads]
    interrupted = False
    try:
        with progress_bar("bench", "cases", "the device's limits") as show:
            for done, (one, load, into) in enumerate(steps):
                show(done, len(steps), f"{load.spec.name} {load.dtype}[{load.size}]")
                for row in one.measure(load, compiled=into is rows):
                    into.append(row)
            show(len(steps), len(steps), "all are measured")
    except KeyboardInterrupt:
        interrupted = True
    devices = [
        report.device_facts(
            one,
            limits_of(limits[one.info.name], [r for r in rows if r.device == one.info.name]),
        )
        for one, _ in chosen
    ]
    notes = [note for one, _ in chosen for note in one.notes]
    return report.document(devices, rows, notes, interrupted=interrupted)


# ------------------------------------------------------------------------------------------ output


def _print(found: Mapping[str, Any]) -> None:
    limits = {device["name"]: device["limits"] for device in found["devices"]}
    for device in found["devices"]:
        told = [
            f"{kind} {page.speed_text(limit)} ({limit['way']})"
            for kind, limit in device["limits"].items()
        ]
        more = f"; measured limits: {', '.join(told)}" if told else ""
        echo_wrapped(f"{device['name']}: {device['product']}, {device['runs_on']}{more}")
    rows = found["rows"]
    if rows:
        columns = ("kernel", "size", "on", "by", "median", "quartiles", "95 % interval", "speed",
                   "of limit", "by ours")  # fmt: skip
        print_table(columns, [_line(row, rows, limits[row["device"]]) for row in rows])
    _print_sparklines(rows)
    for clock in dict.fromkeys(row["clock"] for row in rows):
        by = dict.fromkeys(f"{r['way']} on {r['device']}" for r in rows if r["clock"] == clock)
        echo_wrapped(f"clock: {clock} ({', '.join(by)})")
    for note in found["notes"]:
        echo_wrapped(note)
    if found["interrupted"]:
        echo_wrapped(f"interrupted: the {len(rows)} results that were measured are kept.")


def _line(row: Any, rows: Sequence[Any], limits: Mapping[str, Any]) -> tuple[str, ...]:
    same = ("device", "kernel", "dtype", "size")
    ours = next((one["median"] for one in rows if one["way"] == OWN
                 and all(one[name] == row[name] for name in same)), None)  # fmt: skip
    return (
        f"{row['kernel']} {row['dtype']}",
        row["size"],
        row["device"],
        row["way"],
        page.time_text(row["median"]),
        f"{page.time_text(row['lower'])}..{page.time_text(row['upper'])}",
        f"{page.time_text(row['low'])}..{page.time_text(row['high'])}",
        page.speed_text(row),
        page.share_text(row, limits),
        "" if ours is None or row["way"] == OWN else f"{row['median'] / ours:.2f} x",
    )


def _print_sparklines(rows: Sequence[Any]) -> None:
    """The speed of each way from the smallest size to the largest, all ways on one scale."""
    bars = _BARS
    try:
        bars.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        bars = _PLAIN_BARS
    lines = []
    for kernel in dict.fromkeys((row["kernel"], row["dtype"]) for row in rows):
        of = [row for row in rows if (row["kernel"], row["dtype"]) == kernel]
        most = max(row["speed"] for row in of)
        for way in dict.fromkeys((row["way"], row["device"]) for row in of):
            mine = [row for row in of if (row["way"], row["device"]) == way]
            if len(mine) > 1:
                line = "".join(bars[min(7, int(8 * row["speed"] / most))] for row in mine)
                best = max(mine, key=lambda row: row["speed"])
                lines.append((" ".join(kernel), *way, line, f"to {page.speed_text(best)}"))
    if lines:
        print_table(("kernel", "by", "on", "speed by size", ""), lines)


def _change(change: report.Change) -> dict[str, Any]:
    return {"case": change.name, "old_s": change.old, "new_s": change.new, "ratio": change.ratio,
            "slower": change.slower, "faster": change.faster}  # fmt: skip


def _print_changes(compared: report.Comparison, wanted: Wanted) -> None:
    for note in compared.notes:
        echo_wrapped(note)
    for change in compared.changes:
        if change.slower or change.faster:
            word = "slower" if change.slower else "faster"
            echo_wrapped(
                f"{word} than {wanted.older}: {change.name}, {page.time_text(change.new)}, "
                f"which was {page.time_text(change.old)} ({change.ratio:.2f} x)"
            )
    echo_wrapped(
        f"{len(compared.changes)} cases compared with {wanted.older}: {len(compared.slower)} are "
        f"slower by more than {wanted.threshold:.0%}"
    )
