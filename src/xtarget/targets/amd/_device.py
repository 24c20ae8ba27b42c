"""An opened AMD device."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..._errors import LoadError
from ..._types import Artifact, DeviceInfo
from .. import base
from ._memory import HipBuffer, allocate
from ._module import HipModule
from ._status import call
from ._stream import HipStream, handle_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HipDevice"]

_HIP_STREAM_DEFAULT = 0


class HipDevice:
    """A HIP device. All calls may come from any thread.

    Attributes:
        hip: the binding.
        alone: HIP offers no other device, so that this one is always the current one.
        grid_limits: blocks in x, y, z.
        features: what gcnArchName says after the arch: `xnack`, `sramecc` to `on` or `off`.
        pooled: the device has a memory pool, used in the order of a stream.
    """

    def __init__(
        self,
        hip: Any,
        info: DeviceInfo,
        *,
        count: int,
        grid_limits: tuple[int, int, int],
        features: dict[str, str],
    ) -> None:
        self.hip = hip
        self.grid_limits = grid_limits
        self.features = features
        self._info = info
        self.alone = count == 1
        self._default_stream = HipStream(self, 0, owned=False)
        attribute = hip.hipDeviceAttribute_t.hipDeviceAttributeMemoryPoolsSupported
        doing = f"asking {info.name} for memory pools"
        self.pooled = bool(call(hip, "hipDeviceGetAttribute", attribute, info.ordinal, doing=doing))

    @property
    def info(self) -> DeviceInfo:
        return self._info

    @property
    def default_stream(self) -> base.Stream:
        return self._default_stream

    @property
    def native_key(self) -> str | None:
        return None

    def current(self) -> AbstractContextManager[None]:
        """A scope in which HIP's current device is this one; the caller's comes back after it."""
        return nullcontext() if self.alone else self._switched()

    @contextmanager
    def _switched(self) -> Iterator[None]:
        doing = f"switching to {self._info.name}"
        before = call(self.hip, "hipGetDevice", doing=doing)
        if before == self._info.ordinal:
            yield
            return
        call(self.hip, "hipSetDevice", self._info.ordinal, doing=doing)
        try:
            yield
        finally:
            call(self.hip, "hipSetDevice", before, doing="switching back to another device")

    def load(self, artifact: Artifact, native: bytes | None = None) -> base.Module:
        if artifact.format != "hsaco":
            raise LoadError(
                f"{self._info.name} loads hsaco; {artifact.entry} is {artifact.format} for "
                f"{artifact.target}. Compile it for {self._info.target}."
            )
        return HipModule(self, artifact)

    def stream(self, handle: Any = None) -> base.Stream:
        if handle is None:
            doing = f"making a stream on {self._info.name}"
            with self.current():
                made = call(self.hip, "hipStreamCreateWithFlags", _HIP_STREAM_DEFAULT, doing=doing)
            return HipStream(self, int(made), owned=True)
        number = handle_of(handle)
        if number == 0:
            return self._default_stream
        return HipStream(self, number, owned=False)

    def alloc(self, nbytes: int, stream: base.Stream | None = None) -> base.Buffer:
        return allocate(self, nbytes, self._default_stream if stream is None else stream)

    def borrow(self, address: int, nbytes: int) -> base.Buffer:
        return HipBuffer(self, address, nbytes, None)

    def synchronize(self) -> None:
        with self.current():
            call(self.hip, "hipDeviceSynchronize", doing=f"running the work of {self._info.name}")

    def close(self) -> None:
        """Wait for the device's work. HIP's primary context stays: other libraries use it too."""
        self.synchronize()
