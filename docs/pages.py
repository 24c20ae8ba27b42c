"""The pages of the site that are made from the code: commands, variables, functions, results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import xtarget
from xtarget._cli.base import Command
from xtarget._cli.main import cli
from xtarget._values.environment import VARIABLES
from xtarget._verify import report
from xtarget._verify import support as support_table

__all__ = ["api", "command_line", "environment", "support", "write"]

REPORTS = Path(__file__).resolve().parent / "reports"


def write(folder: Path) -> None:
    """Write those that are not as they should be: an unchanged page is not read again."""
    folder.mkdir(exist_ok=True)
    made = {"cli": command_line, "environment": environment, "api": api, "support": support}
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
        "| variable | means |",
        "| --- | --- |",
        *(f"| `{name}` | {variable.means} |" for name, variable in VARIABLES.items()),
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
    return (
        "# Support table\n\n"
        "Nobody types this table: it is what the reports say that `xtarget verify --report` wrote "
        "on machines (`docs/reports`). Each kernel was called there with hard shapes, values and "
        "layouts and compared with its reference in float64. A column says what the code ran on: "
        "silicon, a CPU run time, or an emulator. What a vendor's back end has been tested with "
        "beyond that is on its page.\n\n" + support_table.markdown(support_table.join(found))
    )
