"""Lock files: what they list, and what XTARGET_LOCK refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import here

from xtarget import LoadError, Target, _cache
from xtarget._artifacts import lockfile
from xtarget._cli import lock
from xtarget._compile import keys, loading
from xtarget._values.types import Artifact, CompileRequest, KernelSource

CPU = Target("cpu", "spirv64")
REQUEST = CompileRequest(KernelSource("add", "0" * 64, "add.py", lambda: None), ())
MADE = Artifact(CPU, "spirv", "add", b"code", 1, 16, 0, ())


@pytest.fixture
def locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """The lock of a cache that has one binary."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    parts = keys.key_parts(REQUEST, CPU, "triton 1\ntools 2")
    _cache.default_cache().put("add", _cache.key_of(parts), parts, MADE, seconds=1.0)
    path = tmp_path / "xtarget.lock"
    code, output, errors = here(capsys, "lock", "-o", str(path))
    assert code == 0, errors
    assert output == f"{path}: 1 binary of 1 kernel for cpu:spirv64\n"
    monkeypatch.setenv("XTARGET_LOCK", str(path))
    monkeypatch.setattr(loading, "_loaded", lambda *given: "loaded")
    return path


def load(made: Artifact, name: str = "add") -> object:
    device: Any = SimpleNamespace(info=SimpleNamespace(name="cpu:0"))
    return loading.load(device, made, name)


def test_a_lock_names_kernel_target_source_tools_and_digest(locked: Path) -> None:
    body = json.loads(locked.read_text())
    word = lockfile.tools_of("triton 1\ntools 2")
    assert body["tools"] == {word: ["triton 1", "tools 2"]}
    (one,) = body["binaries"]
    assert (one["kernel"], one["target"], one["route"]) == ("add", "cpu:spirv64", "triton")
    assert (one["source"], one["tools"], one["nbytes"]) == ("0" * 64, word, 4)


def test_a_binary_of_the_lock_is_loaded_and_another_one_is_not(locked: Path) -> None:
    assert load(MADE) == "loaded"
    with pytest.raises(LoadError, match=r"with another tool chain \(\w{16}\) than the one here"):
        load(replace(MADE, binary=b"other"))
    with pytest.raises(LoadError, match=r"it has add for cpu:spirv64 only"):
        load(replace(MADE, binary=b"other", target=Target("nvidia", "sm_90")))
    with pytest.raises(LoadError, match=r"it has no kernel mul\b.*xtarget lock"):
        load(MADE, "mul")


def test_of_a_bundle_only_what_is_chosen_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {
        name: lockfile.Locked(name, target, "triton", "0" * 64, 4, "", lockfile.tools_of(""))
        for name, target in (("add", "cpu:spirv64"), ("mul", "nvidia:sm_90"))
    }
    monkeypatch.setattr(lock, "_of_bundle", lambda path: list(made.values()))
    path = tmp_path / "xtarget.lock"
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    for words, there in (
        ((), {"add", "mul"}),
        (("--kernel", "add"), {"add"}),
        (("--target", "nvidia"), {"mul"}),
        (("--target", "cpu:spirv64"), {"add"}),
    ):
        given = ("--bundle", str(tmp_path), "-o", str(path))
        code, _, errors = here(capsys, "lock", *given, *words)
        assert code == 0, errors
        assert {one["kernel"] for one in json.loads(path.read_text())["binaries"]} == there
    monkeypatch.setenv("XTARGET_LOCK", str(path))
    with pytest.raises(LoadError, match="for other arguments or of another source"):
        load(replace(MADE, binary=b"other"))  # who made those of a bundle is not known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not a lock"),
        ('{"xtarget_lock": 2}', "has the format 2, known is 1"),
        ('{"xtarget_lock": 1, "binaries": [{"kernel": "add"}]}', "it is not a lock"),
    ],
)
def test_a_file_that_is_no_lock_is_refused(locked: Path, text: str, message: str) -> None:
    locked.write_text(text)
    with pytest.raises(LoadError, match=message):
        load(MADE)
    locked.unlink()
    with pytest.raises(LoadError, match="No such file"):
        load(MADE)


def test_an_empty_cache_has_nothing_to_lock(
    locked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = here(capsys, "lock", "-o", str(tmp_path / "b.lock"), "--kernel", "mul")
    assert code == 1
    assert "nothing to lock" in errors
