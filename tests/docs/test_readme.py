"""The README tells the truth; its code is run with that of the other pages (test_pages.py)."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from operators import own_names
from processes import run_in_checkout, run_python

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """(words after the language, text) of each fenced block."""
    return [(m[2].strip(), m[3]) for m in BLOCK.finditer(README) if m[1] == language]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_in_checkout(*words, seconds=300, **environment)


def test_the_number_of_operators_and_their_page_are_those_of_the_table() -> None:
    assert README.partition("today there are ")[2].partition(".")[0] == str(len(own_names()))
    done = run(sys.executable, str(ROOT / "ci" / "operators_page.py"), "--check")
    assert done.returncode == 0, done.stderr


def test_the_readme_is_a_package_page_too() -> None:
    """There, links have nothing to be relative to."""
    prose = re.sub(r"`[^`\n]*`", "", README)
    assert [link for link in re.findall(r"\]\(([^)]+)\)", prose) if "://" not in link] == []
    for name in re.findall(r"`((?:[a-z_]+/)+[A-Za-z_.-]+\.(?:md|sh|py))`", README):
        assert (ROOT / name).exists() or (ROOT / "tests" / name).exists(), name


def test_a_source_package_has_the_files_that_the_readme_names() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        targets = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]
    packed = {folder.strip("/") for folder in targets["sdist"]["include"]}
    named = re.findall(r"`((?:[a-z_]+/)+[A-Za-z_.-]+)", README)
    folders = {name.partition("/")[0] for name in named if (ROOT / name).exists()}
    assert {"docs", "ci", "src"} <= folders
    assert folders <= packed


def test_what_the_readme_installs_is_there() -> None:
    """Nothing by a name that the index does not have; no extra that the project does not."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = set(project["optional-dependencies"])
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    commands = re.findall(r'pip install "([^"]+)"', README + page)
    assert len(commands) >= 7
    for what in commands:
        place, _, given = what.rstrip("]").partition("[")
        assert place in (
            ".",
            f"dist/xtarget-{project['version']}-cp311-abi3-linux_x86_64.whl",
            "xtarget",
        )
        assert set(given.split(",")) <= extras
    installed = page
    assert installed.index('".[cpu,compile]"') < installed.index('"xtarget[')


def test_the_figures_of_compiling_are_what_is_printed_today(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
    command, _, rest = (
        (ROOT / "docs/reference/targets.md")
        .read_text("utf-8")
        .partition("$ xtarget compile add ")[2]
        .partition("\n")
    )
    done = run_python(
        "-m",
        "xtarget",
        "compile",
        "add",
        *command.split(),
        path=ROOT / "src",
        cwd=tmp_path,
        check=True,
    )
    told = rest.partition("$ ")[0]
    assert re.sub(r"[0-9]+ bytes", "", done.stdout) == re.sub(r"[0-9]+ bytes", "", told)
    sizes = [[int(n) for n in re.findall(r"([0-9]+) bytes", text)] for text in (done.stdout, told)]
    for now, then in zip(*sizes, strict=True):
        assert then == pytest.approx(now, rel=0.15)  # a few bytes may come and go


def test_the_explanation_is_what_is_printed_today() -> None:
    pytest.importorskip("triton", reason="Triton is not installed, and its version is in the key")
    told = (
        (ROOT / "docs/how-to/bundles.md")
        .read_text("utf-8")
        .partition("xtarget explain add --target nvidia:sm_86\n")[2]
        .splitlines()
    )
    done = run(sys.executable, "-m", "xtarget", "explain", "add", "--target", "nvidia:sm_86")
    assert done.stdout.splitlines()[:2] == told[:2], done.stderr
