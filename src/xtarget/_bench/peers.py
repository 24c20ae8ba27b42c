"""The same computation by other libraries: NumPy, torch, torch.compile, CuPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from .._launch.samples import Clock, HostClock, TorchClock
from .._values.errors import XTargetError
from .._values.types import DeviceInfo
from .._values.value_classes import value_class
from ..spec import KernelSpec

__all__ = ["NAMES", "NoPeerError", "Peer", "peer"]

NAMES: Final = ("numpy", "torch", "torch.compile", "cupy")


class NoPeerError(XTargetError):
    """A library that cannot be measured here, or has no such function; the text says why."""


@value_class(frozen=True, slots=True)
class Peer:
    """Another library on one device.

    Attributes:
        function: the peer's function for a kernel's arguments (`NoPeerError`: it has none).
        take: a NumPy array to the peer's, on its device.
        give: the peer's result to NumPy.
        where: what it runs on, for reports.
        compiles: its first call takes seconds.
    """

    name: str
    version: str
    where: str
    clock: Clock
    function: Callable[[KernelSpec], Callable[..., Any]]
    take: Callable[[Any], Any]
    give: Callable[[Any], Any]
    compiles: bool = False


def peer(name: str, info: DeviceInfo) -> Peer:
    """A peer for comparison on a device.

    Raises:
        NoPeerError: it is not installed, or does not reach the device.
    """
    if name == "numpy":
        return Peer(name, np.__version__, "host", HostClock(), _numpy_function, _same, np.asarray)
    if name == "cupy":
        return _cupy(info)
    return _torch(name, info)


def _same(value: Any) -> Any:
    return value


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NoPeerError(f"{name} is not installed: {error}. pip install {name}") from error


def _numpy_function(spec: KernelSpec) -> Callable[..., Any]:
    if spec.reference is None:
        raise NoPeerError(f"{spec.name} has no NumPy reference")
    reference, options = spec.reference, spec.options

    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return reference(*args, **options)

    return call


def _named(spec: KernelSpec, places: tuple[Any, ...], library: str) -> Callable[..., Any]:
    """A function of the kernel's name or one of its other names."""
    for name in (spec.name, *spec.aliases):
        for place in places:
            found = getattr(place, name, None)
            if callable(found) and not isinstance(found, type):
                return cast(Callable[..., Any], found)
    raise NoPeerError(f"{library} has no function of the name {spec.name}")


# ------------------------------------------------------------------------------------------- torch


def _torch(name: str, info: DeviceInfo) -> Peer:
    torch = _imported("torch")
    kind = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu"}.get(info.vendor, "cpu")
    if info.runs_on != "silicon":
        kind = "cpu"
    module = getattr(torch, kind, None)
    if kind != "cpu":
        if module is None or not module.is_available():
            raise NoPeerError(f"this torch ({torch.__version__}) does not reach {info.name}")
        if (torch.version.hip is not None) != (info.vendor == "amd") and kind == "cuda":
            raise NoPeerError(f"this torch ({torch.__version__}) is for another vendor's GPUs")
    number = int(info.name.rpartition(":")[2]) if kind != "cpu" else 0
    where = "cpu" if kind == "cpu" else f"{kind}:{number}"
    clock: Clock = HostClock() if kind == "cpu" else TorchClock(module, number)

    def take(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype.name == "bfloat16":
            bits = torch.from_numpy(value.view(np.int16))
            return bits.view(torch.bfloat16).to(where)
        return torch.from_numpy(value).to(where)

    def give(value: Any) -> Any:
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype is torch.bfloat16 else value.numpy()

    def function(spec: KernelSpec) -> Callable[..., Any]:
        found = _torch_function(torch, spec)
        return torch.compile(found) if name == "torch.compile" else found

    compiles = name == "torch.compile"
    return Peer(name, torch.__version__, where, clock, function, take, give, compiles)


def _torch_function(torch: Any, spec: KernelSpec) -> Callable[..., Any]:
    """torch's function with the kernel's default options, where the two write them differently."""
    functional = torch.nn.functional
    special: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "layer_norm": lambda x, *of: functional.layer_norm(x, x.shape[-1:], *of),
        "rms_norm": lambda x, *of: functional.rms_norm(x, x.shape[-1:], *of),
        "positive": torch.clone,  # torch.positive gives its argument back
        "max": torch.amax,
        "min": torch.amin,
    }
    if spec.name in special:
        return special[spec.name]
    return _named(spec, (torch, functional, torch.special), "torch")


# -------------------------------------------------------------------------------------------- cupy


def _cupy(info: DeviceInfo) -> Peer:
    if info.vendor not in ("nvidia", "amd") or info.runs_on != "silicon":
        raise NoPeerError(f"CuPy has no arrays on {info.name} ({info.runs_on})")
    cupy = _imported("cupy")
    number = int(info.name.rpartition(":")[2])

    def take(value: Any) -> Any:
        with cupy.cuda.Device(number):
            return cupy.asarray(value) if isinstance(value, np.ndarray) else value

    def function(spec: KernelSpec) -> Callable[..., Any]:
        found = _named(spec, (cupy,), "CuPy")

        def call(*args: Any) -> Any:
            with cupy.cuda.Device(number):
                return found(*args)

        return call

    clock = HostClock(lambda: cupy.cuda.Device(number).synchronize())
    return Peer("cupy", cupy.__version__, info.name, clock, function, take, cupy.asnumpy)
