"""Whatever changes a binary changes its key: ways in which a process comes by other code under the
same name. Beside `test_key_soundness`, which is about values."""

from __future__ import annotations

import importlib
import linecache
import os
import py_compile
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("triton")

sys.path.insert(0, str(Path(__file__).parent))
import triton.compiler  # noqa: F401 (before the forks)
from key_worlds import TARGET, FrontEnd, in_a_process, only_front_end

from xtarget._compile import functions
from xtarget._compile.keys import key_parts
from xtarget._kernels.decorator import loaded_source
from xtarget._kernels.library import Library
from xtarget._values.types import CompileRequest, KernelSource

KERNEL = """
import triton
import triton.language as tl
{imports}
LEVEL = tl.constexpr({level})
{more}

@triton.jit
def kernel(x, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i) + {literal} + LEVEL
    {lines}
    tl.store(o + i, v)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    with only_front_end():
        yield


def text(
    level: int = 1, literal: int = 1, imports: str = "", more: str = "", lines: str = "pass"
) -> str:
    return KERNEL.format(level=level, literal=literal, imports=imports, more=more, lines=lines)


def request_of(source: KernelSource) -> CompileRequest:
    return CompileRequest(
        source=source,
        signature=(("x", "*fp32"), ("o", "*fp32"), ("BLOCK", "constexpr")),
        constants=(("BLOCK", 16),),
    )


def settle(source: KernelSource) -> bytes:
    """The cache's artifact, after a comparison with a compiler's in the same process."""
    got = functions.artifact(request_of(source), TARGET).binary
    right = FrontEnd().compile(request_of(source), TARGET).binary
    assert got == right
    return got


def imported(folder: Path, name: str = "mine") -> ModuleType:
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def of_user(folder: Path, name: str = "mine") -> bytes:
    """In a new process: the kernel of a user's module."""
    return bytes(in_a_process(lambda: settle(loaded_source(imported(folder, name).kernel, name))))


def of_library(folder: Path) -> bytes:
    """In a new process: the kernel of a library."""
    return bytes(in_a_process(lambda: settle(Library(folder).source("mine:kernel"))))


def write(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "mine.py"
    path.write_text(text(**changes))
    (folder / "catalog.py").write_text("KERNELS = ()\n")
    return path


@pytest.mark.parametrize("of", [of_user, of_library])
def test_bytecode_of_an_older_text(tmp_path: Path, of: Callable[[Path], bytes]) -> None:
    """Python goes by time and size, and loads the old constants; Triton compiles the new text."""
    path = write(tmp_path, level=5, literal=3)
    state = os.stat(path)
    old = of(tmp_path)
    compiled = Path(py_compile.compile(str(path)) or "")
    path.write_text(text(level=7, literal=4))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    mixed = of(tmp_path)  # `LEVEL` of before
    compiled.unlink()
    sys.dont_write_bytecode = True
    new = of(tmp_path)
    assert len({old, mixed, new}) == 3


@pytest.mark.parametrize(
    "line", ['tl.static_assert(BLOCK > 1, "few")', 'tl.device_assert(i < 99, "far")']
)
def test_a_kernel_with_an_assertion_has_one_key_before_and_after_its_import(
    tmp_path: Path, line: str
) -> None:
    """Its place is in the binary, so in the key; a warm-up and the program after it read it in
    different ways."""
    path = write(tmp_path, level=5, literal=3)
    path.write_text(ALONE.format(literal=3) + f"    {line}\n")

    def keys() -> list[list[tuple[str, str]]]:
        library = Library(tmp_path)
        found = []
        for _ in range(2):
            source = library.source("mine:kernel")
            found.append(key_parts(request_of(source), TARGET, "tools"))
            source.load()
        return found

    before, after = in_a_process(keys)
    assert before == after
    assert str(path) in dict(before)["places"]


ALONE = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i) + {literal})
"""


@pytest.mark.parametrize("library", [False, True])
def test_a_module_that_is_loaded_again(tmp_path: Path, library: bool) -> None:
    """No name that the function reads leads elsewhere then: only itself is another one."""
    path = write(tmp_path)
    path.write_text(ALONE.format(literal=3))

    def reload() -> list[bytes]:
        sys.dont_write_bytecode = True
        if library:
            known = Library(tmp_path)
            found = [settle(known.source("mine:kernel"))]
            module = sys.modules[f"{known.package}.mine"]
        else:
            module = imported(tmp_path)
            found = [settle(loaded_source(module.kernel, "mine"))]
        for literal in (44, 555):
            path.write_text(ALONE.format(literal=literal))
            importlib.reload(module)
            found.append(
                settle(
                    known.source("mine:kernel") if library else loaded_source(module.kernel, "mine")
                )
            )
        return found

    assert len(set(in_a_process(reload))) == 3


def test_one_file_under_two_names(tmp_path: Path) -> None:
    write(tmp_path / "package", level=3)

    def both() -> tuple[bytes, bytes]:
        import triton.language as tl

        one, other = imported(tmp_path, "package.mine"), imported(tmp_path / "package")
        other.LEVEL = tl.constexpr(4)
        return settle(loaded_source(one.kernel, "a")), settle(loaded_source(other.kernel, "b"))

    one, other = in_a_process(both)
    assert one != other
    assert of_user(tmp_path / "package") == one


@pytest.mark.parametrize("of", [of_user, of_library])
def test_a_folder_that_is_a_link(tmp_path: Path, of: Callable[[Path], bytes]) -> None:
    write(tmp_path / "one", level=3)
    write(tmp_path / "two", level=4)
    link, found = tmp_path / "current", []
    for name in ("one", "two", "one"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        found.append(of(link))
    assert found[0] == found[2] != found[1]


def test_packages_of_several_folders(tmp_path: Path) -> None:
    for name, level in (("a", 3), ("b", 4)):
        folder = tmp_path / name / "spread"
        folder.mkdir(parents=True)
        write(folder, level=level)
    (tmp_path / "b" / "spread" / "other.py").write_text("")

    def first(name: str) -> bytes:
        sys.path.insert(0, str(tmp_path / ("a" if name == "b" else "b")))
        return settle(loaded_source(imported(tmp_path / name, "spread.mine").kernel, "mine"))

    one, other = in_a_process(lambda: first("a")), in_a_process(lambda: first("b"))
    assert one != other
    assert in_a_process(lambda: first("a")) == one


def test_modules_in_an_archive(tmp_path: Path) -> None:
    found = []
    for level in (3, 4, 3):
        with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
            archive.writestr("mine.py", text(level=level))
        found.append(of_user(tmp_path / "code.zip"))
    assert found[0] == found[2] != found[1]


def test_a_module_that_computes_its_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy.py").write_text(
        "import os\nimport triton.language as tl\n\ndef __getattr__(name):\n"
        "    if name == 'SIZE':\n        return tl.constexpr(int(os.environ['LAZY']))\n"
        "    raise AttributeError(name)\n"
    )
    write(tmp_path, imports="import lazy", lines="v = v + lazy.SIZE")
    found = []
    for value in ("3", "4", "3"):
        monkeypatch.setenv("LAZY", value)
        found.append(of_user(tmp_path))
    assert found[0] == found[2] != found[1]


def test_code_that_is_no_file(tmp_path: Path) -> None:
    """A notebook's cells: `inspect` finds their text in `linecache`."""

    def cells() -> list[bytes]:
        found = []
        for number, level in enumerate((3, 4, 3)):
            cell = text(level=1, literal=level)
            file = f"<cell {number // 3}>"  # the same name again
            linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
            names: dict[str, Any] = {"__name__": "__main__"}
            exec(compile(cell, file, "exec"), names)
            found.append(settle(loaded_source(names["kernel"], file)))
        return found

    one, other, again = in_a_process(cells)
    assert one == again != other
    assert in_a_process(cells) == [one, other, again]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n"
            "    size: int = {n}\n\nCONFIG = tl.constexpr(C())",
            "v = v + CONFIG.size",
        ),
        (
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n"
            "    size: int\n\nCONFIG = tl.constexpr(C({n}))",
            "v = v + CONFIG.size",
        ),
        (
            "class Base:\n    size = {n}\n\nclass C(Base):\n    pass\n\n"
            "@triton.constexpr_function\ndef computed():\n    return C.size",
            "v = v + computed()",
        ),
        (
            "TABLE = {{'a': {n}}}\n\n@triton.constexpr_function\ndef computed(name):\n"
            "    return TABLE[name]",
            "v = v + computed('a')",
        ),
        (
            "@triton.jit\ndef helped(v, c: tl.constexpr = {n}):\n    return v + c\n\n"
            "calls = tl.constexpr((helped, helped))",
            "v = calls[0](v)",
        ),
    ],
    ids=[
        *("dataclass default", "dataclass", "base class", "table", "callees in a tuple"),
    ],
)
def test_where_a_value_may_stand(tmp_path: Path, more: str, line: str) -> None:
    found = []
    for number in (3, 4, 3):
        write(tmp_path, more=more.format(n=number), lines=line)
        sys.dont_write_bytecode = True
        found.append(of_user(tmp_path))
    assert found[0] == found[2] != found[1]


def test_imports_for_type_checkers_only(tmp_path: Path) -> None:
    """Names under `TYPE_CHECKING` are not there when the kernel is compiled."""
    found = []
    for level in (3, 4):
        (tmp_path / "types_only.py").write_text(f"SIZE = {level}\n")
        write(
            tmp_path,
            imports="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from types_only import SIZE\nelse:\n    SIZE = tl.constexpr(9)",
            lines="v = v + SIZE",
        )
        found.append((of_user(tmp_path), of_library(tmp_path)))
    assert found[0] == found[1]


@pytest.mark.parametrize("place", ["triton.language", "triton.language.standard"])
def test_a_function_of_tritons_that_was_replaced(tmp_path: Path, place: str) -> None:
    (tmp_path / "instead.py").write_text(
        "import triton\nimport triton.language as tl\n\n"
        "@triton.jit\ndef sigmoid(x):\n    return x + 77.0\n"
    )
    write(tmp_path, lines="v = tl.sigmoid(v)")
    plain = of_user(tmp_path)

    def patched() -> bytes:
        kernel = imported(tmp_path).kernel
        vars(importlib.import_module(place))["sigmoid"] = imported(tmp_path, "instead").sigmoid
        return settle(loaded_source(kernel, "mine"))

    changed = bytes(in_a_process(patched))
    assert (changed != plain) == (place == "triton.language")
    assert of_user(tmp_path) == plain


def test_a_function_of_a_tool_of_tritons_that_was_replaced(tmp_path: Path) -> None:
    write(
        tmp_path,
        imports="import triton.tools.ragged_tma as ragged",
        lines="v = v + ragged.named(3)",
    )

    def patched(number: int) -> bytes:
        import triton.tools.ragged_tma as ragged

        (tmp_path / f"instead{number}.py").write_text(
            f"import triton\n\n@triton.constexpr_function\ndef named(n):\n    return n + {number}\n"
        )
        ragged.named = imported(tmp_path, f"instead{number}").named
        return settle(loaded_source(imported(tmp_path).kernel, "mine"))

    one, other = (in_a_process(lambda n=n: patched(n)) for n in (1, 2))
    assert one != other
