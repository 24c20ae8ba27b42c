"""Room for files where the usual places cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from xtarget._system import scratch
from xtarget._values import environment


def test_a_folder_that_can_be_written(tmp_path: Path) -> None:
    assert scratch.can_write(tmp_path / "new" / "one")
    (tmp_path / "file").touch()
    assert not scratch.can_write(tmp_path / "file")
    assert not scratch.can_write("/proc/nothing")


def test_room_is_made_only_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tempfile.gettempdir()
    scratch.make_room()
    assert tempfile.gettempdir() == before
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        tempfile.gettempdir()
    scratch.make_room()
    with tempfile.TemporaryFile():
        assert tempfile.gettempdir() in ("/dev/shm", str(tmp_path / "temporary"))


def test_a_packages_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    assert scratch.cache_of("other", tmp_path / "usual") is None
    assert scratch.cache_of("other", "/proc/nothing") == str(tmp_path / "cache" / "other")
    monkeypatch.setenv("XTARGET_CACHE_DIR", "/proc/nothing")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = tmp_path / f"other-{os.getuid()}"
    assert scratch.cache_of("other", "/proc/nothing") == str(own)
    own.chmod(0o777)  # somebody else may write there, or has made it
    assert scratch.cache_of("other", "/proc/nothing") is None


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    def none(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("XTARGET_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", none)
    assert environment.cache_dir().is_absolute()
    assert str(os.getuid()) in environment.cache_dir().name


# ------------------------------------------------------------------------------ temporary folders

_OWNER = """
import sys, time
from xtarget._system.scratch import Folder
folders = [Folder("one"), Folder("two")]
(folders[0].path / "file").write_text("left behind")
print(folders[0].path, flush=True)
{then}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, in this process and its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(scratch, "_swept", set())
    return tmp_path


def _owner(then: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that has made its folders, and one of them."""
    program = [sys.executable, "-P", "-c", _OWNER.format(then=then)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_process_leaves_is_removed_by_the_next(
    place: Path, signal_: signal.Signals
) -> None:
    process, path = _owner("time.sleep(600)")
    with process:
        with scratch.Folder("mine") as mine:  # sweeps
            assert (path / "file").is_file(), "its owner lives"
            assert mine.is_dir()
        process.send_signal(signal_)
    assert len(list(place.iterdir())) == 2
    scratch._swept.clear()
    mine_now = scratch.Folder("mine")
    assert list(place.iterdir()) == [mine_now.path]
    mine_now.close()
    mine_now.close()
    assert not list(place.iterdir())


@pytest.mark.parametrize("then", ["", "sys.exit(3)", "raise ValueError", "folders.clear()"])
def test_a_process_removes_its_own(place: Path, then: str) -> None:
    process, _ = _owner(then)
    process.communicate()
    assert not list(place.iterdir())


def test_a_forks_child_removes_nothing(place: Path) -> None:
    child = "import os\nif os.fork() == 0: sys.exit()\nos.wait()\n"
    process, _ = _owner(child + "print(all(folder.path.is_dir() for folder in folders))")
    assert process.communicate()[0] == "True\n"
    assert not list(place.iterdir())


def test_what_is_not_ours_is_left_alone(place: Path) -> None:
    """Another's file or link of that name, and folders of other names."""
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "file").touch()
    (place / "xtarget-tmp-link").symlink_to(place / "elsewhere")
    (place / "xtarget-tmp-file").touch()
    (place / "xtarget-other").mkdir()
    (place / "xtarget-tmp-left").mkdir()
    with scratch.Folder("mine"):
        names = {path.name for path in place.iterdir()}
    assert "xtarget-tmp-left" not in names
    assert names >= {"elsewhere", "xtarget-tmp-link", "xtarget-tmp-file", "xtarget-other"}
    assert (place / "elsewhere" / "file").exists()


def test_a_folder_that_is_swept_before_it_is_locked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = [], tempfile.mkdtemp

    def swept(**options: str) -> str:
        made.append(real(**options))
        if len(made) == 1:
            scratch._sweep(str(place))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with scratch.Folder("mine") as folder:
        assert folder.is_dir()
        assert [Path(path).exists() for path in made] == [False, True]
