"""The code of the pages in docs runs, from the first block of a page to the last."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from processes import run_in_checkout

import xtarget

pytest.importorskip("triton")

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "fewest", "prints"),
    [
        ("your-own-kernels.md", 5, "config=1 (BLOCK=1024, num_warps=4): "),
        ("fused-functions.md", 1, "Operators: 4. Launches: 1, of which 1 are fused."),
    ],
)
def test_the_pages_code_runs(tmp_path: Path, page: str, fewest: int, prints: str) -> None:
    report = next(r for r in xtarget.probe() if r.vendor == "cpu")
    if not report.devices:
        pytest.skip(f"no CPU device: {report.reason}")
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert len(blocks) >= fewest
    program = tmp_path / "page.py"  # a file, because Triton reads the source of a kernel from one
    program.write_text("\n".join(blocks), encoding="utf-8")
    name = report.devices[0].name
    done = run_in_checkout(sys.executable, str(program), seconds=300, XTARGET_DEVICE=name)
    assert done.returncode == 0, done.stderr
    assert prints in done.stdout
