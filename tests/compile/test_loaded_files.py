"""Whether what a process has imported of Triton is what its files say: by content, where times
alone have changed."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import run_python
from toolchain_files import replaced

from xtarget.targets._triton import toolchain

Load = Callable[[str], Path]
#: Longer than a tick of the file system's clock and what is allowed for it.
WHILE = 0.08


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a module of a Triton that lies in a folder of its own; returns the module's file."""
    root = tmp_path / "triton"
    root.mkdir()
    for name in ("__init__", "first", "later"):
        (root / f"{name}.py").write_text(f"name = {name!r}\n")
    monkeypatch.setattr(toolchain, "_root", lambda: root)
    for table in ("_first", "_absent", "_as_imported"):
        monkeypatch.setattr(toolchain, table, {})
    for name in [name for name in sys.modules if name.startswith("triton.")]:
        monkeypatch.delitem(sys.modules, name)
    time.sleep(WHILE)
    began = time.time()
    monkeypatch.setattr(toolchain, "process_start", lambda: began)

    def loaded(name: str) -> Path:
        file = root / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"triton.{name}", file)
        assert spec is not None
        monkeypatch.setitem(sys.modules, f"triton.{name}", importlib.util.module_from_spec(spec))
        return file

    return loaded


def link(file: Path) -> None:
    """Change the time of a file's inode, and nothing else."""
    time.sleep(WHILE)
    os.link(file, file.with_suffix(".link"))


def test_a_link_to_what_was_seen_unchanged_since_its_import_is_no_change(load: Load) -> None:
    file = load("first")
    assert not toolchain.unsettled()
    link(file)
    assert not toolchain.unsettled()


def test_a_link_before_the_first_look_may_have_been_a_change(load: Load) -> None:
    file = load("first")
    link(file)
    assert "first.py changed on the disk after this process began" in toolchain.unsettled()


def test_what_was_touched_before_its_import_is_what_was_imported(load: Load) -> None:
    load("first")
    link(load("first").with_name("later.py"))
    time.sleep(WHILE)
    assert not toolchain.unsettled()  # looked, and not there yet
    load("later")
    assert not toolchain.unsettled()


def test_what_was_touched_and_imported_between_two_looks_may_be_another(load: Load) -> None:
    file = load("first")
    assert not toolchain.unsettled()
    link(file.with_name("later.py"))
    load("later")
    assert "later.py changed on the disk after this process began" in toolchain.unsettled()


def test_a_module_that_was_loaded_again_meanwhile_may_be_of_another_content(load: Load) -> None:
    file = load("first")
    assert not toolchain.unsettled()
    link(file)
    load("first")
    assert "first.py changed on the disk after this process began" in toolchain.unsettled()


def test_another_content_with_the_times_of_before_is_a_change(load: Load) -> None:
    file = load("first")
    assert not toolchain.unsettled()
    replaced(file, file.read_text().replace("first", "other"))
    assert "changed on the disk since this process has loaded it" in toolchain.unsettled()


FORKED = """
import os, sys, time, xtarget
time.sleep(0.2)
before = time.time()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
from xtarget._system.life import process_start
os._exit(process_start() > before - 0.1)
"""


def test_a_forked_child_has_modules_that_are_as_old_as_its_parent() -> None:
    done = run_python("-c", FORKED)
    assert done.returncode == 0, done.stderr
