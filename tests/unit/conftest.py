"""Fixtures that several files of unit tests use."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from xtarget._bundle import reader


@pytest.fixture
def unread_bundles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No bundle is open or named by the environment; after five minutes the process ends."""
    monkeypatch.setattr(reader, "_bundles", {})
    monkeypatch.setattr(reader, "_of_environment", None)
    monkeypatch.delenv("XTARGET_BUNDLES", raising=False)
    monkeypatch.delenv("XTARGET_TRUST", raising=False)
    signal.alarm(300)
    yield
    signal.alarm(0)
