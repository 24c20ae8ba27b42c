"""Triton's files stay in memory when it compiles for us."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
from spirv_kernels import CASES
from spirv_run import compiled

from xtarget.targets._triton import files


def test_no_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is made, so no signal leaves one behind: /dev/shm/xtarget-* stayed after SIGTERM."""
    made = []

    def spied(self: object, data: object, filename: str, binary: bool = True) -> str:
        made.append(filename)
        return put(self, data, filename, binary)

    put = files.manager().put
    monkeypatch.setattr(files.manager(), "put", spied)
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    compiled(CASES["add_fp32"])  # the device is known from here on
    made.clear()
    opened = []
    sys.addaudithook(lambda event, args: opened.append((event, args)) if recording else None)
    recording = True
    compiled(CASES["add_fp32"])
    recording = False
    assert len(made) > 4
    assert not list(tmp_path.iterdir())
    written = [
        args[0]
        for event, args in opened
        if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    ]
    folders = [args[0] for event, args in opened if event in ("os.mkdir", "tempfile.mkdtemp")]
    assert [p for p in written if not str(p).isdigit() and p != os.devnull] == []
    assert folders == []


def test_stages_are_as_triton_gives_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same compilation by way of Triton's own files."""
    ours = compiled(CASES["add_fp32"])
    monkeypatch.setattr(files, "is_inside", lambda: False)
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    theirs = compiled(CASES["add_fp32"])
    assert list(tmp_path.rglob("*.spirv"))
    # what a kernel does with memory is read off the stages in memory only
    plain = tuple(replace(p, access=None, stored=None) for p in ours.parameters)
    assert [p.access for p in ours.parameters if p.name in ("a", "b", "o")] == ["r", "r", "w"]
    assert replace(ours, parameters=plain) == theirs


def test_a_stage_as_a_file_where_triton_parses_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.compilation, "use_ir_loc", "ttgir")
    compiled(CASES["add_fp32"])


def test_dumps_that_the_user_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.compilation, "dump_ir", True)
    monkeypatch.setattr(triton.knobs.cache, "dump_dir", str(tmp_path))
    compiled(CASES["add_fp32"])
    names = {path.suffix for path in tmp_path.rglob("add_masked.*")}
    assert {".ttir", ".ttgir", ".llir", ".spirv"} <= names


def test_triton_does_not_hash_all_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        raise AssertionError("it reads and hashes libtriton")

    monkeypatch.setattr(triton.runtime.cache, "triton_key", refused)
    compiled(CASES["add_fp32"])


def test_keys_of_others_stay_tritons() -> None:
    """Of the same thread afterwards, and of others meanwhile."""
    from triton.compiler import compiler

    made = SimpleNamespace(hash=lambda: "some kernel")
    expected = triton.runtime.cache.get_cache_key(made, made, made, env_vars={})

    def key() -> str:
        return compiler.get_cache_key(made, made, made, env_vars={})

    def manager() -> str:
        return type(triton.runtime.cache.get_cache_manager("00")).__name__

    with (
        ThreadPoolExecutor(1) as other,
        triton.knobs.cache.scope(),
        files.in_memory(triton.knobs, lambda stage, module: None),
    ):
        assert key() != expected
        assert other.submit(key).result() == expected
        assert other.submit(manager).result().endswith("FileCacheManager")
        assert manager().endswith("InMemory")
    assert key() == expected
