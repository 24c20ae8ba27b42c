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

from xtarget._bundle.builder import classes
from xtarget._kernels import libraries
from xtarget.spec import Example

__all__ = ["only_examples", "printed_with"]


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
            libraries._kernels[name] = replace(kernel, spec=spec)
        try:
            yield patch
        finally:
            libraries._kernels.update(before)


def printed_with(bundle: Path, folder: Path, code: str, *words: str) -> str:
    """What a new process prints that has this bundle and an empty cache; it runs in `folder`."""
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
