#!/usr/bin/env python3
"""Write from the table of operators: their list of names (kernels/names.json), docs/operators.md
and the README's number of them; `--check` only compares the first two."""

from __future__ import annotations

import csv
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import xtarget
from xtarget._cli.listing import short_dtypes
from xtarget._kernels import libraries
from xtarget._kernels.library import Library

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operators.md"
NAMES = ROOT / "tests" / "kernels" / "operator_names.tsv"
#: ATen's names that FlagGems registers (Apache 2.0, commit 532ff43 of 2025-11-21).
FLAGGEMS = ROOT / "tests" / "kernels" / "flaggems_names.txt"


def page() -> str:
    """The page's text."""
    specs = [spec for spec in xtarget.catalog().values() if spec.category != "user"]
    categories = sorted({spec.category for spec in specs})
    lines = [
        "# Operators",
        "",
        f"{len(specs)} operators in {len(categories)} categories. `ci/operators_page.py` writes",
        "this page from the table in `kernels/operators`.",
        "",
    ]
    for category in categories:
        lines += [f"## {category}", "", "| operator | computes | dtypes | other names |"]
        lines += ["| --- | --- | --- | --- |"]
        rows = [spec for spec in specs if spec.category == category]
        lines += [_row(spec) for spec in sorted(rows, key=lambda spec: spec.name)]
        lines.append("")
    lines += _by_library()
    lines += _names()
    return "\n".join(lines)


def _row(spec: xtarget.spec.KernelSpec) -> str:
    options = (f"{name}={value!r}" for name, value in spec.options.items())
    call = ", ".join([*spec.inputs, *options])
    cells = (
        f"`{spec.name}({call})`",
        spec.summary,
        short_dtypes(spec.dtypes),
        " ".join(f"`{alias}`" for alias in spec.aliases),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _by_library() -> Iterator[str]:
    """Names that mean the defaults of one library."""
    yield from (
        "## Names with one library's defaults",
        "",
        "These names mean what their library does where an option is not given, and where the rows",
        "above do something else: `tf.argmax` goes over the first axis. `tf.math.argmax` is",
        "`tf.argmax` too, `ai.onnx.` is `onnx::`, and `aten::` is `torch.`.",
        "",
        "| names | computes |",
        "| --- | --- |",
    )
    names: dict[str, list[str]] = {}
    for spec in libraries.of_one_library():
        names.setdefault(spec.summary, []).extend(f"`{alias}`" for alias in spec.aliases)
    yield from (f"| {' '.join(those)} | {summary} |" for summary, those in names.items())
    yield ""


def flaggems() -> tuple[list[str], list[str]]:
    """FlagGems' names that lead to a kernel, and those that do not."""
    found: list[str] = []
    absent: list[str] = []
    for name in FLAGGEMS.read_text(encoding="utf-8").split():
        try:
            libraries.find(name.strip("_"))
        except xtarget.UnknownKernelError:
            absent.append(name)
        else:
            found.append(name)
    return found, absent


def _names() -> Iterator[str]:
    """How many of the names that people expect there are, and which are not."""
    with NAMES.open(encoding="utf-8", newline="") as file:
        names = [name for _, name in csv.reader(file, delimiter="\t")]
    refused, missing = [], []
    for name in names:
        try:
            libraries.find(name)
        except xtarget.UnknownKernelError as error:
            told = libraries.is_refused(name) and "not built yet" not in str(error)
            (refused if told else missing).append((name, str(error)))
    yield from (
        "## Names of other libraries",
        "",
        f"Of {len(names)} names that people expect (`tests/kernels/operator_names.tsv`),",
        f"{len(names) - len(refused) - len(missing)} are found, {len(refused)} are refused with "
        f"the reason, {len(missing)} are missing.",
        "",
    )
    found, absent = flaggems()
    yield from (
        f"Of the {len(found) + len(absent)} names of ATen's that FlagGems registers",
        f"(`tests/kernels/flaggems_names.txt`), {len(found)} are found "
        f"({100 * len(found) / len(found + absent):.1f} %); not here: {', '.join(absent)}.",
        "",
    )
    yield from (f"- refused: {said}" for _, said in refused)
    if missing:
        yield f"Missing: {', '.join(f'`{name}`' for name, _ in missing)}."
        yield ""


def _catalog() -> ModuleType:
    """The library's catalog, for its rows and not for the list of their names."""
    return importlib.import_module(f"{Library(ROOT / 'kernels').package}.catalog")


def _differences() -> Iterator[str]:
    catalog = _catalog()
    if catalog.NAMES.read_text(encoding="utf-8") != catalog.written_names():
        yield "kernels/names.json is not what the table says. Run ci/operators_page.py."
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        yield f"{PAGE.relative_to(ROOT)} is not what the table says. Run ci/operators_page.py."


def main() -> int:
    if "--check" not in sys.argv[1:]:
        catalog = _catalog()
        catalog.NAMES.write_text(catalog.written_names(), encoding="utf-8")  # the page needs it
        PAGE.write_text(page(), encoding="utf-8")
        count = sum(spec.category != "user" for spec in xtarget.catalog().values())
        readme = ROOT / "README.md"
        text = readme.read_text(encoding="utf-8")
        readme.write_text(re.sub(r"today there are \d+", f"today there are {count}", text), "utf-8")
    for difference in _differences():
        print(difference, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
