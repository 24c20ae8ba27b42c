"""The device that is taken unasked."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import xtarget


def the_one_that_there_are_kernels_for() -> None:
    wanted = os.environ["XTARGET_TEST_WANTED"]
    assert xtarget.default_device().name == wanted
    x = np.ones(10, np.float32)
    assert (xtarget.run("add", x, x) == 2).all()
    done = subprocess.run(
        [sys.executable, "-m", "xtarget", "devices"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("*")] == [wanted]
    assert [line for line in lines if line.startswith("amd:0: Triton compiles nothing for gfx10")]
