"""libxtarget loads what the lock has that `XTARGET_LOCK` names, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import here

from libxtarget import (
    NOT_IN_LOCK,
    Device,
    Failed,
    Kernel,
    Library,
    needs_compiler_and_opencl,
)

pytestmark = needs_compiler_and_opencl
X = np.linspace(-1, 1, 4096, dtype="float32")


@pytest.fixture
def lock(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """A lock of the bundle's relu."""
    file = tmp_path / "xtarget.lock"
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    words = ("--bundle", str(path), "--kernel", "relu", "-o", str(file))
    code, _, errors = here(capsys, "lock", *words)
    assert code == 0, errors
    return file


def refused(call: Any, *given: Any) -> str:
    with pytest.raises(Failed) as caught:
        call(*given)
    assert caught.value.status == NOT_IN_LOCK
    return str(caught.value)


def test_what_the_lock_lacks_is_not_loaded(
    library: Library, path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(library)
    free = library.open(path)
    add = Kernel(device, free, "add", "float32")
    assert (add(X, X) == X + X).all()
    monkeypatch.setenv("XTARGET_LOCK", str(lock))
    bundle = library.open(path)
    assert (Kernel(device, bundle, "relu", "float32")(X) == np.maximum(X, 0)).all()
    said = refused(Kernel(device, bundle, "softmax", "float32"), np.ones((64, 1000), "float32"))
    assert f"the lock {lock} does not have the binary of softmax_walk for cpu:spirv64" in said
    assert "it has no kernel softmax_walk" in said
    # the device has loaded this one already, for the bundle that was opened without a lock
    assert "it has no kernel add" in refused(Kernel(device, bundle, "add", "float32"), X, X)
    assert (add(X, X) == X + X).all()
    body = json.loads(lock.read_text())
    for change, words in (
        ({"sha256": "0" * 64}, r"with other contents"),
        ({"sha256": "0" * 64, "target": "nvidia:sm_90"}, "for other targets only, as nvidia:sm_90"),
    ):
        for one in body["binaries"]:
            one.update(change)
        lock.write_text(json.dumps(body))
        relu = Kernel(Device(library), library.open(path), "relu", "float32")
        assert words in refused(relu, X)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("", "it is not a lock"),
        ("{", "it is not a lock"),
        ("[" * 99, "it is not a lock"),
        ('{"xtarget_lock": 2, "else": []}', "it has the format 2, known is 1"),
        ('{"xtarget_lock": 1}', "it is not a lock"),
        ('{"xtarget_lock": 1, "binaries": [{"kernel": "add"}]}', "it is not a lock"),
    ],
)
def test_a_file_that_is_no_lock_is_refused(
    library: Library, path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, text: str | None,
    words: str,
) -> None:  # fmt: skip
    if text is None:
        lock.unlink()
    else:
        lock.write_text(text)
    monkeypatch.setenv("XTARGET_LOCK", str(lock))
    assert words in refused(library.open, path)
