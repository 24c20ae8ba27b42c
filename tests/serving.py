"""Compile servers of tests."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from xtarget._serve import listen, work

__all__ = ["answering", "serving"]


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


@contextlib.contextmanager
def answering(
    listening: socket.socket, answer: Callable[[bytes], bytes], each: float = 0.0
) -> Iterator[None]:
    """A server that sends what `answer` makes of a request, and hangs up; of nothing it waits.

    Args:
        each: seconds before each byte of it.
    """
    ended = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, connection.makefile("rb") as read:
                    length = 0
                    while (line := read.readline()) not in (b"\r\n", b""):
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    sent = answer(read.read(length))
                    if each:
                        for byte in sent:
                            if ended.wait(each):
                                break
                            connection.sendall(bytes([byte]))
                    else:
                        connection.sendall(sent)
                    if not sent:
                        ended.wait(20)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
