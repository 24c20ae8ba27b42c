"""Options that do not go together: each command says which, and they are refused in a sentence."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from click.core import ParameterSource

__all__ = ["OUTPUT_FILE", "check_together"]

#: The type of options that name a file to write.
OUTPUT_FILE = click.Path(dir_okay=False)


def check_together(
    ctx: click.Context,
    conflicts: Sequence[tuple[str, Sequence[str], str]],
    needs: Sequence[tuple[str, str]],
) -> None:
    """Refuse what a command was given together.

    Raises:
        click.UsageError: it contradicts itself, or would write two things to one file.
    """
    given = {
        name: ctx.params[param.name]
        for param in ctx.command.params
        if param.name in ctx.params
        and ctx.get_parameter_source(param.name) is not ParameterSource.DEFAULT
        and ctx.params[param.name] not in ((), None, False)
        for name in [_typed(param)]
    }
    for one, others, why in conflicts:
        for other in others:
            if one in given and other in given:
                raise click.UsageError(
                    f"{one} and {other} contradict each other: {why}. Give one of them.", ctx
                )
    for one, needed in needs:
        if one in given and needed not in given:
            raise click.UsageError(f"{one} means nothing without {needed}. Give both.", ctx)
    written: dict[str, str] = {}
    for param in ctx.command.params:
        name = _typed(param)
        if param.type is OUTPUT_FILE and name in given:
            first = written.setdefault(os.path.realpath(given[name]), name)
            if first != name:
                raise click.UsageError(
                    f"{first} and {name} name the same file, {given[name]}. Name two.", ctx
                )


def _typed(param: click.Parameter) -> str:
    """As people write it: `--report`, `KERNEL`."""
    return (
        max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
    )
