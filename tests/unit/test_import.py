"""`import xtarget` is light, and its names are what the package says they are."""

from __future__ import annotations

import subprocess
import sys

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
    loaded = loaded_after("import xtarget; xtarget.catalog()")
    assert not loaded & (set(HEAVY) - {"numpy"})


def test_asking_for_drivers_and_compilers_loads_neither_side_of_them() -> None:
    loaded = loaded_after(
        "from xtarget import _registry\n"
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
