"""Few rows times 4-bit weights on sm_90: which calls have a kernel of their own, what it needs, and
its results where there is such a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import sample
from oracle import expected
from test_choices import HOPPER, plan_of
from test_plans import array

import xtarget

OWN, USUAL = "hopper_few_rows:matmul", "few_rows:matmul"
MORE = "hopper_some_rows:matmul"


def first(
    m: int, n: int, k: int, groups: int, target: str = HOPPER, dtype: str = "bfloat16"
) -> tuple[str, int]:
    """The kernel of a call, and how many launches it takes."""
    given = array(dtype, m, k), array("uint8", n, k // 2), array("float32", n, groups)
    launches = plan_of("linear_int4", *given, target=target).launches
    return launches[0].source, len(launches)


def test_which_calls_have_a_kernel_of_their_own() -> None:
    for m in (1, 5, 8):
        assert first(m, 14336, 4096, 32) == (OWN, 1)
        assert first(m, 4096, 14336, 112) == (OWN, 2)  # parts of K, and their sum
        assert first(m, 100, 2048, 1, dtype="float16") == (OWN, 1)
    for m in (9, 16, 32):
        assert first(m, 14336, 4096, 32)[0] == MORE
        assert first(m, 4096, 14336, 112, dtype="float16") == (MORE, 2)
    assert first(33, 14336, 4096, 32)[0] == USUAL
    assert first(16, 14336, 4096, 32, "nvidia:sm_80")[0] == USUAL
    assert first(1, 14336, 1024, 8)[0] == USUAL  # too short for 8 warps
    assert first(1, 14336, 4096, 64)[0] == USUAL  # groups of 64
    assert first(1, 14336, 4096 + 64, 1)[0] == USUAL
    assert first(1, 14336, 4096, 32, "nvidia:sm_80")[0] == USUAL
    assert first(1, 14336, 4096, 32, dtype="float32")[0] == "mixed:matmul"


def weights(n: int, k: int, groups: int, seed: int = 0) -> tuple[Any, Any, Any]:
    made = np.random.default_rng(seed)
    scales = (made.random((n, groups)) + 0.5).astype(np.float32)
    zeros = made.integers(0, 16, (n, groups)).astype(np.uint8)
    return made.integers(0, 256, (n, k // 2)).astype(np.uint8), scales, zeros


def test_weights_stay_in_registers() -> None:
    q, scales, zeros = weights(14336, 4096, 32)
    x = np.zeros((8, 4096), np.float16)
    (artifact,) = xtarget.compile("linear_int4", x, q, scales, zeros, target=HOPPER)
    assert artifact.num_warps == 8
    assert artifact.resources.local_bytes == 0
    assert artifact.shared_bytes <= 48 * 1024


def test_more_rows_have_a_group_of_warps_that_brings_them() -> None:
    q, scales, zeros = weights(14336, 4096, 32)
    x = np.zeros((32, 4096), np.float16)
    (artifact,) = xtarget.compile("linear_int4", x, q, scales, zeros, target=HOPPER)
    assert artifact.num_warps == 12
    assert artifact.resources.local_bytes <= 32  # none with Triton 3.6
    assert artifact.shared_bytes <= 100 * 1024


RESULTS = [
    (1, 4096, 4096, 32), (8, 1000, 4096, 4), (3, 33, 2048, 16), (7, 5000, 2176, 17),
    (8, 260, 14336, 112), (5, 300, 4224, 1), (8, 40000, 2048, 1), (9, 1000, 4096, 4),
    (16, 129, 1152, 9), (17, 5000, 2176, 17), (32, 260, 14336, 112),
]  # fmt: skip


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("m", "n", "k", "groups"), RESULTS)
def test_results(device: str, dtype: str, m: int, n: int, k: int, groups: int) -> None:
    if not device.startswith("nvidia"):
        pytest.skip("these shapes are there for the kernel of sm_90")
    q, scales, zeros = weights(n, k, groups, seed=m)
    x = sample(dtype, m, k)
    for given in ((x, q, scales), (x, q, scales, zeros)):
        found = np.asarray(xtarget.run("linear_int4", *given, device=device)).astype(float)
        right = expected("linear_int4", given, {}, floating=True)
        error = np.linalg.norm(found - right) / np.linalg.norm(right)
        assert error <= {"bfloat16": 3e-3, "float16": 4e-4}[dtype]


@pytest.mark.large
@pytest.mark.parametrize("m", [8, 24])
def test_what_is_not_finite_is_told(device: str, m: int) -> None:
    if not device.startswith("nvidia"):
        pytest.skip("the kernel of sm_90 makes such sums again")
    q, scales, _ = weights(200, 4096, 32)
    x = sample("bfloat16", m, 4096)
    q[:, 50] = 0x98  # element 100 is 8, which is 0, and the next one 1
    q[7, 64:128] = 0x88
    scales[7, 1] = np.inf
    x[2, 101] = np.inf
    x[3, 7] = np.nan
    found = np.asarray(xtarget.run("linear_int4", x, q, scales, device=device)).astype(float)
    assert np.isnan(found[:, 7]).all()
    assert np.isnan(found[3]).all()
    assert np.isposinf(np.delete(found[2], 7)).all()
    rest = np.delete(np.delete(found, 7, 1), [2, 3], 0)
    assert np.isfinite(rest).all()
