"""The command line in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from xtarget._cli import main

__all__ = ["COMMANDS", "exit_code", "here", "parsed"]


def _walk(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    context = click.Context(command, info_name="xtarget")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, (*words, name))
    else:
        yield " ".join(words), command


#: Each by the words that call it.
COMMANDS = dict(_walk(main.cli))


def parsed(words: list[str]) -> click.Command:
    """The command that these words name, its options checked; nothing is done."""
    command: click.Command = main.cli
    context = click.Context(command, info_name="xtarget", obj={"debug": False, "json": False})
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None, name
        command, context = found, click.Context(found, context, info_name=name)
    command.parse_args(context, words)
    return command


def exit_code(*words: str) -> int:
    """Run `xtarget` with these words; its exit code."""
    with pytest.raises(SystemExit) as leave:
        main.main(list(words))
    code = leave.value.code or 0
    assert isinstance(code, int)
    return code


def here(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run `xtarget` with these words: exit code, output, errors."""
    code = exit_code(*words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err
