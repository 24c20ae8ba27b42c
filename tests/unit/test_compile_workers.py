"""An artifact that a child process sends is checked before anything is launched from it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from artifacts import sample_artifact

from xtarget import CompileError, Target
from xtarget._artifacts.entry import describe
from xtarget._compile import workers
from xtarget._values.types import (
    CompileRequest,
    KernelSource,
)

SM_90 = Target("nvidia", "sm_90")
MADE = sample_artifact(b"\x00\x7fcode", texts={"ptx": ".version 8.0"})


def sent() -> dict[str, Any]:
    """The child's answer, as the pipe's JSON gives it back."""
    answer = {
        "artifact": describe(MADE),
        "texts": dict(MADE.texts),
        "seconds": 0.5,
    }
    whole: dict[str, Any] = json.loads(json.dumps(answer))
    return whole


def fact(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: answer["artifact"].update({name: value})


#: What may be wrong with an answer.
FAULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "entry": fact("entry", 'add", 0}; int main'),
    "warps as text": fact("num_warps", "4"),
    "no thread": fact("num_warps", 0),
    "too many threads": fact("warp_size", 1 << 30),
    "negative memory": fact("shared_bytes", -1),
    "parameters": fact("parameters", [{"name": "a b", "type": "*fp32"}]),
    "no parameters": fact("parameters", None),
    "scratch": fact("global_scratch", {"size": 1.5, "align": 1}),
    "more than there is": fact("surprise", 1),
    "less than there is": lambda answer: answer["artifact"].pop("entry"),
    "no artifact": lambda answer: answer.pop("artifact"),
    "texts": lambda answer: answer.update(texts={"../ptx": "x"}),
    "no texts": lambda answer: answer.update(texts=[]),
}


def test_an_artifact_that_a_child_sends_is_the_one_that_it_made() -> None:
    read = workers.artifact_of(SM_90, sent(), [MADE.binary])
    assert read == MADE
    assert read.texts == MADE.texts


@pytest.mark.parametrize("fault", FAULTS)
def test_what_no_compiler_makes_is_refused(fault: str) -> None:
    answer = sent()
    FAULTS[fault](answer)
    with pytest.raises(CompileError, match="sent no artifact that can be launched"):
        workers.artifact_of(SM_90, answer, [MADE.binary])


@pytest.mark.parametrize("parts", [[], [b"", b""]])
def test_an_artifact_without_its_binary_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(CompileError, match="sent no artifact that can be launched"):
        workers.artifact_of(SM_90, sent(), parts)


def test_a_build_lists_a_wrong_artifact_and_goes_on() -> None:
    source = KernelSource("add", "0" * 64, "/somewhere/add.py", lambda: None)
    job = workers.Job(SM_90, "", "", CompileRequest(source=source, signature=()))
    answers = [(sent(), []), (sent(), [MADE.binary])]
    child: Any = SimpleNamespace(pid=1, start=os.getpid, ask=lambda *_: answers.pop(0))
    first, second = (workers._compile(child, job, 1.0, threading.Event()) for _ in range(2))
    assert isinstance(first, CompileError)
    assert second == workers.Compiled(MADE, 0.5)


def test_a_fault_of_ours_while_a_build_waits_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the thread, and the build waited for its result without end."""

    def broken(*_: object) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(workers, "_compile", broken)
    source = KernelSource("add", "0" * 64, "/somewhere/add.py", lambda: None)
    job = workers.Job(SM_90, "", "", CompileRequest(source=source, signature=()))
    with pytest.raises(ValueError, match="a fault of ours"):
        list(workers.compile_all([job, job], 2, 1.0))
