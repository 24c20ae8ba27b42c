"""The cache on disk: what was put in comes out, and nothing that was damaged does."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from artifacts import sample_artifact
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xtarget import Target, _cache
from xtarget._artifacts.entry import DAMAGE, Place, artifact_fields, make_entry, pack, unpack
from xtarget._cache import Cache, key_of
from xtarget._cache.explain import Chosen, entries
from xtarget._values.environment import CacheSettings

TARGET = Target("nvidia", "sm_90")
PARTS = [("target", "nvidia:sm_90"), ("toolchain", "triton 3.9"), ("source", "abc")]
KEY = key_of(PARTS)
ARTIFACT = sample_artifact(
    bytes(range(256)) * 4, shared_bytes=2048, texts={"ptx": ".version 8.7\n"}
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
    mark = json.loads(entry(cache, "json").read_text())
    assert [tuple(p) for p in mark["entry"]["key_parts"]] == PARTS
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
    assert found is None
    assert len(caplog.records) == 1
    assert "damaged" in caplog.text
    assert cache.get(TARGET, "add", KEY) is None
    assert len(caplog.records) == 1
    assert list((cache.root / "v1" / ".quarantine").iterdir())
    cache.put("add", KEY, PARTS, ARTIFACT)
    assert cache.get(TARGET, "add", KEY) == ARTIFACT


def mutated(data: st.DataObject, content: bytes) -> bytes:
    """Another text than `content`: bytes changed, cut off, repeated, or something else entirely."""
    changed = bytearray(content)
    how = data.draw(st.sampled_from(["set", "flip", "cut", "insert", "repeat", "other"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if how == "set":
        for _ in range(data.draw(st.integers(1, 3))):
            changed[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    elif how == "flip":
        changed[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del changed[at : at + data.draw(st.sampled_from([1, 7, len(content)]))]
    elif how == "insert":
        changed[at:at] = data.draw(st.binary(min_size=1, max_size=9))
    elif how == "repeat":
        changed += changed[at:]
    else:
        changed[:] = data.draw(st.binary(max_size=64))
    return bytes(changed)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No log of every damaged entry, and no waiting for the disk."""
    monkeypatch.setattr(logging.getLogger("xtarget.cache"), "disabled", True)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def check_a_mutation_on_disk(folder: Path, data: st.DataObject) -> None:
    cache = Cache(folder / "fuzz")
    cache.put("add", KEY, PARTS, ARTIFACT)
    path = entry(cache, data.draw(st.sampled_from(["cubin", "ptx", "json"])))
    content = path.read_bytes()
    path.write_bytes(mutated(data, content))
    found = cache.get(TARGET, "add", KEY)
    assert (found is None) == (path.read_bytes() != content if path.exists() else True)


def check_a_mutated_blob(data: st.DataObject) -> None:
    place = Place(TARGET, "add", KEY)
    files, fields = artifact_fields(ARTIFACT)
    blob = pack(make_entry(place, files, {"artifact": fields}))
    assert unpack(blob, place).artifact() == ARTIFACT
    changed = mutated(data, blob)
    try:
        unpack(changed, place)
    except DAMAGE:
        return
    assert changed == blob


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
@pytest.mark.usefixtures("quick")
def test_no_mutation_of_an_entry_is_accepted(tmp_path: Path, data: st.DataObject) -> None:
    check_a_mutation_on_disk(tmp_path, data)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_mutation_of_a_blob_is_accepted(data: st.DataObject) -> None:
    check_a_mutated_blob(data)


@pytest.mark.long
@settings(
    max_examples=6_000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
@pytest.mark.usefixtures("quick")
def test_none_of_thousands_of_mutations_of_an_entry_is_accepted(
    tmp_path: Path, data: st.DataObject
) -> None:
    check_a_mutation_on_disk(tmp_path, data)


@pytest.mark.long
@settings(max_examples=16_000, deadline=None)
@given(data=st.data())
def test_none_of_thousands_of_mutations_of_a_blob_is_accepted(data: st.DataObject) -> None:
    check_a_mutated_blob(data)


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


def test_a_cache_path_that_is_a_file_costs_one_warning_with_the_way_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = Cache(tmp_path / "file")
    for _ in range(3):
        assert cache.get(TARGET, "add", KEY) is None
        cache.put("add", KEY, PARTS, ARTIFACT)
    (record,) = caplog.records
    assert f"{tmp_path / 'file'} cannot be read (Not a directory)" in record.getMessage()
    assert "XTARGET_CACHE_DIR" in record.getMessage()
    assert "XTARGET_CACHE_SHARED" not in record.getMessage()


def test_a_cap_smaller_than_every_entry_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(tmp_path, CacheSettings(tmp_path, max_bytes=100))
    for size in (300, 400):
        cache.put("add", KEY, PARTS, replace(ARTIFACT, binary=bytes(size)))
        assert cache.get(TARGET, "add", KEY) is None
    (record,) = caplog.records
    assert "XTARGET_CACHE_SIZE" in record.getMessage()


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


def test_sections_of_bundles_have_entries_of_their_own(
    cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put_section(TARGET, KEY, {"count": 3}, b"section")
    assert cache.get_section(TARGET, KEY) == ({"count": 3}, b"section")
    assert cache.get_section(TARGET, key_of([])) is None
    shown = [entry for _, entry in entries(cache.own, Chosen(kernel="bundle"))]
    assert [(entry["kind"], entry["target"]) for entry in shown] == [("section", str(TARGET))]
    (file,) = cache.root.glob("v1/*/*/bundle-section-*.bin")
    file.write_bytes(b"Section")
    assert cache.get_section(TARGET, KEY) is None
    assert "set aside" in caplog.text


def test_a_section_never_takes_more_than_an_eighth_of_the_cap(tmp_path: Path) -> None:
    cache = Cache(tmp_path, CacheSettings(tmp_path, max_bytes=80_000))
    cache.put_section(TARGET, KEY, {}, bytes(10_001))
    assert cache.get_section(TARGET, KEY) is None
    cache.put_section(TARGET, KEY, {}, bytes(10_000))
    assert cache.get_section(TARGET, KEY) == ({}, bytes(10_000))


def seal(body: dict[str, Any]) -> bytes:
    """A mark whose seal holds, whatever it says: what somebody writes who knows the format."""
    text = json.dumps(body, indent=1, sort_keys=True).encode()
    line = json.dumps({"sha256": hashlib.sha256(text).hexdigest()}).encode()[:-1]
    return line + b', "entry":\n' + text + b"\n}\n"


def change(cache: Cache, **facts: Any) -> None:
    path = entry(cache, "json")
    path.write_bytes(seal({**json.loads(path.read_text())["entry"], **facts}))


ZERO = {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}


@pytest.mark.parametrize(
    "files",
    [
        {"/../../secret": ZERO},
        {"../x": ZERO},
        {"": ZERO},
        {"json": ZERO},
        {"cubin/../x": ZERO},
        {"cubin": {"size": 1 << 60, "sha256": "0" * 64}},
        {f"f{i}": {"size": 400 << 20, "sha256": "0" * 64} for i in range(16)},
        {"cubin": {"size": -1, "sha256": "0" * 64}},
        {"cubin": {"size": True, "sha256": "0" * 64}},
        {"cubin": {"size": "9", "sha256": "0" * 64}},
        {"cubin": None},
        {f"f{i}": ZERO for i in range(100)},
        {},
        [],
        "cubin",
        None,
    ],
    ids=repr,
)
def test_a_mark_with_other_files_is_refused(cache: Cache, files: Any) -> None:
    change(cache, files=files)
    assert cache.get(TARGET, "add", KEY) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"key": "0" * 64},
        {"target": "nvidia:sm_80"},
        {"kernel": "sub"},
        {"kind": "native"},
        {"artifact": {}},
        {"artifact": None},
        {"artifact": {"format": "../../etc/passwd"}},
    ],
    ids=repr,
)
def test_a_mark_of_something_else_is_refused(cache: Cache, facts: dict[str, Any]) -> None:
    change(cache, **facts)
    assert cache.get(TARGET, "add", KEY) is None


@pytest.mark.parametrize("key", ["../../../x", "", None, "0" * 63, "A" * 64, ["0"]])
def test_a_key_that_a_file_names_is_never_a_path(cache: Cache, key: Any) -> None:
    change(cache, key=key)
    assert cache.find(TARGET, "add", PARTS, ignore="toolchain") is None
    with pytest.raises((ValueError, TypeError)):
        _ = Place(TARGET, "add", key).stem
    with pytest.raises(ValueError, match="not a key"):
        _ = Place(TARGET, "add", KEY, "../x").stem
    with pytest.raises(ValueError, match="not a target"):
        _ = Place(Target("nvidia", ".."), "add", KEY).folders


def test_a_mark_nested_too_deep_is_refused(cache: Cache) -> None:
    entry(cache, "json").write_bytes(b"[" * 100_000 + b', "entry":\n' + b"]\n}\n")
    assert cache.get(TARGET, "add", KEY) is None


@pytest.mark.parametrize("suffix", ["cubin", "json"])
def test_links_and_pipes_are_never_followed_or_waited_for(cache: Cache, suffix: str) -> None:
    path = entry(cache, suffix)
    copy = cache.root / "copy"
    path.rename(copy)
    path.symlink_to(copy)
    assert cache.get(TARGET, "add", KEY) is None
    path.unlink(missing_ok=True)
    cache.put("add", KEY, PARTS, ARTIFACT)
    path.unlink()
    os.mkfifo(path)
    assert cache.get(TARGET, "add", KEY) is None


def test_the_quarantine_does_not_grow_without_bound(cache: Cache) -> None:
    for _ in range(20):
        entry(cache, "cubin").write_bytes(b"")
        assert cache.get(TARGET, "add", KEY) is None
        cache.put("add", KEY, PARTS, ARTIFACT)
    for n in range(20):
        key = key_of([("n", str(n))])
        cache.put(f"kernel{n}", key, PARTS, ARTIFACT)
        (path,) = cache.root.glob(f"v1/nvidia/sm_90/kernel{n}-*.cubin")
        path.write_bytes(b"")
        assert cache.get(TARGET, f"kernel{n}", key) is None
    assert len(list((cache.root / "v1" / ".quarantine").iterdir())) <= 32


@pytest.mark.parametrize("name", ["../../evil", "a/b", "", ".", "x" * 300, "größe", "a b\n"])
def test_a_kernels_name_is_never_a_path(cache: Cache, name: str) -> None:
    cache.put(name, KEY, PARTS, ARTIFACT)
    assert cache.get(TARGET, name, KEY) == ARTIFACT
    inside = (cache.root / "v1" / "nvidia" / "sm_90").iterdir()
    assert all(re.fullmatch(r"\w+-\w+\.\w+", path.name, re.ASCII) for path in inside)


def test_the_folder_is_for_the_user_alone(cache: Cache) -> None:
    assert cache.root.stat().st_mode & 0o077 == 0


def test_the_variable_moves_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    assert _cache.default_cache().root == tmp_path
    other = replace(ARTIFACT, entry="other")
    _cache.default_cache().put("other", KEY, PARTS, other)
    assert _cache.default_cache().get(TARGET, "other", KEY) == other
