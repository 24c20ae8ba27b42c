"""Bundles that somebody made who knows the format: every digest is right, and a member is not what
it should be. Whatever is done with one ends well or in one of our errors, shows no control
character, and takes no memory for what the file says of itself."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xtarget import Artifact, LoadError, Target
from xtarget._artifacts.entry import DAMAGE, artifact_of, describe
from xtarget._bundle import manifest as shape
from xtarget._bundle import reader
from xtarget._bundle.builder.build import _section
from xtarget._bundle.builder.classes import Class
from xtarget._bundle.format import HEADER, MAGIC, ROW
from xtarget._compile.workers import Job
from xtarget._values.errors import XTargetError
from xtarget._values.types import CompileRequest, KernelSource, Parameter

SM_90, GFX = Target("nvidia", "sm_90"), Target("amd", "gfx942")
REQUEST = CompileRequest(
    source=KernelSource("relu", "ab" * 32, "kernels/elementwise.py", lambda: None),
    signature=(("a", "*fp32"), ("out", "*fp32"), ("n", "i32"), ("BLOCK", "constexpr")),
    constants=(("BLOCK", 1024), ("STEPS", 1)),
    aligned=("a", "n"),
)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader, "_bundles", {})
    monkeypatch.setattr(reader, "_of_environment", None)
    monkeypatch.delenv("XTARGET_BUNDLES", raising=False)
    monkeypatch.delenv("XTARGET_TRUST", raising=False)
    signal.alarm(300)
    yield
    signal.alarm(0)


# --------------------------------------------------------------------------------- a bundle as data


def artifact(target: Target, ptx: str | None) -> Artifact:
    return Artifact(
        target=target,
        format="cubin",
        entry="relu",
        binary=f"{target}".encode() * 10,
        num_warps=4,
        warp_size=32,
        shared_bytes=64,
        parameters=(
            Parameter("a", "*fp32"),
            Parameter("out", "*fp32"),
            Parameter("n", "i32"),
            Parameter("global_scratch", "*i8", hidden="global_scratch"),
        ),
        texts={} if ptx is None else {"ptx": f".version 8.0\n.target {ptx}\n// text"},
    )


def good() -> list[dict[str, Any]]:
    """The sections of a bundle: target, kernels, and records whose marks are still bytes."""
    found = []
    for target, ptx in ((SM_90, "sm_80"), (GFX, None)):
        made = artifact(target, ptx)
        one = Class(
            "elementwise:unary(functions.activations:relu)",
            "/library",
            replace(REQUEST, aligned=()),
        )
        one.kernels.add(("relu", "float32"))
        packed = _section(target, [(Job(target, "/library", one.source, REQUEST), one, made)])
        dictionary = packed.listed["dictionary"]
        words = packed.content[: dictionary["size"]]
        records = []
        for start in range(packed.listed["table"]["offset"], len(packed.content), ROW.size):
            _, at, size, _, _ = ROW.unpack_from(packed.content, start)
            text = zlib.decompressobj(zdict=words).decompress(packed.content[at : at + size])
            record = json.loads(text)
            for variant in record["variants"]:
                for name in ("binary", "portable"):
                    if name in variant:
                        mark = variant[name]
                        raw = packed.content[mark["offset"] : mark["offset"] + mark["size"]]
                        raw = zlib.decompressobj(zdict=words).decompress(raw)
                        variant[name] = {"bytes": raw.hex()}
            records.append(record)
        found.append({"target": str(target), "kernels": packed.listed["kernels"], "rows": records})
    return found


def mark(body: bytearray, stored: bytes, raw: int | None = None) -> dict[str, Any]:
    body += stored
    return {
        "offset": len(body) - len(stored),
        "size": len(stored),
        "raw": len(stored) if raw is None else raw,
        "sha256": hashlib.sha256(stored).hexdigest(),
    }


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("(?:[0-9a-f]{2})*", value) is not None


def sealed(sections: Any, facts: Any, spoil: Any = lambda manifest: manifest) -> bytes:
    """A bundle with every digest right; what is not JSON's of a record is packed as bytes.

    Args:
        spoil: changes the manifest.
    """
    listed, content = [], b""
    for section in sections:
        body = bytearray()
        dictionary = mark(body, b"")
        rows = []
        for record in section["rows"]:
            if isinstance(record, dict):
                record = copy.deepcopy(record)
                variants = record.get("variants")
                for variant in variants if isinstance(variants, list) else ():
                    for name in ("binary", "portable") if isinstance(variant, dict) else ():
                        value = variant.get(name)
                        if isinstance(value, dict) and _is_hex(value.get("bytes")):
                            raw = bytes.fromhex(value["bytes"])
                            variant[name] = mark(body, zlib.compress(raw), len(raw))
            text = record if isinstance(record, bytes) else json.dumps(record).encode()
            key = record.get("key") if isinstance(record, dict) else None
            if not (isinstance(key, str) and re.fullmatch("[0-9a-f]{64}", key)):
                key = "00" * 32
            stored = zlib.compress(text)
            where = mark(body, stored, len(text))
            digest = bytes.fromhex(where["sha256"])
            rows.append(
                ROW.pack(bytes.fromhex(key), where["offset"], len(stored), len(text), digest)
            )
        table = mark(body, b"".join(rows))
        listed.append(
            {
                "target": section["target"],
                "count": len(rows),
                "dictionary": dictionary,
                "table": table,
                "kernels": section["kernels"],
                "offset": len(content),
                "size": len(body),
            }
        )
        content += bytes(body)
    manifest = json.dumps(spoil(copy.deepcopy({**facts, "targets": listed}))).encode()
    head = HEADER.pack(
        MAGIC,
        1,  # without an index
        HEADER.size,
        HEADER.size + len(manifest) + len(content),
        HEADER.size,
        len(manifest),
        hashlib.sha256(manifest).digest(),
        0,
        0,
    )
    return head + manifest + content


FACTS = {
    "format": "xtarget bundle",
    "made_by": "t",
    "inputs": "",
    "coverage": "some",
    "depth": "common",
    "dtypes": ["float32"],
}


# --------------------------------------------------------------------------------- what is done


def command(*words: str) -> None:
    code = exit_code(*words)
    assert code in (0, 1), (words, code)


def use(path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that a bundle is for. Raises nothing but our errors, and prints what is safe."""
    import contextlib

    targets = [SM_90, GFX, Target("nvidia", "sm_80"), Target("nvidia", "sm_120")]
    with contextlib.suppress(XTargetError):
        bundle = reader.Bundle(path)
        repr(bundle), bundle.targets, bundle.kernels
        for target in targets:
            for request in (REQUEST, replace(REQUEST, aligned=()), replace(REQUEST, num_warps=8)):
                for one in bundle.candidates(request, target):
                    if one.form is not None:
                        with contextlib.suppress(XTargetError):
                            made = one.artifact()
                            assert made.entry.isidentifier()
                            assert made.binary is not None
                with contextlib.suppress(XTargetError):
                    reader._bundles = {path: bundle}
                    reader.why_not(request, target)
                    reader.find(request, target)
        reader._bundles = {}
    capsys.readouterr()
    file, to = str(path), str(folder)
    for words in (
        ("ls", file),
        ("ls", file, "--variants"),
        ("ls", file, "--json"),
        ("ls", file, "--json", "--variants"),
        ("verify", file),
        ("emit-c", file, "-o", to),
        ("emit-c", file, "-o", to, "--driver", "hip"),
        ("emit-c", file, "-o", to, "--kernel", "relu"),
    ):
        command("bundle", *words)
        out, err = capsys.readouterr()
        wrong = [c for c in out + err if not c.isprintable() and c not in "\n"]
        assert not wrong, (words, wrong)
        assert "Traceback" not in err
    for written in folder.glob("*"):
        text = written.read_text()
        assert "\n#error" not in text
        assert "\x1b" not in text


def test_the_bundle_itself_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.xtb"
    path.write_bytes(sealed(good(), FACTS))
    use(path, tmp_path / "c", capsys)
    command("bundle", "verify", str(path))
    assert "2 binaries are as they were written" in capsys.readouterr().out
    (found,) = (reader.Bundle(path).candidates(REQUEST, SM_90),)
    assert next(c.form for c in found if c.target == SM_90) == "exact"
    command("bundle", "emit-c", str(path), "-o", str(tmp_path / "c"))
    assert "1 functions for nvidia:sm_90" in capsys.readouterr().out


TEXTS = (
    "\x1b[2J\x1b]0;title\x07",
    "*/\n#error x\n/*",
    "*\\\n/ #error",
    '"\n#error y\n"',
    "\u202egnp.exe",
    "\ud800",
    "../../etc/passwd",
    "a\0b",
    "",
    "é",
    "x" * 70_000,
)
ODD = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 1.5, -0.0]),
    st.sampled_from([float("nan"), float("inf"), [], {}, [[]], [None], [1], {"a": 1}]),
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
        max_leaves=6,
    ),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, each in items:
        yield from paths(each, (*path, name))


def mutate(draw: Any, whole: Any) -> None:
    """Replace, remove, rename or add something anywhere."""
    where = draw(st.sampled_from(list(paths(whole))))
    holder = whole
    for name in where[:-1]:
        holder = holder[name]
    match draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add"])):
        case "remove":
            del holder[where[-1]]
        case "rename" if isinstance(holder, dict):
            holder[draw(st.sampled_from(TEXTS))] = holder.pop(where[-1])
        case "add" if isinstance(holder, dict):
            holder[draw(st.sampled_from(TEXTS))] = draw(ODD)
        case _:
            holder[where[-1]] = draw(ODD)


def check_one(data: st.DataObject, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections, facts = good(), copy.deepcopy(FACTS)
    rows = [row for section in sections for row in section["rows"]]
    spoil = lambda manifest: manifest  # noqa: E731
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 2))):
            mutate(data.draw, rows)
        for section, row in zip(sections, (rows[:1], rows[1:]), strict=True):
            section["rows"] = row
    else:

        def spoil(manifest: Any) -> Any:
            mutate(data.draw, manifest)
            return manifest

    path = folder / "a.xtb"
    path.unlink(missing_ok=True)
    path.write_bytes(sealed(sections, facts, spoil))
    use(path, folder / "c", capsys)


@pytest.fixture
def check(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> Callable[[st.DataObject], None]:
    return lambda data: check_one(data, tmp_path_factory.mktemp("x"), capsys)


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=60, **SETTINGS)  # type: ignore[arg-type]
@given(data=st.data())
def test_no_member_of_another_kind_gets_through(
    data: st.DataObject, check: Callable[[st.DataObject], None]
) -> None:
    check(data)


@pytest.mark.long
@settings(max_examples=6000, **SETTINGS)  # type: ignore[arg-type]
@given(data=st.data())
def test_none_of_thousands_of_members_of_another_kind_gets_through(
    data: st.DataObject, check: Callable[[st.DataObject], None]
) -> None:
    check(data)


@pytest.mark.parametrize(
    "entry", [*TEXTS, "1a", "a-b", "a b", 'x", 0}; int main', "a;b", None, 1, "é" * 3]
)
def test_an_entry_is_a_c_identifier_or_refused(entry: Any, tmp_path: Path) -> None:
    facts = {**describe(artifact(SM_90, None)), "entry": entry}
    with pytest.raises(DAMAGE, match="C identifier"):  # as the cache reads it
        artifact_of(facts, target=SM_90, binary=b"")
    sections = good()
    sections[0]["rows"][0]["variants"][0]["artifact"]["entry"] = entry
    path = tmp_path / "a.xtb"
    path.write_bytes(sealed(sections, FACTS))
    bundle = reader.Bundle(path)
    with pytest.raises(LoadError, match="C identifier"):
        next(c for c in bundle.candidates(REQUEST, SM_90) if c.target == SM_90).artifact()


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_no_text_of_a_bundle_becomes_c(text: str, tmp_path: Path) -> None:
    """Names that go into comments."""
    from xtarget._bundle.builder.c_source import _comment

    shown = _comment(f"left out: {text}")
    assert shown.startswith("/* ")
    assert shown.endswith(" */")
    assert "*/" not in shown[2:-2]
    assert "\\" not in shown
    assert shown.isprintable()


def test_a_section_that_somebody_put_into_the_cache_is_checked() -> None:
    target, mark_ = "nvidia:sm_90", {"offset": 0, "size": 0, "raw": 0, "sha256": "0" * 64}
    right: dict[str, Any] = {
        "target": target,
        "count": 0,
        "dictionary": mark_,
        "table": mark_,
        "kernels": {},
    }
    shape.check_section(right, SM_90)
    odd = (None, 1, "x", [], {"a": 1}, True, -1, 10**30)
    for name in right:
        for value in odd:
            if (name, value) != ("count", 1):
                with pytest.raises(ValueError, match=r"."):
                    shape.check_section({**right, name: value}, SM_90)
    with pytest.raises(ValueError, match=r"."):
        shape.check_section({**right, "more": 1}, SM_90)


# ------------------------------------------------------------------------------------- large inputs

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
from xtarget._cli.main import main
main(sys.argv[1:])
"""


def limited(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line with 1.5 GiB of addresses."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *words], capture_output=True, text=True, timeout=120
    )


def large_record() -> bytes:
    sections = good()
    sections[0]["rows"][0]["source"] = "x" * (255 << 20)
    return sealed(sections, FACTS)


def many_variants() -> bytes:
    sections = good()
    record = sections[0]["rows"][0]
    record["variants"] = record.pop("variants")
    one = copy.deepcopy(record["variants"][0])
    one["binary"] = {"offset": 0, "size": 0, "raw": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    del one["portable"], one["portable_arch"], one["portable_format"]
    text = json.dumps({**record, "variants": []})[:-2].encode()  # variants come last
    sections[0]["rows"] = [text + b",".join([json.dumps(one).encode()] * 300_000) + b"]}"]
    return sealed(sections[:1], FACTS)


def bombs() -> bytes:
    """Many records whose binaries are all the same small packed megabytes, at several places."""
    sections = good()
    (record,) = sections[0]["rows"]
    rows = []
    for number in range(40):
        row = copy.deepcopy(record)
        row["key"] = f"{number:064x}"
        row["variants"][0]["binary"] = {"bytes": f"{number:02x}" * (8 << 20)}
        del row["variants"][0]["portable"]
        rows.append(row)
    sections[0]["rows"] = rows
    return sealed(sections[:1], FACTS)


@pytest.mark.parametrize(
    ("make", "words"),
    [(large_record, "more than"), (many_variants, "more than"), (bombs, "unpacks to more than")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_too_large_is_refused_before_it_takes_memory(
    make: Any, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.xtb"
    data = make()
    assert len(data) < 4 << 20
    path.write_bytes(data)
    done = limited("bundle", "verify", str(path))
    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("what", ["table", "dictionary", "binary", "manifest"])
def test_a_file_with_holes_takes_no_memory(what: str, tmp_path: Path) -> None:
    """A file of 100 GiB that takes no room on the disk, and a mark that says all of it."""
    path, size = tmp_path / "a.xtb", 100 << 30
    sections = good()

    def spoil(manifest: Any) -> Any:
        part = manifest["targets"][-1]
        if what in part:
            part[what] |= {"size": size, "raw": size}
            part["count"] = size // ROW.size if what == "table" else part["count"]
        part["size"] += size
        return manifest

    if what == "binary":
        variant = sections[-1]["rows"][0]["variants"][0]
        variant["binary"] = {"offset": 0, "size": size, "raw": 1 << 20, "sha256": "0" * 64}
    data = bytearray(sealed(sections, FACTS, spoil))
    fields = list(HEADER.unpack_from(data))
    fields[3] += size
    if what == "manifest":
        fields[5] = size
    data[: HEADER.size] = HEADER.pack(*fields)
    path.write_bytes(data)
    os.truncate(path, len(data) + size)
    done = limited("bundle", "verify", str(path))
    assert done.returncode == 1, done.stderr
    assert "is refused" in done.stderr


def test_a_bundle_that_is_cut_while_it_is_open_ends_no_process(tmp_path: Path) -> None:
    path = tmp_path / "a.xtb"
    path.write_bytes(sealed(good(), FACTS))
    bundle = reader.Bundle(path)
    os.truncate(path, 100)
    with pytest.raises(LoadError, match="shorter"):
        list(bundle.file.records(SM_90))


def test_a_pipe_and_a_device_are_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for odd in (path, Path("/dev/zero")):
        with pytest.raises(LoadError, match="no regular file"):
            reader.Bundle(odd)


def test_the_limits_are_those_of_the_format_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "bundle-format.md").read_text()
    for limit in (
        f"{shape.MOST_MANIFEST >> 20} MiB of manifest",
        f"{shape.MOST_DICTIONARY >> 10} KiB of dictionary",
        f"{shape.MOST_RECORD >> 20} MiB of record",
        f"{shape.MOST_BINARY >> 20} MiB of binary",
        f"{shape.MOST_TARGETS} targets",
        f"{shape.MOST_ROWS} rows",
        f"{shape.MOST_VARIANTS} variants",
    ):
        assert limit in page
