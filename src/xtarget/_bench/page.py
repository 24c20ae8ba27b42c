"""The report of `xtarget bench` as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._pages import page as frame
from . import plots
from .measure import OWN

__all__ = ["html", "share_text", "speed_text", "time_text"]


def time_text(seconds: float) -> str:
    """`12.3 us`, `4.56 ms`: three digits."""
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def speed_text(row: Mapping[str, Any]) -> str:
    """`123 GB/s`, `1.2 TFLOP/s`, `85 GFLOP/s`: of a row or of a limit."""
    if row["unit"] == "TFLOP/s" and row["speed"] < 1:
        return f"{row['speed'] * 1e3:.3g} GFLOP/s"
    return f"{row['speed']:.3g} {row['unit']}"


def share_text(row: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    """The speed of a row by its device's measured limit; nothing where none was measured for it."""
    kind = "matmul" if row["unit"] == "TFLOP/s" else "copy"
    limit = limits.get(kind)
    if limit is None or (kind == "matmul" and row["dtype"] != limit["dtype"]):
        return ""
    share = row["speed"] / limit["speed"]
    return f"{share:.0%}" if share <= 1 else "in cache" if kind == "copy" else "above"


def html(report: Mapping[str, Any]) -> bytes:
    """The page.

    Raises:
        XTargetError: matplotlib is not installed.
    """
    plots.check_library()
    return frame.page("xtarget bench", _parts(report))


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    rows: Sequence[Mapping[str, Any]] = report["rows"]
    ways = list(dict.fromkeys(plots.way_of(row) for row in rows))
    for device in report["devices"]:
        told = {
            "device": f"{device['name']}, {device['product']}",
            "target": f"{device['target']} ({device['runs_on']}, driver {device['driver']})",
            "xtarget": f"{report['xtarget']}, {report['date']}",
        }
        for name, version in device["peers"].items():
            told[name] = version
        for kind, limit in device["limits"].items():
            told[f"limit by {kind}"] = (
                f"{speed_text(limit)}, measured in this run with {limit['way']}"
            )
        yield frame.facts(told)
    if report["interrupted"]:
        yield frame.section("Interrupted", text="The run was stopped; what it measured is here.")
    yield frame.section(
        "How to read it",
        text="Times are medians of calls that make their result anew, on inputs that take turns. "
        "The band in a plot is from the lower to the upper quartile; the interval in the table is "
        "of the median, 95 %, by bootstrap. Bytes count each array once. Dashed lines are the "
        "device's limits: the fastest copy and product of matrices in float32 of this run. What is "
        "faster than that copy found its inputs in a cache.",
    )
    limits = {device["name"]: device["limits"] for device in report["devices"]}
    for number, kernel in enumerate(dict.fromkeys((r["kernel"], r["dtype"]) for r in rows)):
        of = [row for row in rows if (row["kernel"], row["dtype"]) == kernel]
        title = f"{kernel[0]}, {kernel[1]}"
        kind = "matmul" if of[0]["unit"] == "TFLOP/s" else "copy"
        roofs = {
            f"{kind}, {name}": limits[name][kind]["speed"]
            for name in dict.fromkeys(row["device"] for row in of)
            if kind in limits[name]
        }
        yield frame.section(
            title,
            '<div class="plots">'
            + frame.figure(plots.against_size(of, ways, "median", {}, f"time{number}"),
                           f"{title}: time of a call")
            + frame.figure(plots.against_size(of, ways, "speed", roofs, f"speed{number}"),
                           f"{title}: {of[0]['unit']}")
            + "</div>",
        )  # fmt: skip
    for number, device in enumerate(report["devices"]):
        of = [row for row in rows if row["device"] == device["name"] and row["flops"]]
        if of and {"copy", "matmul"} <= set(device["limits"]):
            gb_s, tflop_s = (device["limits"][kind]["speed"] for kind in ("copy", "matmul"))
            yield frame.section(
                f"Roofline of {device['name']}",
                frame.figure(
                    plots.roofline(of, ways, gb_s, tflop_s, f"roof{number}"),
                    "Kernels whose operations are counted: sums, arithmetic, products of matrices",
                ),
            )
    yield frame.section("All figures", _table(rows, limits))
    if report["notes"]:
        yield frame.section("Notes", frame.notes(report["notes"]))


def _table(rows: Sequence[Mapping[str, Any]], limits: Mapping[str, Any]) -> str:
    own = {
        (row["device"], row["kernel"], row["dtype"], row["size"]): row["median"]
        for row in rows
        if row["way"] == OWN
    }
    lines = []
    for row in rows:
        ours = own.get((row["device"], row["kernel"], row["dtype"], row["size"]))
        lines.append((
            f"{row['kernel']} {row['dtype']}", row["size"], row["device"], row["way"],
            time_text(row["median"]),
            f"{time_text(row['lower'])} to {time_text(row['upper'])}",
            f"{time_text(row['low'])} to {time_text(row['high'])}",
            speed_text(row),
            share_text(row, limits[row["device"]]),
            "" if ours is None or row["way"] == OWN else f"{row['median'] / ours:.2f} x",
            row["clock"],
        ))  # fmt: skip
    columns = (
        "kernel", "size", "device", "by", "median", "quartiles", "95 % interval", "speed",
        "of limit", "time by ours", "clock",
    )  # fmt: skip
    return frame.table(columns, lines, numbers=frozenset(range(4, 10)), texts=frozenset({10}))
