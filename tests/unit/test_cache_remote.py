"""The store behind: real Redis, real HTTP, a folder; and every way in which it may fail."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from remote_entries import ARTIFACT, KEY, NAME, PARTS, TARGET, blob, cache, counted

from xtarget import Artifact, Target
from xtarget._cache import key_of
from xtarget._cache.stats import cache_stats
from xtarget._cli.main import main
from xtarget._compile import functions
from xtarget._devices import registry
from xtarget._values.types import CompileRequest, KernelSource

# ------------------------------------------------------------------------------- the real servers


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    redis = pytest.importorskip("redis", reason="redis-py is not installed")
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    words = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([*words, "--requirepass", "secret"], stdout=subprocess.DEVNULL)
    url = f"redis://:secret@127.0.0.1:{port}/0"
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                redis.Redis.from_url(url).ping()
                break
            except redis.exceptions.ConnectionError:
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def http_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("http")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def do_PUT(self) -> None:
            path = Path(self.translate_path(self.path))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["redis", "http", "folder", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in ("redis", "http"):
        return str(request.getfixturevalue(f"{request.param}_url"))
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    return f"file://{tmp_path}/far" if request.param == "folder" else "memory://xtarget"


def test_what_one_machine_compiled_another_finds(url: str, tmp_path: Path) -> None:
    key = key_of([("url", url)])
    first = cache(tmp_path / "one", url, remote_write=True)
    second = cache(tmp_path / "two", url)
    before = cache_stats()
    assert second.fetch(TARGET, "k", key) is None
    first.put("k", key, PARTS, ARTIFACT, seconds=2.5)
    assert second.fetch(TARGET, "k", key) == ARTIFACT
    assert counted(before, "asked", "hits", "writes", "errors") == (3, 1, 1, 0)
    assert cache_stats().compile_seconds_saved == before.compile_seconds_saved + 2.5
    assert second.get(TARGET, "k", key) == ARTIFACT, "it is kept on this machine"


def test_it_is_filled_only_when_that_is_allowed(url: str, tmp_path: Path) -> None:
    key = key_of([("url", url), ("filled", "no")])
    cache(tmp_path / "one", url).put("k", key, PARTS, ARTIFACT)
    assert cache(tmp_path / "two", url, remote_write=True).fetch(TARGET, "k", key) is None


def test_a_launch_asks_it_only_when_this_machine_has_nothing(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Compiler:
        fingerprint = "made up"
        compiled = 0

        def compile(
            self, request: CompileRequest, target: Target, *, keep_stages: bool = False
        ) -> Artifact:
            self.compiled += 1
            return ARTIFACT

    compiler = Compiler()
    monkeypatch.setattr(registry, "compiler", lambda vendor: compiler)
    monkeypatch.setenv("XTARGET_CACHE_REMOTE", redis_url)
    monkeypatch.setenv("XTARGET_CACHE_REMOTE_WRITE", "1")
    request = CompileRequest(KernelSource("k", "0" * 64, "", lambda: None), ())
    asked = []
    for folder in ("one", "two", "two"):
        monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / folder))
        before = cache_stats()
        assert functions.artifact(request, TARGET) == ARTIFACT
        asked.append(counted(before, "asked", "hits", "writes"))
    assert asked == [(2, 0, 1), (1, 1, 0), (0, 0, 0)]
    assert compiler.compiled == 1


def test_the_password_is_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed")
    opened = cache(tmp_path, f"redis://me:hush@127.0.0.1:{free_port()}/0")
    assert opened.fetch(TARGET, "k", KEY) is None
    assert "failed" in caplog.text
    assert "hush" not in caplog.text
    assert "hush" not in str(opened.remote_name)


# ------------------------------------------------------------------------------------ bad answers


def test_a_wrong_entry_in_redis_is_dropped(redis_url: str, tmp_path: Path) -> None:
    import redis

    key = key_of([("wrong", "redis")])
    name = f"xtarget/v1/nvidia/sm_90/k-{key[:24]}.xte"
    redis.Redis.from_url(redis_url).set(name, blob())
    before, opened = cache_stats(), cache(tmp_path, redis_url)
    assert opened.fetch(TARGET, "k", key) is None
    assert opened.fetch(TARGET, "k", key) is None
    assert counted(before, "asked", "dropped") == (1, 1)
    assert opened.get(TARGET, "k", key) is None, "nothing of it is kept"


def test_a_folder_is_written_as_the_umask_says_and_rid_of_leftovers(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'far'}"
    folder = (tmp_path / "far" / NAME).parent
    folder.mkdir(parents=True)
    left = folder / f".k.xte.{'0' * 20}"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    before = os.umask(0o022)
    try:
        cache(tmp_path / "near", url, remote_write=True).put("k", KEY, PARTS, ARTIFACT)
    finally:
        os.umask(before)
    (there,) = folder.iterdir()
    assert stat.S_IMODE(there.stat().st_mode) == 0o644


SECRETS = (
    "redis://:hunter2secret@127.0.0.1:1/0",
    "redis://127.0.0.1:1/0?password=hunter2secret",
    "redis://127.0.0.1:notaport/0?password=hunter2secret",
    "redis://:hunter2%73ecret@127.0.0.1:1/0?db=hunter2secret",
    "http://127.0.0.1:1/cache?sig=hunter2secret&se=2026",
    "http://me:hunter2secret@127.0.0.1:1/cache#hunter2secret",
    "http://me:hunter2/secret?hunter2secret@127.0.0.1:1/cache",
    "nonsense://me:hunter2secret@x/y?token=hunter2secret",
    "memory://me:hunter2secret@x/y?token=hunter2secret",
    "simplecache::nonsense://key:hunter2secret@bucket?hunter2secret",
)


@pytest.mark.parametrize("url", SECRETS)
def test_what_is_secret_in_a_url_is_never_shown(
    url: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed")
    opened = cache(tmp_path, url, remote_seconds=2.0)
    assert opened.fetch(TARGET, "k", KEY) is None
    assert opened.remote_name is not None
    shown = [caplog.text, opened.remote_name]
    monkeypatch.setenv("XTARGET_CACHE_REMOTE", url)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "x"))
    for words in (["cache", "stats"], ["cache", "stats", "--json"], ["info"], ["info", "--json"]):
        with pytest.raises(SystemExit):
            main(words)
        captured = capsys.readouterr()
        shown += [captured.out, captured.err]
    for text in shown:
        assert "hunter2" not in text


def serve_once(answer: bytes, slow: threading.Event | None = None) -> int:
    """A TCP server that says the same to everybody; a slow one says at last that it would have."""
    server = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                connection, _ = server.accept()
                connection.recv(4096)
                if slow:
                    time.sleep(60)
                    slow.set()
                connection.sendall(answer)
                connection.close()
            except OSError:
                return

    threading.Thread(target=work, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize("scheme", ["redis", "http"])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\x01garbage\r\n",
        b"$99999999999\r\nabc",
        b"HTTP/1.1 500 no\r\n\r\n",
        b"-ERR no\r\n",
    ],
)
def test_whatever_a_server_says_the_kernel_is_compiled(
    tmp_path: Path, scheme: str, answer: bytes
) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed")
    before = cache_stats()
    opened = cache(tmp_path, f"{scheme}://127.0.0.1:{serve_once(answer)}", remote_seconds=0.5)
    assert opened.fetch(TARGET, "k", KEY) is None
    assert counted(before, "errors") == (1,)


def test_a_slow_server_costs_the_time_limit(tmp_path: Path) -> None:
    late = threading.Event()
    opened = cache(tmp_path, f"http://127.0.0.1:{serve_once(b'', late)}", remote_seconds=0.2)
    for _ in range(5):
        assert opened.fetch(TARGET, "k", KEY) is None
    assert not late.is_set(), "a fetch waited for the answer"


@pytest.mark.parametrize(
    ("url", "said"),
    [("nonsense://x", "rotocol not known"), ("redis://h", r'pip install "xtarget\[remote\]"')],
)
def test_a_store_that_nothing_here_can_speak_to_is_said_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    said: str,
) -> None:
    import sys

    pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setitem(sys.modules, "redis", None)
    opened = cache(tmp_path, url)
    for _ in range(3):
        assert opened.fetch(TARGET, "k", KEY) is None
    assert len(re.findall(said, caplog.text)) == 1
