"""The child's side of the protocol: the loop that answers the parent's requests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from .frames import pack, read_frame

__all__ = ["Answer", "note", "serve"]

#: From the header and the parts of a request to the frame that answers it.
Answer = Callable[[dict[str, Any], list[bytes]], bytes]

#: The pipe to the parent.
_output: BinaryIO | None = None


def serve(prepare: Callable[[], Answer], *, idle: float | None = None, watch: bool = True) -> None:
    """Answer requests from standard input until it ends.

    What libraries print goes to the standard error. An interrupt of the terminal is the parent's to
    handle. An exception ends the process; the parent reads its traceback.

    Args:
        prepare: loads what the answers need, and returns what gives them.
        idle: seconds without a request after which the process ends; None for no such limit.
        watch: end as soon as the parent is gone, also in the middle of a library's call. This takes
            a thread, so a process that forks has to do without.
    """
    global _output
    _output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if watch:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    answer = prepare()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    with contextlib.suppress(BrokenPipeError):  # the parent is gone
        while poll.poll(None if idle is None else idle * 1000):
            _send(answer(*read_frame()))
    os._exit(0)  # a library that hangs in its destructors is of no interest


def note(**what: Any) -> None:
    """Tell the parent about the work on the current request, before its answer."""
    _send(pack({"note": what}))


def _send(frame: bytes) -> None:
    assert _output is not None, "the process serves nobody"
    _output.write(frame)
    _output.flush()


def _end_with_parent() -> None:
    poll = select.poll()
    poll.register(0, 0)  # asks for nothing but the end of the pipe, which is always told
    poll.poll()
    os._exit(1)
