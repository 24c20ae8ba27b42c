"""The list of remembered large files is read, whatever lies in its place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from xtarget.targets._host import contents

GOOD = {"name": ["signature", "digest"]}


def test_a_list_is_read(tmp_path: Path) -> None:
    place = tmp_path / "list.json"
    place.write_text(json.dumps(GOOD))
    assert contents._listed(place) == {"name": ("signature", "digest")}


@pytest.mark.parametrize(
    "what", ["fifo", "folder", "device", "large", "deep", "absent", "writable"]
)
def test_what_is_no_list_of_ours_is_none(tmp_path: Path, what: str) -> None:
    place = tmp_path / "list.json"
    if what == "fifo":
        os.mkfifo(place)  # opening one waits for a writer
    elif what == "folder":
        place.mkdir()
    elif what == "device":
        place.symlink_to("/dev/zero")
    elif what == "large":
        place.write_text(json.dumps(GOOD) + " " * contents._MOST_BYTES)
    elif what == "deep":
        place.write_text("[" * 100_000)
    elif what == "writable":
        place.write_text(json.dumps(GOOD))
        place.chmod(0o666)
    assert contents._listed(place) == {}
