"""The fake vendor's run time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from xtarget._values.errors import (
    DriverError,
    LaunchError,
    LoadError,
    NoDeviceError,
    OutOfMemoryError,
    OutOfResourcesError,
)
from xtarget._values.types import Artifact, DeviceInfo, LaunchConfig, ProbeReport, Target
from xtarget.targets.base import launch_once

from .format import decode
from .kernels import KERNELS
from .memory import Memory
from .stream import FakeQueue, FakeStream

_MEMORY = 1 << 30
_MAX_THREADS = 256
_MAX_SHARED = 65536
_RANGES = {"i8": (-128, 255), "i16": (-32768, 65535), "i32": (-(1 << 31), (1 << 32) - 1)}

INFO = DeviceInfo(
    name="fake:0",
    target=Target("fake", "f1"),
    product="A device in memory",
    memory_bytes=_MEMORY,
    compute_units=1,
    driver_version="1.0",
    warp_size=4,
    max_threads_per_block=_MAX_THREADS,
    max_shared_bytes=_MAX_SHARED,
    runs_on="fake",
)


class FakeDriver:
    """Offers one device."""

    vendor = "fake"

    def probe(self) -> ProbeReport:
        return ProbeReport("fake", (INFO,))

    def open(self, ordinal: int) -> FakeDevice:
        if ordinal != 0:
            raise NoDeviceError(f"fake has no number {ordinal}, only fake:0.")
        return FakeDevice()


class FakeDevice:
    """The device in memory."""

    info = INFO
    native_key = None

    def __init__(self) -> None:
        self.memory = Memory(_MEMORY)
        self._closed = False
        self._queues: list[FakeQueue] = []
        self._default = self._new_stream()

    def live(self) -> None:
        if self._closed:
            raise DriverError("fake:0 is closed. Open it again.")

    def _new_stream(self) -> FakeStream:
        self._queues.append(FakeQueue())
        return FakeStream(self._queues[-1], self)

    @property
    def default_stream(self) -> FakeStream:
        self.live()
        return self._default

    def load(self, artifact: Artifact, native: bytes | None = None) -> FakeModule:
        self.live()
        assert native is None, "fake modules have no native form"
        if artifact.format != "fake" or artifact.target.vendor != "fake":
            raise LoadError(
                f"{artifact.entry} cannot be loaded on fake:0: it is {artifact.format} for "
                f"{artifact.target}. Compile it for {INFO.target}."
            )
        try:
            content = decode(artifact.binary)
        except ValueError as error:
            raise LoadError(
                f"{artifact.entry} cannot be loaded on fake:0: {error}. Compile it again."
            ) from error
        if content["kernel"] != artifact.entry:
            raise LoadError(
                f"fake:0 finds no entry {artifact.entry}; the module has {content['kernel']}."
            )
        return FakeModule(artifact, content, self)

    def stream(self, handle: Any = None) -> FakeStream:
        self.live()
        if handle is None:
            return self._new_stream()
        if not isinstance(handle, FakeQueue):
            raise DriverError(f"fake:0 takes a FakeQueue, not {type(handle).__name__}.")
        if handle not in self._queues:
            self._queues.append(handle)
        return FakeStream(handle, self)

    def alloc(self, nbytes: int, stream: FakeStream | None = None) -> FakeBuffer:
        self.live()
        assert nbytes >= 0
        address = self.memory.allocate(nbytes)
        if address is None:
            raise OutOfMemoryError(f"fake:0 has no {nbytes} bytes left of {_MEMORY}.")
        return FakeBuffer(self, address, nbytes, (stream or self._default).handle)

    def borrow(self, address: int, nbytes: int) -> FakeBuffer:
        self.live()
        return FakeBuffer(self, address, nbytes, None)

    def graph(self, record: Any) -> FakeGraph:
        self.live()
        stream = FakeStream(FakeQueue(), self)
        record(stream)
        return FakeGraph(self, list(stream.handle.work))

    def synchronize(self) -> None:
        self.live()
        for queue in self._queues:
            queue.run_until(queue.put_so_far)

    def close(self) -> None:
        if not self._closed:
            self.synchronize()
            self._closed = True


class FakeGraph:
    """The work put into a queue that nobody works off."""

    def __init__(self, device: FakeDevice, work: list[Any]) -> None:
        self._device, self._work = device, work
        self._closed = False
        self._last: Any = None

    def replay(self, stream: FakeStream) -> None:
        self._device.live()
        if self._closed:
            raise DriverError("this graph of fake:0 is closed. Capture it again.")
        assert stream.device is self._device, "replayed on a stream of another device"
        if self._last is not None:
            stream.wait(self._last)
        for action in self._work:
            stream.handle.put(action)
        self._last = stream.record()

    def close(self) -> None:
        if self._last is not None and not self._closed:
            assert self._last._time is not None, "a graph was closed before its replay was done"
        self._closed = True


class FakeBuffer:
    """Memory; `owner` is the queue after whose work it is freed, None for borrowed memory."""

    def __init__(
        self, device: FakeDevice, address: int, nbytes: int, owner: FakeQueue | None
    ) -> None:
        self.nbytes = nbytes
        self._device = device
        self._address: int | None = address
        self._owner = owner

    @property
    def address(self) -> int:
        if self._address is None:
            raise DriverError("this buffer of fake:0 is closed. Allocate a new one.")
        return self._address

    def write(self, source: memoryview, stream: FakeStream) -> None:
        assert source.c_contiguous
        assert source.nbytes <= self.nbytes
        data, address = np.frombuffer(bytes(source), np.uint8), self.address

        def copy() -> None:
            self._device.memory.array(address, np.uint8, data.size)[:] = data

        stream.handle.put(copy)

    def read(self, destination: memoryview, stream: FakeStream) -> None:
        assert destination.c_contiguous
        assert destination.nbytes <= self.nbytes
        stream.synchronize()
        here = self._device.memory.array(self.address, np.uint8, destination.nbytes)
        if destination.nbytes:
            destination.cast("B")[:] = here.tobytes()

    def close(self) -> None:
        address, self._address = self._address, None
        if address is not None and self._owner is not None:
            self._owner.put(lambda: self._device.memory.free(address))


class FakeModule:
    """A decoded binary."""

    def __init__(self, artifact: Artifact, content: dict[str, Any], device: FakeDevice) -> None:
        self.artifact = artifact
        self.content = content
        self.device = device
        self._closed = False

    def live(self) -> None:
        self.device.live()
        if self._closed:
            raise DriverError("this module of fake:0 is closed. Load it again.")

    def function(self, name: str | None = None) -> FakeFunction:
        self.live()
        if name not in (None, self.content["kernel"]):
            raise LoadError(f"fake:0 finds no entry {name}; it has {self.content['kernel']}.")
        return FakeFunction(self)

    def native(self) -> bytes | None:
        return None

    def close(self) -> None:
        self._closed = True


class FakeFunction:
    """A kernel of `kernels`."""

    def __init__(self, module: FakeModule) -> None:
        self._module = module
        self.artifact = module.artifact
        self.name = module.artifact.entry

    def prepare(self, config: LaunchConfig, args: Sequence[Any]) -> Any:
        module = self._module
        module.live()
        assert all(size > 0 for size in config.grid), "an empty grid was prepared"
        assert len(args) == len(self.artifact.parameters), "hidden parameters need a value too"
        threads = self.artifact.block[0]
        if threads > _MAX_THREADS:
            raise OutOfResourcesError(
                f"{self.name} needs {threads} threads a block, fake:0 takes {_MAX_THREADS}. "
                f"Use a smaller num_warps."
            )
        if self.artifact.shared_bytes > _MAX_SHARED:
            raise OutOfResourcesError(
                f"{self.name} needs {self.artifact.shared_bytes} bytes of shared memory, fake:0 "
                f"has {_MAX_SHARED}. Use smaller BLOCK sizes."
            )
        for value, parameter in zip(args, self.artifact.parameters, strict=True):
            if value is not None:
                _check_value(value, parameter.type)
        dynamic = [i for i, value in enumerate(args) if value is None]
        fixed = list(args)
        form = KERNELS[self.name]
        constants = module.content["constants"]
        lock = threading.Lock()

        def launch(values: Sequence[Any], stream: FakeStream) -> None:
            module.live()
            queue = stream.handle
            assert stream.device is module.device, "launched on a stream of another device"
            if len(values) != len(dynamic):
                raise LaunchError(
                    f"{self.name} takes {len(dynamic)} dynamic values, not {len(values)}."
                )
            with lock:
                now = fixed.copy()
            for index, value in zip(dynamic, values, strict=True):
                _check_value(value, self.artifact.parameters[index].type)
                now[index] = value
            queue.put(lambda: form(module.device.memory, config.grid, constants, now))

        return launch

    def prepare_grids(self, args: Sequence[Any]) -> Any:
        self.prepare(LaunchConfig((1, 1, 1)), args)  # what is wrong without a grid is said now

        def launch(grid: tuple[int, int, int], values: Sequence[Any], stream: FakeStream) -> None:
            self.prepare(LaunchConfig(grid), args)(values, stream)

        return launch

    def launch(self, config: LaunchConfig, args: Sequence[Any], stream: FakeStream) -> None:
        launch_once(self, config, args, stream)


def _check_value(value: Any, type_: str) -> None:
    """The contract's values are plain Python numbers that fit the parameter."""
    assert type(value) in (int, float, bool), f"{type(value)} is not a launch argument"
    if type_.startswith("*"):
        assert type(value) is int, "an address is an int"
        assert value >= 0, "an address is not negative"
    elif type_[0] in "iu":
        assert type(value) in (int, bool), f"{value!r} for a parameter of type {type_}"
        low, high = _RANGES.get(type_, (-(1 << 63), (1 << 64) - 1))
        assert low <= value <= high, f"{value} does not fit {type_}"
