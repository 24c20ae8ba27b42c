"""The cache on disk: what was put in comes out, and nothing that was damaged does."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xtarget import Artifact, Target, _cache
from xtarget._cache import Cache, key_of
from xtarget._types import Parameter, Resources, Scratch

TARGET = Target("nvidia", "sm_90")
PARTS = [("target", "nvidia:sm_90"), ("toolchain", "triton 3.9"), ("source", "abc")]
KEY = key_of(PARTS)
ARTIFACT = Artifact(
    target=TARGET,
    format="cubin",
    entry="add",
    binary=bytes(range(256)) * 4,
    num_warps=4,
    warp_size=32,
    shared_bytes=2048,
    parameters=(Parameter("a", "*fp32"), Parameter("g", "*i8", hidden="global_scratch")),
    global_scratch=Scratch(128, 16),
    resources=Resources(registers=33),
    texts={"ptx": ".version 8.7\n"},
)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    filled = Cache(tmp_path / "cache")
    filled.put("add", KEY, PARTS, ARTIFACT)
    return filled


def entry(cache: Cache, suffix: str) -> Path:
    (path,) = (cache.root / "v1" / "nvidia" / "sm_90").glob(f"*.{suffix}")
    return path


def test_an_artifact_comes_back_as_it_was(cache: Cache) -> None:
    back = cache.get(TARGET, "add", KEY)
    assert back == ARTIFACT
    assert back is not None
    assert back.texts == ARTIFACT.texts


def test_files_are_raw_and_readable_by_other_tools(cache: Cache) -> None:
    assert entry(cache, "cubin").read_bytes() == ARTIFACT.binary
    assert entry(cache, "ptx").read_text() == ARTIFACT.texts["ptx"]
    meta = json.loads(entry(cache, "json").read_text())
    assert [tuple(p) for p in meta["key_parts"]] == PARTS
    assert str(cache.root) not in entry(cache, "json").read_text()


def test_another_key_is_a_miss(cache: Cache) -> None:
    assert cache.get(TARGET, "add", key_of([*PARTS, ("x", "y")])) is None
    assert cache.get(Target("nvidia", "sm_80"), "add", KEY) is None


def test_keys_cannot_be_confused_by_moving_text_between_parts() -> None:
    assert key_of([("a", "bc")]) != key_of([("ab", "c")])
    assert key_of([("a", "b"), ("c", "d")]) != key_of([("a", "bc"), ("", "d")])
    assert key_of([("a", ""), ("b", "")]) != key_of([("b", ""), ("a", "")])


@pytest.mark.parametrize("suffix", ["cubin", "ptx", "json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "remove"])
def test_a_damaged_entry_is_a_miss_set_aside_and_said_once(
    cache: Cache, suffix: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = entry(cache, suffix)
    data = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes({"truncate": data[:-1], "flip": data, "empty": b""}[damage])
    with caplog.at_level(logging.WARNING, "xtarget.cache"):
        found = cache.get(TARGET, "add", KEY)
    if (suffix, damage) == ("json", "remove"):  # no commit mark: as if never written
        assert found is None
        assert not caplog.records
        return
    assert found is None or found == ARTIFACT  # the latter where only white space changed
    if found is None:
        assert len(caplog.records) == 1
        assert "damaged" in caplog.text
        assert cache.get(TARGET, "add", KEY) is None
        assert len(caplog.records) == 1
        assert list((cache.root / "v1" / "quarantine").iterdir())
        cache.put("add", KEY, PARTS, ARTIFACT)
        assert cache.get(TARGET, "add", KEY) == ARTIFACT


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_mutation_of_an_entry_gives_another_artifact(
    tmp_path: Path, data: st.DataObject
) -> None:
    logging.getLogger("xtarget.cache").setLevel(logging.CRITICAL)
    cache = Cache(tmp_path / "fuzz")
    cache.put("add", KEY, PARTS, ARTIFACT)
    path = entry(cache, data.draw(st.sampled_from(["cubin", "ptx", "json"])))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    found = cache.get(TARGET, "add", KEY)
    assert found is None or found == ARTIFACT  # the latter where only white space changed


def test_a_folder_that_cannot_be_written_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("a file where the cache folder should be")
    cache = Cache(blocker / "cache")
    with caplog.at_level(logging.WARNING, "xtarget.cache"):
        for _ in range(3):
            cache.put("add", KEY, PARTS, ARTIFACT)
            assert cache.get(TARGET, "add", KEY) is None
    written = [r for r in caplog.records if "cannot be written" in r.getMessage()]
    assert len(written) == 1
    assert "XTARGET_CACHE_DIR" in written[0].getMessage()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ro").mkdir(mode=0o500)
    cache = Cache(tmp_path / "ro" / "cache")
    with caplog.at_level(logging.WARNING, "xtarget.cache"):
        cache.put("add", KEY, PARTS, ARTIFACT)
        cache.put("add", KEY, PARTS, ARTIFACT)
    assert len(caplog.records) == 1


def test_a_machine_without_a_compiler_finds_any_toolchains_binary(cache: Cache) -> None:
    other = [("target", "nvidia:sm_90"), ("toolchain", ""), ("source", "abc")]
    assert cache.find(TARGET, "add", other, ignore="toolchain") == ARTIFACT
    changed = [("target", "nvidia:sm_90"), ("toolchain", ""), ("source", "abd")]
    assert cache.find(TARGET, "add", changed, ignore="toolchain") is None


def test_native_binaries_have_entries_of_their_own(cache: Cache) -> None:
    cache.put_native(TARGET, "add", KEY, b"machine code")
    assert cache.get_native(TARGET, "add", KEY) == b"machine code"
    assert cache.get_native(TARGET, "add", key_of([])) is None
    assert cache.get(TARGET, "add", KEY) == ARTIFACT


def test_an_entry_that_points_elsewhere_is_refused(cache: Cache) -> None:
    path = entry(cache, "json")
    meta = json.loads(path.read_text())
    meta["files"]["/../../secret"] = meta["files"].pop("cubin")
    path.write_text(json.dumps(meta))
    assert cache.get(TARGET, "add", KEY) is None


def test_the_folder_is_for_the_user_alone(cache: Cache) -> None:
    assert cache.root.stat().st_mode & 0o077 == 0


def test_the_variable_moves_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    assert _cache.default_cache().root == tmp_path
    other = replace(ARTIFACT, entry="other")
    _cache.default_cache().put("other", KEY, PARTS, other)
    assert _cache.default_cache().get(TARGET, "other", KEY) == other
