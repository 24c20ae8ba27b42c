"""Memory that a caller gives up at once: what is read is kept, or was waited for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xtarget

N = 1 << 20


class Bytes:
    """Makes the bytes of its interface on the way, as Pillow's images do."""

    def __init__(self, value: int) -> None:
        self.value = value

    @property
    def __array_interface__(self) -> dict[str, Any]:
        data = np.full(N, self.value, np.float32).tobytes()
        return {"version": 3, "shape": (N,), "typestr": "<f4", "data": data}


class Copies:
    """Exports a copy by DLPack, as the standard allows."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return np.full(N, self.value, np.float32).__dlpack__()


class ReadOnly(Copies):
    """Of DLPack 1: memory that must not be written to."""

    def __dlpack__(self, *, max_version: Any = None, **_: Any) -> Any:
        values = np.full(N, self.value, np.float32)
        values.flags.writeable = False
        return values.__dlpack__(max_version=max_version)


class Old(Copies):
    """Of DLPack before 1.0: knows no `max_version`."""

    def __dlpack__(self, stream: Any = None) -> Any:
        assert stream is None
        return np.full(N, self.value, np.float32).__dlpack__()


def _numpy(value: int) -> Any:
    return np.full(N, value, np.float32)


READ_ONLY_DLPACK = int(np.__version__.split(".")[0]) >= 2
MAKERS: list[Callable[[int], Any]] = [_numpy, Bytes, Copies, Old]
MAKERS += [ReadOnly] if READ_ONLY_DLPACK else []


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("beside", ["nothing", "a device array", "out"])
def test_what_is_dropped_at_once_is_read_before(
    device: str, make: Callable[[int], Any], beside: str
) -> None:
    zero = np.zeros(N, np.float32)
    if beside == "a device array":
        zero = xtarget.asarray(zero)
    out = np.empty(N, np.float32) if beside == "out" else None
    for value in range(1, 6):
        result = xtarget.run("add", zero, make(value), out=out)
        junk = np.full(N, -1, np.float32)  # takes the memory where that was freed
        found = result.numpy() if isinstance(result, xtarget.Array) else np.asarray(result)
        del junk
        np.testing.assert_array_equal(found, np.full(N, value, np.float32))


def test_a_host_array_may_be_changed_when_run_is_back(device: str) -> None:
    zero, values = xtarget.asarray(np.zeros(N, np.float32)), np.empty(N, np.float32)
    for value in range(1, 6):
        values[:] = value
        result = xtarget.run("add", zero, values)
        values[:] = -1
        np.testing.assert_array_equal(result.numpy(), np.full(N, value, np.float32))
    a = xtarget.asarray(np.full(N, 7, np.float32))
    out = np.zeros(N, np.float32)
    xtarget.run("add", a, a, out=out)
    np.testing.assert_array_equal(out, np.full(N, 14, np.float32))


def test_asarray_holds_the_memory_that_it_stands_for(device: str) -> None:
    array = xtarget.asarray(Copies(3))
    also = xtarget.asarray(Bytes(4))
    np.testing.assert_array_equal(xtarget.run("add", array, also).numpy(), np.full(N, 7.0))


def test_nothing_is_held_after_the_call(device: str) -> None:
    given = Bytes(2)
    kept = weakref.ref(given)
    xtarget.run("relu", given)
    del given
    gc.collect()
    assert kept() is None


def test_an_image_goes_in(device: str) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed here")
    values = np.arange(256 * 256, dtype=np.uint8).reshape(256, 256)
    picture = image.fromarray(values)
    for _ in range(5):
        np.testing.assert_array_equal(xtarget.run("add", picture, 0), values)
