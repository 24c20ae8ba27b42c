"""Compile servers of tests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from xtarget._serve import listen, work

__all__ = ["serving"]


@contextlib.contextmanager
def serving(
    address: str, tokens: Path | None = None, *tls: Path, per_minute: int | None = None
) -> Iterator[listen.CompileServer]:
    """A server in a thread of this process."""
    done = work.Work(work.Limits(2, 20, per_minute))
    with listen.opened(address, done, tokens, *(tls or (None, None))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
