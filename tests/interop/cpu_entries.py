"""Launches by a driver's own entries, on the CPU: functions of these tests stand for a driver's
`cuLaunchKernel` and `cuMemsetD8Async` (D16, D32), and launch and fill there."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import xtarget
from xtarget._launch import native
from xtarget._launch.call import BoundCall
from xtarget._launch.native_launches import launches_of, launches_of_class
from xtarget._values.types import LaunchConfig
from xtarget.targets._objects.module import CLOSINGS
from xtarget.targets.optional import NativeLaunch

ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
)  # fmt: skip
WORDS = ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint
FILLS = [
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, word, ctypes.c_size_t, ctypes.c_void_p)
    for word in WORDS
]
READ: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float}


@dataclass
class Entries:
    """The launches that they started.

    Attributes:
        grids: of each launch.
        filled: bytes that each fill was given.
        before: called before each launch with its parameters; what it returns but 0 is the
            driver's status.
        refused: the driver's status of each fill.
        stays: their code is never unloaded.
    """

    device: Any
    grids: list[tuple[int, int, int]] = field(default_factory=list)
    filled: list[int] = field(default_factory=list)
    before: Callable[[list[int]], int] = lambda given: 0
    refused: int = 0
    kept: list[Any] = field(default_factory=list)
    stays: bool = True


class _Code:
    def __init__(self, stays: bool) -> None:
        self.stays = stays


def in_place(monkeypatch: pytest.MonkeyPatch) -> Entries:
    """Have functions of the CPU be started so."""
    try:
        device = xtarget.device("cpu")
    except xtarget.NoDeviceError as error:
        pytest.skip(str(error))
    from xtarget.targets.cpu.module import CpuFunction

    entries = Entries(device)

    def fill(address: int, pattern: bytes, count: int) -> int:
        if entries.refused:
            return entries.refused
        device.synchronize()  # work of other streams
        ctypes.memmove(address, pattern * count, len(pattern) * count)
        entries.filled.append(len(pattern) * count)
        return 0

    def filling(width: int) -> Callable[..., int]:
        return lambda address, word, count, stream: fill(
            address, word.to_bytes(width, "little"), count
        )

    modules: dict[int, Any] = {}

    def launch(
        function: int, x: int, y: int, z: int, threads: int, two: int, three: int,
        shared: int, stream: Any, values: Any, extra: Any,
    ) -> int:  # fmt: skip
        loaded = modules[function]()
        assert loaded is not None, "what is launched has its code"
        given = [
            ctypes.cast(place, ctypes.POINTER(READ.get(p.type, ctypes.c_uint64)))[0]
            for p, place in zip(loaded.artifact.parameters, values, strict=False)
        ]
        status = entries.before(given)
        if status:
            return status
        entries.grids.append((x, y, z))
        loaded.function().prepare(LaunchConfig((x, y, z)), given)((), device.default_stream)
        device.synchronize()  # torch's memory of the host has no order of streams
        return 0

    def started(self: Any, config: LaunchConfig) -> NativeLaunch:
        if self.code is None:
            self.code = _Code(entries.stays)
        modules[number := len(modules) + 1] = weakref.ref(self._module)
        return NativeLaunch(
            entry=start, function=number, current_context=0, context=0, block=(1, 1, 1),
            shared_bytes=0, module=self._module, code=self.code, fills=tuple(clear),
            closings=CLOSINGS,
        )  # fmt: skip

    made = (
        ENTRY(launch),
        *(kind(filling(width)) for kind, width in zip(FILLS, (1, 2, 4), strict=True)),
    )
    entries.kept.append(made)
    start, *clear = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in made)
    if not hasattr(CpuFunction, "native"):  # `isinstance` remembers what it has seen
        type.__setattr__(CpuFunction, "native", lambda function, config: None)
    monkeypatch.setattr(CpuFunction, "native", started)
    return entries


def for_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls on torch's tensors be started so too, which Python starts and waits for."""

    def alone(call: BoundCall) -> BoundCall:
        found = call.copy()
        found.synchronous = False
        return found

    monkeypatch.setattr(native, "launches_of", lambda call: launches_of(alone(call)))
    monkeypatch.setattr(
        native,
        "launches_of_class",
        lambda passing: launches_of_class(replace(passing, call=alone(passing.call))),
    )
    from xtarget._arrays.torch import TorchKind

    place = TorchKind.place_in_c
    monkeypatch.setattr(TorchKind, "place_in_c", lambda kind, dtype, _: place(kind, dtype, None))
