"""Bodies that are prepared when xtarget is built: the same bytes as those made anew, or none."""

from __future__ import annotations

import importlib.util
import logging
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import xtarget
from xtarget._values.types import CompileRequest
from xtarget.targets._template import prepared
from xtarget.targets._template.holes import HoleError
from xtarget.targets._template.prepared import Body, Entries, filled, packed

ROOT = Path(__file__).resolve().parents[2]
#: `pow` has a NaN among its numbers; a class of `nll_loss` counts by `BLOCK_M`.
OPERATORS = ("add", "gelu", "where", "pow", "nll_loss")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prepare_texts", ROOT / "ci/prepare_texts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some operators."""
    path = tmp_path_factory.mktemp("prepared") / "prepared.bin"
    path.write_bytes(packed(script.of_operators(OPERATORS)))
    return path


def requests(script: ModuleType) -> Iterator[tuple[object, object, CompileRequest]]:
    for name in OPERATORS:
        for dtype in ("float32", "bfloat16", "int64"):
            for target, route in script.ROUTES:
                if dtype in xtarget.catalog()[name].dtypes:
                    for one in script.requests(xtarget.catalog()[name], dtype, target):
                        if not route.refusal(one, target):  # the sum of a loss has no template
                            yield target, route, one


def test_artifacts_are_those_that_are_made_anew(
    script: ModuleType, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, sizes = 0, {"BLOCK": 256, "BLOCK_M": 256, "STEPS": 3, "STREAM": True}
    for target, route, first in requests(script):
        for one in (first, script.with_sizes(first, sizes), replace(first, num_warps=8)):
            monkeypatch.setattr(prepared, "file", lambda: None)
            route._made.cache_clear()
            anew = route.compile(one, target, keep_stages=True)
            monkeypatch.setattr(prepared, "file", lambda: Entries(str(made)))
            monkeypatch.setattr(type(route), "anew", lambda *given: pytest.fail("made anew"))
            route._made.cache_clear()
            assert route.compile(one, target, keep_stages=True) == anew
            monkeypatch.undo()
            count += 1
    assert count > 60


def test_another_kernel_is_not_found(script: ModuleType, made: Path) -> None:
    _, route, one = next(requests(script))
    entries = Entries(str(made))
    assert entries.get(route.key(one)) is not None
    source = replace(one.source, digest="0" * 64)
    constants = tuple((n, 7 if n == "ROWS" else value) for n, value in one.constants)
    for other in (
        replace(one, source=source),
        replace(one, constants=constants),
        replace(one, signature=(*one.signature[:-1], ("other", "constexpr"))),
    ):
        assert entries.get(route.key(other)) is None
    assert entries.get(prepared.key_of("another version", one)) is None


@pytest.mark.parametrize("at", [0.2, 0.5, 0.9])
def test_a_damaged_entry_is_said_and_not_used(
    script: ModuleType, made: Path, at: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, route, one = next(requests(script))
    key, content = route.key(one), bytearray(made.read_bytes())
    whole = Entries(str(made))
    low = next(n for n in range(whole.count) if whole._key(n) == key)
    begin, size, _ = struct.unpack_from("<III", content, whole._places + low * 12)
    content[begin + int(size * at)] ^= 0x10
    damaged = tmp_path / "prepared.bin"
    damaged.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert Entries(str(damaged)).get(key) is None
    assert f"{damaged} is damaged (" in caplog.text
    others = [whole._key(n) for n in range(whole.count)]
    good = sum(Entries(str(damaged)).get(other) is not None for other in others)
    assert good >= whole.count - 8  # requests of equal bodies share an entry


@pytest.mark.parametrize("content", [b"", b"xtarget2", b"xtarget1" + bytes(8), bytes(100)])
def test_another_file_is_said_and_not_used(
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "prepared.bin"
    path.write_bytes(content)
    monkeypatch.setattr(prepared, "FILE", str(path))
    assert prepared.file.__wrapped__() is None
    assert "Install xtarget again." in caplog.text


def test_a_file_that_is_not_there_is_nothing_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prepared, "FILE", str(tmp_path / "none"))
    assert prepared.file.__wrapped__() is None
    assert not caplog.text


def test_each_hole_of_a_body_has_a_value() -> None:
    body = Body((), {"EACH": (2, 4), "STRIDE": (6, 1)}, b"ab....c!")
    assert filled(body, {"EACH": 0x01020304, "STRIDE": 9}) == b"ab\x04\x03\x02\x01\x09!"
    with pytest.raises(HoleError, match="the holes EACH, STRIDE, and values for EACH"):
        filled(body, {"EACH": 1})
