"""A launch over several processes gives what one process gives."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
from harness import ARCHS, compiled, device, run

from xtarget import DriverError, KernelFault, XTargetError
from xtarget._values import environment
from xtarget_emulator import launch, processes
from xtarget_emulator.launch import Limits

_N, _BLOCK = 40_000, 256
_X = np.arange(_N, dtype=np.float32)
_GRID = (-(-_N // _BLOCK),)


def _copy(arch: str, kernel: str = "copy") -> Any:
    return compiled(kernel, "x:*fp32 o:*fp32 n:i32", arch, constants=(("block", _BLOCK),))


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the launches that were shared."""
    for arch in ARCHS:
        hip = device(arch).hip
        monkeypatch.setattr(hip, "limits", Limits(10**9, False, 3))
    shared: list[int] = []

    def share(total: int, *rest: Any) -> int:
        shared.append(total)
        return processes.share(total, *rest)

    monkeypatch.setattr(launch, "share", share)
    return shared


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_the_result_is_that_of_one_process(arch: str, forks: list[int]) -> None:
    np.testing.assert_array_equal(run(_copy(arch), _GRID, _X, _X * 0, _N)[1], _X)
    assert forks == [_GRID[0]]


def test_what_was_written_by_any_process_counts_as_initialised(forks: list[int]) -> None:
    """The copy of a copy reads what other processes wrote first."""
    first = run(_copy("gfx1100"), _GRID, _X, _X * 0, _N, blank=(1,))[1]
    np.testing.assert_array_equal(first, _X)


def test_atomic_operations_are_left_to_one_process(forks: list[int]) -> None:
    code = compiled("atomics", "x:*i32 o:*i32", "gfx942", constants=(("block", _BLOCK),))
    x = np.random.default_rng(0).integers(-50, 50, 256 * 100).astype(np.int32)
    out = run(code, (100,), x, np.zeros(17, np.int32))[1]
    right = np.zeros(8, np.int32)
    np.add.at(right, np.abs(x) % 8, x)
    np.testing.assert_array_equal(out[:8], right)
    assert forks == []


def test_a_fault_in_a_later_process_is_told_as_ever(forks: list[int]) -> None:
    with pytest.raises(
        KernelFault, match=r"beyond on gfx1100, block \(156, 0, 0\), .*lane \d+: global_store"
    ):
        run(_copy("gfx1100", "beyond"), _GRID, _X, _X * 0, _N)
    assert forks == [_GRID[0]]


def test_a_process_that_is_killed_is_told() -> None:
    parent = os.getpid()

    def part(first: int, last: int) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return last - first

    with pytest.raises(DriverError, match=r"ended before its work did \(status 9\)"):
        processes.share(100, 10, 2, part)


@pytest.mark.parametrize(("total", "step"), [(100, 10), (99, 10), (7, 10), (101, 1)])
def test_the_parts_make_up_the_whole(total: int, step: int) -> None:
    assert processes.share(total, step, 4, lambda first, last: last - first) == total


@pytest.mark.parametrize("text", ["0", "two", "-1", "1000"])
def test_what_is_no_number_of_processes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_EMULATOR_PROCESSES", text)
    with pytest.raises(XTargetError, match=f"XTARGET_EMULATOR_PROCESSES={text} is not a number"):
        environment.emulator_processes()
