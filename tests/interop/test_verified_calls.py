"""`XTARGET_VERIFY=1`: a program's calls are compared with references, and go on as they are."""

from __future__ import annotations

import pytest
from processes import run_python

PROGRAM = """
import dataclasses
import numpy as np
import xtarget
from xtarget._kernels import libraries

x = np.linspace(-3, 3, 600, dtype=np.float32).reshape(20, 30)
xtarget.run("softmax", x, axis=0)
xtarget.run("add", x, 1.5, out=x)  # its input is gone after the call
xtarget.run("var_mean", x, axis=1)
out = np.empty_like(x)
xtarget.get("sub").prepare(x, x, out=out)()
new, cache = np.ones((2, 3, 1, 4), np.float32), np.zeros((2, 3, 8, 4), np.float32)
xtarget.run("kv_cache_update", new, new, cache, cache.copy(), np.array([0, 5]))
assert cache.sum() == new.sum()
kernel = libraries.find("exp")
libraries._kernels["exp"] = kernel.changed(reference=np.cosh)
try:
    xtarget.run("exp", x)
except xtarget.WrongResultError as error:
    print(error)
"""


def test_a_wrong_result_is_an_error_that_says_where(device: str) -> None:
    done = run_python("-c", PROGRAM, XTARGET_VERIFY="1", XTARGET_DEVICE=device, check=True)
    assert "exp on" in done.stdout
    assert "600 of 600 elements of float32[20, 30] are off. The worst, at [" in done.stdout
    assert "The call was exp(float32[20, 30])" in done.stdout
    assert "XTARGET_VERIFY: 4 calls of 4 kernels were right.\n" in done.stderr
    assert "  not compared: kv_cache_update: it has no reference\n" in done.stderr


@pytest.mark.parametrize("value", [None, "0"])
def test_nothing_is_compared_unless_asked_for(value: str | None, device: str) -> None:
    program = (
        "import numpy as np, xtarget; xtarget.run('neg', np.ones(3, np.float32))\n"
        "from xtarget._launch import run; print(run.observed)"
    )
    done = run_python("-c", program, XTARGET_VERIFY=value, XTARGET_DEVICE=device, check=True)
    assert (done.stdout, done.stderr) == ("None\n", "")
