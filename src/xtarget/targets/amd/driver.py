"""HIP as a driver: which AMD devices there are, and opening one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._errors import DriverError, NoDeviceError, XTargetError
from ..._types import DeviceInfo, ProbeReport, Target
from .. import base
from .._absence import no_such_device
from . import _binding
from ._device import HipDevice
from ._status import call

__all__ = ["HipDriver", "describe"]

#: Words of a product name by which a library that is no GPU's says so.
_NOT_SILICON = {"emulator": "emulator", "stand-in": "fake"}


class HipDriver:
    """The HIP run time, by hip-python.

    Args:
        dev: the folder of device nodes, for the reason of a failed probe.
    """

    def __init__(self, dev: Path = Path("/dev")) -> None:
        self._dev = dev

    @property
    def vendor(self) -> str:
        return "amd"

    def absent(self) -> str | None:
        return _binding.absent(self._dev)

    def probe(self) -> ProbeReport:
        try:
            hip = _binding.load()
            count = _binding.device_count(hip, self._dev)
            found = tuple(_real(describe(hip, i, count)) for i in range(count))
            return ProbeReport("amd", found)
        except XTargetError as error:
            return ProbeReport("amd", reason=str(error))

    def open(self, ordinal: int) -> base.Device:
        hip = _binding.load()
        count = _binding.device_count(hip, self._dev)
        if not 0 <= ordinal < count:
            raise no_such_device("amd", ordinal, [f"amd:{i}" for i in range(count)])
        properties = _binding.properties(hip, ordinal)
        x, y, z = properties.maxGridSize
        return HipDevice(
            hip,
            _real(describe(hip, ordinal, count)),
            count=count,
            grid_limits=(int(x), int(y), int(z)),
            features=_features(_binding.text(properties.gcnArchName)),
        )


def _real(info: DeviceInfo) -> DeviceInfo:
    """The same, if it is not one of the emulator's, which have names of their own."""
    if info.runs_on == "emulator":
        raise NoDeviceError(
            "The HIP library of this process is the emulator's, so AMD GPUs cannot be seen here."
        )
    return info


def _features(gcn_arch_name: str) -> dict[str, str]:
    """`gfx942:sramecc+:xnack-` to `{"sramecc": "on", "xnack": "off"}`."""
    return {
        part[:-1]: "on" if part.endswith("+") else "off"
        for part in gcn_arch_name.split(":")[1:]
        if part
    }


def _peers(hip: Any, ordinal: int, count: int) -> dict[str, str]:
    """The devices whose memory this one can reach, where there is more than one device at all."""
    doing = f"asking which devices amd:{ordinal} can reach"
    if count == 1:
        return {}
    others = (i for i in range(count) if i != ordinal)
    try:
        reached = [
            f"amd:{i}"
            for i in others
            if call(hip, "hipDeviceCanAccessPeer", ordinal, i, doing=doing)
        ]
    except DriverError as error:  # the device is of use without that
        return {"peers": f"unknown: {error}"}
    return {"peers": " ".join(reached)}


def describe(hip: Any, ordinal: int, count: int = 1) -> DeviceInfo:
    """What HIP tells of a device, one of `count` that are of interest to each other."""
    properties = _binding.properties(hip, ordinal)
    gcn_arch_name = _binding.text(properties.gcnArchName)
    product = _binding.text(properties.name)
    return DeviceInfo(
        name=f"amd:{ordinal}",
        target=Target("amd", gcn_arch_name.partition(":")[0]),
        product=product,
        memory_bytes=properties.totalGlobalMem,
        compute_units=properties.multiProcessorCount,
        driver_version=f"HIP {_binding.version(hip)}",
        warp_size=properties.warpSize,
        max_threads_per_block=properties.maxThreadsPerBlock,
        max_shared_bytes=properties.sharedMemPerBlock,
        runs_on=next(
            (kind for word, kind in _NOT_SILICON.items() if word in product.lower()), "silicon"
        ),
        details={"gcn_arch_name": gcn_arch_name, **_peers(hip, ordinal, count)},
    )
