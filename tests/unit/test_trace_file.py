"""The file of a trace is whole after each write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from threads import in_threads

from xtarget._system.trace_file import TraceFile


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="ascii"))


def test_it_is_whole_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("[\n1, 2, 3, 4, 5, 6\n]\n")  # an earlier one
    file = TraceFile(path)
    assert read(path) == []
    for number in range(5):
        file.add({"n": number}, now=True)
        assert [event["n"] for event in read(path)] == list(range(number + 1))
    file.add({"n": "é\n"})
    file.close()
    assert read(path)[-1] == {"n": "é\n"}


def test_threads_write_whole_events(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "t.json")

    def work(number: int) -> None:
        for turn in range(200):
            file.add({"thread": number, "turn": turn, "text": "x" * turn}, now=turn % 7 == 0)

    in_threads(work, range(4))
    file.close()
    found = read(tmp_path / "t.json")
    for number in range(4):
        own = [event["turn"] for event in found if event["thread"] == number]
        assert own == list(range(200))


def test_a_write_that_fails_leaves_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    file = TraceFile(path)
    file.add({"n": 1}, now=True)
    real, room = os.pwrite, [5]

    def full(number: int, data: bytes, at: int) -> int:
        if room:
            return real(number, data[: room.pop()], at)
        monkeypatch.undo()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        file.add({"n": 2}, now=True)
    assert read(path) == [{"n": 1}]
    file.add({"n": 3}, now=True)
    assert read(path) == [{"n": 1}, {"n": 3}]
    file.close()


def test_two_of_one_name_are_two_files(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    first, second = TraceFile(path), TraceFile(path)
    assert second.path == tmp_path / f"t-{os.getpid()}.json"
    with pytest.raises(ValueError, match="being written already"):
        TraceFile(path)
    first.add({"n": 1})
    second.add({"n": 2})
    first.close()
    second.close()
    assert read(path) == [{"n": 1}]
    assert read(second.path) == [{"n": 2}]
