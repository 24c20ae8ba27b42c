"""A remote store that gives wrong entries, fails, hangs or is slow is left alone."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
from remote_entries import NAME, PLACE, blob, counted

from xtarget._cache.remote import Breaker, Remote
from xtarget._cache.stats import cache_stats


class Backend:
    """A store that answers what a test wants."""

    def __init__(self, answer: Callable[[], bytes | None]) -> None:
        self.answer = answer
        self.asked = 0

    def get(self, name: str) -> bytes | None:
        assert name == NAME
        self.asked += 1
        return self.answer()

    def put(self, name: str, data: bytes) -> None:
        self.asked += 1
        self.answer()


def remote(backend: Backend, seconds: float = 1.0) -> Remote:
    return Remote("test://store", seconds=seconds, backend=backend)


WRONG = {
    "garbage": b"\x00\xff" * 50,
    "empty": b"",
    "cut off": blob()[:-1],
    "longer": blob() + b"x",
    "another kernel": blob(place=replace(PLACE, kernel="other")),
    "another key": blob(place=replace(PLACE, key="0" * 64)),
    "another binary": blob().replace(b"codecode", b"evilcode"),
    "a huge mark": b"xtarget entry 2\n" + b"\xff" * 100,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_entry_is_dropped_counted_and_not_asked_for_again(wrong: bytes) -> None:
    backend, before = Backend(lambda: wrong), cache_stats()
    far = remote(backend)
    for _ in range(3):
        assert far.read(PLACE) is None
    assert backend.asked == 1
    assert counted(before, "dropped", "errors", "hits") == (1, 0, 0)


def fails() -> bytes:
    raise ConnectionError("no route to host")


def test_a_store_that_fails_is_left_alone_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    backend, before = Backend(fails), cache_stats()
    far = remote(backend)
    for _ in range(10):
        assert far.read(PLACE) is None
    assert backend.asked == 3
    assert counted(before, "errors", "skipped") == (3, 7)
    assert "no route to host" in caplog.text
    assert "not asked for 30 s" in caplog.text


def test_a_store_that_hangs_costs_one_time_limit() -> None:
    never, ended = threading.Event(), threading.Event()

    def hangs() -> None:
        never.wait(60)
        ended.set()

    backend = Backend(hangs)
    far = remote(backend, seconds=0.2)
    for _ in range(20):
        assert far.read(PLACE) is None
    assert not ended.is_set(), "a read waited for the store"
    assert backend.asked == 1
    never.set()


def test_a_breaker_asks_again_and_pauses_longer_each_time() -> None:
    now = [0.0]
    breaker = Breaker(lambda: now[0])
    assert breaker.failed(hung=True) == 30
    assert not breaker.allows()
    now[0] = 30
    assert breaker.allows()
    assert breaker.failed(hung=True) == 60
    for _ in range(10):
        assert (breaker.failed(hung=True) or 0) <= 600
    for _ in range(3):
        breaker.succeeded()
    assert breaker.failed(hung=False) is None
    assert breaker.failed(hung=False) is None
    assert breaker.failed(hung=False) == 30


def test_a_store_that_is_slow_fails_and_has_nothing_by_turns_is_left_alone() -> None:
    now = [0.0]
    breaker, asked = Breaker(lambda: now[0]), 0
    for kernel in range(100):
        if not breaker.allows():
            continue
        asked += 1
        match kernel % 3:
            case 0:
                now[0] += 1.9
                breaker.succeeded(0.95, useful=False)
            case 1:
                breaker.failed(hung=False)
            case 2:
                now[0] += 0.02
                breaker.succeeded(0.01, useful=False)
    assert asked < 10
    assert now[0] < 10


@pytest.mark.parametrize(("share", "useful"), [(0.05, False), (0.9, True)])
def test_a_store_that_is_quick_or_has_what_is_asked_for_is_asked_for_ever(
    share: float, useful: bool
) -> None:
    breaker = Breaker(lambda: 0.0)
    for number in range(1000):
        assert breaker.succeeded(share, useful=useful) is None
        if number % 50 == 0:
            assert breaker.failed(hung=False) is None


def test_the_remote_measures_what_its_answers_cost() -> None:
    turn = iter(range(10**6))

    def by_turns() -> bytes | None:
        match next(turn) % 3:
            case 0:
                time.sleep(0.19)
            case 1:
                raise OSError("no route to host")
        return None

    backend = Backend(by_turns)
    far = remote(backend, seconds=0.2)
    for _ in range(100):
        assert far.read(PLACE) is None
    assert backend.asked < 10


def stream_for_ever(begin: bytes) -> int:
    """A server that says how its answer begins, and never ends it."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                asked = connection.recv(65536)
                if not asked:
                    return
                if asked.startswith(b"GET /"):
                    stream(connection)
                for command in re.findall(rb"\*\d+\r\n\$\d+\r\n(\w+)", asked):
                    if command == b"GETRANGE":
                        stream(connection)
                    connection.sendall(replies.get(command, b"+OK\r\n"))

    def stream(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(bytes(1 << 20))

    hello = b"%2\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n"
    replies = {b"HELLO": hello, b"STRLEN": b":100\r\n"}

    def work() -> None:
        while True:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=work, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("scheme", "begin"),
    [
        ("redis", b"$6300000000\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
)
def test_a_store_that_sends_more_than_it_said_costs_no_memory(
    scheme: str, begin: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed")
    monkeypatch.setattr("xtarget._cache.remote_stores.MAX_BLOB_BYTES", 8 << 20)
    url = f"{scheme}://127.0.0.1:{stream_for_ever(begin)}"
    tracemalloc.start()
    try:
        far = Remote(url, seconds=30.0)
        assert far.read(PLACE) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert "sends more than" in caplog.text
    assert far._hung == 0, "nothing goes on behind"
