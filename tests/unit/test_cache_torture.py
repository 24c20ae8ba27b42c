"""The torture of benchmarks/torture_cache.py, a small one on each run and the whole one if long."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("processes", "kernels", "rounds"),
    [(6, 30, 1), pytest.param(32, 200, 3, marks=pytest.mark.long)],
)
def test_killed_processes_cost_neither_a_wrong_binary_nor_a_hang(
    processes: int, kernels: int, rounds: int
) -> None:
    words = ["--processes", processes, "--kernels", kernels, "--rounds", rounds, "--limit", 100]
    done = run_python(
        ROOT / "benchmarks" / "torture_cache.py", *map(str, words), path=ROOT / "src", seconds=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong 0, hangs 0" in done.stdout
