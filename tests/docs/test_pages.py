"""The manual tells the truth: its code runs, its commands parse, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from itertools import groupby
from pathlib import Path

import pytest
from command_line import parsed
from processes import run_in_checkout

import xtarget

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if "generated" not in page.parts),
]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Their blocks are run by test_your_own_kernels.py, which reads what they print.
ELSEWHERE = {"your-own-kernels.md", "fused-functions.md"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """(words after the language, text) of each fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(m[2].strip(), m[3]) for m in BLOCK.finditer(text) if m[1] == language]


def programs(page: Path) -> list[tuple[str, str]]:
    """(words, text): blocks that follow each other and have equal words are one program."""
    found = groupby(blocks(page, "python"), key=lambda block: block[0])
    return [(words, "\n".join(text for _, text in group)) for words, group in found]


WITH_CODE = [page for page in PAGES if blocks(page, "python") and page.name not in ELSEWHERE]


def run_program(text: str, folder: Path, **environment: str) -> None:
    # a file, because Triton reads the source of a kernel from one
    program = folder / "page.py"
    program.write_text(text, encoding="utf-8")
    done = run_in_checkout(sys.executable, str(program), seconds=300, cwd=folder, **environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_runs_on_the_cpu(page: Path, cpu: str, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
    for words, text in programs(page):
        given = dict(word.split("=", 1) for word in words.split() if "=" in word)
        needs = [word.removeprefix("needs-") for word in words.split() if "=" not in word]
        if [one for one in needs if one == "cupy" or one.endswith("-cuda")]:
            continue  # of test_the_code_of_a_page_runs_on_the_gpu
        if all(importlib.util.find_spec(one) is not None for one in needs):
            if "def test_" in text:
                text += "\ntest_exp(xtarget.default_device().name)"
            run_program(text, tmp_path, XTARGET_DEVICE=cpu, **given)


@pytest.mark.parametrize("library", ["torch-cuda", "cupy"])
def test_the_code_of_a_page_runs_on_the_gpu(library: str, tmp_path: Path) -> None:
    module = library.partition("-")[0]
    nvidia = next(r for r in xtarget.probe() if r.vendor == "nvidia")
    if not nvidia.devices:
        pytest.skip(f"no NVIDIA GPU: {nvidia.reason}")
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    found = [text for page in PAGES for w, text in programs(page) if w == f"needs-{library}"]
    assert found
    for text in found:
        run_program(text, tmp_path)


def test_there_is_code_on_the_pages() -> None:
    assert {"README.md", "docs/index.md", "docs/tutorial.md"} <= set(map(name_of, WITH_CODE))
    assert any("@xtarget.kernel" in text for _, text in blocks(ROOT / "README.md", "python"))
    # C and C++: tests/c_library/test_packages.py
    known = {"python", "console", "sh", "text", "py", "json", "c", "cpp", "toctree"}
    used = {m[1] for page in PAGES for m in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert used <= known, "a block of another language, which nobody runs"
    assert [name_of(page) for page in PAGES if blocks(page, "py")] == []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=name_of)
def test_the_commands_of_a_page_are_commands(page: Path) -> None:
    lines = [
        line.removeprefix("$ ")
        for _, text in blocks(page, "console")
        for line in text.splitlines()
        if re.match(r"\$ (?:[A-Z_]+=\S+ )*xtarget ", line)
    ]
    assert lines
    for line in lines:
        words = shlex.split(line)
        parsed(words[words.index("xtarget") + 1 :])


def test_links_lead_somewhere() -> None:
    made = {
        "generated/accuracy.md",
        "generated/performance.md",
        "generated/routes.md",
        "generated/cli.md",
        "generated/api.md",
        "generated/environment.md",
    }
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        prose = re.sub(r"`[^`\n]*`", "", text)  # k[grid](x) is code
        for link in re.findall(r"\]\(([^)#]+)\)", prose):
            if "://" not in link and not any(link.endswith(name) for name in made):
                there = (page.parent / link).exists() or link.endswith("generated/support.md")
                assert there, f"{page.name} links to {link}"


def test_the_manual_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    pytest.importorskip("furo", reason="the extra `docs` is not installed")
    pytest.importorskip("myst_parser", reason="the extra `docs` is not installed")
    words = ("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path))
    done = run_in_checkout(sys.executable, *words, seconds=300)
    assert done.returncode == 0, done.stderr
    cli_page = (tmp_path / "generated" / "cli.html").read_text(encoding="utf-8")
    assert "xtarget bundle emit-c" in cli_page
    environment = (tmp_path / "generated" / "environment.html").read_text(encoding="utf-8")
    assert "XTARGET_CACHE_REMOTE_SECONDS" in environment
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text) == [], page
