"""Bundles that say they are large, are cut, or are not files: they cost neither memory nor time."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile_bundles import FACTS, SM_90, good, sealed

from xtarget import LoadError
from xtarget._bundle import manifest as shape
from xtarget._bundle import reader
from xtarget._bundle.format import HEADER, ROW

pytestmark = pytest.mark.usefixtures("unread_bundles")
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
        row["variants"][0]["binary"] = {"bytes": bytes([number]) * (8 << 20)}
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
        with pytest.raises(LoadError, match="not a regular file"):
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
