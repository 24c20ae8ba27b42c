"""torch tensors on the CPU, CUDA, ROCm and XPU. Imported only when a tensor was passed, so torch is
there already."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import torch

from .._errors import ArgumentError
from .._streams import borrow
from .._types import DTYPES
from ..spec import ArrayType
from ..targets.base import Device, Stream
from . import View

__all__ = ["KIND"]

_dtypes = {name: getattr(torch, name) for name in DTYPES if hasattr(torch, name)}


@cache
def _vendor(device_type: str) -> str | None:
    if device_type == "cuda":
        return "amd" if torch.version.hip else "nvidia"
    return {"xpu": "intel"}.get(device_type)


@cache
def _dtype_name(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ArgumentError(
            f"a tensor of dtype {dtype} is not supported; kernels take {', '.join(DTYPES)}. "
            "Convert it with .to()."
        )
    return name


@cache
def _raw_stream() -> Callable[[int], int]:
    """The current CUDA or HIP stream's handle, the short way where torch has it."""
    direct = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if direct is not None:
        return direct  # type: ignore[no-any-return]
    return lambda index: int(torch.cuda.current_stream(index).cuda_stream)


class TorchKind:
    """torch tensors."""

    name = "torch"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        try:
            address = array.data_ptr()
        except RuntimeError:  # no storage: `view` knows why
            address = self.view(array).address
        return address, (
            array.dtype,
            array.shape,
            array.stride(),
            array.device,
            address % 16 == 0,
        )

    def view(self, array: Any) -> View:
        if array.layout is not torch.strided:
            raise ArgumentError(
                f"a tensor of layout {array.layout} cannot be passed to a kernel. "
                "Call .to_dense() first."
            )
        if array.is_conj() or array.is_neg():
            raise ArgumentError("a lazily negated tensor: call .resolve_neg() before passing it.")
        place = None
        if array.device.type != "cpu":
            vendor = _vendor(array.device.type)
            if vendor is None:
                raise ArgumentError(
                    f"a tensor on {array.device} cannot be used; xtarget runs on torch's cuda, "
                    "xpu and cpu devices. Move it with .to()."
                )
            place = f"{vendor}:{array.device.index or 0}"
        type_ = ArrayType(_dtype_name(array.dtype), tuple(array.shape), tuple(array.stride()))
        return View(self, array, array.data_ptr(), type_, place)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        source = self.stream_source(device)
        return source()

    def stream_source(self, device: Device) -> Callable[[], Stream | None]:
        vendor, ordinal = device.info.vendor, device.info.ordinal
        if vendor in ("nvidia", "amd") and _vendor("cuda") == vendor:
            raw = _raw_stream()
            return lambda: borrow(device, raw(ordinal))
        if vendor == "intel" and hasattr(torch, "xpu") and torch.xpu.is_available():
            return lambda: device.stream(torch.xpu.current_stream(ordinal))
        return lambda: None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        dtype = _dtypes[type.dtype]
        return torch.empty(type.shape, dtype=dtype, device="cpu" if like is None else like.device)

    def keep(self, array: Any, stream: Stream) -> None:
        """Tell torch's allocator that `stream`, which is not its current one, uses the tensor."""
        if array.device.type == "cuda":
            external = torch.cuda.ExternalStream(int(stream.handle), device=array.device)
            array.record_stream(external)


KIND = TorchKind()
