"""DLPack 1.x: what may be written, and what is a copy, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError
from xtarget._arrays import capsules

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")


class Offering:
    """An array that offers DLPack and nothing else."""

    def __init__(self, values: np.ndarray, *, old: bool = False, copy: bool = False) -> None:
        self.values, self.old, self.copy = values, old, copy

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, max_version: Any = None, **_: Any) -> Any:
        if self.old:
            return self.values.__dlpack__()
        return self.values.__dlpack__(max_version=max_version, copy=self.copy)


@pytest.fixture
def ones() -> np.ndarray:
    return np.ones(4, np.float32)


def test_what_says_that_it_may_be_written_is(ones: np.ndarray, device: str) -> None:
    out = Offering(np.zeros(4, np.float32))
    assert xtarget.run("add", ones, 1.0, out=out, device=device) is out
    assert out.values.tolist() == [2.0] * 4


@pytest.mark.parametrize("kind", ["read-only", "without flags", "copied"])
def test_what_may_not_be_written_is_refused(ones: np.ndarray, device: str, kind: str) -> None:
    values = np.zeros(4, np.float32)
    values.flags.writeable = kind == "without flags"
    out = Offering(values, old=kind == "without flags", copy=kind == "copied")
    with pytest.raises(ArgumentError, match=r"read-only|offers new memory each time"):
        xtarget.run("add", ones, 1.0, out=out, device=device)
    assert values.tolist() == [0.0] * 4
    assert xtarget.run("add", out, ones, device=device).tolist() == [1.0] * 4


def flags_of(capsule: Any) -> int | None:
    if not capsules._api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        return None
    pointer = capsules._api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    return int(capsules._Versioned.from_address(pointer).flags)


def test_our_arrays_say_what_they_are(ones: np.ndarray, device: str) -> None:
    array = xtarget.asarray(ones, device)
    assert flags_of(array.__dlpack__()) is None  # for consumers of DLPack 0
    assert flags_of(array.__dlpack__(max_version=(1, 1))) == 0
    copy = array.__dlpack__(max_version=(1, 1), copy=True)
    assert flags_of(copy) == capsules.COPIED
    assert capsules.from_capsule(copy).address != array.address
    with pytest.raises(BufferError, match="DLPack gives it there, or as a copy on the host"):
        array.__dlpack__(dl_device=(99, 0))
    if array.__dlpack_device__()[0] == 1:
        view = np.from_dlpack(array)
        view[0] = 7  # NumPy may write, as nothing forbids it
        assert array.numpy()[0] == 7
    elsewhere = array.__dlpack__(max_version=(1, 1), dl_device=(1, 0))
    assert capsules.from_capsule(elsewhere).place in (None, "cpu:0")
