"""Other libraries' streams: one object for each handle, as long as the device is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xtarget import ArgumentError
from xtarget._devices import registry, streams
from xtarget._values.errors import DriverError
from xtarget.targets._objects.handles import StreamBase, stream_number


def device(name: str = "nvidia:7") -> Any:
    made = SimpleNamespace(info=SimpleNamespace(name=name), default_stream=object())
    made.stream = lambda handle: SimpleNamespace(handle=handle, device=made)
    return made


@pytest.fixture(autouse=True)
def nothing_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_borrowed", {})


def test_equal_handles_of_a_device_are_the_same_stream() -> None:
    one, other = device(), device("nvidia:8")
    first = streams.borrow(one, 5)
    assert first is streams.borrow(one, 5)
    assert first is streams.borrowed(one).get(5)
    assert first is not streams.borrow(one, 6)
    assert streams.borrow(other, 5).device is other
    assert streams.borrow(one, 0) is one.default_stream


def test_a_device_that_is_lost_takes_its_streams_along() -> None:
    one, other = device(), device("nvidia:8")
    kept, known = streams.borrow(other, 5), streams.borrowed(one)
    streams.borrow(one, 5)
    for lost in registry.on_lost:
        lost("nvidia:7")
    assert not known, "who has it would launch on a stream that is gone"
    again = device()
    assert streams.borrow(again, 5).device is again
    assert streams.borrow(other, 5) is kept


def test_handles_are_forgotten_when_there_are_many() -> None:
    one = device()
    for handle in range(1, 3 * streams._MOST):
        streams.borrow(one, handle)
    assert len(streams.borrowed(one)) <= streams._MOST


class Default:
    """A default stream whose handle is a number, as CUDA's and HIP's."""

    handle = 0

    def record(self) -> None: ...


def numbered() -> Any:
    made = device()
    made.info.ordinal, made.info.vendor = 7, "nvidia"
    made.default_stream = Default()
    return made


class Pointer:
    """hip-python's `ihipStream_t`."""

    def __int__(self) -> int:
        return 5


class Core:
    """cuda.core's stream."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 5)


GOOD = {
    "torch": SimpleNamespace(cuda_stream=5),
    "CuPy": SimpleNamespace(ptr=5),
    "a property": SimpleNamespace(__cuda_stream__=(0, 5)),
    "older": SimpleNamespace(handle=5),
    "an object's pointer": SimpleNamespace(handle=Pointer()),
    "NumPy": np.int64(5),
    "hip-python": Pointer(),
    "cuda.core": Core(),
}
BAD = {
    "text": "5",
    "float": 5.0,
    "bool": True,
    "NumPy's bool": np.True_,
    "array": np.array([5]),
    "object": object(),
    "no tuple": SimpleNamespace(__cuda_stream__=5),
    "short tuple": SimpleNamespace(__cuda_stream__=(0,)),
    "no number": SimpleNamespace(cuda_stream="stream 5"),
    "no pointer": SimpleNamespace(ptr=object()),
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_driver_and_a_launch_read_a_handle_alike(kind: str) -> None:
    assert stream_number(GOOD[kind], "nvidia:7") == 5
    one = numbered()
    assert streams.resolve(one, GOOD[kind]) is streams.borrow(one, 5)


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_handle_is_refused_in_a_sentence(kind: str) -> None:
    with pytest.raises(DriverError, match=r"not a stream of nvidia:7.*Give an integer handle"):
        stream_number(BAD[kind], "nvidia:7")
    with pytest.raises(ArgumentError, match="stream="):
        streams.resolve(numbered(), BAD[kind])


def test_a_stream_of_ours_does_not_pass_for_a_number() -> None:
    """An AMD stream's handle would be another stream's on NVIDIA."""
    with pytest.raises(DriverError, match="not a stream of nvidia:7"):
        stream_number(StreamBase(5, "amd:0"), "nvidia:7")


def test_the_streams_of_any_vendor_are_taken_as_they_are() -> None:
    one, own = numbered(), Default()
    assert streams.resolve(one, own) is own


def test_a_stream_of_another_device_is_refused() -> None:

    class Other(StreamBase):
        def record(self) -> None: ...

    with pytest.raises(ArgumentError, match="a stream of amd:0, but the launch is on"):
        streams.resolve(numbered(), Other(5, "amd:0"))
