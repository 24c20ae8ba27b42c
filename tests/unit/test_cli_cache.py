"""`xtarget cache`: what is there, what is wrong with it, and why something is not."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import here

import xtarget
from xtarget import Artifact, Target, _cache
from xtarget._artifacts.entry import Place
from xtarget._cache import store
from xtarget._compile import keys
from xtarget._devices import registry
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Parameter

SM_90, GFX942 = Target("nvidia", "sm_90"), Target("amd", "gfx942")


class Compiler:
    fingerprint = "made up"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _cache.Cache:
    """A cache with a binary of `add` and one of `sub` for two targets each."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(registry, "compiler", lambda vendor: Compiler())
    filled = _cache.default_cache()
    for target in (SM_90, GFX942):
        for kernel in ("add", "sub"):
            put(filled, target, kernel)
    return filled


def put(cache: _cache.Cache, target: Target, kernel: str, dtype: str = "float32") -> None:
    layout = xtarget.spec.ArrayType(dtype, (1024,), (1,))
    requests = planning.compile_requests(libraries.find(kernel), [layout, layout], {}, target)
    for request in requests:
        name = request.source.name
        artifact = Artifact(target, "bin", name, b"1" * 100, 4, 32, 0, (Parameter("x", "i32"),))
        parts = keys.key_parts(request, target, Compiler.fingerprint)
        cache.put(name, _cache.key_of(parts), parts, artifact)


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return here(capsys, "cache", *words)


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    got, out, err = command(capsys, *words, "--json")
    assert got == code, err
    return json.loads(out)


def marks(folder: Path, pattern: str = "*/*/") -> list[Path]:
    return sorted(folder.glob(f"cache/v1/{pattern}*.json"))


def age(folder: Path, pattern: str, seconds: float) -> None:
    for path in marks(folder, pattern):
        os.utime(path, (time.time(), time.time() - seconds))


def test_ls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    age(tmp_path, "nvidia/sm_90/add-", 3 * 86400)
    shown = answer(capsys, "ls")
    assert [(e["target"], e["kernel"]) for e in shown][-1] == ("nvidia:sm_90", "add")
    assert len(shown) == 4
    assert all(Path(entry["path"]).is_file() for entry in shown)
    assert all(entry["bytes"] > 100 for entry in shown)
    code, out, _ = command(capsys, "ls")
    assert code == 0
    assert "3 d" in out
    assert "4 entries" in out


@pytest.mark.parametrize(
    ("words", "entries"),
    [
        (["--target", "nvidia"], 2),
        (["--target", "cuda"], 2),
        (["--target", "mi300x"], 2),
        (["--target", "nvidia:sm_80"], 0),
        (["--kernel", "add"], 2),
        (["--kernel", "add", "--target", "amd:gfx942"], 1),
        (["--older", "2d"], 1),
        (["--newer", "2d"], 3),
        (["--older", "1.5h", "--newer", "10w"], 1),
    ],
)
def test_filters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], entries: int
) -> None:
    age(tmp_path, "nvidia/sm_90/add-", 3 * 86400)
    assert len(answer(capsys, "ls", *words)) == entries
    assert answer(capsys, "verify", *words)["checked"] == entries
    assert answer(capsys, "clear", *words)["removed"] == entries
    assert len(answer(capsys, "ls")) == 4 - entries


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--older", "7"],
        ["ls", "--older", "x"],
        ["prune", "--size", "lots"],
        ["why"],
        ["verify", "--frobnicate"],
    ],
)
def test_bad_usage(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert command(capsys, *words)[0] == 2


def test_a_target_that_is_none_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = command(capsys, "ls", "--target", "toaster")
    assert code == 1
    assert "toaster" in err


def test_stats(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    monkeypatch.setenv("XTARGET_CACHE_PATH", str(tmp_path / "site"))
    monkeypatch.setenv("XTARGET_CACHE_SIZE", "1M")
    facts = answer(capsys, "stats")
    assert facts["entries"] == 4
    assert facts["by_target"]["amd:gfx942"]["entries"] == 2
    assert facts["bytes"] == sum(entry["bytes"] for entry in answer(capsys, "ls"))
    assert facts["max_bytes"] == 1 << 20
    assert facts["layers"] == [str(tmp_path / "site")]
    code, out, _ = command(capsys, "stats")
    assert code == 0
    assert "of 1 MiB" in out


def test_verify_finds_what_is_damaged_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert answer(capsys, "verify") == {"checked": 4, "wrong": []}
    paths = marks(tmp_path, "*/*/")
    paths[0].with_suffix(".bin").write_bytes(b"2" * 100)
    paths[1].write_text("{")
    paths[2].rename(paths[2].with_name("add-0123.json"))
    found = answer(capsys, "verify", code=1)
    assert found["checked"] == 4
    faults = " ".join(entry["fault"] for entry in found["wrong"])
    assert "another sha256" in faults
    assert "cut off" in faults
    assert "where another entry belongs" in faults
    assert len(marks(tmp_path, "*/*/")) == 4
    assert "3 not right" in command(capsys, "verify")[1]


def test_prune_by_size_and_age(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    age(tmp_path, "amd/gfx942/", 86400)
    age(tmp_path, "nvidia/sm_90/add-", 3 * 86400)
    assert answer(capsys, "prune")["removed"] == 0
    assert answer(capsys, "prune", "--older", "2d")["removed"] == 1
    one = answer(capsys, "ls")[0]["bytes"]
    done = answer(capsys, "prune", "--size", str(one + 10))
    assert done["removed"] == 2
    (left,) = answer(capsys, "ls")
    assert (left["target"], left["kernel"]) == ("nvidia:sm_90", "sub")
    assert done["bytes"] == left["bytes"]
    assert "0 entries removed" in command(capsys, "prune")[1]


def test_clear_leaves_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "4 entries removed" in command(capsys, "clear")[1]
    assert answer(capsys, "ls") == []
    assert command(capsys, "ls")[1] == "The cache holds no such entry.\n"
    assert answer(capsys, "clear") == {"removed": 0, "freed_bytes": 0, "left": 0}
    left = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert sorted(path.name for path in left) == [".usage", "writers"]


def test_stats_say_why_a_cache_is_not_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert answer(capsys, "stats")["fault"] is None
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(file))
    assert f"NOT USED    {file} is not a folder" in command(capsys, "stats")[1]
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(file / "below"))
    assert "Not a directory" in answer(capsys, "stats", code=1)["fault"]
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(folder))
    assert "others may write in" in answer(capsys, "stats")["fault"]
    monkeypatch.setenv("XTARGET_CACHE_SHARED", "1")
    assert answer(capsys, "stats")["fault"] is None


def test_an_empty_cache_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "nothing"))
    for word in ("ls", "stats", "verify", "prune", "clear"):
        assert command(capsys, word)[0] == 0
    assert not (tmp_path / "nothing").exists()


EVERY = (("ls",), ("stats",), ("verify",), ("prune",), ("clear",), ("ls", "--json"))


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
@pytest.mark.parametrize("what", ["file", "folder", "vendor", "arch"])
def test_a_cache_that_cannot_be_read_is_not_called_empty(
    words: tuple[str, ...],
    what: str,
    cache: _cache.Cache,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(cache, Target("nvidia", "sm_90"), "add")
    folder = cache.root
    if what == "file":
        folder = tmp_path / "file"
        folder.write_text("")
        monkeypatch.setenv("XTARGET_CACHE_DIR", str(folder))
    else:
        levels = {"folder": "", "vendor": "v1/nvidia", "arch": "v1/nvidia/sm_90"}
        closed, scandir = folder / levels[what], os.scandir

        def refused(path: Any) -> Any:  # root may read everything
            if not isinstance(path, int) and Path(path) == closed:
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refused)
    code, out, err = command(capsys, *words)
    assert code == 1
    assert str(folder) in out + err
    if words != ("stats",):
        assert ("Permission denied" if what != "file" else "Not a directory") in err
        assert "XTARGET_CACHE_DIR" in err
    else:
        assert "NOT USED" in out


def test_no_cache_yet_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "nothing"))
    code, out, _ = command(capsys, "ls")
    assert code == 0
    assert f"There is no cache at {tmp_path / 'nothing'} yet" in out


def test_what_is_evicted_or_written_anew_while_it_is_verified_is_not_wrong(
    cache: _cache.Cache, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("add", "mul", "sub"):
        put(cache, Target("nvidia", "sm_90"), name)
    check, written = store.Store.check, []

    def meanwhile(self: store.Store, place: Place) -> Any:
        path = self.mark_path(place)
        if place.kernel == "add":
            for file in path.parent.glob(f"{path.stem}.*"):
                file.unlink()
        if place.kernel == "mul" and not written:
            written.append(path)
            shutil.copy(path, path.with_suffix(".new"))
            path.with_suffix(".new").rename(path)
            raise ValueError("half of the old one, half of the new one")
        return check(self, place)

    monkeypatch.setattr(store.Store, "check", meanwhile)
    found = answer(capsys, "verify")
    assert found == {"checked": 3, "wrong": []}
    assert written


WHY = ("why", "add", "--shape", "1024", "--target", "nvidia:sm_90")


def test_why_says_hit_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = answer(capsys, *WHY)
    assert found["hit"]
    assert Path(found["path"]).is_file()
    assert command(capsys, *WHY)[1].startswith("hit   add for nvidia:sm_90: ")


def test_why_names_the_part_that_differs_from_the_nearest(
    capsys: pytest.CaptureFixture[str], cache: _cache.Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, SM_90, "add", "int64")
    (found,) = answer(capsys, *WHY, "--dtype", "float16", code=1)
    assert not found["hit"]
    assert found["cause"] == "absent"
    assert [part[0] for part in found["differs"]] == ["signature"]
    assert "fp16" in found["differs"][0][1]
    monkeypatch.setattr(Compiler, "fingerprint", "another build")
    code, out, _ = command(capsys, *WHY)
    assert code == 1
    assert "toolchain: wanted another build, there is made up" in out


def test_why_where_there_is_nothing_near(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "why", "add", "--target", "nvidia:sm_80")
    assert code == 1
    assert "no entry of this kernel for this target" in out


def test_why_of_a_damaged_entry(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (path,) = marks(tmp_path, "nvidia/sm_90/add-")
    path.with_suffix(".bin").write_bytes(b"")
    (found,) = answer(capsys, *WHY, code=1)
    assert found["cause"] == "damaged"
    assert path.exists(), "looking changes nothing"
