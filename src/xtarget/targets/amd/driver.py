"""HIP as a driver: which AMD devices there are, and opening one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..._values.errors import DriverError, NoDeviceError, XTargetError
from ..._values.types import DeviceInfo, ProbeReport, Target
from .. import base
from .._objects.unavailable import no_such_device
from . import binding, library
from .archs import unsuitable
from .device import HipDevice
from .patience import greet
from .pool import Pool
from .status import call

__all__ = ["HipDriver", "describe"]

_EMULATOR = "emulator"
#: Words of a product name by which a library says that it does not drive a GPU.
_NOT_SILICON = {_EMULATOR: "emulator", "stand-in": "fake"}
#: With this AMD's HSA run time loads a functional model in place of the kernel driver.
_MODEL = "HSA_MODEL_TOPOLOGY"


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
        return binding.absent(self._dev)

    def probe(self) -> ProbeReport:
        try:
            hip = binding.load()
            count = binding.device_count(hip, self._dev)
            found = tuple(_real(describe(hip, i, count)) for i in range(count))
            return ProbeReport("amd", found)
        except XTargetError as error:
            return ProbeReport("amd", reason=str(error))

    def locate(self, address: int) -> str:
        """The device that memory of another library lies on.

        Raises:
            XTargetError: on none that this copy of HIP knows of.
        """
        hip = binding.load()
        binding.device_count(hip, self._dev)
        library.check_alone("AMD's memory")
        doing = f"finding the device of address {address:#x}"
        found = binding.pointer_attributes(hip, address, doing)
        if not int(found.type):  # hipMemoryTypeUnregistered
            raise DriverError(f"{doing} failed: HIP knows no memory there.")
        return f"amd:{found.device}"

    def open(self, ordinal: int) -> base.Device:
        hip = binding.load()
        count = binding.device_count(hip, self._dev)
        if not 0 <= ordinal < count:
            raise no_such_device("amd", ordinal, [f"amd:{i}" for i in range(count)])
        properties = binding.properties(hip, ordinal)
        x, y, z = properties.maxGridSize
        device = HipDevice(
            hip,
            _real(describe(hip, ordinal, count)),
            count=count,
            grid_limits=(int(x), int(y), int(z)),
            features=_features(binding.text(properties.gcnArchName)),
        )
        device.asks = True
        greet(device)
        if device.pooled:
            device.pool = Pool(hip, ordinal, device.info.name)
        return device


def _real(info: DeviceInfo) -> DeviceInfo:
    """The same, if it is not one of the emulator's, which have names of their own."""
    if _EMULATOR in info.product.lower():
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


def _runs_on(product: str) -> str:
    if os.environ.get(_MODEL):
        return "emulator"
    return next((kind for word, kind in _NOT_SILICON.items() if word in product.lower()), "silicon")


def describe(hip: Any, ordinal: int, count: int = 1) -> DeviceInfo:
    """Describe a device from HIP's data. It is one of `count` of interest to each other."""
    properties = binding.properties(hip, ordinal)
    gcn_arch_name = binding.text(properties.gcnArchName)
    arch = gcn_arch_name.partition(":")[0]
    # ROCm has the name from libdrm's amdgpu.ids, which may be missing or older than the GPU
    product = binding.text(properties.name).strip() or f"AMD GPU {arch}"
    return DeviceInfo(
        name=f"amd:{ordinal}",
        target=Target("amd", arch),
        product=product,
        memory_bytes=properties.totalGlobalMem,
        compute_units=properties.multiProcessorCount,
        driver_version=f"HIP {binding.version(hip)}",
        warp_size=properties.warpSize,
        max_threads_per_block=properties.maxThreadsPerBlock,
        max_shared_bytes=properties.sharedMemPerBlock,
        runs_on=_runs_on(product),
        details={
            "gcn_arch_name": gcn_arch_name,
            **({"unsuitable": why} if (why := unsuitable(arch)) else {}),
            **_peers(hip, ordinal, count),
        },
    )
