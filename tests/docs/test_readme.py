"""The README tells the truth: its code runs, its commands and variables exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from processes import run_in_checkout, run_python

import xtarget

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """(words after the language, text) of each fenced block."""
    return [(m[2].strip(), m[3]) for m in BLOCK.finditer(README) if m[1] == language]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_in_checkout(*words, seconds=300, **environment)


@pytest.fixture(scope="module")
def cpu() -> str:
    """The CPU device; without one this machine cannot run the README."""
    report = next(r for r in xtarget.probe() if r.vendor == "cpu")
    if not report.devices:
        pytest.skip(f"no CPU device: {report.reason}")
    return report.devices[0].name


def plain_blocks() -> list[str]:
    return [text for words, text in blocks("python") if not words]


def test_there_are_blocks_to_run() -> None:
    assert len(plain_blocks()) >= 2
    assert any("@xtarget.kernel" in text for text in plain_blocks())


@pytest.mark.parametrize("index", range(len(plain_blocks())))
def test_python_block_runs_on_the_cpu(index: int, cpu: str, tmp_path: Path) -> None:
    # a file, because Triton reads the source of a kernel from one
    program = tmp_path / "readme.py"
    program.write_text(plain_blocks()[index], encoding="utf-8")
    done = run(sys.executable, str(program), XTARGET_DEVICE=cpu)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [0, 1])
def test_torch_block_runs_on_the_cpu(cpu: str, number: int, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    found = [text for words, text in blocks("python") if words == "needs-torch"]
    assert len(found) == 2
    text = found[number]
    program = tmp_path / "readme.py"
    program.write_text(text, encoding="utf-8")
    done = run(sys.executable, str(program), XTARGET_DEVICE=cpu)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", ["torch-cuda", "cupy"])
def test_python_block_runs_on_the_gpu(library: str, tmp_path: Path) -> None:
    module = library.partition("-")[0]
    nvidia = next(r for r in xtarget.probe() if r.vendor == "nvidia")
    if not nvidia.devices:
        pytest.skip(f"no NVIDIA GPU: {nvidia.reason}")
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    (text,) = [text for words, text in blocks("python") if words == f"needs-{library}"]
    program = tmp_path / "readme.py"
    program.write_text(text, encoding="utf-8")
    done = run(sys.executable, str(program))
    assert done.returncode == 0, done.stderr


def test_console_commands_are_commands() -> None:
    """Every `$ xtarget ...` line parses: `--help` after it prints help of a command that exists."""
    lines = [
        line.removeprefix("$ xtarget ").split("  ")[0]
        for _, text in blocks("console")
        for line in text.splitlines()
        if line.startswith("$ xtarget ")
    ]
    assert len(lines) >= 4
    for line in lines:
        done = run(sys.executable, "-m", "xtarget", *line.split(), "--help")
        assert done.returncode == 0, (line, done.stderr)


def test_the_number_of_operators_and_their_page_are_those_of_the_table() -> None:
    own = [spec for spec in xtarget.catalog().values() if spec.category != "user"]
    assert README.partition("today there are ")[2].partition(".")[0] == str(len(own))
    done = run(sys.executable, str(ROOT / "ci" / "operators_page.py"), "--check")
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        prose = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))  # k[grid](x) is code
        for link in re.findall(r"\]\(([^)#]+)\)", prose):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


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
    assert {"docs", "ci", "kernels"} <= folders
    assert folders <= packed


def test_what_the_readme_installs_is_there() -> None:
    """Nothing by a name that the index does not have; no extra that the project does not."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = set(project["optional-dependencies"])
    commands = re.findall(r'pip install "([^"]+)"', README)
    assert len(commands) >= 7
    for what in commands:
        place, _, given = what.rstrip("]").partition("[")
        assert place in (
            ".",
            f"dist/xtarget-{project['version']}-cp311-abi3-linux_x86_64.whl",
            "xtarget",
        )
        assert set(given.split(",")) <= extras
    installed = README.partition("## Install")[2].partition("\n## ")[0]
    assert installed.index('".[cpu,compile]"') < installed.index('"xtarget[')


def test_the_figures_of_compiling_are_what_is_printed_today(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
    command, _, rest = README.partition("$ xtarget compile add ")[2].partition("\n")
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
    told = README.partition("xtarget explain add --target nvidia:sm_86\n")[2].splitlines()
    done = run(sys.executable, "-m", "xtarget", "explain", "add", "--target", "nvidia:sm_86")
    assert done.stdout.splitlines()[:2] == told[:2], done.stderr
