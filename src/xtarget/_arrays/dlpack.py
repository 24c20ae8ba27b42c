"""Arrays that offer nothing but DLPack (JAX and others)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._devices.registry import locate
from .._values.errors import ArgumentError, shortened_text
from .._values.vendors import of_dlpack_type, traits
from ..spec import ArrayType
from ..targets.base import Device, Stream
from . import capsules
from .host import KIND as HOST
from .host import export_host
from .kinds import Adopted, AdoptedKind, View
from .own import KIND as OWN

__all__ = ["KIND", "adopt_offer"]


class DlpackArray(Adopted):
    """The data read from an array that offers DLPack."""

    __slots__ = ()


class DlpackKind(AdoptedKind):
    """Any object with `__dlpack__`. The producer makes its array ready before it exports it."""

    name = "DLPack"

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        return device.default_stream

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        on_host = like is not None and like.view.place is None
        kind = HOST if on_host else OWN
        return kind.empty(type, device, None)

    def finish(self, array: Any, like: Any) -> Any:
        """The result as an array of the caller's library, where that one can take DLPack in.

        Raises:
            ArgumentError: it can, but not such an array.
        """
        caller = like.array
        space = getattr(caller, "__array_namespace__", None)
        module = space() if space else sys.modules.get(type(caller).__module__.partition(".")[0])
        convert = getattr(module, "from_dlpack", None)
        if convert is None:
            return array
        exported = HostExport(array) if isinstance(array, np.ndarray) else array
        try:
            return convert(exported)
        except Exception as error:  # whatever the other library raises
            name = getattr(module, "__name__", type(caller).__name__)
            raise ArgumentError(
                f"{name} cannot take the result, of dtype {array.dtype}, by DLPack: "
                f"{type(error).__name__}: {shortened_text(str(error))}. "
                "Give arrays of NumPy, or xtarget.asarray(...)."
            ) from error


class HostExport:
    """A NumPy array for export: NumPy itself does not export bfloat16."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (capsules.HOST, 0)

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_: Any) -> Any:
        return export_host(self.array, max_version)


KIND = DlpackKind()


def adopt_offer(array: Any, export: Any) -> DlpackArray:
    """Read the capsule of an array. The capsule keeps the memory alive, which may be a copy.

    Raises:
        ArgumentError: a dtype, a layout or a device that kernels cannot use.
    """
    device_type, _ = array.__dlpack_device__()
    vendor = of_dlpack_type(device_type) or ""
    stream = traits(vendor).dlpack_stream  # the default one, where launches for this kind go
    wanted = {} if stream is None else {"stream": stream}
    try:
        capsule = export(**wanted, max_version=capsules.VERSION)
    except TypeError:  # before DLPack 1.0: what is read-only cannot be told from what is not
        capsule = export(**wanted)
    found = capsules.from_capsule(capsule)
    type_ = found.type
    if traits(vendor).dlpack_located and found.address:
        locate(vendor, found.address)
    if type_.size and not found.address:
        raise ArgumentError(f"{type(array).__qualname__} of shape {type_.shape} has no memory.")
    if found.address % type_.itemsize:
        raise ArgumentError(
            "an array whose elements are not aligned cannot be passed to a kernel. Pass a copy."
        )
    # before DLPack 1.0 nobody says whether an array may change: JAX's must not
    view = View(KIND, (array, capsule), found.address, type_, found.place, found.writable)
    return DlpackArray(array, view)
