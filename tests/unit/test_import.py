"""`import xtarget` is light, and its names are what the package says they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import xtarget

#: What a program that imports xtarget does not want to pay for.
HEAVY = (
    "triton",
    "llvmlite",
    "numpy",
    "torch",
    "cuda",
    "hip",
    "dpctl",
    "pyopencl",
    "click",
    "rich",
)


def loaded_after(code: str) -> set[str]:
    """Top-level packages in a fresh interpreter after some code."""
    script = f"import sys\n{code}\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_loads_no_binding_no_compiler_no_array_library() -> None:
    assert not loaded_after("import xtarget") & set(HEAVY)


def test_the_catalog_needs_no_compiler() -> None:
    """Nor what takes as long as all the rest, for no more than names."""
    loaded = loaded_after("import xtarget; xtarget.catalog()")
    assert not loaded & (set(HEAVY) - {"numpy"} | {"dataclasses", "inspect"})


def test_asking_for_drivers_and_compilers_loads_neither_side_of_them() -> None:
    loaded = loaded_after(
        "from xtarget._devices import registry as _registry\n"
        "for vendor in ('nvidia', 'amd', 'intel', 'cpu'):\n"
        "    _registry.compiler(vendor).fingerprint\n"
        "    _registry.driver(vendor)"
    )
    assert not loaded & {"triton", "llvmlite", "torch", "dpctl", "pyopencl", "hip", "cuda"}


def test_every_public_name_exists() -> None:
    assert sorted(xtarget.__all__) == xtarget.__all__
    for name in xtarget.__all__:
        assert getattr(xtarget, name) is not None
    assert set(xtarget.__all__) <= set(dir(xtarget))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        xtarget.no_such_name  # noqa: B018


def test_a_star_import_hides_no_builtin() -> None:
    script = "from xtarget import *\nprint(compile('1 + 1', '', 'eval').co_code is not None, run)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert callable(xtarget.compile)
    assert "compile" in dir(xtarget)


TYPED = """\
import numpy as np
import xtarget

out = np.ones(3)
result: np.ndarray = xtarget.run("relu", out, out=out)
number: int = xtarget.run("relu", out, out=out)
xtarget.compile("relu", out, target="cpu")
xtarget.rnu("relu", out)
try:
    xtarget.asarray(out).item()
except xtarget.KernelFault:
    pass
"""


def test_a_type_checker_finds_a_misspelt_name(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    wrong = [line.partition("error: ")[0] for line in done.stdout.splitlines() if "error:" in line]
    lines = sorted({int(where.split(":")[-2]) for where in wrong if "program.py" in where})
    assert lines == [6, 8], done.stdout
    assert 'has no attribute "rnu"' in done.stdout
