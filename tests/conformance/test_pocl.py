"""Tests that only PoCL needs; skipped where the CPU's run time is another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.only_vendor("cpu")
_RUN = """
import numpy as np, xtarget
a = np.ones((300, 70), np.float32)
for name, args in (("add", (a, a)), ("softmax", (a,))):
    xtarget.run(name, *args, device={device!r})
    xtarget.device({device!r}).synchronize()
"""


def test_machine_code_of_the_child_is_what_runs(vendor: Any, tmp_path: Path) -> None:
    """PoCL writes what it compiles into its cache. At a launch it would compile for that launch's
    size, in the user's process, and end that where it fails.
    """
    info = vendor.device.info
    if "PoCL" not in info.details["platform_version"]:
        pytest.skip(f"the run time is {info.details['platform']}, not PoCL")
    environment = {
        **os.environ,
        "POCL_CACHE_DIR": str(tmp_path / "pocl"),
        "XTARGET_CACHE_DIR": str(tmp_path / "xtarget"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    (tmp_path / "pocl").mkdir()
    for _ in ("built in a child", "machine code from the cache"):
        subprocess.run(
            [sys.executable, "-c", _RUN.format(device=info.name)], env=environment, check=True
        )
        made = sorted((tmp_path / "pocl").rglob("*.so"))
        assert len(made) >= 2
        assert {file.parent.name for file in made} == {"0-0-0"}, "one for any size, of the child"
