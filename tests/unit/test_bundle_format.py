"""The bytes of a bundle: what was put in comes out, equal bytes for equal content, and no changed
byte is taken for what was written."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xtarget import CompileError, LoadError, Target
from xtarget._bundle import reader
from xtarget._bundle.format import HEADER, VERSION, BundleFile
from xtarget._bundle.manifest import MOST_VARIANTS
from xtarget._bundle.packing import KINDS, packer, unpacker
from xtarget._bundle.writer import Entry, pack_section, write_bundle
from xtarget._values.types import CompileRequest, KernelSource

SM_90, GFX = Target("nvidia", "sm_90"), Target("amd", "gfx942")
ROOT = Path(__file__).resolve().parents[2]


RECORD: dict[str, Any] = {"kernels": [["k", "float32"]], "source": "f:k", "constants": {}}


def key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def entry(name: str, *sizes: int) -> Entry:
    made = random.Random(name)
    binaries = [{"binary": made.randbytes(size)} for size in sizes]
    variants = [{"aligned": ["a"] * i, "artifact": {}} for i in range(len(sizes))]
    return Entry(key(name), {**RECORD, "parts": [["kernel", name]], "variants": variants}, binaries)


def write(
    facts: dict[str, Any], targets: dict[Target, list[Entry]], kernels: dict[str, Any] | None = None
) -> bytes:
    return write_bundle(facts, [pack_section(t, kernels or {}, e) for t, e in targets.items()])


def content() -> bytes:
    entries = [entry(f"kernel{i}", 400 + i, 30) for i in range(5)]
    return write({"made_by": "a test"}, {SM_90: entries, GFX: entries[:2]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.xtb"
    file.write_bytes(content())
    return file


def everything(path: Path) -> list[Any]:
    """All that a bundle gives to whoever reads it to its end."""
    file = BundleFile(path)
    found: list[Any] = [file.manifest]
    try:
        for target in file.sections:
            for record in file.records(target):
                binaries = [file.binary(target, v["binary"]) for v in record["variants"]]
                found.append((str(target), record, binaries))
    finally:
        file.close()
    return found


def test_what_was_put_in_comes_out(path: Path) -> None:
    file = BundleFile(path)
    assert set(file.sections) == {SM_90, GFX}
    for i in range(5):
        record = file.record(SM_90, key(f"kernel{i}"))
        assert record is not None
        made = entry(f"kernel{i}", 400 + i, 30)
        for variant, binaries in zip(record["variants"], made.binaries, strict=True):
            assert file.binary(SM_90, variant["binary"]) == binaries["binary"]
    assert file.record(SM_90, key("another")) is None
    assert file.record(GFX, key("kernel4")) is None


def test_the_order_in_which_it_was_made_leaves_no_trace() -> None:
    entries = [entry(f"kernel{i}", 100 * i) for i in range(6)]
    targets = {SM_90: entries, GFX: entries}
    back = {GFX: entries[::-1], SM_90: entries[::-1]}
    assert write({"a": 1, "b": 2}, targets) == write({"b": 2, "a": 1}, back)


def test_a_section_is_the_same_wherever_it_lies() -> None:
    entries = [entry(f"kernel{i}", 100 * i) for i in range(6)]
    alone, beside = write({}, {SM_90: entries}), write({}, {SM_90: entries, GFX: entries[:3]})
    section = pack_section(SM_90, {}, entries).content
    assert section in alone
    assert section in beside


def packed(entries: list[Entry], kind: str) -> bytes:
    return write_bundle({}, [pack_section(SM_90, {}, entries, compression=kind)], compression=kind)


def test_what_zstd_packed_comes_out_as_what_zlib_packed(tmp_path: Path) -> None:
    pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    entries = [entry(f"kernel{i}", 400 + i, 30) for i in range(5)]
    one, other = tmp_path / "zlib.xtb", tmp_path / "zstd.xtb"
    one.write_bytes(packed(entries, "zlib"))
    other.write_bytes(packed(entries, "zstd"))
    assert packed(entries, "zlib") == write({}, {SM_90: entries})
    assert packed(entries[::-1], "zstd") == other.read_bytes()
    assert (one.read_bytes()[8], other.read_bytes()[8]) == (1, VERSION)
    for path in (one, other):
        file = BundleFile(path)
        assert [
            [file.binary(SM_90, v["binary"]) for v in file.record(SM_90, made.key)["variants"]]  # type: ignore[index]
            for made in entries
        ] == [[v["binary"] for v in made.binaries] for made in entries]
        file.close()
    said = other.read_bytes()
    one.write_bytes(said[:8] + b"\1" + said[9:])  # unpacked by zlib
    with pytest.raises(LoadError, match="cannot be unpacked"):
        everything(one)


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_that_is_cut_longer_or_another_is_none(kind: str) -> None:
    if kind == "zstd":
        pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    words, raw = b"some words, some more words", b"some words" * 50
    made, unpack = packer(kind, words)(raw), unpacker(kind, "this")
    assert unpack(made, words, len(raw)) == raw
    assert len(made) < len(packer(kind, b"")(raw))
    for wrong in (made[:-1], made + b"x", b"", b"x" * 40, raw):
        with pytest.raises(ValueError, match=r"is cut|cannot be unpacked"):
            unpack(wrong, words, len(raw))
    for size in (len(raw) - 2, 0):
        with pytest.raises(ValueError, match=r"is cut|cannot be unpacked"):
            unpack(made, words, size)


def test_without_zstd_a_bundle_that_it_packed_says_the_install_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xtb"
    path.write_bytes(content()[:8] + struct.pack("<I", VERSION) + content()[12:])
    for name in ("compression", "compression.zstd", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(LoadError, match=r"a\.xtb is packed by zstd.*pip install .xtarget\[zstd\]"):
        BundleFile(path)


def test_equal_binaries_are_kept_once() -> None:
    body = random.Random(1).randbytes(50_000)
    record = {"variants": [{"aligned": []}, {"aligned": ["a"]}]}
    twice = Entry(key("a"), record, [{"binary": body}, {"binary": body}])
    assert len(write({}, {SM_90: [twice]})) < 80_000


def test_no_bundle_is_written_that_no_reader_takes(path: Path) -> None:
    def alike(count: int) -> Entry:
        record = {**RECORD, "parts": [], "variants": [{"aligned": [], "artifact": {}}] * count}
        return Entry(key("alike"), record, [{"binary": b"code"}] * count)

    path.write_bytes(write({}, {SM_90: [alike(MOST_VARIANTS)]}))
    record = BundleFile(path).record(SM_90, key("alike"))
    assert record is not None
    assert len(record["variants"]) == MOST_VARIANTS
    with pytest.raises(CompileError, match=f"has {MOST_VARIANTS + 1} variants of one class"):
        write({}, {SM_90: [alike(MOST_VARIANTS + 1)]})


def test_the_manifest_is_what_its_schema_says(path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "bundle-manifest.schema.json").read_text())
    manifest = BundleFile(path).manifest
    whole = {
        "format": "xtarget bundle",
        "inputs": "",
        "coverage": "",
        "depth": "common",
        "dtypes": ["float32"],
        **manifest,
    }
    jsonschema.validate(whole, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**whole, "targets": [{"target": "nvidia:sm_90"}]}, schema)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: b"", "empty"),
        (lambda data: b"\x7fELF" + data[4:], "not a bundle"),
        (lambda data: data[:20], "less than a header"),
        (lambda data: data[:-1], "was written with"),
        (lambda data: data + b"\0", "was written with"),
        (lambda data: data[:8] + struct.pack("<I", VERSION + 1) + data[12:], "Update xtarget"),
        (lambda data: data.replace(b"a test", b"A test"), "sha256"),
    ],
)
def test_damage_is_said_with_the_file_and_the_way_out(path: Path, damage: Any, words: str) -> None:
    path.write_bytes(damage(content()))
    with pytest.raises(LoadError, match=words) as caught:
        everything(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.xtb", tmp_path):
        with pytest.raises(LoadError, match="cannot be opened"):
            BundleFile(missing)


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Flipped and overwritten bytes, cuts, insertions, swapped pieces, and numbers of the header
    set to what breaks careless readers."""
    made = random.Random(seed)
    for number in range(count):
        changed = bytearray(data)
        at = made.randrange(len(data))
        match number % 7:
            case 0:
                changed[at] ^= 1 << made.randrange(8)
            case 1:
                changed[at] = made.randrange(256)
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = made.randbytes(made.randrange(1, 40))
            case 4:
                other = made.randrange(len(data))
                changed[at : at + 8], changed[other : other + 8] = (
                    changed[other : other + 8],
                    changed[at : at + 8],
                )
            case 5:
                del changed[at : at + made.randrange(1, 40)]
            case 6:
                field = made.choice((8, 12, 16, 24, 32, 72, 80))
                value = made.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(data)))
                if field < 16:
                    struct.pack_into("<I", changed, field, value & 0xFFFFFFFF)
                else:
                    struct.pack_into("<Q", changed, field, value)
        if changed != data:
            yield bytes(changed)


def refused(path: Path, count: int, seed: int) -> int:
    data = content()
    path.write_bytes(data)
    everything(path)
    tried = 0
    for changed in mutations(data, count, seed):
        path.unlink()  # ext4 writes a file that was cut and filled again to the disk at once
        path.write_bytes(changed)
        tried += 1
        with pytest.raises(LoadError):
            everything(path)
    return tried


def test_no_mutation_is_accepted_and_none_crashes(tmp_path: Path) -> None:
    assert refused(tmp_path / "a.xtb", 1500, 1) > 1300


@pytest.mark.long
def test_no_mutation_of_twenty_thousand_is_accepted(tmp_path: Path) -> None:
    assert refused(tmp_path / "a.xtb", 24_000, 2) > 20_000


def resealed(data: bytes, change: Any) -> bytes:
    """A bundle whose manifest was changed by one who knows how to compute its sha256."""
    fields = list(HEADER.unpack_from(data))
    start, size = fields[4], fields[5]
    manifest = json.loads(data[start : start + size])
    change(manifest)
    text = json.dumps(manifest).encode()
    fields[5], fields[6] = len(text), hashlib.sha256(text).digest()
    fields[3] = len(data) - size + len(text)
    return HEADER.pack(*fields) + text + data[start + size :]


@pytest.mark.parametrize(
    "value",
    [-1, 2**63, 2**64, 1e9, True, None, "0", [], {}],
)
@pytest.mark.parametrize("part", ["table", "dictionary"])
@pytest.mark.parametrize("member", ["offset", "size", "raw", "sha256"])
def test_a_manifest_that_was_made_to_harm_is_refused(
    path: Path, part: str, member: str, value: Any
) -> None:
    def change(manifest: Any) -> None:
        manifest["targets"][0][part][member] = value

    path.write_bytes(resealed(content(), change))
    with pytest.raises(LoadError):
        everything(path)


@pytest.mark.parametrize("member", ["offset", "size"])
@pytest.mark.parametrize("value", [-1, 1, 2**64, 1e9, True, None, "0"])
@pytest.mark.parametrize("part", [0, 1])
def test_a_section_that_lies_elsewhere_than_behind_the_one_before_it_is_refused(
    path: Path, part: int, member: str, value: Any
) -> None:
    def change(manifest: Any) -> None:
        manifest["targets"][part][member] = value

    path.write_bytes(resealed(content(), change))
    with pytest.raises(LoadError):
        everything(path)


@pytest.mark.parametrize(
    "targets", [None, 1, {}, [1], [{}], [{"target": "../../etc"}], [{"target": None}]]
)
def test_a_manifest_of_another_shape_is_refused(path: Path, targets: Any) -> None:
    path.write_bytes(resealed(content(), lambda manifest: manifest.update(targets=targets)))
    with pytest.raises(LoadError):
        everything(path)


def test_a_packed_part_cannot_grow_beyond_what_it_says(path: Path) -> None:
    record = {**RECORD, "parts": [], "variants": [{"aligned": [], "artifact": {}}]}
    bomb = Entry(key("a"), record, [{"binary": bytes(1 << 20)}])
    data = write({}, {SM_90: [bomb]})
    path.write_bytes(data)
    file = BundleFile(path)
    record = file.record(SM_90, key("a"))
    assert record is not None
    mark = record["variants"][0]["binary"]
    assert mark["size"] < 5000
    assert len(file.binary(SM_90, mark)) == 1 << 20
    for raw in (10, 2**40):
        with pytest.raises(LoadError):
            file.binary(SM_90, {**mark, "raw": raw})


ODD = [None, True, 1.5, 10**30, float("nan"), "text", [], [[]], {}, {"a": 1}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_members_of_other_types_are_refused_when_their_digests_are_right(
    tmp_path: Path, odd: Any
) -> None:
    """A file made by somebody who knows the format."""
    path, request = tmp_path / "a.xtb", _request()
    good = {**RECORD, "parts": [["kernel", "k"]]}
    variant = {"aligned": ["a"], "artifact": {}}
    for name in ("parts", "kernels", "source", "constants", "aligned", "artifact", "variant"):
        changed = {**variant, name: odd} if name in variant else variant
        variants = [odd if name == "variant" and isinstance(odd, dict) else changed]
        record = {**good, **({name: odd} if name in good else {}), "variants": variants}
        entries = [Entry(reader.class_key(request), record, [{"binary": b"1"}])]
        listed = {"k": {"sources": [], "dtypes": [], "variants": 1, "bytes": 1}}
        path.write_bytes(write({}, {SM_90: entries}, listed))
        with contextlib.suppress(LoadError):
            loaded = reader.Bundle(path)
            list(loaded.file.records(SM_90))
            for one in loaded.candidates(request, SM_90):
                if one.form is not None:
                    one.artifact()
    for member in ("sources", "dtypes", "variants", "bytes"):
        listed = {"k": {"sources": [], "dtypes": [], "variants": 1, "bytes": 1, member: odd}}
        path.write_bytes(write({}, {SM_90: []}, listed))
        if type(odd) is not type([] if member in ("sources", "dtypes") else 1) or odd == [[]]:
            with pytest.raises(LoadError, match="manifest"):
                BundleFile(path)


def _request() -> CompileRequest:
    source = KernelSource("k", "ab" * 32, "k.py", lambda: None)
    return CompileRequest(source, (("a", "*fp32"),), (), aligned=("a",))
