"""Code that a run time has loaded and that graphs may hold: CUDA and HIP.

A captured launch keeps the code's address in a graph, of which nobody here hears again. So what was
launched while a stream was captured stays loaded; all else is unloaded when nothing can launch it
any more. Whether a stream is captured costs a call of the run time to ask, a fifth of a launch. So
the first that are launched on other streams than the default one, which cannot be captured, stay
without being asked about: half of what `XTARGET_MODULES` lets stay loaded.
"""

from __future__ import annotations

from typing import Any

from ..._values import environment
from .handles import Owned

__all__ = ["LoadedCode", "Staying"]

#: What stayed when its device was closed: other libraries' graphs may outlive that.
_outlived: list[set[Any]] = []


class Staying:
    """The code of a device that is never unloaded."""

    def __init__(self) -> None:
        self._codes: set[LoadedCode] = set()

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, code: LoadedCode) -> None:
        self._codes.add(code)

    def outlive(self) -> None:
        """The device is closed."""
        _outlived.append(self._codes)


class LoadedCode(Owned):
    """Code on a device; dropped with the last of its module, functions and prepared launches.

    Attributes:
        stays: it is never unloaded.
    """

    __slots__ = ("_staying", "_unasked", "stays")

    def __init__(self, raw: Any, where: str, staying: Staying) -> None:
        super().__init__(raw, where)
        self.stays = False
        self._staying = staying
        self._unasked: int | None = None

    def launching(self, stream: Any) -> None:
        """Before a launch on a stream of the device other than its default one."""
        if self._unasked is None:  # most code meets the default stream alone
            self._unasked = environment.modules()[0] // 2
        if not self.stays and (len(self._staying) < self._unasked or stream.capturing()):
            self.stay()

    def stay(self) -> None:
        self.stays = True
        self._staying.add(self)
