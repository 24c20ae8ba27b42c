"""An opened device: waiting for it and closing it, the same way for every vendor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..._values.types import DeviceInfo
from .handles import Opened, StreamBase

__all__ = ["DeviceBase"]

StreamT = TypeVar("StreamT", bound=StreamBase)


class DeviceBase(Opened, ABC, Generic[StreamT]):
    """One opened device. `raw` is what its parts are made with.

    Attributes:
        native_key: see `targets.base.Device`.
    """

    native_key: str | None = None  # loading never compiles

    #: Set by the vendor when it is opened.
    _default: StreamT
    _on_close: Callable[[], None] | None = None

    def __init__(self, raw: Any, info: DeviceInfo) -> None:
        super().__init__(raw, info.name)
        self.info = info

    @property
    def default_stream(self) -> StreamT:
        self.live()
        return self._default

    @abstractmethod
    def _wait(self) -> None:
        """Wait on the host for all work."""

    def _end(self) -> None:
        """Give back what belongs to the device; buffers that are still open stay valid."""

    def synchronize(self) -> None:
        self.live()
        self._wait()

    def when_closed(self, action: Callable[[], None]) -> None:
        """Have `action` called when that happens."""
        self._on_close = action

    def close(self) -> None:
        if self.raw is None:
            return
        try:
            self._wait()
        finally:  # failed work is told, and the device is closed all the same
            self.raw = None
            if self._on_close is not None:
                self._on_close()
            self._end()
