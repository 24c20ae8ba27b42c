"""Whatever changes the binary changes the key."""

from __future__ import annotations

import enum
import importlib
import sys
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from xtarget import Target, _cache
from xtarget._compile import functions, keys
from xtarget._kernels import kernel_files, sources
from xtarget._kernels.library import Library
from xtarget._kernels.sources import read_kernel_file
from xtarget._values.types import CompileRequest, DtypeConstant, KernelSource
from xtarget.targets._triton import identity, value_kinds
from xtarget.targets._triton import toolchain as _toolchain
from xtarget.targets._triton.code_names import names_of_source

SOURCE = KernelSource("add", "0" * 64, "/somewhere/add.py", lambda: None)
REQUEST = CompileRequest(
    source=SOURCE,
    signature=(("a", "*fp32"), ("n", "i32"), ("BLOCK", "constexpr")),
    constants=(("BLOCK", 1024),),
    aligned=("a",),
)
TARGET = Target("nvidia", "sm_90")
KERNELS = Path(__file__).parents[2] / "kernels"


def key(request: CompileRequest = REQUEST, target: Target = TARGET, toolchain: str = "t") -> str:
    return _cache.key_of(keys.key_parts(request, target, toolchain))


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


@pytest.mark.parametrize("name", [f.name for f in fields(CompileRequest) if f.compare])
def test_each_field_of_a_request_is_part_of_the_key(name: str) -> None:
    assert key(replace(REQUEST, **{name: CHANGES[name]})) != key()


def test_target_toolchain_and_entry_name_are_part_of_the_key() -> None:
    assert key(target=Target("nvidia", "sm_80")) != key()
    assert key(toolchain="u") != key()
    assert key(replace(REQUEST, source=replace(SOURCE, name="sub"))) != key()


def test_the_place_of_the_file_is_not() -> None:
    assert key(replace(REQUEST, source=replace(SOURCE, path="/elsewhere.py"))) == key()


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (1, 1.0), (0.0, -0.0), ("1", 1), (DtypeConstant("float32"), "float32")],
)
def test_constants_of_different_types_differ(one: object, other: object) -> None:
    first = replace(REQUEST, constants=(("BLOCK", one),))  # type: ignore[arg-type]
    second = replace(REQUEST, constants=(("BLOCK", other),))  # type: ignore[arg-type]
    assert key(first) != key(second)
    assert first != second  # what a process has loaded is looked up by the request itself
    options = [replace(REQUEST, options=(("maxnreg", value),)) for value in (one, other)]  # type: ignore[arg-type]
    assert options[0] != options[1]


@pytest.mark.parametrize("name", [f.name for f in fields(CompileRequest) if f.compare])
def test_requests_that_differ_in_a_field_are_not_equal(name: str) -> None:
    other = replace(REQUEST, **{name: CHANGES[name]})
    assert other != REQUEST
    assert replace(REQUEST) == REQUEST
    assert hash(REQUEST) == hash(replace(REQUEST))


def test_switches_of_the_compiler_change_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _toolchain.fingerprint()
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")  # in the middle of the process
    assert _toolchain.fingerprint() != plain
    monkeypatch.delenv("DISABLE_LLVM_OPT")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert _toolchain.fingerprint() == plain


JIT = "@triton.jit\n"


def library(folder: Path) -> Library:
    folder.mkdir()
    (folder / "catalog.py").write_text("KERNELS = ()\n")
    (folder / "helpers.py").write_text("import triton\n\n" + JIT + "def f(): return 1\n")
    (folder / "deeper.py").write_text("from .helpers import f\n")
    (folder / "unrelated.py").write_text("x = 1\n")
    (folder / "mine.py").write_text(
        "import triton\nfrom .deeper import f\n\n" + JIT + "def add(): ...\n"
    )
    return Library(folder)


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

    def stopped(request: CompileRequest, *others: object) -> list[tuple[str, str]]:
        asked.append(request)
        raise InterruptedError

    monkeypatch.setattr(functions, "key_parts", stopped)
    for options in ({}, {"fp64": False}, {"maxnreg": 8}):
        with pytest.raises(InterruptedError):
            functions.artifact(
                replace(REQUEST, options=(("maxnreg", 64),)), TARGET, options=options
            )
    assert [request.options for request in asked] == [
        (("maxnreg", 64),),
        (("fp64", False), ("maxnreg", 64)),
        (("maxnreg", 64),),
    ]


def test_a_class_that_holds_itself_in_a_list_has_a_text() -> None:
    class Node:
        known: ClassVar[list[type]] = []

    Node.known.append(Node)
    first = identity.text_of_value(Node, "Node")
    Node.known.append(int)
    assert identity.text_of_value(Node, "Node") != first


class Tagged(tuple):
    """A subclass whose objects have attributes."""


class Mode(enum.Enum):
    FAST = 1

    def __init__(self, value: int) -> None:
        self.level = value


@dataclass
class Shape:
    rows: int = 1

    def __post_init__(self) -> None:
        self.columns = 5


def test_attributes_of_an_object_are_part_of_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    tagged, number, shape = Tagged((1,)), type("Number", (int,), {})(1), Shape()
    for value, name in ((tagged, "k"), (number, "k"), (shape, "columns"), (Mode.FAST, "level")):
        monkeypatch.setattr(value, name, 5, raising=False)
        first = identity.text_of_value(value, "it")
        monkeypatch.setattr(value, name, 7)
        assert identity.text_of_value(value, "it") != first


def test_what_a_defaultdict_gives_for_other_keys_is_part_of_its_value() -> None:
    texts = {
        identity.text_of_value(defaultdict(factory), "it")
        for factory in (None, int, partial(int, 5), partial(int, 7))
    }
    assert len(texts) == 4


def test_what_is_remembered_of_a_file_is_for_what_is_beside_it(tmp_path: Path) -> None:
    made = library(tmp_path / "a").folder
    (made / "deeper.py").write_text("from .sub import f\n")
    (made / "sub").mkdir()
    (made / "sub" / "__init__.py").write_text("import triton\n\n" + JIT + "def f(): return 1\n")
    first = read_kernel_file(made, "mine")
    assert read_kernel_file(made, "mine") == first
    assert not first.dynamic
    (made / "sub" / "f.py").write_text("import os\n\nS = os.environ['S']\n")
    second = read_kernel_file(made, "mine")
    assert "sub.f" in second.texts
    assert second.dynamic


@pytest.mark.parametrize("file", sorted(p.stem for p in KERNELS.glob("*.py")))
def test_the_librarys_own_files_say_all_by_their_text(file: str) -> None:
    """Or its binaries would not be found without Triton."""
    if "@triton.jit" in (KERNELS / f"{file}.py").read_text(encoding="utf-8"):
        assert read_kernel_file(KERNELS, file).dynamic == ""


@pytest.mark.parametrize(
    ("values", "static"),
    [
        ("(1.0, *(2.0, -3.0), *OWN)", True),
        ("(1.0, *map(float, '23'))", False),
        ("(*(2.0, time.time()),)", False),
    ],
)
def test_a_tuple_of_tuples_that_are_written_out_is(
    values: str, static: bool, tmp_path: Path
) -> None:
    made = library(tmp_path / "a").folder
    (made / "mine.py").write_text(
        "import time\nimport triton\nimport triton.language as tl\n\nOWN = (4.0, 5.0)\n"
        f"S: tl.constexpr = tl.constexpr({values})\n\n" + JIT + "def add(): return S\n"
    )
    assert bool(read_kernel_file(made, "mine").dynamic) is not static


def test_a_remembered_file_is_not_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = library(tmp_path / "a").folder
    first = read_kernel_file(made, "mine")
    monkeypatch.delattr(sources.ast, "parse")
    assert read_kernel_file(made, "mine") == first


def test_an_import_below_a_function_counts_for_it(tmp_path: Path) -> None:
    made = library(tmp_path / "a").folder
    text = "import triton\n\n" + JIT + "def add(): return sys.maxsize\n\n\nimport sys\n"
    (made / "mine.py").write_text(text)
    assert "reads sys in add" in read_kernel_file(made, "mine").dynamic


def test_a_file_with_the_name_of_a_module_of_pythons_is_not_that_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = library(tmp_path / "a").folder
    (made / "mine.py").write_text(
        "import numbers\nimport triton\n\nS = numbers.S\n\n" + JIT + "def add(): return S\n"
    )
    assert not read_kernel_file(made, "mine").dynamic
    (tmp_path / "numbers.py").write_text("S = 5\n\n\ndef f():\n    return S\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "numbers", raising=False)
    value_kinds._is_pythons.cache_clear()
    try:
        assert "numbers" in read_kernel_file(made, "mine").dynamic
        numbers = importlib.import_module("numbers")
        value_kinds._is_pythons.cache_clear()
        first = identity.text_of_value(numbers.f, "f")
        monkeypatch.setattr(numbers, "S", 7)
        assert identity.text_of_value(numbers.f, "f") != first
    finally:
        monkeypatch.undo()
        value_kinds._is_pythons.cache_clear()


READS = """
def kernel(x_ptr, n, BLOCK):
    offsets = start + BLOCK
    x = load(x_ptr + offsets)
    y: int = x
    for step in range(n):
        total = x + inner
        total += step
    if FLAG:
        z, w = x, 1
        only = 1
    else:
        z, w = y, late
    late = z + w + only + total
    late += step
    again = again + 1
    while again:
        again = inner
    return late
"""


def test_names_that_a_function_reads_from_outside() -> None:
    """A name that is assigned on every way to a place is not the global of that name."""
    _, params, chains = names_of_source(READS.strip())
    found = {chain[0] for chain in chains} - params
    assert found == {
        *("start", "load", "int", "range", "inner", "FLAG"),
        *("late", "only", "total", "step", "again"),  # perhaps, where Triton's order takes them
    }


def test_other_threads_find_their_modules_while_a_kernel_file_is_read() -> None:
    usual = list(sys.meta_path)
    with kernel_files._imported_from({}, "xtarget_test_nothing"):
        walk = iter(sys.meta_path)  # as an import in another thread goes along it
        next(walk)
    assert list(walk) == usual
    assert sys.meta_path == usual


BUILTIN = "def own(x, _semantic=None):\n    y = {}\n    return tl.core.full(y, x)\n\n\n"


@pytest.mark.parametrize(
    ("before", "marked", "static"),
    [
        (BUILTIN.format("x"), True, True),
        (BUILTIN.format("x"), False, False),
        ("SIZE = 4\n\n\n" + BUILTIN.format("SIZE"), True, False),
        (BUILTIN.format("open(x)"), True, False),
    ],
)
def test_a_builtin_of_a_library_is_static_if_it_reads_the_language_only(
    before: str, marked: bool, static: bool, tmp_path: Path
) -> None:
    """Triton runs it while a kernel that calls it compiles."""
    made = library(tmp_path / "a").folder
    mark = "own.__triton_builtin__ = True\n\n\n" if marked else ""
    (made / "mine.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n"
        + before + mark + JIT + "def add(): return own(1)\n"
    )  # fmt: skip
    assert bool(read_kernel_file(made, "mine").dynamic) is not static
