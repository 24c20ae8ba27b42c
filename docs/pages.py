"""The pages of the site that are made from the code: commands, variables, functions, results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import xtarget
from xtarget._bench import page as bench_page
from xtarget._bench import report as bench_report
from xtarget._cli.base import Command
from xtarget._cli.main import cli
from xtarget._cli.routes import table
from xtarget._values.environment import VARIABLES
from xtarget._verify import report
from xtarget._verify import support as support_table

__all__ = [
    *("accuracy", "api", "command_line", "environment", "performance", "routes", "support"),
    "write",
]

_STATES = ("right", "compiled", "refused", "wrong", "failed")
REPORTS = Path(__file__).resolve().parent / "reports"


def write(folder: Path) -> None:
    """Write those that are not as they should be: an unchanged page is not read again."""
    folder.mkdir(exist_ok=True)
    made = {"cli": command_line, "environment": environment, "api": api, "support": support,
            "accuracy": accuracy, "performance": performance, "routes": routes}  # fmt: skip
    for name, page in made.items():
        file, text = folder / f"{name}.md", page()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------------------------------- commands


def command_line() -> str:
    lines = [
        "# Command line",
        "",
        "Written from the commands themselves. All take `--help` and `--debug` (the traceback of "
        'an error); all that print data take `--json`, and an error is then `{"error": ...}` on '
        "the standard output.",
        "",
        "| exit code | means |",
        "| --- | --- |",
        "| 0 | done |",
        "| 1 | an error, told in one message; a wrong or slower result, a problem that was found |",
        "| 2 | bad usage |",
        "| 3 | no device, or not the one that was named |",
        "| 130 | interrupted by Ctrl-C; what was measured or built is kept, and said |",
        "| 141 | the reader of the output left (`xtarget kernels \\| head`) |",
        "",
    ]
    for name, command in _walk(cli, "xtarget"):
        lines += [f"## {name}", "", *_described(name, command)]
    return "\n".join(lines) + "\n"


def _walk(group: click.Group, words: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=words)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _walk(command, f"{words} {name}")
        elif command is not None:
            yield f"{words} {name}", command


def _described(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield from ("```text", " ".join([name, *command.collect_usage_pieces(context)]), "```", "")
    yield from (inspect.cleandoc(command.help or "").replace("\b\n", ""), "")
    options = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option)]
    yield from ("| option | means |", "| --- | --- |")
    for record in options:
        if record is not None:
            what, means = (text.replace("|", "\\|") for text in record)
            yield f"| `{what}` | {means} |"
    yield ""
    if isinstance(command, Command):
        yield from (
            "```text",
            *command.examples,
            "```",
            "",
            f"Exit codes: {command.exit_codes()}",
            "",
        )


# --------------------------------------------------------------------------------------- variables


def environment() -> str:
    lines = [
        "# Environment variables",
        "",
        "A value that xtarget does not understand is an error: at once on the command line, "
        "elsewhere at the first use. An unknown `XTARGET_` name gives a warning. An empty value "
        "counts as not set. Triton's own variables work too; those that change code are part of "
        "the cache key.",
        "",
        "A variable may change while the process runs. The last column says what reads it: a "
        "kernel that is loaded stays as it was compiled, whatever `XTARGET_ROUTES` becomes.",
        "",
        "| variable | means | read by |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {v.means} | {v.read} |" for name, v in VARIABLES.items()),
    ]
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------- functions


def api() -> str:
    lines = ["# Python interface", "", "All public names of `xtarget`, from their docstrings.", ""]
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": []}
    for name in xtarget.__all__:
        found: Any = getattr(xtarget, name)
        if inspect.isclass(found):
            error = issubclass(found, BaseException)
            kinds["Errors" if error else "Classes"].append(name)
        elif callable(found):
            kinds["Functions"].append(name)
    kinds["Functions"].append("compile")  # not in __all__, where it would hide Python's own
    for kind, names in kinds.items():
        lines += [f"## {kind}", "", "```{eval-rst}"]
        for name in sorted(names, key=str.lower):
            directive = "autofunction" if kind == "Functions" else "autoclass"
            lines += [f".. {directive}:: xtarget.{name}"]
            if kind == "Classes":
                lines += ["   :members:"]
            lines += [""]
        lines += ["```", ""]
    lines += ["## Tests", "", "```{eval-rst}"]
    lines += [".. autofunction:: xtarget.testing.assert_close", "```", ""]
    return "\n".join(lines)


# ----------------------------------------------------------------------------------- what ran where


def support() -> str:
    """The table of the reports in `docs/reports`, which `xtarget verify --report` wrote."""
    found = [report.read(file) for file in sorted(REPORTS.glob("*.json"))]
    rows = [row for one in found for row in one["rows"]]
    counts = {word: sum(row["status"] == word for row in rows) for word in _STATES}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return (
        "# Support table\n\n"
        "Nobody types this table: it is what the reports in `docs/reports` say, which "
        "`xtarget verify --report` wrote. A column says what the code ran on: silicon, a CPU run "
        "time, or an emulator; or that it was only compiled. Each kernel was called with hard "
        "shapes, values and layouts and compared with its reference in float64; *compiled* means "
        "that the binary was made, can be parsed and has its entry. *WRONG* is a result beyond the "
        "kernel's tolerance, on one call at least: the reasons below the table name the call. The "
        "types that no report of a target has are *not run* there. What else a vendor's back end "
        f"was tested with is on its page.\n\nOperators with a dtype and target: {told}.\n\n"
        "`xtarget verify --compare release` tells what is worse on your device than here.\n\n"
        + support_table.markdown(support_table.join(found))
    )


# ------------------------------------------------------------------------------------------ routes


def routes() -> str:
    """By which routes each operator can be compiled."""
    head, rows, counts = table(list(xtarget.catalog().values()))
    told = ", ".join(f"{count} for {target}" for target, count in counts.items())
    return "\n".join(
        [
            "# Table of routes",
            "",
            "By which ways a binary of each operator can be made, as `xtarget kernels --routes` "
            "prints it: [Kernels without Triton](../how-to/routes.md) says what they are. A row is "
            f"of one dtype and small contiguous arrays. Of {len(rows)} operators can be compiled "
            f"without Triton: {told}.",
            "",
            f"| {' | '.join(head)} |",
            f"|{' --- |' * len(head)}",
            *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows),
            "",
        ]
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


# ---------------------------------------------------------------------------------------- accuracy


def accuracy() -> str:
    """The worst errors of the reports in `docs/reports/ulp`, which `verify --every-value` wrote."""
    lines = [
        "# Largest errors",
        "",
        "Elementwise operators beside their references in float64: the largest error in units in "
        "the last place (0.5: rounded as well as can be), and the input that has it. Operators of "
        "one input got all 65,536 values of half types; those of several, and float32, a sample of "
        "262,144 (half of it bit patterns of any exponent, half numbers from 2^-10 to 2^8). "
        "Half types are computed in float32 and rounded once. "
        "NaN and infinities have to be in the same places.",
        "",
        "More than a million units (`> 1e6`) is where a result cancels to nearly nothing, in the "
        "kernel (Bessel functions of huge numbers) or already in the reference, which has 53 bits "
        "(`sinc` of whole numbers, `tanhshrink` near 0, the tail of `geglu`). `!`: some elements "
        "are beyond the operator's tolerance; the list below the table says how many.",
        "",
        "`xtarget verify --every-value --report ulp.json` writes such a report on your device, and "
        "this page is made of those in `docs/reports/ulp`.",
        "",
    ]
    for file in sorted((REPORTS / "ulp").glob("*.json")):
        found = report.read(file)
        device = found["device"]
        rows = {(row["kernel"], row["dtype"]): row for row in found["rows"]}
        dtypes = list(dict.fromkeys(dtype for _, dtype in rows))
        lines += [
            f"## {device['target']}, {device['runs_on']}",
            "",
            f"{device['product']}, driver {device['driver']}, xtarget {found['xtarget']}, "
            f"{found['date']}.",
            "",
            f"| operator | {' | '.join(dtypes)} | worst float32 input |",
            f"| --- |{' --- |' * (len(dtypes) + 1)}",
        ]
        for kernel in dict.fromkeys(name for name, _ in rows):
            cells = [_error(rows.get((kernel, dtype))) for dtype in dtypes]
            place = rows.get((kernel, "float32"), {}).get("worst_at", "")
            lines.append(f"| `{kernel}` | {' | '.join(cells)} | {place} |")
        lines += [
            "",
            *(f"- {row['kernel']} {row['dtype']}: {row['reason'] or '; '.join(row['wrong'])}"
              for row in rows.values() if row["status"] != "right"),
            "",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _error(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["status"] not in ("right", "wrong"):
        return str(row["status"])
    if not row["worst_at"]:
        return "exact"  # integers and bools
    ulp = report.ulp_of(row)
    return ("> 1e6" if ulp > 1e6 else f"{ulp:.3g}") + (" !" if row["status"] == "wrong" else "")


# ------------------------------------------------------------------------------------ measurements


def performance() -> str:
    """The tables of the reports in `docs/reports/bench`, which `xtarget bench --report` wrote."""
    lines = [
        "# Measured times",
        "",
        "Made from what `xtarget bench --report` wrote (`docs/reports/bench`). A time is the "
        "median of calls on inputs that take turns; the interval is that of the median, 95 %, by "
        "bootstrap. [Measure](../how-to/measure.md) says how to get these figures on your machine.",
        "",
    ]
    for file in sorted((REPORTS / "bench").glob("*.json")):
        found = bench_report.read(file)
        for device in found["devices"]:
            lines += _measured(found, device)
    return "\n".join(lines) + "\n"


def _measured(found: dict[str, Any], device: dict[str, Any]) -> Iterator[str]:
    yield f"## {device['product']} ({device['target']}, {device['runs_on']})"
    yield ""
    limits = ", ".join(
        f"{kind} {bench_page.speed_text(limit)}" for kind, limit in device["limits"].items()
    )
    yield f"xtarget {found['xtarget']}, {found['date']}, driver {device.get('driver')}. Limits "
    yield f"that the same run measured: {limits}."
    yield from ("", "| kernel | size | by | median | 95 % interval | speed |")
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in found["rows"]:
        if row["device"] == device["name"]:
            interval = f"{bench_page.time_text(row['low'])} to {bench_page.time_text(row['high'])}"
            cells = (
                f"{row['kernel']} {row['dtype']}",
                row["size"],
                row["way"],
                bench_page.time_text(row["median"]),
                interval,
                bench_page.speed_text(row),
            )
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield from (f"- {note}" for note in found["notes"])
    yield ""
