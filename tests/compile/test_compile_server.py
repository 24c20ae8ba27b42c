"""The compile server: clients without Triton, what is believed of its answers, who may ask."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import logging
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes import run_python
from serving import answering, serving

from xtarget import ArgumentError, Target, XTargetError, _cache
from xtarget._artifacts.entry import pack as packed
from xtarget._cache.stats import cache_stats
from xtarget._children import start
from xtarget._children.frames import pack
from xtarget._compile import limited, served, units
from xtarget._compile.keys import key_parts
from xtarget._compile.workers import COMPILE_CHILD
from xtarget._devices import registry
from xtarget._executors import asking, posting
from xtarget._executors.posting import HEADER, PROTOCOL
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._serve import bundles, credentials, listen
from xtarget._values.types import Artifact, CompileRequest
from xtarget.spec import ArrayType

pytest.importorskip("triton")

SM_90 = Target("nvidia", "sm_90")
TOKEN = "0123456789abcdef-of-a-test"
OTHER_KEY = "c" * 64


def request_of(kernel: str) -> CompileRequest:
    array = ArrayType("float32", (1000,), (1,))
    (made,) = planning.compile_requests(libraries.find(kernel), (array,), {}, SM_90)
    return made


def asked(kernel: str = "relu") -> Artifact | str:
    """A client without Triton, and its answer from the server that the environment names."""
    request = request_of(kernel)
    return served.compile_there(request, SM_90, key_parts(request, SM_90, ""))


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(served, "_warned", set())
    served._breaker.cache_clear()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"somebody {TOKEN}\n")
    path.chmod(0o600)
    return path


def certificate(folder: Path) -> tuple[Path, Path]:
    """One of localhost that nobody signed, and its key."""
    cert, key = folder / "cert", folder / "key"
    openssl = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    names = ("-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    command = (*openssl, *names, "-keyout", key, "-out", cert)
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


@contextlib.contextmanager
def liar(
    answer: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch, each: float = 0.0
) -> Iterator[None]:
    """A server that the environment names, and that sends what `answer` makes of a unit, each byte
    after so many seconds."""
    listening = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("XTARGET_COMPILE_SERVER", f"http://127.0.0.1:{listening.getsockname()[1]}")
    with answering(listening, answer, each):
        yield


# ------------------------------------------------------------------------------------ real servers


THIN = """
import sys

sys.modules["triton"] = None
import numpy as np
import xtarget

x = np.arange(700, dtype=np.float32).reshape(7, 100)
y = xtarget.run("logsumexp", x, axis=1, device="cpu")
np.testing.assert_allclose(y, x[:, -1] + 0.4586751, 1e-6)
print(xtarget.cache_stats().served)
from xtarget._cli.main import main

sys.argv = "xtarget compile relu --target nvidia:sm_90 --shape 100 --json -o".split() + sys.argv[1:]
sys.exit(main())
"""


def test_a_client_without_triton_and_the_end_of_a_server(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    command = [sys.executable, "-m", "xtarget", "serve", "--listen", f"unix:{path}", "--jobs", "2"]
    own = {**os.environ, "XTARGET_CACHE_DIR": str(tmp_path / "server")}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as server,
        contextlib.ExitStack() as on_failure,
    ):
        on_failure.callback(server.kill)
        assert server.stdout is not None
        assert f"listening at unix:{path}" in server.stdout.readline()
        assert path.stat().st_mode & 0o777 == 0o600
        only = {"XTARGET_COMPILE_SERVER": f"unix:{path}", "XTARGET_ROUTES": "triton"}
        done = run_python("-c", THIN, str(tmp_path), **only)
        served, written = done.stdout.split(maxsplit=1)
        assert (served, json.loads(written)[0]["format"]) == ("2", "cubin"), done.stderr
        server.send_signal(signal.SIGTERM)
        assert "3 compiled" in server.stdout.read()
        on_failure.pop_all()
    assert server.returncode == 0
    assert not path.exists()
    # what was kept needs neither the server nor a compiler
    done = run_python("-c", THIN, str(tmp_path), XTARGET_COMPILE="error", XTARGET_ROUTES="triton")
    assert done.stdout.split()[0] == "0", done.stderr


def test_many_clients_over_tls_one_compilation_signed(
    tmp_path: Path, token: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("cryptography")
    cert, key = certificate(tmp_path)
    sign, trust = tmp_path / "sign", tmp_path / "trust"
    for command in (
        ("openssl", "genpkey", "-algorithm", "ed25519", "-out", sign),
        ("openssl", "pkey", "-in", sign, "-pubout", "-out", trust),
    ):
        subprocess.run(command, check=True, capture_output=True)
    monkeypatch.setenv("XTARGET_SIGN", str(sign))
    monkeypatch.setenv("XTARGET_TRUST", str(trust))
    with serving("localhost:0", token, cert, key) as server, ThreadPoolExecutor(6) as clients:
        url = server.shown.replace("127.0.0.1", "localhost").replace("[::1]", "localhost")
        monkeypatch.setenv("XTARGET_COMPILE_SERVER", url)
        monkeypatch.setenv("XTARGET_COMPILE_TOKEN", str(token))
        plain = posting.Server(url.replace("https:", "http:"), token, None, 60.0)
        with pytest.raises(posting.AwayError, match=r"does not answer .*--tls-cert, write https"):
            posting.post(plain, b"")
        # the system knows nothing of this one
        assert "a certificate that is not believed here: self-signed certificate" in str(asked())
        monkeypatch.setenv("XTARGET_COMPILE_CA", str(cert))
        wrong = tmp_path / "wrong"
        wrong.write_text("0123456789abcdef\n")
        for unread in (0, 8 << 20):  # bytes that the server has no reason to read
            there = posting.Server(url, wrong, cert, 60.0)
            with pytest.raises(posting.AwayError, match=r"\(401\): the token is wrong"):
                posting.post(there, bytes(unread))
        before = cache_stats().compiles
        made = list(clients.map(lambda _: asked(), range(6)))
        assert all(isinstance(one, Artifact) and one.binary == made[0].binary for one in made)
        assert server.work.counts["compiled"] + server.work.counts["there"] == 6
        assert cache_stats().compiles == before + 1


def test_wrong_tokens_and_too_many_requests(
    tmp_path: Path, token: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving("127.0.0.1:0", token, per_minute=1) as server:
        monkeypatch.setenv("XTARGET_COMPILE_SERVER", server.shown)
        assert "(401): it asks for a token" in str(asked())
        served._breaker.cache_clear()
        wrong = tmp_path / "wrong"
        wrong.write_text("somebody 0123456789abcdef\n")
        monkeypatch.setenv("XTARGET_COMPILE_TOKEN", str(wrong))
        assert "(401): the token is wrong" in str(asked())
        assert "left alone" in str(asked())  # it is not asked again at once
        monkeypatch.setenv("XTARGET_COMPILE_TOKEN", str(token))
        assert isinstance(asked("relu"), Artifact)
        assert "somebody has had its 1 compilations" in str(asked("neg"))
        assert isinstance(asked("relu"), Artifact)  # what is there costs nothing
        client = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
        for length, status in (("1" + "0" * 11, 413), ("-1", 411)):
            client.putrequest("POST", "/v1/compile")
            client.putheader("Authorization", f"Bearer {TOKEN}")
            client.putheader("Content-Length", length)
            client.endheaders()
            assert client.getresponse().status == status
            client.close()
        client.request("GET", "/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
        assert json.loads(client.getresponse().read())["compiled"] == 1
        client.close()
    said = [r.getMessage() for r in caplog.records if "refuses" in r.getMessage()]
    assert len(said) == 2  # each once


@pytest.mark.parametrize(
    ("variable", "content", "said"),
    [
        ("TOKEN", None, r"the token file .*file \(XTARGET_COMPILE_TOKEN\) cannot be read: No such"),
        ("TOKEN", "", "the first line of the token file .* has no token"),
        ("CA", None, r"the certificates of .*file \(XTARGET_COMPILE_CA\) cannot be read: No such"),
        ("CA", "no certificate\n", "the certificates of .* cannot be read: .*Name a file of"),
    ],
)
def test_a_file_of_the_clients_own_that_cannot_be_used_is_not_the_servers_fault(
    variable: str, content: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    if content is not None:
        (tmp_path / "file").write_text(content)
    monkeypatch.setenv("XTARGET_COMPILE_SERVER", "https://localhost:9")
    monkeypatch.setenv(f"XTARGET_COMPILE_{variable}", str(tmp_path / "file"))
    with pytest.raises(ArgumentError, match=said):
        asked()
    assert not caplog.text  # no word of a server, which nobody has asked


def test_another_version_is_refused_with_both(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("127.0.0.1:0", token) as server:
        monkeypatch.setenv("XTARGET_COMPILE_SERVER", server.shown)
        monkeypatch.setenv("XTARGET_COMPILE_TOKEN", str(token))
        there = asking.versions()

        def older(header: dict[str, object], parts: list[bytes]) -> bytes:
            return pack({**header, "versions": {**there, "xtarget": "0.0.1"}}, parts)

        with monkeypatch.context() as patch:
            patch.setattr(units, "asked", older)
            said = str(asked())
        assert "0.0.1" in said
        assert there["xtarget"] in said
        with monkeypatch.context() as patch:
            patch.setattr("xtarget._executors.posting.PROTOCOL", "2")
            assert "speaks version 1 of the protocol" in str(asked())
        with monkeypatch.context() as patch:
            patch.setenv("XTARGET_COMPILE_SERVER", server.shown.replace("http:", "https:"))
            assert "does not speak TLS. Write http://" in str(asked())
        served._breaker.cache_clear()
        request = request_of("relu")
        parts = key_parts(request, SM_90, "another Triton")
        assert "another tool chain" in str(served.compile_there(request, SM_90, parts))


# ------------------------------------------------------------------------------------------- liars


def http_answer(body: bytes, head: str = f"{HEADER}: {PROTOCOL}\r\n") -> bytes:
    return f"HTTP/1.1 200 OK\r\n{head}Connection: close\r\n\r\n".encode() + body


def _entry(kernel: str, binary: bytes = b"binary", **wrong: str) -> tuple[str, bytes]:
    """A tool chain, and the entry that a server of it would send."""
    request = request_of(kernel)
    parts = key_parts(request, SM_90, "theirs")
    made = Artifact(SM_90, "cubin", "k", binary, 4, 32, 0, ())
    cache = _cache.default_cache()
    key = wrong.get("key") or _cache.key_of(parts)
    return "theirs", packed(cache.sealed(request.source.name, key, parts, made))


def _answer(unit: bytes, toolchain: str, *entries: bytes) -> bytes:
    digest = hashlib.sha256(unit).hexdigest()
    return http_answer(pack({"unit": digest, "toolchain": toolchain, "machine": "m"}, entries))


def _flipped(unit: bytes) -> bytes:
    toolchain, entry = _entry("relu")
    return _answer(unit, toolchain, entry[:-1] + bytes([entry[-1] ^ 1]))


LIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "binary of another digest": (_flipped, "sha256"),
    "another kernel": (lambda unit: _answer(unit, *_entry("neg")), "another kernel, target or key"),
    "another key": (lambda unit: _answer(unit, *_entry("relu", key=OTHER_KEY)), "target or key"),
    "another tool chain": (lambda unit: _answer(unit, "x", _entry("relu")[1]), "target or key"),
    "another unit": (lambda unit: _answer(unit + b"x", *_entry("relu")), "another unit"),
    "no entry": (lambda unit: _answer(unit, "theirs"), "not used"),
    "no frame": (lambda unit: http_answer(b"\xff" * 100), "does not answer|ended in the middle"),
    "half an answer": (lambda unit: _answer(unit, *_entry("relu"))[:-9], "ended in the middle"),
    "nothing": (lambda unit: b"", r"(says nothing for|no answer after) 0\.5 s"),
    "too much": (
        lambda unit: http_answer(b"\0\0\0\1" * (17 << 20)),
        "no answer|does not answer|says nothing",
    ),
    "a status of failure": (
        lambda unit: http_answer(b"the disk is full\n").replace(b"200 OK", b"500 Oh"),
        r"refuses \(500\): the disk is full$",
    ),
    "no HTTP": (lambda unit: b"220 mail\r\n\r\n", "does not answer"),
    "another service": (lambda unit: http_answer(b"hello", ""), "is none"),
    "a newer protocol": (lambda unit: http_answer(b"", f"{HEADER}: 2\r\n"), "speaks version 2"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_is_slow_or_dies(
    lie: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer, why = LIES[lie]
    monkeypatch.setenv("XTARGET_COMPILE_SERVER_SECONDS", "0.5")
    with liar(answer, monkeypatch), caplog.at_level(logging.WARNING, "xtarget"):
        found = asked()
        assert isinstance(found, str)
        assert re.search(why, found), found
        asked()
    assert len([r for r in caplog.records if "made without it" in r.getMessage()]) == 1
    assert not list(Path(os.environ["XTARGET_CACHE_DIR"]).rglob("*.cubin"))


@pytest.mark.parametrize("from_", ["the first line", "a header", "the answer", "a refusal"])
def test_a_server_that_sends_a_byte_now_and_then(
    from_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never silent, and would never be done."""
    good = http_answer(b"\xff" * 500)
    slow = {
        "the first line": b"HTTP/1.1 200 " + b"O" * 500,
        "a header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500,
        "the answer": good,
        "a refusal": good.replace(b"200 OK", b"500 No"),
    }[from_]
    monkeypatch.setenv("XTARGET_COMPILE_SERVER_SECONDS", "0.7")
    with liar(lambda unit: slow, monkeypatch, each=0.05):
        assert re.search(r"has no answer after 0\.7 s", str(asked()))


def test_an_entry_that_nobody_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    trust = tmp_path / "trust"
    trust.write_text("ab" * 32 + "\n")
    monkeypatch.setenv("XTARGET_TRUST", str(trust))
    with liar(lambda unit: _answer(unit, *_entry("relu")), monkeypatch):
        assert "it is not signed" in str(asked())


def test_the_same_liar_telling_the_truth_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    with liar(lambda unit: _answer(unit, *_entry("relu")), monkeypatch):
        found = asked()
    assert isinstance(found, Artifact)
    assert found.binary == b"binary"


def test_without_the_server_this_machine_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    from xtarget._compile import functions

    monkeypatch.setenv("XTARGET_COMPILE_SERVER", f"unix:{tmp_path}/none")
    for kernel in ("relu", "neg"):
        assert functions.artifact(request_of(kernel), SM_90).format == "cubin"
    said = [r.getMessage() for r in caplog.records if "made without it" in r.getMessage()]
    assert len(said) == 1
    assert "No such file" in said[0]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_who_sends_a_byte_now_and_then_keeps_no_place(
    tls: bool, token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head of a request, which needs no token, has to come in time as a whole."""
    monkeypatch.setattr(listen, "_PATIENCE", 0.5)
    files: tuple[Path, ...] = certificate(tmp_path) if tls else ()
    with serving("127.0.0.1:0", token, *files) as server, contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(server.socket.getsockname()[:2]))
        if tls:
            context = ssl.create_default_context(cafile=str(files[0]))
            client = stack.enter_context(context.wrap_socket(client, server_hostname="localhost"))
        client.settimeout(0.1)
        for byte in b"GET /v1/status HTTP/1.1\r\nX: " + b"x" * 100:
            try:
                client.sendall(bytes([byte]))
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:  # it was reset
                break
        else:
            pytest.fail("a hundred bytes later it is still listened to")


# ----------------------------------------------------------------------------------------- opening


@pytest.mark.parametrize(
    ("address", "with_token", "says"),
    [
        ("0.0.0.0:0", True, "unprotected"),
        ("127.0.0.1:0", False, "--token"),
        ("localhost", True, "no address"),
        ("localhost:70000", True, "no address"),
        ("unix:here", False, "absolute"),
    ],
)
def test_what_a_server_does_not_listen_to(
    address: str, with_token: bool, says: str, token: Path
) -> None:
    with (
        pytest.raises(ArgumentError, match=says),
        serving(address, token if with_token else None),
    ):
        pass


def test_token_files_and_sockets_that_are_taken(tmp_path: Path, token: Path) -> None:
    token.chmod(0o644)
    with pytest.raises(ArgumentError, match="chmod 600"):
        credentials.tokens_of(token)
    token.chmod(0o600)
    token.write_text("short\n")
    with pytest.raises(ArgumentError, match="line 1"):
        credentials.tokens_of(token)
    with pytest.raises(ArgumentError, match=r"nope \(--token\) cannot be read: No such file"):
        credentials.tokens_of(Path("nope"))
    with pytest.raises(ArgumentError, match=f"cannot be used: there is no file {tmp_path}/no"):
        credentials.tls_of(tmp_path / "no", token)
    with pytest.raises(ArgumentError, match="no certificate and its key in PEM"):
        credentials.tls_of(token, token)
    for name, words in (
        ("x" * 120, "up to 107 bytes"),
        ("no/socket", "No such file or directory. Make the folder first"),
        (token.name, "in use. Something else has it"),
    ):
        with pytest.raises(XTargetError, match=words), serving(f"unix:{tmp_path / name}"):
            pass
    path = tmp_path / "socket"
    with (
        serving(f"unix:{path}"),
        pytest.raises(XTargetError, match="another server"),
        serving(f"unix:{path}"),
    ):
        pass
    left = socket.socket(socket.AF_UNIX)  # of a server that was killed
    left.bind(str(path))
    left.close()
    with serving(f"unix:{path}") as server:
        assert server.shown == f"unix:{path}"
    assert not path.exists()
    assert registry.compiler("nvidia").fingerprint


@pytest.mark.long
def test_bundles_of_a_server_are_made_by_one_process_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long: it compiles twice. Triton is imported once, for all requests of a server's life."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    started: list[str] = []
    start_one = start.start

    def start_counted(module: str, *arguments: str, **more: Any) -> Any:
        started.append(module)
        return start_one(module, *arguments, **more)

    monkeypatch.setattr(start, "start", start_counted)
    limited.end_idle()
    array = {"dtype": "float32", "shape": [1000, 3], "strides": [3, 1]}
    for kernel in ("relu", "neg"):
        request = {
            "format": bundles._FORMAT,
            "kernel": kernel,
            "dtype": "float32",
            "target": "nvidia:sm_90",
            "units": 132,
            "options": {},
            "arguments": [array],
            "outputs": [array],
        }
        content, report = bundles.bundle_for(json.dumps(request).encode())
        assert len(content) == report.nbytes
        assert not report.errors
        assert report.compiled > 0
    assert started.count(COMPILE_CHILD) == 1
    limited.end_idle()
