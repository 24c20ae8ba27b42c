"""As much of CuPy as xtarget asks for, with arrays that lie nowhere: nothing is silicon."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest


@dataclass(slots=True)
class _Memory:
    ptr: int
    device_id: int = 0


class ndarray:  # as CuPy calls it
    """An array of CuPy's.

    Attributes:
        shapes: how often the tuple of a shape was made.
    """

    __slots__ = ("__dict__", "data")  # of which the class has a descriptor, as all of CuPy's
    shapes = 0

    def __init__(self, shape: Any, dtype: Any, address: int, strides: Any = None) -> None:
        self.dtype, self._shape = np.dtype(dtype), tuple(shape)
        self.ndim, self.size = len(self._shape), math.prod(self._shape)
        self.data = _Memory(address)
        packed = np.empty(self.shape, self.dtype).strides
        self.strides = packed if strides is None else tuple(strides)
        self._c_contiguous = self.strides == packed

    @property
    def shape(self) -> tuple[int, ...]:
        ndarray.shapes += 1
        return self._shape


ndarray.__module__ = "cupy"


class _Cuda:
    """`cupy.cuda`.

    Attributes:
        stream: the handle of the current one.
    """

    runtime = SimpleNamespace(is_hip=False, getDevice=lambda: 0)

    def __init__(self) -> None:
        self.stream = 0

    def alloc(self, nbytes: int) -> Any:
        return _Memory(1 << 40)

    def Device(self, ordinal: int) -> Any:
        return nullcontext()

    def get_current_stream(self, device_id: int = -1) -> Any:
        return SimpleNamespace(ptr=self.stream)


@contextmanager
def in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`import cupy` gives this one."""
    module: Any = ModuleType("cupy")
    module.ndarray, module.cuda = ndarray, _Cuda()
    module.empty = lambda shape, dtype: ndarray(shape, dtype, 1 << 30)
    monkeypatch.setitem(sys.modules, "cupy", module)
    yield module
    module.cuda.stream = 0  # who has asked it before may go on with it
    sys.modules.pop("xtarget._arrays.cupy", None)
