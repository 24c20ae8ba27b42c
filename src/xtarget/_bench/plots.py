"""Plots of a report by matplotlib, as SVG with text that stays text."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._values.errors import XTargetError

__all__ = ["against_size", "check_library", "roofline"]

#: Of Okabe and Ito: told apart by colour-blind readers, and as greys in print by their markers.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = "osD^vPX"
_Rows = Sequence[Mapping[str, Any]]


def check_library() -> None:
    """Raises:
    XTargetError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise XTargetError(
            f'the plots of --html need matplotlib ({error}): pip install "xtarget[report]"'
        ) from error


def way_of(row: Mapping[str, Any]) -> str:
    """A library on a device, which has one colour."""
    return f"{row['way']}, {row['device']}"


def _axes(width: float = 5.4, height: float = 3.7) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "xtarget", "font.size": 11,
        "font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "grid.alpha": 0.25,
    })  # fmt: skip
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Any, name: str) -> str:
    """As it stands in a page: without the head of a file; ids are of this plot alone."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)


def _style(ways: Sequence[str], way: str) -> dict[str, Any]:
    index = ways.index(way)
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "label": way,
        "markersize": 5,
        "linewidth": 1.6,
    }


def _elements(row: Mapping[str, Any]) -> int:
    return math.prod(int(n) for n in str(row["size"]).split("x") if n.isdigit())


def against_size(
    rows: _Rows, ways: Sequence[str], what: str, limits: Mapping[str, float], name: str
) -> str:
    """Time (`median`) or speed against the size of one kernel.

    Args:
        ways: all of the report, so that each has one colour everywhere.
        limits: the device's own, by name, as lines.
        name: of the plot, for its ids.
    """
    figure, axes = _axes()
    scale = 1e3 if what == "median" else 1.0
    for way in [way for way in ways if any(way_of(row) == way for row in rows)]:
        of = sorted((row for row in rows if way_of(row) == way), key=_elements)
        x = [_elements(row) for row in of]
        y = [row[what] * scale for row in of]
        axes.plot(x, y, **_style(ways, way))
        if what == "median":
            axes.fill_between(
                x, [row["lower"] * scale for row in of], [row["upper"] * scale for row in of],
                color=_style(ways, way)["color"], alpha=0.15, linewidth=0,
            )  # fmt: skip
    for label, value in limits.items():
        axes.axhline(value, color="#555", linestyle="--", linewidth=1)
        axes.annotate(label, (0, value), xycoords=("axes fraction", "data"), fontsize=9,
                      xytext=(3, 3), textcoords="offset points", color="#555")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("elements of the size")
    axes.set_ylabel("ms" if what == "median" else str(rows[0]["unit"]))
    axes.legend(fontsize=9, frameon=False)
    return _svg(figure, name)


def roofline(rows: _Rows, ways: Sequence[str], gb_s: float, tflop_s: float, name: str) -> str:
    """Operations a second against operations for each byte, below the roof of one device."""
    figure, axes = _axes(7.2, 4.2)
    points = [
        (row["flops"] / row["bytes"], row["flops"] / row["median"] / 1e12, way_of(row))
        for row in rows
        if row["flops"] and row["bytes"] and row["median"] > 0
    ]
    ridge = tflop_s * 1e3 / gb_s
    low = min([x for x, _, _ in points] + [ridge / 4])
    high = max([x for x, _, _ in points] + [ridge * 4])
    axes.plot(
        [low / 2, ridge, high * 2], [low / 2 * gb_s / 1e3, tflop_s, tflop_s], color="#555",
        linestyle="--", linewidth=1, label="measured limits: copy, matmul",
    )  # fmt: skip
    for way in [way for way in ways if any(of == way for _, _, of in points)]:
        style = {**_style(ways, way), "linestyle": ""}
        axes.plot(
            [x for x, _, of in points if of == way], [y for _, y, of in points if of == way],
            **style,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations for each byte")
    axes.set_ylabel("TFLOP/s")
    axes.legend(fontsize=9, frameon=False)
    return _svg(figure, name)
