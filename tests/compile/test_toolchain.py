"""The tool chain's identity: version and content, never path or time; knobs and variables as they
are at each compilation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed here")

from module_imports import reachable
from toolchain_files import replaced, settings

from xtarget._devices import registry
from xtarget.targets._triton import toolchain

ROOT = Path(__file__).resolve().parents[2]

#: Compiles one kernel for NVIDIA by way of the cache, and says how it got it.
COMPILE = """
import xtarget
from xtarget.spec import ArrayType
layout = ArrayType("float32", (64,), (1,))
(made,) = xtarget.compile("mul", layout, 2.0, target="nvidia:sm_90")
stats = xtarget.cache_stats()
print(stats.compiles, stats.remote_hits)
"""

#: What a copy of Triton shares with the original: too large to copy for a test.
LARGE = 1 << 20


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with the same Triton, at other places, with other times and inodes."""
    import triton

    root = Path(triton.__file__).parent
    made = []
    for name in ("one", "two/site-packages"):
        folder = tmp_path_factory.mktemp(name.partition("/")[0]) / name
        for path in sorted(root.rglob("*")):
            if path.is_dir() or "__pycache__" in path.parts or "include" in path.parts:
                continue
            copy = folder / "triton" / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.stat().st_size < LARGE:
                shutil.copyfile(path, copy)
                copy.chmod(path.stat().st_mode)
                os.utime(copy, (1e9 + len(made), 1e9 + len(made)))
            else:
                copy.symlink_to(path)
        made.append(folder)
    return made


Process = Callable[..., str]


@pytest.fixture
def process(tmp_path: Path) -> Process:
    """Runs code with the Triton of a folder, an own cache folder and one remote store."""

    def run(code: str, tree: Path, cache: str, **variables: str) -> str:
        env = {
            **os.environ,
            **variables,
            "PYTHONPATH": os.pathsep.join([str(tree), str(ROOT / "src")]),
            "XTARGET_CACHE_DIR": str(tmp_path / cache),
            "XTARGET_CACHE_REMOTE": f"file://{tmp_path / 'remote'}",
            "XTARGET_CACHE_REMOTE_WRITE": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


# ------------------------------------------------------------------------------- two installations


def test_two_installations_of_the_same_files_share_a_remote_store(
    trees: list[Path], process: Process
) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed here")
    assert process(COMPILE, trees[0], "a") == "1 0"
    assert process(COMPILE, trees[1], "b") == "0 1"


def test_a_tool_that_is_replaced_where_it_lies_is_another_one(
    trees: list[Path], process: Process, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed here")
    tree = trees[0] / "triton"
    nvidia = tree / "backends" / "nvidia"
    ptxas, libdevice = tmp_path / "my-ptxas", tmp_path / "libdevice.bc"
    wrapper = f'#!/bin/sh\nexec {nvidia / "bin" / "ptxas"} "$@"\n'
    ptxas.write_text(wrapper)
    ptxas.chmod(0o755)
    shutil.copyfile(nvidia / "lib" / "libdevice.10.bc", libdevice)
    given = {"TRITON_PTXAS_PATH": str(ptxas), "TRITON_LIBDEVICE_PATH": str(libdevice)}

    def how() -> str:
        return process(COMPILE, trees[0], "a", **given)

    assert how() == "1 0"
    for changed in (nvidia / "compiler.py", tree / "tools" / "ragged_tma.py"):
        before = changed.read_text()
        try:
            replaced(changed, before + "\n# edited\n")
            assert how() == "1 0", changed.name
        finally:
            replaced(changed, before)
    assert how() == "0 0"
    replaced(ptxas, wrapper + "# another\n")
    assert how() == "1 0"
    with libdevice.open("ab") as file:
        file.write(b"\0")
    assert how() == "1 0"


EDITED_MEANWHILE = """
import logging, sys, triton.backends.nvidia.compiler as compiler
logging.basicConfig()
with open(compiler.__file__, "a") as file:
    file.write("\\n# edited while it is loaded\\n")
"""


def test_triton_that_is_edited_while_it_is_loaded_leaves_nothing(
    trees: list[Path], process: Process
) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed here")
    compiler = trees[1] / "triton" / "backends" / "nvidia" / "compiler.py"
    before = compiler.read_text()
    try:
        # what is compiled now is the text before, and the file says another
        assert process(EDITED_MEANWHILE + COMPILE, trees[1], "c") == "1 0"
        assert process(COMPILE, trees[1], "c") == "1 0"
    finally:
        compiler.write_text(before)


# ------------------------------------------------------------------------ the settings of a process


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PTXAS_OPTIONS", "-O1"),
        ("TRITON_F32_DEFAULT", "ieee"),
        ("TRITON_FORCE_DISABLE_FP_FUSION", "1"),
        ("DISABLE_PTXAS_OPT", "1"),
        ("NVPTX_ENABLE_DUMP", "1"),
        ("TRITON_DEBUG", "1"),
    ],
)
def test_a_variable_counts_from_when_it_is_set(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    before = settings()
    monkeypatch.setenv(name, value)
    assert settings() != before
    monkeypatch.delenv(name)
    assert settings() == before


def test_a_knob_that_is_set_in_python_counts_as_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import triton

    before = settings()
    with triton.knobs.language.scope(), triton.knobs.nvidia.scope(), triton.knobs.runtime.scope():
        triton.knobs.nvidia.ptxas_options = "-O1"
        by_knob = settings()
        triton.knobs.nvidia.reset()
        monkeypatch.setenv("PTXAS_OPTIONS", "-O1")
        assert settings() == by_knob != before
        monkeypatch.delenv("PTXAS_OPTIONS")
        triton.knobs.runtime.debug = not triton.knobs.runtime.debug
        assert settings() != before
    assert settings() == before


def test_what_a_compilation_sets_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread asks meanwhile, whether the user has set anything or nothing."""
    import triton

    for value in (None, "-O1"):
        if value is not None:
            monkeypatch.setenv("PTXAS_OPTIONS", value)
        before = settings()
        with toolchain.settings_of_a_compilation(), triton.knobs.runtime.scope():
            triton.knobs.runtime.debug = not triton.knobs.runtime.debug
            assert settings() == before
        assert settings() == before


def test_a_compilation_that_begins_while_it_is_looked_is_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import triton

    before, looked = settings(), toolchain._settings
    with ExitStack() as stack:

        def begins() -> list[str]:
            monkeypatch.setattr(toolchain, "_settings", looked)
            stack.enter_context(toolchain.settings_of_a_compilation())
            stack.enter_context(triton.knobs.runtime.scope())
            triton.knobs.runtime.debug = not triton.knobs.runtime.debug
            return looked()

        monkeypatch.setattr(toolchain, "_settings", begins)
        assert settings() == before
    assert settings() == before


def test_ptxas_options_that_are_set_after_the_import_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Triton reads them when it is imported: what the key says would not be what is done."""
    import triton.compiler  # noqa: F401

    monkeypatch.setenv("PTXAS_OPTIONS", "-O0")
    compiler = registry.compiler("nvidia")
    assert compiler._options() == {"ptx_options": "-O0"}  # type: ignore[attr-defined]


def test_a_replaced_function_of_tritons_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton.language as tl
    from triton.backends.nvidia import compiler
    from triton.language.extra.cuda import libdevice

    before = settings()
    monkeypatch.setattr(libdevice, "exp", libdevice.sin)
    assert "replaced triton.language.extra.cuda.libdevice.exp" in settings()
    monkeypatch.undo()
    assert settings() == before

    def make_ptx(*args: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(compiler.CUDABackend, "make_ptx", make_ptx)
    assert "CUDABackend.make_ptx" in settings()
    monkeypatch.undo()
    monkeypatch.setattr(tl, "sum", tl.max)
    assert settings() != before


def test_a_stages_hook_is_known_by_its_code_or_nothing_is_kept() -> None:
    import triton

    def hook(offset: object) -> Callable[..., object]:
        def stages(*args: object) -> object:
            return offset

        return stages

    found = []
    with triton.knobs.runtime.scope():
        for offset in (1, 2, 1, object()):
            triton.knobs.runtime.add_stages_inspection_hook = hook(offset)
            found.append(settings())
    assert found[0] != found[1]
    assert found[0] == found[2]
    assert [bool(toolchain.unidentified(text)) for text in found] == [False, False, False, True]


def test_override_files_count_by_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path))
    plain = settings()
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    (tmp_path / "ABC").mkdir()
    first = settings()
    (tmp_path / "ABC" / "add.ttgir").write_text("one")
    second = settings()
    (tmp_path / "ABC" / "add.ttgir").write_text("two")
    assert len({plain, first, second, settings()}) == 4


def test_files_that_options_name_count_by_content(tmp_path: Path) -> None:
    from xtarget._compile import keys

    one, other = tmp_path / "a.ttgir", tmp_path / "b.ttgir"
    one.write_text("module {}")
    other.write_text("module {}")
    options = (("ir_override", str(one)),)
    before = keys._with_contents(options)
    assert before == keys._with_contents((("ir_override", str(other)),))
    one.write_text("module { }")
    assert keys._with_contents(options) != before


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel", "cpu"])
def test_our_own_compiler_code_counts(vendor: str) -> None:
    compiler = registry.compiler(vendor)
    own = getattr(compiler, "OWN", None) or compiler._own  # type: ignore[attr-defined]
    patterns = (*toolchain._OWN_FILES, *own)
    there = {str(p) for pattern in patterns for p in (ROOT / "src" / "xtarget").glob(pattern)}
    decides_nothing = {  # which files count, who is asked, how errors are worded
        *("base", "_host.contents", "_host.machine", "_host.programs"),
        "amd.archs",
        *(
            "_triton.code_names",
            "_triton.frozen",
            "_triton.identity",
            "_triton.importing",
            "_triton.lines",
        ),
        *("_triton.reason", "_triton.replaced", "_triton.toolchain", "_triton.value_kinds"),
        "_triton.value_texts",
    }
    for module in reachable(f"xtarget.targets.{vendor}.compiler"):
        inner = module.removeprefix("xtarget.targets.")
        path = ROOT / "src" / "xtarget" / "targets" / (inner.replace(".", "/") + ".py")
        if inner not in decides_nothing and path.is_file():
            assert str(path) in there, f"{module} is not part of the keys of {vendor}"


# ------------------------------------------------------------------------------ remembered contents
