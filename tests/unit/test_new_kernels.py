"""`xtarget new-kernels DIR`: a package that works as it is, in a checkout and as a wheel."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from processes import run_in_checkout, run_python

from xtarget._cli.new_kernels import write_package
from xtarget._values.errors import ArgumentError

PROGRAM = """
import sys
import numpy as np
sys.path[:] = [p for p in sys.path if p != {source!r}]
import xtarget
x = np.ones(1000, np.float32)
assert "my_kernels_scaled" in xtarget.catalog()
assert (xtarget.run("my_kernels_scaled", x, factor=4.0, device="cpu") == 4).all()
try:
    xtarget.run("my_kernels_scaled", np.ones((4, 4), np.float32).T[:2])
except xtarget.ArgumentError as error:
    assert "x is not contiguous" in str(error)
else:
    raise SystemExit("no error")
"""


def test_every_step_of_its_workflow_runs_here(tmp_path: Path) -> None:
    """As on the CPU's machine of the matrix; reports lie as the artifacts of the jobs do."""
    yaml = pytest.importorskip("ruamel.yaml", reason="comes with check-jsonschema").YAML(typ="safe")
    folder = tmp_path / "my-kernels"
    for file in write_package(folder):
        if file.suffix == ".py":
            ast.parse(file.read_text(encoding="utf-8"))
    content = yaml.load((folder / ".github/workflows/kernels.yml").read_text(encoding="utf-8"))
    cpu, *others = content["jobs"]["test"]["strategy"]["matrix"]["include"]
    assert (cpu["device"], {one["device"] for one in others}) == (
        "cpu",
        {"emu:gfx942", "emu:gfx1100"},
    )
    assert not re.search(r"[:*?/]", "".join(one["name"] for one in (cpu, *others)))  # of artifacts
    extras = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    place = {
        "XTARGET_KERNELS": str(folder / "src" / "my_kernels"), "TARGETS": "cpu:spirv64",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    ran = []
    for name in ("test", "report", "bundle"):
        for step in content["jobs"][name]["steps"]:
            for key, value in cpu.items():
                step = {k: str(v).replace(f"${{{{ matrix.{key} }}}}", str(value))
                        for k, v in step.items()}  # fmt: skip
            if step.get("uses", "").startswith("actions/download-artifact"):
                (folder / "reports").rename(folder / "job")
                (folder / "reports").mkdir()
                (folder / "job").rename(folder / "reports" / "report CPU")
            line = step.get("run", "")
            if line == 'pip install -e ".[test]"':  # its packages are here, the folder is named
                assert "test" in extras["optional-dependencies"]
            elif line:
                done = run_in_checkout("bash", "-euc", line, cwd=folder, seconds=600, **place)
                assert done.returncode == 0, (line, done.stdout + done.stderr)
                ran.append(line.split()[0])
    assert ran == ["mkdir", "pytest", "xtarget", "xtarget", "cat", "sh"]
    summary = (tmp_path / "summary").read_text()
    assert "| report CPU | 4 | 0 | 0 | 0 |" in summary
    assert "| my_kernels_scaled | right:" in summary
    assert {"my_kernels.xtb", "badge.svg"} <= {file.name for file in folder.iterdir()}


def test_its_wheel_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """As an installed package: the wheel's files and its record of entry points, on the path."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder, site = tmp_path / "my-kernels", tmp_path / "site"
    write_package(folder)
    done = run_python("-m", "hatchling", "build", "-t", "wheel", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    path = ":".join([str(site), *(p for p in sys.path if p)])
    done = run_python("-c", PROGRAM.format(source=str(folder)), path=path, XTARGET_KERNELS=None)
    assert done.returncode == 0, done.stderr


def test_the_entry_point_names_the_package(tmp_path: Path) -> None:
    write_package(tmp_path / "Fast.Ones")
    text = (tmp_path / "Fast.Ones" / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert project["name"] == "fast_ones"
    assert project["entry-points"]["xtarget.kernels"] == {"fast_ones": "fast_ones"}
    assert (tmp_path / "Fast.Ones" / "src" / "fast_ones" / "catalog.py").is_file()


@pytest.mark.long  # it reads all of xtarget and NumPy
def test_mypy_finds_nothing_in_it(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    folder = tmp_path / "my-kernels"
    write_package(folder)
    options = ("--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent")
    done = run_python("-m", "mypy", *options, "src", "tests", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_folders_that_cannot_be_taken(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")
    with pytest.raises(ArgumentError, match="full is not empty"):
        write_package(tmp_path / "full")
    with pytest.raises(ArgumentError, match="cannot be written"):
        write_package(tmp_path / "full" / "a" / "b")
    for name in ("3d", "class", "xtarget", "sü"):
        with pytest.raises(ArgumentError, match="cannot be the name of a Python package"):
            write_package(tmp_path / name)
