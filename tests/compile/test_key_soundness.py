"""Whatever changes a binary changes its key: across processes, in any order, in every way in which
a kernel can read a value."""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

sys.path.insert(0, str(Path(__file__).parent))
import triton.compiler  # noqa: F401 (before the forks)
from key_worlds import (
    FEATURES,
    TARGET,
    FrontEnd,
    World,
    binaries,
    in_a_process,
    only_front_end,
    request_of,
)

from xtarget._compile import functions
from xtarget._kernels.library import Library


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    with only_front_end():
        yield


def loaded(folder: Path) -> tuple[Library, Any]:
    """The library of a world, and its module with the kernel."""
    library = Library(folder / "library")
    return library, importlib.import_module(f"{library.package}.mine")


def world_of(folder: Path, *features: str) -> World:
    world = World.make(folder, random.Random(0))
    world.features = features
    world.write()
    return world


def check(world: World, what: str, types: tuple[str, ...] = ("*fp32",)) -> None:
    for got, right in in_a_process(lambda: binaries(world, types)):
        assert got == right, f"after {what}: {world}"


def check_written(world: World, what: str, types: tuple[str, ...] = ("*fp32", "*fp16")) -> None:
    world.write()
    check(world, what, types)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 12))]
)
def test_random_changes_in_random_order(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    for number in range(2):
        world = World.make(tmp_path / f"world{number}", chosen)
        world.write()
        check(world, "the start")
        for _ in range(8):
            what = world.change(chosen)
            check_written(world, what, chosen.choice((("*fp32",), ("*fp32", "*fp16"))))


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_each_way_to_read_a_value(tmp_path: Path, feature: str) -> None:
    world = world_of(tmp_path, feature)
    for value in (5, 7, 5, 9):
        for name in ("closed", "member", "base", "level", "lift"):
            world.values[name] = value
        world.environment, world.data = str(value), value
        check_written(world, f"{feature}={value}", ("*fp32",))


def test_a_constant_that_changes_between_two_specializations(tmp_path: Path) -> None:
    world = world_of(tmp_path)

    def five_then_seven() -> None:
        import triton.language as tl

        library, module = loaded(tmp_path)
        for value, type_ in ((5, "*fp32"), (7, "*fp16")):
            module.A = tl.constexpr(value)
            functions.artifact(request_of(library, type_), TARGET)

    in_a_process(five_then_seven)
    world.values["a"] = 5
    check_written(world, "5, then 7, then a process with 5")


def test_a_constant_whose_inner_value_is_set(tmp_path: Path) -> None:
    world = world_of(tmp_path)

    def set_inside() -> None:
        library, module = loaded(tmp_path)
        first = functions.artifact(request_of(library), TARGET).binary
        module.A.value = 77
        assert functions.artifact(request_of(library), TARGET).binary != first

    in_a_process(set_inside)
    check(world, "a value that another process had set")


def test_a_file_that_is_edited_between_digest_and_import_and_back(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    check(world, "the start")

    def hit_edit_compile() -> None:
        library = Library(tmp_path / "library")
        functions.artifact(request_of(library), TARGET)
        assert FrontEnd.compiled == 0  # from the cache: nothing was imported
        path = tmp_path / "library" / "mine.py"
        path.write_text(path.read_text().replace("A = tl.constexpr(", "A = tl.constexpr(40 + "))
        functions.artifact(request_of(library, "*fp16"), TARGET)

    FrontEnd.compiled = 0
    in_a_process(hit_edit_compile)
    check_written(world, "the edit and its end")


def test_a_replaced_callee(tmp_path: Path) -> None:
    world = world_of(tmp_path)

    def replace() -> None:
        library, module = loaded(tmp_path)
        module.own = module.with_default
        functions.artifact(request_of(library), TARGET)

    in_a_process(replace)
    check(world, "a function that another process had replaced")


def test_what_has_no_text_is_not_kept(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    path = tmp_path / "library" / "mine.py"
    path.write_text(
        path.read_text()
        .replace(
            "@triton.jit\ndef own",
            "@triton.constexpr_function\ndef now():\n"
            "    import time\n\n    return int(time.time_ns() % 1000)\n\n\n@triton.jit\ndef own",
        )
        .replace("return v + A", "return v + now()")
    )

    def compile_twice() -> tuple[int, str]:
        library = Library(tmp_path / "library")
        functions.artifact(request_of(library), TARGET)
        return FrontEnd.compiled, request_of(library).source.unidentified

    FrontEnd.compiled = 0
    assert in_a_process(compile_twice)[0] == 1
    compiled, why = in_a_process(compile_twice)
    assert compiled == 1
    assert "time" in why
    assert world.folder.is_dir()


def test_what_changes_no_binary_changes_no_key(tmp_path: Path) -> None:
    def digest(folder: Path) -> str:
        sys.path.insert(0, str(folder))
        return request_of(Library(folder / "library")).source.digest

    static, computed = world_of(tmp_path / "a"), world_of(tmp_path / "b", "environment")
    moved = world_of(tmp_path / "c", "environment")
    os.utime(tmp_path / "c" / "library" / "mine.py", (1, 1))
    (tmp_path / "c" / "library" / "unused.py").write_text("x = 1\n")
    helper = tmp_path / "c" / "library" / "helper.py"
    helper.write_text(helper.read_text() + "\n# a comment\n\nUNUSED = 3\n")
    of = {w.folder.name: in_a_process(lambda w=w: digest(w.folder)) for w in (computed, moved)}
    assert of["b"] == of["c"]
    assert in_a_process(lambda: digest(static.folder)) != of["b"]
