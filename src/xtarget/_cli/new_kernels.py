"""`xtarget new-kernels DIR`: a small package of kernels, to begin with."""

from __future__ import annotations

import json
import keyword
import re
from pathlib import Path

import click

from .._values.errors import ArgumentError
from .base import Command, echo, json_option

__all__ = ["new_kernels", "write_package"]

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "NAME"
version = "0.1.0"
description = "Triton kernels that run on every vendor's devices"
requires-python = ">=3.11"
dependencies = ["xtarget"]

[project.optional-dependencies]
test = ["pytest>=8", "xtarget[cpu,compile,emulate]"]

# by this xtarget finds the folder of catalog.py, for a name that it does not know otherwise
[project.entry-points."xtarget.kernels"]
NAME = "NAME"

[tool.hatch.build.targets.wheel]
packages = ["src/NAME"]

[[tool.mypy.overrides]] # Triton has no type information
module = ["triton.*"]
ignore_missing_imports = true
"""

_INIT = '''\
"""Kernels for `xtarget.run`; `catalog.py` lists them."""
'''

_CATALOG = '''\
"""The kernels of the package: a `KernelSpec` for each. This file never imports Triton."""

from xtarget import ArgumentError
from xtarget.spec import Call, Example, Input, KernelSpec, Launch, Output, Plan, Scalar, cdiv

BLOCK = 1024


def scaled(call: Call) -> Plan:
    """From the arguments' layouts to the result's layout and the launches."""
    x = call.array(0)
    if not x.contiguous:
        raise ArgumentError(f"{call.kernel}: x is not contiguous. Pass a copy of it.")
    out = call.output(x.shape, x.dtype)
    launch = Launch(
        source="scaled:scaled",  # file:function
        args={
            "x": Input(0),
            "out": Output(),
            "factor": Scalar(float(call.options["factor"]), "float32"),
            "n": x.size,
        },
        constants={"BLOCK": BLOCK},
        grid=(cdiv(x.size, BLOCK), 1, 1),
    )
    return Plan((out,), (launch,) if x.size else ())


KERNELS = (
    KernelSpec(
        "NAME_scaled",
        ("x",),
        scaled,
        summary="x * factor",
        dtypes=("float16", "bfloat16", "float32"),
        options={"factor": 2.0},
        reference=lambda x, factor: x * factor,
        examples=lambda shape: [shape],
        ahead=lambda full: [Example(((4096,),)), Example(((1000,),))],
        complete=True,
    ),
)
'''

_KERNEL = '''\
"""The Triton functions. Imported only when something has to be compiled."""

import triton
import triton.language as tl


@triton.jit
def scaled(x, out, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)
'''

_TESTS = '''\
"""Each test runs on the devices of `pytest --xtarget-device cpu,emu:gfx942`."""

import numpy as np
import pytest
import xtarget
import xtarget.testing


@pytest.mark.parametrize("n", [1, 1000, 5000])
def test_scaled(n, xtarget_device):
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    result = xtarget.run("NAME_scaled", x, factor=3.0, device=xtarget_device)
    xtarget.testing.assert_close(result, 3.0 * x.astype(np.float64), kernel="NAME_scaled")


def test_it_compiles_for_every_vendor():
    x = xtarget.spec.ArrayType("float32", (5000,), (1,))
    for target in ("nvidia:sm_90", "amd:gfx942", "intel:spirv64"):
        assert xtarget.compile("NAME_scaled", x, target=target)
'''

#: What each job of the workflow begins with.
_SETUP_STEPS = """\
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install -e ".[test]"
"""
_WORKFLOW = """\
name: kernels
on: [push, pull_request]

jobs:
  test:
    strategy:
      fail-fast: false
      matrix:
        include:
          - {name: CPU, runner: ubuntu-latest, device: cpu}
          - {name: gfx942, runner: ubuntu-latest, device: "emu:gfx942"}
          - {name: gfx1100, runner: ubuntu-latest, device: "emu:gfx1100"}
          # on a machine of yours: - {name: H200, runner: [self-hosted, gpu], device: nvidia}
    runs-on: ${{ matrix.runner }}
    steps:
SETUP_STEPS
      - run: mkdir reports
      - run: pytest --xtarget-device ${{ matrix.device }} --xtarget-require
          --junitxml reports/tests.xml
      - run: xtarget verify NAME_scaled --device ${{ matrix.device }} --report reports/verify.json
      - uses: actions/upload-artifact@v4
        if: always()
        with: {name: "report ${{ matrix.name }}", path: reports}
  report: # one table of what ran where
    needs: test
    if: always()
    runs-on: ubuntu-latest
    steps:
SETUP_STEPS
      - uses: actions/download-artifact@v4
        with: {pattern: report *, path: reports}
      - run: xtarget ci merge reports -o summary.md --badge badge.svg
      - run: cat summary.md >> "$GITHUB_STEP_SUMMARY"
        if: always()
  bundle:
    runs-on: ubuntu-latest
    steps:
SETUP_STEPS
      - run: sh bundle.sh
      - uses: actions/upload-artifact@v4
        with: {name: kernels, path: NAME.xtb}
""".replace("SETUP_STEPS\n", _SETUP_STEPS)

_BUNDLE = """\
#!/bin/sh
# The kernels of this package for several targets, in one file. Needs no GPU.
exec xtarget bundle build -o NAME.xtb --library "$(dirname "$0")/src/NAME" \\
  --target "${TARGETS:-nvidia:sm_80,nvidia:sm_90,amd:gfx942,intel:spirv64,cpu:spirv64}" "$@"
"""

_README = """\
# NAME

Triton kernels for [xtarget](https://pypi.org/project/xtarget/).

    pip install -e ".[test]"
    pytest --xtarget-device cpu
    xtarget run NAME_scaled --shape 4096 --check
    sh bundle.sh          # NAME.xtb, for machines without a compiler

`src/NAME/catalog.py` lists the kernels, the files beside it are Triton's.
"""

_FILES = {
    ".github/workflows/kernels.yml": _WORKFLOW,
    "README.md": _README,
    "bundle.sh": _BUNDLE,
    "pyproject.toml": _PYPROJECT,
    "src/NAME/__init__.py": _INIT,
    "src/NAME/catalog.py": _CATALOG,
    "src/NAME/scaled.py": _KERNEL,
    "tests/test_NAME.py": _TESTS,
}


def write_package(folder: Path) -> list[Path]:
    """Write the package, of the folder's name.

    Raises:
        ArgumentError: the folder has files, or its name is none for a package.
    """
    name = re.sub(r"[-. ]", "_", folder.resolve().name.lower())
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "xtarget":
        raise ArgumentError(
            f"{folder.resolve().name!r} cannot be the name of a Python package. Name a folder with "
            "letters, digits and _, that begins with a letter."
        )
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ArgumentError(f"{folder} is not empty. Name a new folder.")
        for path, text in _FILES.items():
            file = folder / path.replace("NAME", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("NAME", name), encoding="utf-8")
            written.append(file)
    except OSError as error:
        raise ArgumentError(
            f"{folder} cannot be written: {error.strerror or error}. Name another folder."
        ) from error
    return written


@click.command(
    "new-kernels",
    cls=Command,
    examples=(
        "xtarget new-kernels my-kernels",
        'cd my-kernels && pip install -e ".[test]" && pytest',
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=True))
@json_option
def new_kernels(folder: str, as_json: bool) -> None:
    """Write a small package of kernels into the new folder DIR, to begin with.

    It has a catalog, a Triton kernel, tests for each device, a CI workflow that makes one table of
    what ran where, and the build of a bundle.
    """
    files = [str(file) for file in write_package(Path(folder))]
    echo(json.dumps({"files": files}, indent=2) if as_json else "\n".join(files))
