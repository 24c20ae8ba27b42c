"""Find the Intel devices that SYCL offers, or the reason why it offers none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import dpctl

from ..._system.locks import Lock
from ..._values.errors import NoDeviceError
from ..._values.types import DeviceInfo, Target
from .._host.opencl_device import common_facts
from .._host.opencl_icd import SYSTEM_VENDORS, icd_file_names
from .status import check

__all__ = ["discover", "loaders", "sycl_device"]

TARGET = Target("intel", "spirv64")
_GPUS = "level_zero:gpu,opencl:gpu"
_WARP_SIZE = 32  # what the compiler uses for this target unless told otherwise
#: Options of the compiler, and the aspect that tells what the device has.
_ASPECTS = {
    "fp64": "has_aspect_fp64",
    "fp16": "has_aspect_fp16",
    "int64_atomics": "has_aspect_atomic64",
}
_RUNS_ON = {"gpu": "silicon", "cpu": "CPU runtime"}

_lock = Lock()


def _matches(device: dpctl.SyclDevice, term: str) -> bool:
    """Does a device fit one term of a SYCL filter string, `backend:type:number`, parts optional?

    Source: DPC++, `sycl_ext_oneapi_filter_selector`.
    """
    backend, kind = device.backend.name, device.device_type.name
    number = device.filter_string.rpartition(":")[2]
    return all(part in (backend, kind, number, "*") for part in term.strip().split(":") if part)


def _describe(device: dpctl.SyclDevice) -> DeviceInfo:
    kind = device.device_type.name
    widths = tuple(device.sub_group_sizes)
    return DeviceInfo(
        name="intel",
        target=TARGET,
        **common_facts(device),
        warp_size=_WARP_SIZE if _WARP_SIZE in widths else max(widths),
        host_memory=False,  # dpctl passes USM allocations to kernels and nothing else
        fp64=bool(device.has_aspect_fp64),
        compile_options={name: False for name, has in _ASPECTS.items() if not getattr(device, has)},
        runs_on=_RUNS_ON.get(kind, "emulator"),
        details={
            "sycl": device.filter_string,
            "warp_sizes": ", ".join(map(str, widths)),
            "fp16": "yes" if device.has_aspect_fp16 else "no",
        },
    )


def _merged(devices: list[dpctl.SyclDevice]) -> list[tuple[dpctl.SyclDevice, DeviceInfo]]:
    """One entry for a device that two run times offer; Level Zero's form is the one that is used.

    The n-th device of a name in one run time is the n-th of that name in the other.
    """
    ordered = sorted(devices, key=lambda device: device.backend.name != "level_zero")
    found: list[tuple[dpctl.SyclDevice, DeviceInfo]] = []
    counted: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, int], int] = {}
    for device in ordered:
        product, backend = device.name.strip(), device.backend.name
        nth = counted[product, backend] = counted.get((product, backend), 0) + 1
        place = places.get((product, nth))
        if place is None:
            places[product, nth] = len(found)
            found.append((device, replace(_describe(device), name=f"intel:{len(found)}")))
        else:
            first, info = found[place]
            also = {**info.details, "also": device.filter_string}
            found[place] = (first, replace(info, details=also))
    return found


def loaders(wanted: str) -> AbstractContextManager[None]:
    """Around the first call of SYCL: its OpenCL loader finds the run times that `wanted` is on."""
    # a GPU needs no CPU run time beside it, unless there is no other OpenCL at all
    add_cpu = "cpu" in wanted or not any(SYSTEM_VENDORS.glob("*.icd"))
    return icd_file_names() if add_cpu else nullcontext()


def discover(wanted: str | None = None) -> list[tuple[dpctl.SyclDevice, DeviceInfo]]:
    """Devices in the order of their ordinals.

    Args:
        wanted: SYCL filter string (`opencl:cpu`) instead of the GPUs.

    Raises:
        XTargetError: the SYCL run time failed with an error of its own.
        NoDeviceError: `wanted` names no device.
    """
    terms = (wanted or _GPUS).split(",")
    with _lock, loaders(wanted or ""):
        with check("asking SYCL for devices failed"):
            devices = dpctl.get_devices()
        here = [device for device in devices if any(_matches(device, term) for term in terms)]
        found = _merged(here)
    if wanted and not found:
        there = ", ".join(device.filter_string for device in devices) or "none"
        raise NoDeviceError(
            f"XTARGET_INTEL_DEVICES={wanted} names no device. SYCL offers: {there}."
        )
    return found


def sycl_device(syclobj: object) -> dpctl.SyclDevice:
    """The device behind a queue, a queue's capsule, or a filter string.

    Raises:
        XTargetError: it names no device.
    """
    if isinstance(syclobj, dpctl.SyclQueue):
        return syclobj.sycl_device
    # it may be SYCL's first call, which decides for good what run times there are
    with _lock, loaders("cpu"), check(f"finding the device of {syclobj!r} failed"):
        return dpctl.SyclQueue(syclobj).sycl_device
