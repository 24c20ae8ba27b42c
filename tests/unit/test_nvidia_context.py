"""The primary context that a thread makes while a device is opened: nothing is silicon."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")

from cuda.bindings import driver

from xtarget.targets.nvidia.ahead import context_ahead

DEVICE = 3


class Contexts:
    """A driver's primary context: who holds it, and which threads have asked for it."""

    def __init__(self) -> None:
        self.holders = 0
        self.threads: list[int] = []
        self.relaxed: list[int] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.status = 0

    def get_state(self, device: int) -> tuple[int, int, int]:
        return 0, 0, self.holders

    def retain(self, device: int) -> tuple[int, Any]:
        assert device == DEVICE
        assert self.may_end.wait(60)
        self.threads.append(threading.get_ident())
        self.holders += not self.status
        return self.status, SimpleNamespace()

    def release(self, device: int) -> tuple[int]:
        assert device == DEVICE
        self.holders -= 1
        return (0,)

    def exchange(self, mode: Any) -> tuple[int, Any]:
        self.relaxed.append(threading.get_ident())
        return 0, mode


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> Contexts:
    made = Contexts()
    monkeypatch.setattr(driver, "cuDeviceGet", lambda ordinal: (0, DEVICE))
    monkeypatch.setattr(driver, "cuDevicePrimaryCtxGetState", made.get_state)
    monkeypatch.setattr(driver, "cuDevicePrimaryCtxRetain", made.retain)
    monkeypatch.setattr(driver, "cuDevicePrimaryCtxRelease", made.release)
    monkeypatch.setattr(driver, "cuThreadExchangeStreamCaptureMode", made.exchange)
    return made


def test_the_context_is_made_beside_what_the_scope_does(contexts: Contexts) -> None:
    contexts.may_end.clear()
    with context_ahead(0):
        contexts.may_end.set()  # until here, the scope has not waited for it
        contexts.retain(DEVICE)  # as opening the device does
    here = threading.get_ident()
    (other,) = [thread for thread in contexts.threads if thread != here]
    assert contexts.relaxed == [other]  # captures of others forbid nothing there
    assert contexts.holders == 1  # who opened it


def test_nothing_is_begun_where_there_is_a_context(contexts: Contexts) -> None:
    contexts.holders = 1
    with context_ahead(0):
        pass
    assert contexts.threads == []
    assert contexts.holders == 1


def test_a_context_that_cannot_be_made_is_for_the_next_to_tell(contexts: Contexts) -> None:
    contexts.status = 2
    with context_ahead(0):
        pass
    assert len(contexts.threads) == 1
    assert contexts.holders == 0


def test_the_context_goes_where_the_scope_fails(contexts: Contexts) -> None:
    with pytest.raises(KeyError), context_ahead(0):
        raise KeyError
    assert len(contexts.threads) == 1
    assert contexts.holders == 0


def test_the_context_goes_where_the_wait_for_it_is_interrupted(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, join = [], threading.Thread.join

    def interrupted(thread: threading.Thread) -> None:
        waiting.append(thread)
        raise KeyboardInterrupt

    contexts.may_end.clear()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt), context_ahead(0):
            pass
    assert contexts.holders == 0
    contexts.may_end.set()
    join(waiting[0])
    assert len(contexts.threads) == 1
    assert contexts.holders == 0


def test_where_no_thread_can_start_the_scope_runs_alone(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with context_ahead(0):
        ran = True
    assert ran
    assert contexts.threads == []
