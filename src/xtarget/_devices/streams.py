"""Streams of the caller: other libraries' stream objects and handles, as our `Stream`."""

from __future__ import annotations

from typing import Any

from .._values.errors import ArgumentError, DriverError, XTargetError, shortened, shortened_text
from ..targets._objects.handles import StreamBase, stream_number
from ..targets.base import Device, Stream
from . import registry

__all__ = ["borrow", "borrowed", "resolve"]

# By the name of the device and the handle: equal handles are the same object.
_borrowed: dict[str, dict[int, Stream]] = {}
_MOST = 4096


def _drop_streams(device: str) -> None:
    _borrowed.pop(device, {}).clear()


registry.on_lost.append(_drop_streams)


def borrow(device: Device, handle: int) -> Stream:
    """The stream with that integer handle (CUDA, HIP); 0 is the device's default stream."""
    known = borrowed(device)
    stream = known.get(handle)
    if stream is None:
        if len(known) >= _MOST:  # handles of streams that were destroyed long ago
            known.clear()
        stream = device.default_stream if handle == 0 else device.stream(handle)
        known[handle] = stream
    return stream


def borrowed(device: Device) -> dict[int, Stream]:
    """Return the handles that `borrow` knows, for the launch path; call `borrow` for any other."""
    return _borrowed.setdefault(device.info.name, {})


def resolve(device: Device, stream: Any) -> Stream:
    """Return the stream for the caller's `stream=`.

    Args:
        device: the device of the launch.
        stream: an xtarget stream, a `torch.cuda.Stream`, a `cuda.core.Stream` or anything with
            `__cuda_stream__`, a CuPy stream, an integer handle, a `dpctl.SyclQueue`, a
            `torch.xpu.Stream`, or a `pyopencl.CommandQueue`.

    Raises:
        ArgumentError: it belongs to another device, or is not a stream of this vendor.
    """
    if isinstance(stream, bool):
        raise ArgumentError(f"stream={shortened(stream)} is not a stream.")
    if isinstance(stream, int):
        if not 0 <= stream < 1 << 64:
            raise ArgumentError(
                f"stream={shortened(stream)} is no handle of a stream: these have 64 bits."
            )
        return borrow(device, stream)
    if isinstance(stream, StreamBase) and stream.where != device.info.name:
        raise ArgumentError(
            f"stream= is a stream of {stream.where}, but the launch is on {device.info.name}. "
            "Give a stream of that device."
        )
    module = type(stream).__module__
    if module.startswith("xtarget.") or isinstance(stream, type(device.default_stream)):
        if not hasattr(stream, "record"):  # of ours, and no stream: a device, an array
            raise ArgumentError(f"stream={shortened(stream)} is not a stream.")
        own: Stream = stream
        return own
    try:
        return _foreign(device, stream, module)
    except XTargetError:
        raise
    except Exception as error:  # what an object of another library raises
        raise ArgumentError(
            f"stream={shortened(stream)} is not a stream of {device.info.name} "
            f"({type(error).__name__}: {shortened_text(str(error))})."
        ) from error


def _foreign(device: Device, stream: Any, module: str) -> Stream:
    """Another library's stream object."""
    info = device.info
    where = getattr(stream, "device", None)  # torch's streams know their device
    index = getattr(where, "index", None)
    if module.startswith("torch") and index is not None and index != info.ordinal:
        raise ArgumentError(
            f"stream={shortened(stream)} belongs to {where}, but the launch is on {info.name}. "
            "Give a stream of that device."
        )
    if isinstance(device.default_stream.handle, int):
        try:
            number = stream_number(stream, info.name)
        except DriverError as error:
            raise ArgumentError(f"stream={error}") from error
        return borrow(device, number)
    return device.stream(stream)
