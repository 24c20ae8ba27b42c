"""Cooperative launches, whose blocks wait for each other at a barrier of the whole grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from harness import ARCHS, compiled, device, run

from xtarget import OutOfResourcesError
from xtarget._values.types import Artifact
from xtarget_emulator.launch import Limits

_BLOCK = 256


def _all_sums(arch: str, n: int) -> Artifact:
    return compiled(
        "all_sums",
        "x:*fp32 partial:*fp32 count:*i32 o:*fp32",
        arch,
        constants=(("n", n), ("block", _BLOCK)),
        options=(("launch_cooperative_grid", True),),
    )


def _sums(code: Artifact, n: int) -> np.ndarray:
    x = np.arange(n * _BLOCK, dtype=np.float32) % 7
    arrays = (x, np.zeros(n, np.float32), np.zeros(1, np.int32), np.zeros(n, np.float32))
    result = run(code, (n,), *arrays)[3]
    np.testing.assert_array_equal(result, np.full(n, x.sum()))
    return result


@contextmanager
def _limits(arch: str, limits: Limits) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device(arch).hip, "limits", limits)
        yield


@pytest.mark.parametrize("arch", ARCHS)
def test_all_blocks_of_a_cooperative_launch_run_at_the_same_time(arch: str) -> None:
    code = _all_sums(arch, 64)  # several times as many as are stepped together else
    assert code.cooperative
    _sums(code, 64)


def test_a_barrier_of_the_grid_is_no_race() -> None:
    with _limits("gfx942", Limits(10**9, True)):
        _sums(_all_sums("gfx942", 16), 16)


def test_more_blocks_than_can_run_at_the_same_time_are_refused() -> None:
    code = _all_sums("gfx942", 512)
    with pytest.raises(OutOfResourcesError, match=r"all_sums is launched cooperatively with 512 .*"
                       r"emu:gfx942 \(.*\) holds 256: 256 on each of 1 compute units"):  # fmt: skip
        _sums(code, 512)
