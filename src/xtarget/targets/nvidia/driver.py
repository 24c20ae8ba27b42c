"""The CUDA driver through cuda.core and cuda.bindings: probing and opening devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..._values.errors import NoDeviceError, XTargetError
from ..._values.types import DeviceInfo, ProbeReport, Target
from .._host.machine import find_library_file
from .._objects.unavailable import broken_binding, missing_binding, no_such_device
from ..base import Device
from .status import check

__all__ = ["CudaDriver"]

_LIBRARY = "libcuda.so.1"


class CudaDriver:
    """NVIDIA's run time."""

    vendor = "nvidia"

    def absent(self) -> str | None:
        """Return why no device can exist, as far as files tell; None if one may exist."""
        for module, package in (("cuda.bindings", "cuda-python"), ("cuda.core", "cuda-core")):
            reason = missing_binding(module, package, self.vendor)
            if reason is not None:
                return reason
        if find_library_file(_LIBRARY) is None:
            return (
                f"the CUDA driver library {_LIBRARY} was not found (looked in LD_LIBRARY_PATH, the "
                "loader's cache and its default folders). Install the NVIDIA driver."
            )
        return None

    def probe(self) -> ProbeReport:
        try:
            reason = self.absent() or self._not_ready()
            if reason is not None:
                return ProbeReport(self.vendor, (), reason)
            from cuda.bindings import driver

            count = check(driver.cuDeviceGetCount(), "counting the CUDA devices")
            devices = tuple(self._describe(ordinal) for ordinal in range(count))
        except ImportError as error:
            return ProbeReport(self.vendor, (), broken_binding(error, "cuda-python", self.vendor))
        except (XTargetError, RuntimeError, OSError) as error:
            return ProbeReport(self.vendor, (), f"the CUDA driver failed: {error}")
        if not devices:
            return ProbeReport(
                self.vendor,
                (),
                "the CUDA driver sees no device. CUDA_VISIBLE_DEVICES may hide them; nvidia-smi "
                "lists what the driver has.",
            )
        return ProbeReport(self.vendor, devices)

    def _not_ready(self) -> str | None:
        """Initialise the driver; why it is of no use, or None."""
        import cuda.bindings
        from cuda.bindings import driver

        major = int(cuda.bindings.__version__.partition(".")[0])
        status, version = driver.cuDriverGetVersion()
        if not int(status) and version // 1000 < major:
            return (
                f"the NVIDIA driver supports CUDA {_version(version)}, older than cuda-bindings "
                f"{cuda.bindings.__version__} needs ({major}.0). Update the driver, or install "
                f'the older binding: pip install "cuda-python<{version // 1000 + 1}"'
            )
        (status,) = driver.cuInit(0)
        if not int(status):
            return None
        name = driver.CUresult(status).name
        if name.endswith("NO_DEVICE"):
            return (
                "the CUDA driver sees no device (CUDA_ERROR_NO_DEVICE). CUDA_VISIBLE_DEVICES may "
                "hide them; nvidia-smi lists what the driver has."
            )
        locked = [str(p) for p in sorted(Path("/dev").glob("nvidia[0-9]*")) if not _usable(p)]
        if locked:
            return (
                f"no permission to open {', '.join(locked)} ({name}). Add the user to the "
                "group that owns it (video or render)."
            )
        return f"the CUDA driver does not start ({name}). nvidia-smi tells more."

    def _describe(self, ordinal: int) -> DeviceInfo:
        from cuda.bindings import driver

        handle = check(driver.cuDeviceGet(ordinal), f"finding nvidia:{ordinal}")
        attributes = driver.CUdevice_attribute

        def attribute(name: str) -> int:
            code = getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}")
            value: int = check(driver.cuDeviceGetAttribute(code, handle), f"reading {name}")
            return value

        major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
        name = check(driver.cuDeviceGetName(128, handle), "reading the device's name")
        cuda = check(driver.cuDriverGetVersion(), "reading the driver's version")
        return DeviceInfo(
            name=f"nvidia:{ordinal}",
            target=Target("nvidia", f"sm_{major}{minor}"),
            product=name.split(b"\0")[0].decode(),
            memory_bytes=check(driver.cuDeviceTotalMem(handle), "reading the memory size"),
            compute_units=attribute("MULTIPROCESSOR_COUNT"),
            driver_version=_kernel_driver() or f"CUDA {_version(cuda)}",
            warp_size=attribute("WARP_SIZE"),
            max_threads_per_block=attribute("MAX_THREADS_PER_BLOCK"),
            max_shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            host_memory=False,
            details={"cuda": _version(cuda), "compute_capability": f"{major}.{minor}"},
        )

    def open(self, ordinal: int) -> Device:
        with self._usable_binding():
            reason = self.absent() or self._not_ready()
            if reason is not None:
                raise NoDeviceError(reason)
            from cuda.bindings import driver

            from .ahead import context_ahead
        count = check(driver.cuDeviceGetCount(), "counting the CUDA devices")
        if not 0 <= ordinal < count:
            raise no_such_device(self.vendor, ordinal, [f"nvidia:{i}" for i in range(count)])
        with context_ahead(ordinal):
            with self._usable_binding():
                from .code import Relaxed
                from .device import CudaDevice
            with Relaxed(f"opening nvidia:{ordinal}"):  # by a first call in a capture of torch's
                return CudaDevice(self._describe(ordinal), alone=count == 1)

    @contextmanager
    def _usable_binding(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise NoDeviceError(broken_binding(error, "cuda-python", self.vendor)) from error
        except RuntimeError as error:  # cuda.pathfinder does not find the driver, or its functions
            raise NoDeviceError(f"the CUDA driver cannot be used: {error}") from error

    def locate(self, address: int) -> str:
        """The device that memory lies on.

        Raises:
            XTargetError: no CUDA memory.
        """
        from cuda.bindings import driver

        code = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        what = f"finding the device of address {address:#x}"
        ordinal: Any = check(driver.cuPointerGetAttribute(code, address), what)
        return f"nvidia:{int(ordinal)}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _usable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def _kernel_driver() -> str:
    """The version of the NVIDIA kernel module, `580.159.03`."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return ""
