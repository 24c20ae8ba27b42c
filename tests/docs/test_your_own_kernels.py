"""The code of docs/your-own-kernels.md runs, from the first block to the last."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from processes import run_in_checkout

import xtarget

pytest.importorskip("triton")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-own-kernels.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_pages_code_runs(tmp_path: Path) -> None:
    report = next(r for r in xtarget.probe() if r.vendor == "cpu")
    if not report.devices:
        pytest.skip(f"no CPU device: {report.reason}")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 5
    program = tmp_path / "page.py"  # a file, because Triton reads the source of a kernel from one
    program.write_text("\n".join(blocks), encoding="utf-8")
    name = report.devices[0].name
    done = run_in_checkout(sys.executable, str(program), seconds=300, XTARGET_DEVICE=name)
    assert done.returncode == 0, done.stderr
    assert "config=1 (BLOCK=1024, num_warps=4): " in done.stdout
