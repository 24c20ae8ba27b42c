"""The cache's trust: folders, layers, modes, signatures."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xtarget import Artifact, Target, UntrustedError, XTargetError, _cache
from xtarget._cache import Cache, evict, key_of
from xtarget._cache.stats import cache_stats
from xtarget._values import environment
from xtarget._values.environment import CacheSettings
from xtarget._values.types import Parameter

TARGET = Target("nvidia", "sm_90")
KEY = key_of([("a", "b")])
ARTIFACT = Artifact(TARGET, "cubin", "k", b"code" * 100, 4, 32, 0, (Parameter("x", "*fp32"),))


def cache(folder: Path, **settings: Any) -> Cache:
    return Cache(folder, CacheSettings(folder, **settings))


def put(into: Cache, artifact: Artifact = ARTIFACT) -> None:
    into.put("k", KEY, [("a", "b")], artifact)


def get(of: Cache) -> Artifact | None:
    return of.get(TARGET, "k", KEY)


# --------------------------------------------------------------------------------------- folders


def test_every_folder_and_file_is_for_the_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        put(cache(tmp_path / "a" / "cache"))
    finally:
        os.umask(old)
    for path in (tmp_path / "a" / "cache", *(tmp_path / "a" / "cache").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("level", ["", "v1", "v1/nvidia", "v1/nvidia/sm_90"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_may_write_is_refused_unless_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: str, mode: int
) -> None:
    put(cache(tmp_path))
    (tmp_path / level).chmod(mode)
    opened = cache(tmp_path)
    assert get(opened) is None
    assert get(opened) is None
    assert caplog.text.count("others may write in") == 1
    assert "chmod go-w" in caplog.text
    assert "XTARGET_CACHE_SHARED=1" in caplog.text
    assert get(cache(tmp_path, shared=True)) == ARTIFACT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    put(cache(tmp_path))
    os.chown(tmp_path / "v1" / "nvidia", 12345, 12345)
    assert get(cache(tmp_path)) is None
    assert get(cache(tmp_path, shared=True)) == ARTIFACT


@pytest.mark.parametrize("suffix", ["json", "cubin"])
@pytest.mark.parametrize("how", ["mode", "owner"])
def test_a_file_that_others_could_have_written_is_refused(
    tmp_path: Path, suffix: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that is the user's alone now may have been another's before."""
    put(cache(tmp_path))
    (path,) = tmp_path.glob(f"v1/*/*/*.{suffix}")
    if how == "mode":
        path.chmod(0o666)
    elif os.geteuid() != 0:
        pytest.skip("only root may give files away")
    else:
        os.chown(path, 12345, 12345)
    opened = cache(tmp_path)
    assert get(opened) is None
    assert str(path) in caplog.text
    put(opened)
    assert get(opened) == ARTIFACT, "the next compilation puts the user's own there"
    path.chmod(0o666)
    assert get(cache(tmp_path, shared=True)) == ARTIFACT


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_shared_cache_is_for_every_user_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        opened = cache(tmp_path / "cache", shared=True, max_bytes=1 << 20)
        with opened.flight(TARGET, "k", KEY):
            put(opened)
            locks = list((tmp_path / "cache" / "v1" / ".locks").iterdir())
            assert len(locks) == 2
            assert all(path.stat().st_mode & 0o066 == 0o066 for path in locks)
        evict.sweep(opened.own.base, opened.own.usage, 0)
        put(opened)
    finally:
        os.umask(before)
    for path in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        wanted = 0o777 if path.is_dir() else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_two_users_share_a_cache() -> None:
    """Each writes, reads, and evicts what the other wrote."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        opened = cache(folder / "cache", shared=True)
        put(opened)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                theirs = cache(folder / "cache", shared=True)
                assert get(theirs) == ARTIFACT
                with theirs.flight(TARGET, "k", KEY):
                    put(theirs, replace(ARTIFACT, binary=b"theirs"))
                assert get(theirs) == replace(ARTIFACT, binary=b"theirs")
                assert evict.sweep(theirs.own.base, theirs.own.usage, 0) == 1
                assert get(theirs) is None
                put(theirs, replace(ARTIFACT, binary=b"theirs"))
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert get(opened) == replace(ARTIFACT, binary=b"theirs")
        assert evict.sweep(opened.own.base, opened.own.usage, 0) == 1
        put(opened)
        assert get(opened) == ARTIFACT
    finally:
        shutil.rmtree(folder)


def test_a_folder_that_is_a_link_below_the_cache_is_refused(tmp_path: Path) -> None:
    put(cache(tmp_path / "cache"))
    inside = tmp_path / "cache" / "v1" / "nvidia"
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")
    assert get(cache(tmp_path / "cache")) is None
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir(mode=0o700)
    put(cache(tmp_path / "link"))  # the cache itself may be behind a link of the user's
    assert get(cache(tmp_path / "link")) == ARTIFACT


# ------------------------------------------------------------------------------ layers and modes


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in paths}


def test_layers_are_asked_first_and_never_written(tmp_path: Path) -> None:
    put(cache(tmp_path / "site"))
    before = snapshot(tmp_path / "site")
    layers = (tmp_path / "missing", tmp_path / "site")
    opened, counted = cache(tmp_path / "own", layers=layers), cache_stats().layer_hits
    assert get(opened) == ARTIFACT
    assert cache_stats().layer_hits == counted + 1
    assert snapshot(tmp_path / "site") == before
    assert not (tmp_path / "own").exists()


def test_a_damaged_layer_is_left_alone_and_the_next_one_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(cache(tmp_path / "site"))
    put(cache(tmp_path / "own"))
    (path,) = (tmp_path / "site").rglob("*.cubin")
    path.write_bytes(b"")
    before = snapshot(tmp_path / "site")
    opened = cache(tmp_path / "own", layers=(tmp_path / "site",))
    assert get(opened) == ARTIFACT
    assert get(opened) == ARTIFACT
    assert caplog.text.count("is damaged") == 1
    assert snapshot(tmp_path / "site") == before


def test_a_layer_serves_where_no_compiler_is_installed(tmp_path: Path) -> None:
    site = cache(tmp_path / "site")
    site.put("k", KEY, [("toolchain", "t"), ("a", "b")], ARTIFACT)
    opened = cache(tmp_path / "own", layers=(tmp_path / "site",))
    parts = [("toolchain", ""), ("a", "b")]
    assert opened.find(TARGET, "k", parts, ignore="toolchain") == ARTIFACT


def test_read_only_reads_and_writes_nothing(tmp_path: Path) -> None:
    put(cache(tmp_path))
    (path,) = tmp_path.rglob("*.json")
    os.utime(path, (0, 1))
    before, opened = snapshot(tmp_path), cache(tmp_path, mode="readonly")
    assert get(opened) == ARTIFACT
    opened.put("other", KEY, [], ARTIFACT)
    opened.put_native(TARGET, "k", KEY, b"native")
    path.write_bytes(path.read_bytes()[:-1])
    assert get(opened) is None
    with opened.flight(TARGET, "k", KEY):
        pass
    assert set(snapshot(tmp_path)) == set(before)


def test_off_is_off(tmp_path: Path) -> None:
    put(cache(tmp_path))
    before, opened = snapshot(tmp_path), cache(tmp_path, mode="off", remote="redis://localhost:1")
    assert get(opened) is None
    put(opened)
    assert opened.fetch(TARGET, "k", KEY) is None
    assert snapshot(tmp_path) == before


# ------------------------------------------------------------------------------------ variables


def test_variables_say_it_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XTARGET_CACHE", "readonly")
    monkeypatch.setenv("XTARGET_CACHE_PATH", f"/tmp:{tmp_path}:")
    monkeypatch.setenv("XTARGET_CACHE_SIZE", "1.5 GiB")
    monkeypatch.setenv("XTARGET_CACHE_SHARED", "1")
    monkeypatch.setenv("XTARGET_CACHE_WAIT", "7")
    monkeypatch.setenv("XTARGET_CACHE_REMOTE", "redis://host")
    monkeypatch.setenv("XTARGET_CACHE_REMOTE_WRITE", "0")
    monkeypatch.setenv("XTARGET_CACHE_REMOTE_SECONDS", "0.5")
    assert environment.cache_settings() == CacheSettings(
        tmp_path,
        mode="readonly",
        layers=(Path("/tmp"), tmp_path),
        max_bytes=3 << 29,
        shared=True,
        wait_seconds=7.0,
        remote="redis://host",
        remote_seconds=0.5,
    )
    assert _cache.default_cache() is _cache.default_cache()


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("0", 0), ("4096", 4096), ("1K", 1024), ("2gib", 2 << 30), ("3 MB", 3 << 20), ("none", None)],
)
def test_sizes(text: str, nbytes: int | None) -> None:
    assert environment.parse_bytes(text) == nbytes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("XTARGET_CACHE", "readwrit"),
        ("XTARGET_CACHE_SIZE", "-1"),
        ("XTARGET_CACHE_SIZE", "lots"),
        ("XTARGET_CACHE_WAIT", "nan"),
        ("XTARGET_CACHE_REMOTE_SECONDS", "soon"),
    ],
)
def test_a_value_that_means_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(XTargetError, match=name) as caught:
        _cache.default_cache()
    assert value in str(caught.value)


# ------------------------------------------------------------------------------------ signatures


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a.pem`, `b.pem` to sign with, `a.pub`, `b.pub` to trust: as OpenSSL writes them."""
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder = tmp_path_factory.mktemp("keys")
    for name in "ab":
        key = Ed25519PrivateKey.generate()
        (folder / f"{name}.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    both = (folder / "a.pub").read_bytes() + b"# and\n" + (folder / "b.pub").read_bytes()
    (folder / "both.pub").write_bytes(both)
    return folder


def test_signed_entries_are_believed_wherever_they_lie(tmp_path: Path, keys: Path) -> None:
    put(cache(tmp_path, sign=keys / "b.pem"))
    tmp_path.chmod(0o777)
    assert get(cache(tmp_path, trust=keys / "both.pub")) == ARTIFACT
    assert get(cache(tmp_path, trust=keys / "b.pub")) == ARTIFACT


def test_others_signatures_and_none_are_refused_by_path_and_reason(
    tmp_path: Path, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trust = keys / "a.pub"
    put(cache(tmp_path))
    assert get(cache(tmp_path, trust=trust)) is None
    assert "is not signed" in caplog.text
    assert str(next(tmp_path.rglob("*.json"))) in caplog.text
    caplog.clear()
    put(cache(tmp_path, sign=keys / "b.pem"))
    assert get(cache(tmp_path, trust=trust)) is None
    assert f"is not in {trust}" in caplog.text
    assert not (tmp_path / "v1" / ".quarantine").exists(), "refused is not damaged"
    put(cache(tmp_path, sign=keys / "a.pem"))
    assert get(cache(tmp_path, trust=trust)) == ARTIFACT


def test_a_signature_covers_every_byte(tmp_path: Path, keys: Path) -> None:
    from dataclasses import replace

    put(cache(tmp_path / "one", sign=keys / "a.pem"))
    put(cache(tmp_path / "two", sign=keys / "a.pem"), replace(ARTIFACT, binary=b"evil" * 100))
    (one,), (two,) = (tmp_path / "one").rglob("*.json"), (tmp_path / "two").rglob("*.json")
    trusting = cache(tmp_path / "one", trust=keys / "a.pub")
    good, other = one.read_bytes(), two.read_bytes()
    # another entry's seal on this body, and this seal on another body
    first, middle, rest = good.partition(b', "entry":\n')
    other_first, _, other_rest = other.partition(b', "entry":\n')
    for forged in (other_first + middle + rest, first + middle + other_rest, other):
        one.write_bytes(forged)
        assert get(trusting) is None
        one.write_bytes(good)
        (tmp_path / "one" / "v1" / "nvidia" / "sm_90").mkdir(exist_ok=True)
        put(cache(tmp_path / "one", sign=keys / "a.pem"))
        assert get(trusting) == ARTIFACT


def test_who_trusts_but_cannot_sign_keeps_nothing_and_says_so(
    tmp_path: Path, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(cache(tmp_path, trust=keys / "a.pub"))
    assert not list(tmp_path.rglob("*.json"))
    assert "XTARGET_SIGN names no key" in caplog.text


def test_key_files_that_are_none_are_said(tmp_path: Path, keys: Path) -> None:
    with pytest.raises(UntrustedError, match="cannot be read: No such file"):
        cache(tmp_path, trust=tmp_path / "missing")
    with pytest.raises(UntrustedError, match="holds no public key"):
        cache(tmp_path, trust=keys / "a.pem")
    with pytest.raises(UntrustedError, match="holds no key that can be read"):
        cache(tmp_path, sign=keys / "a.pub")
    (tmp_path / "broken").write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    with pytest.raises(UntrustedError, match="holds no key that can be read"):
        cache(tmp_path, trust=tmp_path / "broken")
    other = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "RSA", "-out", tmp_path / "rsa.pem"],
        capture_output=True,
        check=False,
    )
    if other.returncode == 0:
        with pytest.raises(UntrustedError, match="not an Ed25519"):
            cache(tmp_path, sign=tmp_path / "rsa.pem")


@pytest.mark.parametrize("which", ["trust", "sign"])
def test_a_key_file_that_is_a_pipe_or_a_device_is_refused_and_not_waited_for(
    tmp_path: Path, which: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(UntrustedError, match="cannot be read: not a regular file"):
            cache(tmp_path, **{which: path})


def test_a_key_file_may_be_a_link(tmp_path: Path, keys: Path) -> None:
    (tmp_path / "link").symlink_to(keys / "a.pub")
    assert cache(tmp_path / "cache", trust=tmp_path / "link").get(TARGET, "k", KEY) is None


def test_without_cryptography_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    path = tmp_path / "key"
    path.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(UntrustedError, match=r'pip install "xtarget\[trust\]"'):
        cache(tmp_path, trust=path)
