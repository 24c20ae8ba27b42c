"""An opened CUDA device, and whose turn it is in a thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cuda.core as core
from cuda.bindings import driver

from ..._values.types import Artifact, DeviceInfo
from .._objects.stream_order import OrderedDevice
from ..base import Stream
from .code import CudaCode, Leaving, Relaxed, load_library
from .cubin import check_cubin
from .graphs import CudaGraph, record_graph
from .memory import CudaBuffer, allocate, kept_bytes, pool_of, trim
from .module import CudaModule
from .pinned import CudaPinned, pool_of_pinned, take_pinned
from .status import check, checked
from .stream import CudaStream

__all__ = ["CudaDevice"]

#: Artifacts that are remembered as right.
_MOST_CHECKED = 4096


class CudaDevice(OrderedDevice[CudaStream, CudaBuffer]):
    """One opened CUDA device, in its primary context, which torch and CuPy use too.

    Attributes:
        leaving: loaded code that nothing can launch any more.
    """

    def __init__(self, info: DeviceInfo, *, alone: bool) -> None:
        self._alone = alone
        self.leaving = Leaving(self)
        self._streams: weakref.WeakSet[CudaStream] = weakref.WeakSet()
        self._threads = threading.local()
        #: Artifacts, by `id`, and their entries.
        self._checked: dict[int, tuple[Artifact, tuple[str, ...]]] = {}
        what = f"opening {info.name} ({info.product})"
        before = check(driver.cuCtxGetCurrent(), what)
        try:
            with checked(what):
                device = core.Device(info.ordinal)
                device.set_current()
            self._context = check(driver.cuCtxGetCurrent(), what)
            self._pool = pool_of(info)
            self._pinned = pool_of_pinned(self)
        finally:
            if int(before):
                check(driver.cuCtxSetCurrent(before), "restoring the current context")
        super().__init__(device, info)
        self._default = CudaStream(self, core.LEGACY_DEFAULT_STREAM, owned=False, is_default=True)

    def current(self) -> AbstractContextManager[None]:
        return nullcontext() if self.always_current else super().current()

    @contextmanager
    def entered(self) -> Iterator[None]:
        before = check(driver.cuCtxGetCurrent(), "reading the current context")
        here = int(before) == int(self._context)
        if not here:
            check(driver.cuCtxSetCurrent(self._context), f"switching to {self.info.name}")
        if self._alone and (here or not int(before)):
            self._threads.ready = True
        try:
            yield
        finally:
            if int(before) and not here:
                check(driver.cuCtxSetCurrent(before), "restoring the current context")

    @property
    def context(self) -> int:
        """The handle of the device's context."""
        return int(self._context)

    @property
    def always_current(self) -> bool:
        """No switching is needed in this thread: the only device, entered before."""
        return self._alone and getattr(self._threads, "ready", False)

    def load(self, artifact: Artifact, native: bytes | None = None) -> CudaModule:
        self.live()
        self.leaving.collect()
        entries = self._entries(artifact)
        if artifact.format == "ptx":  # the driver compiles it
            from .._triton.frozen import check_machine_code

            check_machine_code(artifact.entry, self.info.name, "PTX")
        where = f"{artifact.entry} on {self.where}"
        # while a stream is captured too: torch captures in the mode that forbids it otherwise
        with self.current(), Relaxed(what := f"loading {where}"):
            library, kernel = load_library(artifact.binary, artifact.entry, what)
        return CudaModule(self, artifact, CudaCode(self, library, where), kernel, entries)

    def _entries(self, artifact: Artifact) -> tuple[str, ...]:
        """The entries of an artifact that was checked; one that is loaded again is, by now."""
        known = self._checked.get(id(artifact))
        if known is not None and known[0] is artifact:
            return known[1]
        entries = check_cubin(artifact, self.info)
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        self._checked[id(artifact)] = artifact, entries
        return entries

    def graph(self, record: Callable[[Stream], None]) -> CudaGraph:
        raw = self.live()
        with self.current(), checked(f"making a stream on {self.where}"):
            stream = CudaStream(self, raw.create_stream(), owned=True, recording=True)
        return record_graph(self, stream, record)

    def capturing(self) -> bool:
        """A stream is captured, as far as this device knows: one of its own, or one that waits for
        the default stream. Others' streams are not asked: their handles may be gone."""
        implicit = driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
        with self.current():
            answer = driver.cuStreamIsCapturing(0)
        if answer[0] == implicit:
            return True
        check(answer, f"asking whether a stream of {self.where} is captured")
        streams = [stream for stream in list(self._streams) if stream.raw is not None]
        return any(stream.capturing() for stream in streams)

    def _new_stream(self) -> CudaStream:
        with self.current(), checked(f"making a stream on {self.where}"):
            made = self._idle_stream()
            if made is None:
                made = self.raw.create_stream()
            stream = CudaStream(self, made, owned=True)
        self._streams.add(stream)
        return stream

    def _borrowed_stream(self, number: int, keep: Any) -> CudaStream:
        with self.current(), checked(f"borrowing a stream of {self.where}"):
            return CudaStream(self, core.Stream.from_handle(number), owned=False, keep=keep)

    def _allocate(self, nbytes: int, stream: CudaStream) -> CudaBuffer:
        return allocate(self, self._pool, nbytes, stream)

    def borrow(self, address: int, nbytes: int) -> CudaBuffer:
        self.live()
        return CudaBuffer(self, address, nbytes)

    def pinned(self, nbytes: int, stream: Stream) -> CudaPinned | None:
        self.live()
        return take_pinned(self, self._pinned, nbytes, stream)

    def _pinned_bytes(self) -> int:
        return self._pinned.nbytes

    def _cached(self) -> int:
        return kept_bytes(self._pool, self.info)

    def _trim(self) -> None:
        self.leaving.collect()
        trim(self._pool, self.info)
        self._pinned.trim()

    def _wait(self) -> None:
        leaving = self.leaving.take()
        try:
            with self.current():
                check(driver.cuCtxSynchronize(), f"running the work of {self.where}")
        except BaseException:
            self.leaving.put_back(leaving)
            raise
        self.leaving.done(leaving)

    def _end(self) -> None:
        # the primary context is shared with torch and CuPy: it stays, only our use of it ends
        super()._end()
        self._alone = False  # the next launch goes through `current`, which says so
        trim(self._pool, self.info)
        self._pinned.trim()
