"""Contents of the tool chain's files are remembered until a file changes."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed here")


from toolchain_files import replaced, settings

from xtarget.targets._host import contents


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_known", "_files_seen", "_groups_seen", "_folders_seen", "_trees_seen"):
        monkeypatch.setattr(contents, name, {})
    monkeypatch.setattr(contents, "_read_from", None)


def test_a_content_is_remembered_until_the_file_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    new_process(monkeypatch)
    read: list[object] = []
    original = contents._read
    monkeypatch.setattr(contents, "_read", lambda path: read.append(path) or original(path))
    monkeypatch.setattr(contents, "_SETTLED_NS", 0)
    monkeypatch.setattr(contents, "_known", {})
    tool = tmp_path / "tool"
    tool.write_text("one")
    first = contents.of_file(tool)
    assert contents.of_file(tool) == first
    assert len(read) == 1
    contents.save()
    new_process(monkeypatch)
    assert contents.of_file(tool) == first
    assert len(read) == 1
    replaced(tool, "two")  # of the same size, with the same time
    assert contents.of_file(tool) != first
    contents.save()
    os.chmod(tmp_path / "cache" / "contents.json", 0o666)  # anybody may have written it
    new_process(monkeypatch)
    contents.of_file(tool)
    assert len(read) == 3


def test_what_is_remembered_is_written_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new_process(monkeypatch)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        monkeypatch.setenv("XTARGET_CACHE_DIR", str(folder))
        for number in range(3):
            contents.remember(f"{folder.name} {number}", "state", "digest")
        assert not (folder / "contents.json").exists()
    contents.save()
    for folder in (first, second):  # the first, when the folder of the cache changed
        written = json.loads((folder / "contents.json").read_text())
        assert {f"{folder.name} {number}" for number in range(3)} <= written.keys()
    (second / "contents.json").unlink()
    contents.save()
    assert not (second / "contents.json").exists()  # nothing is new


def test_a_file_that_has_just_changed_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(contents, "_known", {})
    tool = tmp_path / "tool"
    tool.write_text("one")
    now = time.time_ns()
    contents.of_file(tool)
    contents.save()
    if time.time_ns() - now < contents._SETTLED_NS:
        assert not (tmp_path / "cache" / "contents.json").exists()


def test_every_change_of_a_tree_is_seen_in_the_same_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a listing and a digest of it are remembered, as of what has settled."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    new_process(monkeypatch)
    monkeypatch.setattr(contents, "_SETTLED_NS", 0)
    root = tmp_path / "tree"
    (root / "inner" / "deep").mkdir(parents=True)
    for name in ("a.py", "inner/b.py", "inner/deep/c.py"):
        (root / name).write_text("one")

    def digest() -> str:
        time.sleep(0.02)  # the clock of the file system goes on
        return contents.of_files("tree", contents.python_files(root))

    def rename() -> None:
        (root / "inner" / "deep" / "new.py").rename(root / "inner" / "deep" / "other.py")

    def link() -> None:
        (tmp_path / "linked").mkdir()
        (tmp_path / "linked" / "d.py").write_text("far")
        (root / "far").symlink_to(tmp_path / "linked")

    changes = [
        lambda: replaced(root / "inner" / "deep" / "c.py", "two"),
        lambda: (root / "inner" / "deep" / "new.py").write_text("new"),
        rename,
        lambda: (root / "inner" / "b.py").unlink(),
        link,
        lambda: (tmp_path / "linked" / "e.py").write_text("farther"),
        lambda: shutil.rmtree(root / "inner"),
    ]
    known = [digest()]
    for change in changes:
        assert digest() == known[-1]
        change()
        known.append(digest())
    assert len(set(known)) == len(known)


def test_each_of_many_replacements_in_triton_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object may get the identity of one that is gone."""
    import triton.language.standard as standard

    before = settings()
    for number in range(50):
        names: dict[str, Any] = {}
        exec(f"def sigmoid(x):\n    return x + {number}\n", names)
        monkeypatch.setattr(standard, "sigmoid", names.pop("sigmoid"))
        changed = settings()
        assert changed != before
        monkeypatch.undo()
        assert settings() == before
    seen = set()
    for number in range(20):
        if hasattr(standard, "sigmoid_of_mine"):
            del standard.sigmoid_of_mine
        names = {}
        exec(f"def sigmoid_of_mine(x):\n    return x * {number}\n", names)
        standard.sigmoid_of_mine = names.pop("sigmoid_of_mine")
        seen.add(settings())
    del standard.sigmoid_of_mine
    assert len(seen) == 20
    assert settings() == before
