"""libxtarget has a compile server make the calls that its bundle lacks: right results, one
compilation, and a sentence for every server that is not there, lies, dies, or is slow."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from serving import answering, serving

from libxtarget import (
    BAD_ARGUMENT,
    NEWER,
    NO_SERVER,
    NOT_IN_BUNDLE,
    NOT_TRUSTED,
    SANITIZERS,
    Device,
    Failed,
    Kernel,
    Library,
    compiled,
    needs_compiler_and_opencl,
    sanitized,
)
from xtarget._serve import bundles

HERE = Path(__file__).parent

pytestmark = needs_compiler_and_opencl


def request_for(kernel: str) -> bytes:
    """A request of libxtarget's, of `X` below."""
    array = {"dtype": "float32", "shape": [3, 10], "strides": [10, 1]}
    request = {
        "format": [2, 1], "kernel": kernel, "dtype": "float32", "target": "cpu:spirv64",
        "units": 1, "options": {}, "arguments": [array], "outputs": [],
    }  # fmt: skip
    return json.dumps(request).encode()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The servers'. It has the kernels of those that lie: they send no notes while they compile."""
    folder = tmp_path_factory.mktemp("server_cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XTARGET_CACHE_DIR", str(folder))
        for kernel in ("abs", "neg"):
            bundles.bundle_for(request_for(kernel))
    return folder


@pytest.fixture(autouse=True)
def own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(cache))


@pytest.fixture
def device(library: Library) -> Iterator[Device]:
    opened = Device(library)
    yield opened
    opened.close()


@contextlib.contextmanager
def liar(path: Path, answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """The address of a server on a socket that sends what `answer` makes of a request."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    with answering(listening, answer):
        yield f"unix:{path}"


HEAD = b"HTTP/1.1 200 OK\r\nXtarget-Protocol: 1\r\nConnection: close\r\n\r\n"
X = np.linspace(-4, 4, 30, dtype="float32").reshape(3, 10)


def test_calls_that_the_bundle_lacks(
    library: Library, device: Device, path: Path, tmp_path: Path
) -> None:
    bundle = library.open(path)
    with pytest.raises(Failed, match="no abs of float32") as caught:
        Kernel(device, bundle, "abs", "float32")  # the default: nobody is asked
    assert caught.value.status == NOT_IN_BUNDLE
    with serving(f"unix:{tmp_path / 's'}") as server:
        library.compile_by(bundle, server.shown)
        absolute = Kernel(device, bundle, "abs", "float32")  # a kernel
        np.testing.assert_array_equal(absolute(X), abs(X))
        np.testing.assert_array_equal(absolute(X[0]), abs(X[0]))
        total = Kernel(device, bundle, "sum", "float32", {"axis": "(0, 1)"})  # options
        np.testing.assert_allclose(total(X), X.sum(dtype="float64"), atol=1e-5)
        relu = Kernel(device, bundle, "relu", "float32")
        turned, out = np.asfortranarray(X)[:, ::2], np.full((5, 6), 7.0, "float32").T[::2]
        relu.launch((turned,), (out,))  # layouts of both
        device.synchronize()
        np.testing.assert_array_equal(out, np.maximum(turned, 0))
        assert (out.base == 7).sum() == 15  # what lies between stayed
        counts = dict(server.work.counts)
        assert counts["units"] == 3
        absolute(X), relu.launch((turned,), (out,))
        assert dict(server.work.counts) == counts  # nothing is asked twice
        for wrong, words in (
            (lambda: relu.launch((X.astype("float64"),), (X.astype("float64"),)), "float64"),
            (lambda: Kernel(device, bundle, "nothing", "float32")(X), "no kernel 'nothing'"),
            (lambda: Kernel(device, bundle, "sum", "float32", {"axs": "1"})(X), "option 'axs'"),
            (lambda: Kernel(device, bundle, "sum", "float32", {"axis": "7"})(X), "sum"),
            (lambda: Kernel(device, bundle, 'a"\n\\', "float32")(X), "no kernel"),
            (lambda: absolute.launch((X,), (np.empty((3, 11), "float32"),)), "3, 10"),
        ):
            with pytest.raises(Failed, match=words) as caught:
                wrong()
            assert caught.value.status in (NOT_IN_BUNDLE, BAD_ARGUMENT), caught.value
    library.close(bundle)
    np.testing.assert_array_equal(absolute(X), abs(X))  # the server is gone, and not missed


def test_one_compilation_for_many_threads(
    library: Library, device: Device, path: Path, tmp_path: Path
) -> None:
    bundle, found, start = library.open(path), [], threading.Barrier(4)
    with serving(f"unix:{tmp_path / 's'}") as server:
        library.compile_by(bundle, server.shown)
        absolute = Kernel(device, bundle, "abs", "float32")

        def call() -> None:
            start.wait()
            found.append(absolute(X))

        threads = [threading.Thread(target=call) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert server.work.counts["units"] == 1
    assert len(found) == 4
    np.testing.assert_array_equal(found, [abs(X)] * 4)
    library.close(bundle)


def of(line: bytes) -> Callable[[bytes], bytes]:
    return lambda request: HEAD + line


def right(request: bytes) -> bytes:
    return bundles.packed(bundles.bundle_for(request)[0])


def cut(request: bytes) -> bytes:
    return HEAD + right(request)[:-100]


def changed(request: bytes) -> bytes:
    answer = bytearray(right(request))
    answer[-100] ^= 1
    return HEAD + answer


def changed_with_its_digest(request: bytes) -> bytes:
    made = bytearray(bundles.bundle_for(request)[0])
    made[-100] ^= 1
    return HEAD + bundles.packed(bytes(made))


def of_another_request(request: bytes) -> bytes:
    return HEAD + right(request.replace(b"[3,10]", b"[3,10]  "))


def of_another_kernel(request: bytes) -> bytes:
    other = bundles.bundle_for(request.replace(b'"abs"', b'"neg"'))[0]
    theirs = hashlib.sha256(request.replace(b'"abs"', b'"neg"')).hexdigest().encode()
    mine = hashlib.sha256(request).hexdigest().encode()
    made = bytearray(other.replace(theirs, mine))
    start = int.from_bytes(made[24:32], "little") + int.from_bytes(made[32:40], "little")
    made[40:72] = hashlib.sha256(made[88:start]).digest()
    return HEAD + bundles.packed(bytes(made))


def newer(request: bytes) -> bytes:
    made = bytearray(bundles.bundle_for(request)[0])
    made[8] = 99
    return HEAD + bundles.packed(bytes(made))


LIES: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "silent": (lambda request: b"", NO_SERVER, "no answer after 0.5 s"),
    "dies at once": (lambda request: b"HTTP/1.1 2", NO_SERVER, "ended in the middle"),
    "dies at work": (of(b"working\nworking\n"), NO_SERVER, "ended in the middle"),
    "another program": (lambda request: b"220 mail\r\n" * 9, NO_SERVER, "something else"),
    "another web server": (lambda request: b"HTTP/1.1 200 OK\r\n\r\n", NO_SERVER, "something else"),
    "an endless line": (lambda request: b"x" * 9999, NO_SERVER, "something else"),
    "endless headers": (
        lambda request: b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 999, NO_SERVER, "something else",
    ),
    "another protocol": (
        lambda request: HEAD.replace(b"l: 1", b"l: 2"), NO_SERVER, "speaks version 2 .* version 1",
    ),
    "an older one": (lambda request: HEAD.replace(b"200 OK", b"404 No"), NO_SERVER, "older than"),
    "tokens": (
        lambda request: HEAD.replace(b"200", b"401") + b"it asks for a token.", NO_SERVER,
        r"refuses \(401\): it asks for a token",
    ),
    "its reason": (of(b"error no Triton here.\n"), NOT_IN_BUNDLE, "no Triton here"),
    "no answer": (of(b"what\n"), NO_SERVER, "no answer"),
    "no size": (of(b"bundle x\n"), NO_SERVER, "no answer"),
    "no digest": (of(b"bundle 3 abc\nabc"), NO_SERVER, "no answer"),
    "huge": (of(b"bundle 9999999999 " + b"a" * 64 + b"\n"), NO_SERVER, "9999999999 bytes"),
    "cut": (cut, NO_SERVER, "ended in the middle"),
    "changed": (changed, NO_SERVER, "another sha256 than was said"),
    "no bundle": (lambda request: HEAD + bundles.packed(b"abc"), 2, "is no bundle"),
    "newer": (newer, NEWER, "format version 99"),
    "another request": (of_another_request, NO_SERVER, "made for another request"),
    "another kernel": (of_another_kernel, NO_SERVER, "another kernel than was asked for"),
    "a changed part": (changed_with_its_digest, 2, "another sha256 than when it was written"),
}  # fmt: skip


@pytest.mark.parametrize("how", LIES)
def test_a_server_that_lies_dies_or_is_slow(
    library: Library, device: Device, path: Path, tmp_path: Path, how: str
) -> None:
    answer, status, words = LIES[how]
    bundle = library.open(path)
    with liar(tmp_path / "s", answer) as server:
        library.compile_by(bundle, server, 0.5 if how == "silent" else 60)
        absolute = Kernel(device, bundle, "abs", "float32")
        out = np.full_like(X, 7)
        for _ in range(2):  # the next call asks again
            with pytest.raises(Failed, match=words) as caught:
                absolute.launch((X,), (out,))
            assert caught.value.status == status
        assert (out == 7).all()
    absolute.release()
    library.close(bundle)


def test_no_server(
    library: Library, device: Device, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = library.open(path)
    relu = Kernel(device, bundle, "relu", "float32")
    library.compile_by(bundle, f"unix:{tmp_path / 'none'}")
    absolute = Kernel(device, bundle, "abs", "float32")
    with pytest.raises(Failed, match="Start it: xtarget serve --listen unix:/") as caught:
        absolute(X)
    assert caught.value.status == NO_SERVER
    with pytest.raises(Failed, match="has no call of relu"):
        relu(X.T[::2])  # it was taken before a server was named
    np.testing.assert_array_equal(relu(X), np.maximum(X, 0))
    for address in ("http://localhost:1", "unix:relative", "unix:", "/path", f"unix:/{'x' * 200}"):
        with pytest.raises(Failed, match="unix:/PATH") as caught:
            library.compile_by(bundle, address)
        assert caught.value.status == BAD_ARGUMENT
    for seconds in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(Failed, match="seconds"):
            library.compile_by(bundle, "unix:/x", seconds)
    library.compile_by(bundle, "")
    with pytest.raises(Failed, match="no abs of float32"):
        Kernel(device, bundle, "abs", "float32")
    library.close(bundle)


#: What threads do wrong shows with any answer, and what a lie does to memory with any thread.
SHORT_LIES = {"thread": ("tokens",), "address,undefined": ("dies at work", "a changed part")}
ALL_LIES = ("dies at work", "tokens", "changed", "another kernel", "a changed part")


@pytest.mark.parametrize(
    ("looks_for", "lies"),
    [
        *SHORT_LIES.items(),
        *(pytest.param(one, ALL_LIES, marks=pytest.mark.long) for one in SANITIZERS),
    ],
)
def test_threads_that_ask_at_once_under_the_sanitizers(
    path: Path, tmp_path: Path, looks_for: str, lies: tuple[str, ...]
) -> None:
    program = compiled(tmp_path / "ask", HERE / "ask.c", flags=SANITIZERS[looks_for])
    with serving(f"unix:{tmp_path / 's'}") as server:
        assert sanitized(tmp_path, program, path, server.shown) == "all right\n"
        # two layouts for the kernel of all threads and for that of each; the cache has them then
        assert server.work.counts["units"] >= 2
    for how in lies:
        answer, _, words = LIES[how]
        (tmp_path / "s").unlink(missing_ok=True)
        with liar(tmp_path / "s", answer) as address:
            said = words.split(r"\(")[0]
            assert sanitized(tmp_path, program, path, address, said) == "all right\n"


def key_in(folder: Path, name: str) -> tuple[Path, str]:
    """A new private key's file, and its public half in hexadecimal."""
    key = Ed25519PrivateKey.generate()
    (folder / name).write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (folder / name).chmod(0o600)
    return folder / name, key.public_key().public_bytes_raw().hex()


def test_what_a_server_sends_is_signed_as_the_program_asks(
    library: Library, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine, public), (other, _) = key_in(tmp_path, "mine"), key_in(tmp_path, "other")
    (tmp_path / "trust").write_text(f"{public}\n")
    monkeypatch.setenv("XTARGET_SIGN", str(mine))
    made, _ = bundles.bundle_for(request_for("abs"))
    (tmp_path / "kernels.xtb").write_bytes(made)
    bundle = library.open(tmp_path / "kernels.xtb", str(tmp_path / "trust"))
    for key, words in ((None, "not signed"), (other, "does not name"), (mine, "")):
        monkeypatch.delenv("XTARGET_SIGN", raising=False)
        if key is not None:
            monkeypatch.setenv("XTARGET_SIGN", str(key))
        with serving(f"unix:{tmp_path / 's'}") as server:
            library.compile_by(bundle, server.shown)
            negative = Kernel(device, bundle, "neg", "float32")
            if words:
                with pytest.raises(Failed, match=words) as caught:
                    negative(X)
                assert caught.value.status == NOT_TRUSTED
            else:
                np.testing.assert_array_equal(negative(X), -X)
        negative.release()
    library.close(bundle)
