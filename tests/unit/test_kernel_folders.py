"""Kernel libraries of the user's own: folders with a catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")


import xtarget
from xtarget._kernels import libraries
from xtarget.spec import (
    ArrayType,
)

X = ArrayType("float32", (1000,), (1,))
LIBRARY = """
from xtarget.spec import Input, KernelSpec, Launch, Output, Plan


def _plan(call):
    x = call.array(0)
    out = call.output(x.shape, x.dtype)
    args = {"x": Input(0), "out": Output(), "n": x.size}
    return Plan((out,), (Launch("kernels:negate", args, {}, (x.size, 1, 1)),))


KERNELS = (KernelSpec("negate", ("x",), _plan, summary="-x"),)
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def negate(x, out, n):
    i = tl.program_id(0)
    tl.store(out + i, -tl.load(x + i))
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "catalog.py").write_text(LIBRARY)
    (tmp_path / "kernels.py").write_text(TRITON)
    return tmp_path


def test_a_folder_with_a_catalog_is_a_library(library: Path) -> None:
    assert xtarget.load_library(library) == ("negate",)
    (artifact,) = xtarget.compile("negate", X, target="nvidia:sm_90")
    assert artifact.entry == "negate"


def test_the_variable_names_libraries(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_KERNELS", str(library))
    monkeypatch.setattr(libraries, "_ready", False)
    assert "negate" in xtarget.catalog()


def test_a_folder_without_a_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(xtarget.XTargetError, match=r"no catalog\.py"):
        xtarget.load_library(tmp_path)


def test_a_broken_catalog_is_refused_with_its_error(library: Path) -> None:
    (library / "catalog.py").write_text("KERNELS = 1 / 0\n")
    with pytest.raises(xtarget.XTargetError, match="ZeroDivisionError"):
        xtarget.load_library(library)


@pytest.mark.parametrize(
    ("catalog", "reason"),
    [
        ("KERNELS = (1, 2)", "contains 1, which is not an xtarget.spec.KernelSpec"),
        ("KERNELS = 5", "TypeError"),
        ("", "KERNELS"),
        ("import sys; sys.exit(5)", "SystemExit: 5"),
        ("KERNELS = (", "SyntaxError"),
    ],
)
def test_a_catalog_that_is_none_is_refused(library: Path, catalog: str, reason: str) -> None:
    (library / "catalog.py").write_text(catalog)
    with pytest.raises(xtarget.XTargetError) as caught:
        xtarget.load_library(library)
    assert str(caught.value).startswith(f"the catalog of {library} cannot be used: ")
    assert reason in str(caught.value)


def test_a_catalog_with_a_wrong_entry_adds_no_kernel(library: Path) -> None:
    renamed = LIBRARY.replace('"negate"', '"never_added"').replace('-x"),', '-x"), 1,')
    (library / "catalog.py").write_text(renamed)
    with pytest.raises(xtarget.XTargetError, match="contains 1"):
        xtarget.load_library(library)
    assert "never_added" not in xtarget.catalog()


@pytest.mark.parametrize("path", [None, 3, "a\0b"])
def test_a_library_that_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(xtarget.XTargetError, match="by the path of its folder"):
        xtarget.load_library(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (TRITON.replace("def negate(", "def negate(("), "kernels.py:7: "),
        ("a = '\0'", "kernels.py"),
        (TRITON.replace("negate", "other"), "kernels.py has no @triton.jit function 'negate'"),
        ("negate = 5", "kernels.py has no @triton.jit function 'negate'"),
        ("import no_such_module", "kernels.py cannot be imported: ModuleNotFoundError: No module"),
        ("import sys; sys.exit(5)", "kernels.py cannot be imported: SystemExit: 5"),
    ],
)
def test_a_triton_file_that_is_wrong_is_named(library: Path, file: str, message: str) -> None:
    (library / "kernels.py").write_text(file)
    xtarget.load_library(library)
    with pytest.raises(xtarget.CompileError) as caught:
        xtarget.compile("negate", X, target="nvidia:sm_90")
    assert f"{library}/{message}" in str(caught.value)
    assert "Correct" in str(caught.value)


def test_an_unknown_kernel_suggests_near_ones() -> None:
    with pytest.raises(xtarget.UnknownKernelError, match="Did you mean softmax"):
        xtarget.run("sofmax", [1.0])
    with pytest.raises(xtarget.UnknownKernelError, match="xtarget kernels"):
        xtarget.run("zzzzzz", [1.0])
    with pytest.raises(xtarget.UnknownKernelError, match="by its name"):
        xtarget.run(test_an_unknown_kernel_suggests_near_ones, 1.0)  # type: ignore[arg-type]
