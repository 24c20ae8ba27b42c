"""`-o` writes through links, onto regular files only, whole, and never waits."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xtarget._system import files
from xtarget._system.output import check_output, write_output
from xtarget._values.errors import XTargetError


@pytest.fixture(autouse=True)
def never_for_long() -> Iterator[None]:
    """A reader of a pipe would wait for ever."""
    signal.alarm(60)
    yield
    signal.alarm(0)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_is_written_whole_with_the_modes_that_are_usual(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "t.xtb"
    before = os.umask(0o027)
    try:
        write_output(path, b"one")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    write_output(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604, "the mode that it had"
    assert names(path.parent) == ["t.xtb"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path: Path, there: bool) -> None:
    (tmp_path / "other").mkdir()
    target, link = tmp_path / "other" / "real", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    (tmp_path / "between").symlink_to("other/real")
    link.symlink_to("between")
    check_output(link)
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert names(tmp_path / "other") == ["real"]


def make_odd(path: Path, what: str) -> None:
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(path.parent)  # a socket's path may have 108 bytes
            try:
                server.bind(path.name)
            finally:
                os.chdir(here)
    elif what == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes device nodes")
    elif what == "link to /dev/null":
        path.symlink_to("/dev/null")
    elif what == "link to itself":
        path.symlink_to(path)


@pytest.mark.parametrize(
    "what", ["pipe", "folder", "socket", "device", "link to /dev/null", "link to itself"]
)
@pytest.mark.parametrize("write", [check_output, lambda path: write_output(path, b"data")])
def test_what_is_no_regular_file_is_refused_and_stays(
    tmp_path: Path, what: str, write: Callable[[Path], object]
) -> None:
    path = tmp_path / "out"
    make_odd(path, what)
    before, null = os.lstat(path), os.stat("/dev/null")
    with pytest.raises(XTargetError, match=r"cannot be written: .+Choose another path"):
        write(path)
    assert os.path.samestat(before, os.lstat(path))
    assert os.path.samestat(null, os.stat("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "add", "--target", "cpu", "-o", "/dev/null"],
        ["bundle", "build", "--kernel", "add", "--target", "cpu", "-o", "/dev/null"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_replaces_dev_null(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from xtarget._cli.main import main

    null = os.stat("/dev/null")
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code in (1, 2)
    assert "/dev/null" in capsys.readouterr().err
    assert os.path.samestat(null, os.stat("/dev/null"))


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_output(path, b"data")
    assert names(tmp_path) == ["n" * 255]


def test_what_cannot_be_written_is_a_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.xtb"
    path.write_bytes(b"old")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(XTargetError, match="No space left on device"):
            write_output(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["t.xtb"]


DYING = """
import os, signal, sys
from pathlib import Path
from xtarget._system import files as _files
with _files.temporary(Path(sys.argv[1])) as (descriptor, name):
    os.write(descriptor, b"half")
    print(name, flush=True)
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def test_what_killed_writers_left_goes_and_what_living_ones_write_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.xtb"
    living = subprocess.Popen(
        [sys.executable, "-c", DYING, str(path), "lives"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert living.stdout is not None
    assert living.stdin is not None
    kept = Path(living.stdout.readline().strip())
    killed = subprocess.run(
        [sys.executable, "-c", DYING, str(path), "dies"], stdout=subprocess.PIPE, text=True
    )
    left = Path(killed.stdout.strip())
    other = tmp_path / ".t.xtb.of-somebody-else"
    other.write_bytes(b"")
    assert left.exists()
    write_output(path, b"data")
    try:
        assert names(tmp_path) == sorted([kept.name, other.name, "t.xtb"])
    finally:
        living.communicate()
    assert names(tmp_path) == sorted([other.name, "t.xtb"])


def test_another_hosts_temporary_file_stays_until_it_is_old(tmp_path: Path) -> None:
    theirs = tmp_path / f".t.xtb.{'0' * 8}{'1' * 12}"
    theirs.write_bytes(b"half")
    assert files.remove_leftovers(tmp_path) == []
    os.utime(theirs, (1, 1))
    assert files.remove_leftovers(tmp_path) == [theirs.name]


def test_without_locks_only_age_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    path = tmp_path / "file"
    with files.temporary(path) as (_, name):
        assert files.remove_leftovers(tmp_path) == []
        os.utime(name, (1, 1))
        assert files.remove_leftovers(tmp_path) == [name.name]
    files.write(path, b"data")
    assert names(tmp_path) == ["file"]
