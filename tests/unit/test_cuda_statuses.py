"""The errors for CUDA's statuses, by cuda.bindings and by cuda.core."""

from __future__ import annotations

import pytest

from xtarget._values.errors import DeviceLostError, DriverError
from xtarget.targets.nvidia.status import checked

_LONG = (
    "CUDA_ERROR_ILLEGAL_ADDRESS: While executing a kernel, the device encountered a load or store "
    "instruction on an invalid memory address. This leaves the process in an inconsistent state. "
    "To continue using CUDA, the process must be terminated and relaunched."
)


def test_of_a_lost_device_one_description_is_told() -> None:
    with pytest.raises(DeviceLostError) as lost, checked("launching add on nvidia:0"):
        raise RuntimeError(_LONG)
    told = str(lost.value)
    assert told.startswith("launching add on nvidia:0 failed: CUDA_ERROR_ILLEGAL_ADDRESS (While")
    assert "invalid memory address)" in told
    assert "inconsistent" not in told
    assert "Restart the process" in told


def test_what_is_not_known_is_told_as_it_is() -> None:
    with pytest.raises(DriverError, match=r"One\. Two\.") as failed, checked("doing it"):
        raise RuntimeError("CUDA_ERROR_NEVER_SEEN: One. Two.")
    assert str(failed.value).startswith("doing it failed: CUDA_ERROR_NEVER_SEEN (One. Two.)")
