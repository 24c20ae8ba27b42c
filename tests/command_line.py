"""The command line in the process of the tests."""

from __future__ import annotations

import pytest

from xtarget._cli import main

__all__ = ["exit_code", "here"]


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
