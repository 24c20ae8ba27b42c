"""An opened AMD device."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..._values.errors import DeviceLostError, LoadError
from ..._values.types import Artifact, DeviceInfo
from .._objects.stream_order import OrderedDevice
from . import library
from .capture import Captures
from .graphs import record_graph
from .memory import FilledBuffer, HipBuffer, allocate
from .module import HipModule, load
from .patience import until_done
from .pool import Pool
from .status import call
from .stream import HipStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..base import Stream
    from ..optional import Graph

__all__ = ["HipDevice"]

_HIP_STREAM_DEFAULT, _NON_BLOCKING = 0, 1


class HipDevice(OrderedDevice[HipStream, HipBuffer]):
    """A HIP device. All calls may come from any thread. Loading never compiles.

    Attributes:
        hip: the binding.
        ordinal: HIP's number for it.
        alone: HIP offers no other device, so that this one is always the current one.
        grid_limits: blocks in x, y, z.
        features: what gcnArchName says after the arch: `xnack`, `sramecc` to `on` or `off`.
        captures: of streams into graphs, and what has to wait for their end.
        pooled: the device has a memory pool, used in the order of a stream.
        pool: the one of a real device; None without.
        asks: it is asked whether work is done before HIP waits for it; not an emulated device,
            which works while it is waited for.

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
        self.captures = Captures(hip, lambda: self._hung is not None)
        self._default = HipStream(self, 0, owned=False, is_default=True)
        attribute = hip.hipDeviceAttribute_t.hipDeviceAttributeMemoryPoolsSupported
        doing = f"asking {info.name} for memory pools"
        self.pooled = bool(call(hip, "hipDeviceGetAttribute", attribute, self.ordinal, doing=doing))
        self.pool: Pool | None = None
        self.asks = False
        self._hung: tuple[Callable[[], bool], str] | None = None

    def lose(self, done: Callable[[], bool], why: str) -> None:
        """Have every use say that the device does not answer, until `done` says that it does."""
        self._hung = done, why
        self.raw = None  # which a launch looks at

    def check_answers(self) -> None:
        """Raises:
        DeviceLostError: it did not when it was last waited for, and does not now.
        """
        hung = self._hung
        if hung is None:
            return
        done, why = hung
        if not done():
            raise DeviceLostError(f"{self.where} still does not answer: {why}")
        self.raw, self._hung = self.hip, None  # it was slow

    def live(self) -> Any:
        self.check_answers()
        return super().live()

    def close(self) -> None:
        if self._hung is not None:
            self.raw = self.hip  # it is open still, and its wait says that it is lost
        try:
            super().close()
        finally:
            self._hung = None

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

    def graph(self, record: Callable[[Stream], None]) -> Graph:
        self.live()
        doing = f"making a stream on {self.where}"
        with self.current():
            made = call(self.hip, "hipStreamCreateWithFlags", _NON_BLOCKING, doing=doing)
        stream = HipStream(self, int(made), owned=True, recording=True)
        self.captures.watch(stream)  # what would disturb the capture waits for its end
        try:
            return record_graph(self, self.hip, stream, record)
        finally:
            stream.end()
            self.captures.give_back()

    def stream(self, handle: Any = None) -> HipStream:
        if handle is not None:
            library.check_alone(self.where)
        return super().stream(handle)

    def _new_stream(self) -> HipStream:
        made = self._idle_stream()
        lent = made is not None
        if not lent:
            doing = f"making a stream on {self.where}"
            with self.current():
                made = call(self.hip, "hipStreamCreateWithFlags", _HIP_STREAM_DEFAULT, doing=doing)
        stream = HipStream(self, int(made), owned=True)
        if lent:
            stream.lend()
        self.captures.watch(stream)
        return stream

    def _borrowed_stream(self, number: int, keep: Any) -> HipStream:
        stream = HipStream(self, number, owned=False, keep=keep)
        self.captures.watch(stream)
        return stream

    def _allocate(self, nbytes: int, stream: HipStream) -> HipBuffer:
        return allocate(self, nbytes, stream)

    def borrow(self, address: int, nbytes: int) -> HipBuffer:
        self.live()
        return (FilledBuffer if self.asks else HipBuffer)(self, address, nbytes)

    def capturing(self) -> bool:
        return self.captures.anywhere()

    def _cached(self) -> int:
        with self.current():
            return 0 if self.pool is None else self.pool.kept_bytes()

    def _trim(self) -> None:
        self.captures.give_back()
        if self.pool is not None:
            with self.current():
                self.pool.trim()

    def _wait(self) -> None:
        # closing leaves HIP's primary context as it is: other libraries use it too
        doing = f"running the work of {self.where}"
        with self.current():
            until_done(self, "hipStreamQuery", 0, doing)
            call(self.hip, "hipDeviceSynchronize", doing=doing)
            self.captures.give_back()

    def _end(self) -> None:
        super()._end()
        if self.pool is not None and self._hung is None:
            with self.entered():
                self.pool.trim()
