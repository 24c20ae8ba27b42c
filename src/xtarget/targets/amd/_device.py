"""An opened AMD device."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..._errors import LoadError
from ..._types import Artifact, DeviceInfo
from .._stream_order import OrderedDevice
from ._memory import HipBuffer, allocate
from ._module import HipModule, load
from ._status import call
from ._stream import HipStream

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HipDevice"]

_HIP_STREAM_DEFAULT = 0


class HipDevice(OrderedDevice[HipStream, HipBuffer]):
    """A HIP device. All calls may come from any thread. Loading never compiles.

    Attributes:
        hip: the binding.
        ordinal: HIP's number for it.
        alone: HIP offers no other device, so that this one is always the current one.
        grid_limits: blocks in x, y, z.
        features: what gcnArchName says after the arch: `xnack`, `sramecc` to `on` or `off`.
        pooled: the device has a memory pool, used in the order of a stream.

    Args:
        count: how many devices HIP offers.
        ordinal: HIP's number for it, where its name has another one.
    """

    def __init__(
        self,
        hip: Any,
        info: DeviceInfo,
        *,
        count: int,
        grid_limits: tuple[int, int, int],
        features: dict[str, str],
        ordinal: int | None = None,
    ) -> None:
        super().__init__(hip, info)
        self.ordinal = info.ordinal if ordinal is None else ordinal
        self.hip = hip
        self.grid_limits = grid_limits
        self.features = features
        self.alone = count == 1
        self._default = HipStream(self, 0, owned=False, is_default=True)
        attribute = hip.hipDeviceAttribute_t.hipDeviceAttributeMemoryPoolsSupported
        doing = f"asking {info.name} for memory pools"
        self.pooled = bool(call(hip, "hipDeviceGetAttribute", attribute, self.ordinal, doing=doing))

    def entered(self) -> AbstractContextManager[None]:
        return nullcontext() if self.alone else self._switched()

    @contextmanager
    def _switched(self) -> Iterator[None]:
        doing = f"switching to {self.info.name}"
        before = call(self.hip, "hipGetDevice", doing=doing)
        if before == self.ordinal:
            yield
            return
        call(self.hip, "hipSetDevice", self.ordinal, doing=doing)
        try:
            yield
        finally:
            call(self.hip, "hipSetDevice", before, doing="switching back to another device")

    def load(self, artifact: Artifact, native: bytes | None = None) -> HipModule:
        self.live()
        if artifact.format != "hsaco":
            raise LoadError(
                f"{self.where} loads hsaco; {artifact.entry} is {artifact.format} for "
                f"{artifact.target}. Compile it for {self.info.target}."
            )
        return load(self, artifact)

    def _new_stream(self) -> HipStream:
        doing = f"making a stream on {self.where}"
        with self.current():
            made = call(self.hip, "hipStreamCreateWithFlags", _HIP_STREAM_DEFAULT, doing=doing)
        return HipStream(self, int(made), owned=True)

    def _borrowed_stream(self, number: int, keep: Any) -> HipStream:
        return HipStream(self, number, owned=False, keep=keep)

    def _allocate(self, nbytes: int, stream: HipStream) -> HipBuffer:
        return allocate(self, nbytes, stream)

    def borrow(self, address: int, nbytes: int) -> HipBuffer:
        self.live()
        return HipBuffer(self, address, nbytes)

    def _wait(self) -> None:
        # closing leaves HIP's primary context as it is: other libraries use it too
        with self.current():
            call(self.hip, "hipDeviceSynchronize", doing=f"running the work of {self.where}")
