"""Captures of streams into graphs, which forbid more in HIP than they do in CUDA.

While a stream that waits for the null stream is captured, hipMallocAsync and hipFreeAsync on the
null stream end the process (a null pointer in HIP 6.4.3 and 7.2.4). And hipFree,
hipDeviceSynchronize and hipModuleUnload make any capture invalid, whoever began it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._objects.statuses import CAPTURED
from .status import clear

if TYPE_CHECKING:
    from .stream import HipStream

__all__ = ["Captures"]


class Captures:
    """A device's knowledge of captures, and the releases that wait until no capture is active.

    Args:
        hip: the binding.
        hung: the device does not answer: a release, which may wait for it, waits here too.
    """

    def __init__(self, hip: Any, hung: Callable[[], bool]) -> None:
        self._hip, self._hung = hip, hung
        self._streams: weakref.WeakSet[HipStream] = weakref.WeakSet()
        self._kept: deque[Callable[[], None]] = deque()

    def watch(self, stream: HipStream) -> None:
        """Look at this stream too, which may be captured without the null stream's knowledge."""
        self._streams.add(stream)

    def on_null_stream(self) -> bool:
        """The null stream may be given nothing now."""
        try:
            status, _ = self._hip.hipStreamIsCapturing(0)
            if not status:
                return False  # HIP cannot capture the null stream itself
        except ValueError:
            pass  # hip-python makes an enum of the state, which an error leaves uninitialised
        # another error is for the call that comes next to tell
        return clear(self._hip) == "hipErrorStreamCaptureImplicit"

    def anywhere(self) -> bool:
        """A stream is captured, as far as this device knows."""
        streams = [stream for stream in list(self._streams) if stream.raw is not None]
        return self.on_null_stream() or any(stream.is_captured() for stream in streams)

    def check_null_stream(self, doing: str) -> None:
        """Raises:
        LaunchError: a stream is captured that waits for the null stream.
        """
        self.give_back()
        if self.on_null_stream():
            raise CAPTURED.error(f"{doing} failed", "a stream that waits for this one is captured")

    def later(self, action: Callable[[], None], *, null_stream: bool = False) -> None:
        """Do it now, or when no capture forbids it. May run in any thread at any moment: takes no
        lock.

        Args:
            null_stream: it disturbs captures that the null stream has to do with, and no others.
        """
        self.give_back()
        if (
            self._kept
            or self._hung()
            or (self.on_null_stream() if null_stream else self.anywhere())
        ):
            self._kept.append(action)
        else:
            action()

    def give_back(self) -> None:
        """Run the actions that were kept, if that is possible now."""
        if not self._kept or self._hung() or self.anywhere():
            return
        while self._kept:
            try:
                action = self._kept.popleft()
            except IndexError:
                return  # another thread was faster
            action()
