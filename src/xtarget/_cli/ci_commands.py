"""`xtarget ci ...`: the options of the commands. `_cli.matrix` and `_cli.merge` do the work."""

from __future__ import annotations

import click

from .base import EXIT_ERROR, Group, echo, file_option, json_option

__all__ = ["ci"]


@click.group(cls=Group)
def ci() -> None:
    """For continuous integration."""


@ci.command(
    examples=(
        "xtarget ci matrix --pretty",
        "xtarget ci matrix --hosted",
    ),
)
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False),
    help="The matrix as data. Default: ci/matrix.toml of this folder or of xtarget's checkout.",
)
@click.option("--hosted", is_flag=True, help="Only jobs that need no runner of our own.")
@click.option("--scheduled", is_flag=True, help="With the jobs that run by the clock only.")
@click.option("--pretty", is_flag=True, help="On many lines, for people.")
def matrix(file: str | None, hosted: bool, scheduled: bool, pretty: bool) -> None:
    """Print the job matrix as the JSON that a CI runner takes ({"include": [...]})."""
    import json

    from .matrix import job_matrix

    jobs = job_matrix(file, hosted_only=hosted, scheduled=scheduled)
    echo(json.dumps(jobs, indent=2 if pretty else None))


@ci.command(
    "merge",
    examples=(
        "xtarget ci merge reports",
        "xtarget ci merge cpu.xml verify.json -o summary.md --badge badge.svg",
    ),
    fails="a test that failed, or a wrong result",
)
@click.argument("places", nargs=-1, required=True, metavar="FILE or FOLDER...")
@file_option(
    "-o",
    "--output",
    help="Write the table as Markdown instead of printing it.",
)
@file_option(
    "--badge",
    help="Write a badge: .svg, or .json for shields.io's endpoint.",
)
@json_option
def merge_(places: tuple[str, ...], output: str | None, badge: str | None, as_json: bool) -> None:
    """Join what the jobs of a workflow say: JUnit files and reports of `xtarget verify`.

    A file is a job; a folder has one folder for each job, as GitHub's artifacts are downloaded.
    Prints a table of the jobs, what failed, and the support table.
    """
    from .merge import merge

    if not merge(places, output, badge, as_json):
        raise click.exceptions.Exit(EXIT_ERROR)
