"""Bundles of kernels with few specializations, which are built in seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import xtarget
from xtarget import Target
from xtarget._bundle.builder import classes
from xtarget._bundle.builder.build import Order, Report, build
from xtarget._kernels import libraries
from xtarget.spec import Example

__all__ = ["built_of", "only_examples", "printed_with"]


@contextmanager
def only_examples(examples: dict[str, list[Example]], cache: Path) -> Iterator[pytest.MonkeyPatch]:
    """Builders see these examples of these kernels only, one number of compute units, and a cache
    of their own. The patch that is given takes more, and is undone at the end."""
    before = {name: libraries.find(name) for name in examples}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XTARGET_CACHE_DIR", str(cache))
        patch.setattr(classes, "COMPUTE_UNITS", (64,))
        for name, few in examples.items():
            kernel = before[name]
            spec = replace(kernel.spec, ahead=lambda full, few=few: few)
            libraries._kernels[name] = kernel.of(spec)
        try:
            yield patch
        finally:
            libraries._kernels.update(before)


def built_of(
    folder: Path, kernels: str, catalog: str, examples: dict[str, list[Example]]
) -> Report:
    """Build `folder/a.xtb` of a library of one's own, in float32 for CPUs.

    Args:
        kernels: text of the library's `kernels.py`.
        catalog: text of its `catalog.py`.
    """
    library = folder / "library"
    library.mkdir()
    (library / "kernels.py").write_text(kernels)
    (library / "catalog.py").write_text(catalog)
    xtarget.load_library(library)
    with only_examples(examples, folder / "cache"):
        order = Order(tuple(examples), ("float32",), (Target("cpu", "spirv64"),))
        return build(order, folder / "a.xtb", workers=1, seconds=100)


def printed_with(bundle: Path, folder: Path, code: str, *words: str) -> str:
    """The output of a new process that has this bundle and an empty cache; it runs in `folder`."""
    environment = os.environ | {
        "XTARGET_BUNDLES": str(bundle),
        "XTARGET_CACHE_DIR": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
