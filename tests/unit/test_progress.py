"""A person who waits at a terminal reads what for; a library prints nothing."""

from __future__ import annotations

import threading

import pytest

from xtarget._system import progress


def test_a_line_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_shown", True)
    monkeypatch.setattr(progress, "_FIRST", 0.01)
    said = threading.Event()
    monkeypatch.setattr("builtins.print", lambda *words, **_: (lines.append(words[0]), said.set()))
    lines: list[str] = []
    with progress.progress("compiling k"):
        assert said.wait(60)
    assert lines[0].startswith("compiling k: ")


def test_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress.show()
    before = threading.active_count()
    with progress.progress("compiling k"):
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""
