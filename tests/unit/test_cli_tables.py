"""Tables of the command line on terminals of any width, and in pipes."""

from __future__ import annotations

import re
import sys
from typing import Protocol

import pytest

from xtarget._cli.tables import echo_wrapped, print_table

COLUMNS = ("", "device", "product", "runs on")
ROWS = (("*", "cpu:0", "Acme One of many words", "CPU runtime"), ("", "gpu:0", "Acme Two", ""))


class Shown(Protocol):
    """The lines of the table on a terminal of so many columns."""

    def __call__(self, columns: str, terminal: bool = False) -> list[str]: ...


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    def show(columns: str, terminal: bool = False) -> list[str]:
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        print_table(COLUMNS, ROWS)
        return capsys.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize("columns", ["", "0", "many", "200"])
def test_in_a_pipe_a_row_is_a_line(shown: Shown, columns: str) -> None:
    assert shown(columns) == [
        "   device  product                 runs on",
        "*  cpu:0   Acme One of many words  CPU runtime",
        "   gpu:0   Acme Two",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_a_little_too_wide_is_folded(shown: Shown, terminal: bool) -> None:
    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in shown("40", terminal)]
    assert lines == [
        "   device  product           runs on",
        "*  cpu:0   Acme One of many  CPU runtime",
        "           words",
        "   gpu:0   Acme Two",
    ]


@pytest.mark.parametrize("columns", ["1", "20"])
def test_where_no_table_fits_a_row_is_a_block(shown: Shown, columns: str) -> None:
    lines = shown(columns)
    assert lines[:2] == ["* cpu:0", "  product  Acme One"]
    assert lines[-2:] == ["gpu:0", "  product  Acme Two"]  # what is empty is not a line


def test_a_sentence_breaks_between_words_but_not_in_what_people_copy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    echo_wrapped('nvidia: it is not there. Install it with: pip install "xtarget[nvidia]"')
    assert capsys.readouterr().out.splitlines() == [
        "nvidia: it is not there. Install it",
        '  with: pip install "xtarget[nvidia]"',
    ]
