"""Streams of the caller: other libraries' stream objects and handles, as our `Stream`."""

from __future__ import annotations

from typing import Any

from . import _registry
from ._errors import ArgumentError
from .targets.base import Device, Stream

__all__ = ["borrow", "resolve"]

# One Stream object for each borrowed handle of a device: equal handles are the same object.
_borrowed: dict[tuple[str, int], Stream] = {}
_MOST = 4096


def _drop_streams(device: str) -> None:
    for key in [k for k in list(_borrowed) if k[0] == device]:
        _borrowed.pop(key, None)


_registry.on_lost.append(_drop_streams)


def borrow(device: Device, handle: int) -> Stream:
    """The stream with that integer handle (CUDA, HIP); 0 is the device's default stream."""
    key = (device.info.name, handle)
    stream = _borrowed.get(key)
    if stream is None:
        if len(_borrowed) >= _MOST:  # handles of streams that were destroyed long ago
            _borrowed.clear()
        stream = device.default_stream if handle == 0 else device.stream(handle)
        _borrowed[key] = stream
    return stream


def resolve(device: Device, stream: Any) -> Stream:
    """What the caller gave as `stream=`.

    Args:
        device: the device of the launch.
        stream: an xtarget stream, a `torch.cuda.Stream`, a `cuda.core.Stream` or anything with
            `__cuda_stream__`, a CuPy stream, an integer handle, a `dpctl.SyclQueue`, a
            `torch.xpu.Stream`, or a `pyopencl.CommandQueue`.

    Raises:
        ArgumentError: it belongs to another device, or is no stream of this vendor.
    """
    if isinstance(stream, bool):
        raise ArgumentError(f"stream={stream!r} is not a stream.")
    if isinstance(stream, int):
        return borrow(device, stream)
    module = type(stream).__module__
    if module.startswith("xtarget."):
        own: Stream = stream
        return own
    info = device.info
    where = getattr(stream, "device", None)  # torch's streams know their device
    index = getattr(where, "index", None)
    if module.startswith("torch") and index is not None and index != info.ordinal:
        raise ArgumentError(
            f"stream={stream!r} belongs to {where}, but the launch is on {info.name}. Give a "
            "stream of that device."
        )
    if info.vendor in ("nvidia", "amd"):
        handle = _handle(stream)
        if handle is None:
            raise ArgumentError(
                f"stream={stream!r} is not a stream of {info.name}. Give a torch.cuda.Stream, a "
                "CuPy stream, a cuda.core Stream, or an integer handle."
            )
        return borrow(device, handle)
    queue = getattr(stream, "sycl_queue", stream)
    return device.stream(queue)


def _handle(stream: Any) -> int | None:
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(handle)
    return None
