"""One compiled kernel of Triton's, launched where its arguments lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from .._compile.loading import load
from .._devices import registry
from .._launch.interrupts import settle, unfinished
from .._values.errors import ArgumentError, LaunchError
from .._values.types import Artifact, LaunchConfig, Parameter, Scratch, Target
from ..targets._objects.asserts import ASSERT_MEMORY
from ..targets.base import Buffer, Device, Function, PreparedLaunch, Stream, Value
from .arguments import HOST, ArrayArgument, Reader, owner_of, parameters_of, place_of
from .devices import host_device
from .tunable import not_built
from .tuning import check_resources

__all__ = ["Binary", "Launcher"]

#: Grids that one kernel remembers on one device before it starts again.
_MOST_GRIDS = 256
#: What `tl.program_id` can count in one dimension.
_MOST_BLOCKS = 2**31 - 1
_HIDDEN = ("global_scratch", "profile_scratch")

#: Kernels loaded on devices; a fork's child must not use its parent's.
_all_loaded: list[dict[str, _Loaded]] = []


class Binary:
    """A module of SPIR-V that Triton treats as loaded. A device loads it at its first launch.

    Attributes:
        name: name of the entry.
        code: SPIR-V.
    """

    __slots__ = ("code", "loaded", "name")

    def __init__(self, name: str, code: bytes) -> None:
        self.name = name
        self.code = code
        self.loaded: dict[str, _Loaded] = {}
        _all_loaded.append(self.loaded)

    def unload(self) -> None:
        """Forget it. Run times keep the code until its last launch is done."""
        self.loaded.clear()
        _all_loaded[:] = [known for known in _all_loaded if known is not self.loaded]


def _in_forked_child() -> None:
    _kept.append([dict(loaded) for loaded in _all_loaded])
    for loaded in _all_loaded:
        loaded.clear()


_kept: list[Any] = []
registry.after_fork.append(_in_forked_child)


class _Loaded:
    """A kernel on a device, and its launches by grid."""

    __slots__ = ("_launches", "_template", "device", "function", "scratch")

    def __init__(self, device: Device, function: Function) -> None:
        self.device = device
        self.function = function
        artifact = function.artifact
        #: Bytes a block of each hidden parameter that has any.
        self.scratch = [
            scratch
            for parameter in artifact.parameters
            if parameter.hidden is not None and (scratch := _scratch(artifact, parameter)).nbytes
        ]
        self._template: list[Value | None] = [
            None if parameter.hidden is None or _scratch(artifact, parameter).nbytes else 0
            for parameter in artifact.parameters
        ]
        self._launches: dict[tuple[int, int, int], PreparedLaunch] = {}

    def launch(self, grid: tuple[int, int, int], values: list[Value], stream: Stream) -> None:
        prepared = self._launches.get(grid)
        if prepared is None:
            prepared = self.function.prepare(self._config(grid), self._template)
            if len(self._launches) >= _MOST_GRIDS:
                self._launches.clear()
            self._launches[grid] = prepared
        if not self.scratch:
            prepared(values, stream)
            return
        blocks = grid[0] * grid[1] * grid[2]
        buffers: list[Buffer] = []
        try:
            for scratch in self.scratch:
                buffers.append(self.device.alloc(scratch.nbytes * blocks, stream))
            prepared([*values, *(buffer.address for buffer in buffers)], stream)
        finally:
            for buffer in buffers:
                buffer.close()

    def _config(self, grid: tuple[int, int, int]) -> LaunchConfig:
        """A new grid, looked at."""
        what = f"{self.function.name} cannot be launched with the grid {grid}"
        try:
            x, y, z = map(index, grid)
        except TypeError:
            raise _no_count(self.function.name, grid) from None
        if max(x, y, z) > _MOST_BLOCKS:
            raise LaunchError(
                f"{what}: tl.program_id counts in 32 bits, up to {_MOST_BLOCKS} blocks in each "
                "dimension. Spread the blocks over two, or give each more to do."
            )
        return LaunchConfig((x, y, z))


def _no_count(name: str, grid: tuple[Any, Any, Any]) -> LaunchError:
    return LaunchError(
        f"{name} cannot be launched with the grid {grid}: it counts blocks. Give whole numbers, as "
        "triton.cdiv(n, BLOCK) does."
    )


def _scratch(artifact: Artifact, parameter: Parameter) -> Scratch:
    """Return the scratch memory that the launch has to allocate for a hidden parameter."""
    by_name = {
        "global_scratch": artifact.global_scratch,
        "profile_scratch": artifact.profile_scratch,
    }
    return by_name.get(parameter.hidden or "", Scratch())


class Launcher:
    """The object that Triton calls to launch a kernel.

    Args:
        source: Triton's source object, for the signature.
        metadata: the compiler's metadata.
    """

    def __init__(self, source: Any, metadata: Any) -> None:
        self._metadata = metadata
        signature = dict(source.signature)
        hidden = [*_HIDDEN, ASSERT_MEMORY] if metadata.asserts else _HIDDEN
        # Triton 3.6 has one flag less for each tensor descriptor
        parameters = parameters_of(signature, rounds=True)
        rounds = len(parameters) + len(hidden) == len(metadata.entry_parameters)
        if not rounds:
            parameters = parameters_of(signature, rounds=False)
        self._parameters = (*parameters, *(Parameter(name, "*i8", name) for name in hidden))
        self._reader = Reader(signature, rounds=rounds)

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        binary: Binary,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable[[Any], None] | None,
        exit_hook: Callable[[Any], None] | None,
        *args: Any,
    ) -> None:
        """Launch. With arguments in host memory it is complete when this returns; otherwise it is
        in order on the stream that the arrays' library uses.

        Raises:
            ArgumentError: the arrays lie on different devices, or on one that cannot be used.
            NoDeviceError: the run time for their device is not there.
            OutOfResources: Triton's; the device is too small for a block.
        """
        values, arrays = self._reader.read(args)
        place = place_of(arrays[0]) if arrays else HOST
        for array in arrays:
            if type(array) is ArrayArgument and array.is_read_only:
                self._check_not_written(array, values)
        for array in arrays[1:]:
            if place_of(array) != place:
                raise _apart(self._metadata.name, arrays)
        loaded = binary.loaded.get(place)
        if loaded is None:
            loaded = binary.loaded[place] = self._load(place, binary)
        if enter_hook is not None:
            enter_hook(launch_metadata)
        try:
            is_empty = not (x > 0 and y > 0 and z > 0)
        except TypeError:
            raise _no_count(self._metadata.name, (x, y, z)) from None
        if not is_empty:
            if place == HOST:
                on = loaded.device.default_stream
                try:
                    loaded.launch((x, y, z), values, on)
                    on.synchronize()
                except BaseException:
                    unfinished.append(entry := [on, args])
                    settle(entry)
                    raise
            else:
                _in_order(loaded, (x, y, z), values, arrays)
        elif x < 0 or y < 0 or z < 0:
            raise LaunchError(
                f"{self._metadata.name} cannot be launched with the grid ({x}, {y}, {z}): it "
                "counts blocks. Give numbers that are not negative."
            )
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _check_not_written(self, array: ArrayArgument, values: Sequence[Value]) -> None:
        address, only_read = array.data_ptr(), self._metadata.only_read
        for number, (value, parameter) in enumerate(zip(values, self._parameters, strict=False)):
            if value == address and parameter.type[0] == "*" and number not in only_read:
                raise ArgumentError(
                    f"{self._metadata.name} may write to its argument {parameter.name}, and the "
                    "array given for it is read-only. Pass a writable one, or a copy of it."
                )

    def _load(self, place: str, binary: Binary) -> _Loaded:
        device = host_device() if place == HOST else registry.open_device(place)
        data = self._metadata
        artifact = Artifact(
            target=Target(device.info.target.vendor, data.arch),
            format="spirv",
            entry=data.name,
            binary=binary.code,
            num_warps=data.num_warps,
            warp_size=data.warp_size,
            shared_bytes=data.shared,
            parameters=self._parameters,
            global_scratch=Scratch(data.global_scratch_size, data.global_scratch_align),
            profile_scratch=Scratch(data.profile_scratch_size, data.profile_scratch_align),
            cooperative=bool(data.launch_cooperative_grid),
        )
        check_resources(artifact, device.info)
        with not_built():
            return _Loaded(device, load(device, artifact, data.name))


def _in_order(
    loaded: _Loaded, grid: tuple[int, int, int], values: list[Value], arrays: Sequence[Any]
) -> None:
    """Launch after the work that the arrays' library has started on them, and before its next."""
    streams: list[Stream] = []
    for array in arrays:
        kind, owner = owner_of(array)
        theirs = kind.current_stream(loaded.device, owner) or loaded.device.default_stream
        if all(theirs.handle != known.handle for known in streams):
            streams.append(theirs)
    on, *others = streams
    for other in others:
        on.wait(other.record())
    loaded.launch(grid, values, on)
    for other in others:
        other.wait(on.record())


def _apart(name: str, arrays: Sequence[Any]) -> ArgumentError:
    places = sorted({place_of(array) or "the host" for array in arrays})
    return ArgumentError(
        f"{name} was given arrays on {' and '.join(places)}; a kernel runs on one device. Move "
        "them to one place first."
    )
