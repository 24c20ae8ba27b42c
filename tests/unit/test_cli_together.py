"""Options that a command refuses together: every conflict that one declares, and values."""

from __future__ import annotations

import json
from itertools import combinations

import click
import pytest
from command_line import COMMANDS, here

from xtarget._cli.together import OUTPUT_FILE


def typed(name: str, option: str) -> list[str]:
    """The words that give an option of a command, or its argument."""
    for param in COMMANDS[name].params:
        if isinstance(param, click.Argument) and param.human_readable_name == option:
            return ["x"]
        if option in param.opts:
            assert isinstance(param, click.Option)
            if option == "--executor":  # whose value is looked at before
                return [option, "mpi"]
            return [option] if param.is_flag else [option, "1"]
    raise AssertionError(f"`xtarget {name}` has no {option}")


def required(name: str, *beside: str) -> list[str]:
    found = []
    for param in COMMANDS[name].params:
        if param.required and not {*param.opts, param.human_readable_name} & {*beside}:
            found += ["x"] if isinstance(param, click.Argument) else [param.opts[0], "x"]
    return found


CONFLICTS = [
    (name, one, other)
    for name, command in COMMANDS.items()
    for one, others, _ in command.conflicts
    for other in others
]


@pytest.mark.parametrize(("name", "one", "other"), CONFLICTS)
@pytest.mark.parametrize("turned", [False, True])
def test_options_that_contradict_each_other_are_refused(
    name: str, one: str, other: str, turned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = (other, one) if turned else (one, other)
    words = [word for option in pair for word in typed(name, option)]
    code, out, err = here(capsys, *name.split(), *words, *required(name, *pair), "--json")
    assert (code, list(json.loads(out))) == (2, ["error"])
    assert f"{one} and {other} contradict each other" in err
    assert "Give one of them." in err


@pytest.mark.parametrize(
    ("name", "one", "needed"),
    [(name, *pair) for name, command in COMMANDS.items() for pair in command.needs],
)
def test_an_option_that_means_nothing_alone_is_refused(
    name: str, one: str, needed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = here(capsys, *name.split(), *typed(name, one), *required(name, one))
    assert code == 2
    assert f"{one} means nothing without {needed}" in err


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        (name, *pair)
        for name, command in COMMANDS.items()
        for pair in combinations(
            [max(param.opts, key=len) for param in command.params if param.type is OUTPUT_FILE], 2
        )
    ],
)
def test_two_things_are_not_written_to_one_file(
    name: str, one: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [one, "same", other, "./same", *required(name, one, other)]
    code, _, err = here(capsys, *name.split(), *words)
    assert code == 2
    assert f"{one} and {other} name the same file" in err


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("run sum --option axis=0 --option axis=1", 2, "axis is given twice"),
        ("run add --scalar b=1 --scalar b=1", 2, "b is given twice"),
        ("run add --device cpu --device cpu", 2, "--device is given 2 times"),
        ("run add --shape 4 --scalar a=1 --scalar b=2", 2, "gets no array here"),
        ("run uniform --shape 4 --option shape=5", 2, "gets no array here"),
        ("cache ls --newer 1h --older 7d", 1, "--newer has to be a longer time than --older"),
        ("verify --merge a.json --report ./a.json", 1, "is one of the reports to join"),
        ("compile add --target cpu", 2, "Missing option"),
        ("bundle build --target cpu", 2, "Missing option"),
    ],
)
def test_values_that_contradict_each_other_are_refused(
    line: str, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, _, err = here(capsys, *line.split())
    assert (ended, says in err) == (code, True), err
