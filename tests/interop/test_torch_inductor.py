"""torch.compile on the CPU through Triton and xtarget: results, processes, caches, refusals."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton is not installed here")

HERE = Path(__file__).parent
PROGRAMS = HERE / "inductor_programs.py"
#: Not a compiler: what the programs are compiled by has to be Triton.
NO_COMPILER = {"CXX": "/nonexistent"}


def run(folder: Path, *arguments: str, **variables: Any) -> Any:
    done = run_python(
        str(PROGRAMS),
        *arguments,
        seconds=900,
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        **{**NO_COMPILER, **variables},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])["counters"]


def test_a_program_in_this_setting_needs_no_c_compiler(tmp_path: Path, triton_on_cpu: Any) -> None:
    assert run(tmp_path, "pointwise", "--enable")["fxgraph_cache_miss"] == 1


@pytest.mark.long
def test_ten_programs_are_right_and_are_cached(tmp_path: Path, triton_on_cpu: Any) -> None:
    """The second process takes the first one's kernels from Inductor's cache."""
    assert run(tmp_path, XTARGET_INDUCTOR="1")["fxgraph_cache_miss"] >= 10
    second = run(tmp_path, XTARGET_INDUCTOR="1")
    assert second["fxgraph_cache_hit"] >= 10
    assert "fxgraph_cache_miss" not in second


def test_the_wheel_has_the_entry_point() -> None:
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    entry = project["project"]["entry-points"]["torch.backends"]
    assert entry == {"xtarget": "xtarget_triton.inductor:autoload"}


def test_nothing_is_imported_without_the_variable() -> None:
    code = """
import sys
from xtarget_triton.inductor import autoload
autoload()
assert not [n for n in sys.modules if n.split('.')[0] in ('xtarget', 'torch', 'triton')]
"""
    for value in (None, "", "0"):
        done = run_python("-c", code, XTARGET_INDUCTOR=value)
        assert done.returncode == 0, done.stderr


def test_another_back_end_for_cpus_stays(triton_on_cpu: Any) -> None:
    code = """
import triton.backends as b, xtarget.torch, torch
b.backends["cpu"] = b.backends["nvidia"]
try:
    xtarget.torch.enable_inductor()
except xtarget.ArgumentError as error:
    assert "has a back end for CPUs already" in str(error), error
    assert torch._inductor.config.cpu_backend == "cpp"
else:
    raise SystemExit("no error")
"""
    done = run_python("-c", code, XTARGET_INDUCTOR=None)
    assert done.returncode == 0, done.stderr
