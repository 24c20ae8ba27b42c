"""Whatever changes the binary changes the key."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from xtarget import Target, _build, _cache, _kernels
from xtarget._types import CompileRequest, DtypeConstant, KernelSource
from xtarget.targets import _triton

SOURCE = KernelSource("add", "0" * 64, "/somewhere/add.py", lambda: None)
REQUEST = CompileRequest(
    source=SOURCE,
    signature=(("a", "*fp32"), ("n", "i32"), ("BLOCK", "constexpr")),
    constants=(("BLOCK", 1024),),
    aligned=("a",),
)
TARGET = Target("nvidia", "sm_90")


def key(request: CompileRequest = REQUEST, target: Target = TARGET, toolchain: str = "t") -> str:
    return _cache.key_of(_build.key_parts(request, target, toolchain))


CHANGES = {
    "source": replace(SOURCE, digest="1" * 64),
    "signature": (("a", "*fp16"), ("n", "i32"), ("BLOCK", "constexpr")),
    "constants": (("BLOCK", 512),),
    "aligned": (),
    "num_warps": 8,
    "num_stages": 3,
    "line_info": True,
    "options": (("maxnreg", 64),),
}


@pytest.mark.parametrize("name", [f.name for f in fields(CompileRequest)])
def test_each_field_of_a_request_is_part_of_the_key(name: str) -> None:
    assert key(replace(REQUEST, **{name: CHANGES[name]})) != key()


def test_target_toolchain_and_entry_name_are_part_of_the_key() -> None:
    assert key(target=Target("nvidia", "sm_80")) != key()
    assert key(toolchain="u") != key()
    assert key(replace(REQUEST, source=replace(SOURCE, name="sub"))) != key()


def test_the_place_of_the_file_is_not() -> None:
    assert key(replace(REQUEST, source=replace(SOURCE, path="/elsewhere.py"))) == key()


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), (1, 1.0), ("1", 1), (DtypeConstant("float32"), "float32")]
)
def test_constants_of_different_types_differ(one: object, other: object) -> None:
    first = replace(REQUEST, constants=(("BLOCK", one),))  # type: ignore[arg-type]
    second = replace(REQUEST, constants=(("BLOCK", other),))  # type: ignore[arg-type]
    assert key(first) != key(second)


def test_switches_of_the_compiler_change_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint() -> str:
        _triton.fingerprint.cache_clear()
        return _triton.fingerprint()

    plain = fingerprint()
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert fingerprint() != plain
    monkeypatch.delenv("DISABLE_LLVM_OPT")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert fingerprint() == plain
    monkeypatch.undo()
    _triton.fingerprint.cache_clear()


def library(folder: Path) -> _kernels.Library:
    folder.mkdir()
    (folder / "catalog.py").write_text("KERNELS = ()\n")
    (folder / "helpers.py").write_text("def f(): return 1\n")
    (folder / "deeper.py").write_text("from .helpers import f\n")
    (folder / "unrelated.py").write_text("x = 1\n")
    (folder / "mine.py").write_text("import triton\nfrom .deeper import f\n\ndef add(): ...\n")
    return _kernels.Library(folder)


@pytest.mark.parametrize("file", ["mine", "deeper", "helpers"])
def test_a_kernels_digest_covers_every_file_it_uses(tmp_path: Path, file: str) -> None:
    before = library(tmp_path / "a").source("mine:add").digest
    again = library(tmp_path / "b")
    assert again.source("mine:add").digest == before  # the folder's place does not matter
    third = library(tmp_path / "c")
    path = third.folder / f"{file}.py"
    path.write_text(path.read_text() + "# changed\n")
    assert third.source("mine:add").digest != before


def test_a_kernels_digest_covers_nothing_else(tmp_path: Path) -> None:
    before = library(tmp_path / "a").source("mine:add").digest
    other = library(tmp_path / "b")
    (other.folder / "unrelated.py").write_text("x = 2\n")
    assert other.source("mine:add").digest == before


def test_options_of_a_device_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def stopped(request: CompileRequest, target: Target, toolchain: str) -> list[tuple[str, str]]:
        asked.append(request)
        raise InterruptedError

    monkeypatch.setattr(_build, "key_parts", stopped)
    for options in ({}, {"fp64": False}, {"maxnreg": 8}):
        with pytest.raises(InterruptedError):
            _build.artifact(replace(REQUEST, options=(("maxnreg", 64),)), TARGET, options=options)
    assert [request.options for request in asked] == [
        (("maxnreg", 64),),
        (("fp64", False), ("maxnreg", 64)),
        (("maxnreg", 64),),
    ]
