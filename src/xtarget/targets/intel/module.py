"""Modules and functions: SYCL kernel bundles from SPIR-V."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import dpctl
import dpctl.program

from ..._errors import DriverError, LaunchError, LoadError
from ..._types import Artifact, DeviceInfo, LaunchConfig
from .._launch_limits import check_block
from .._scalars import PACK
from .._spirv_binary import EntryPoint
from ..base import PreparedLaunch, Stream, Value, launch_once
from .errors import ERRORS, check, failure
from .memory import Addresses

__all__ = ["IntelFunction", "IntelModule", "build"]

#: Foreign addresses that one prepared launch remembers before it starts again.
_REMEMBERED = 256


def build(
    queue: dpctl.SyclQueue,
    artifact: Artifact,
    entry: EntryPoint,
    info: DeviceInfo,
    addresses: Addresses,
) -> IntelModule:
    """Load an artifact whose SPIR-V was checked.

    Raises:
        LoadError: the run time refuses it.
    """
    what = f"{artifact.entry} cannot be loaded on {info.name} ({info.product})"
    widths = queue.sycl_device.sub_group_sizes
    if entry.subgroup_size is not None and entry.subgroup_size not in widths:
        raise LoadError(
            f"{what}: it was compiled for warps of {entry.subgroup_size}, the device has warps of "
            f"{', '.join(map(str, widths))}. Compile it with the option warp_size={max(widths)}."
        )
    with check(what, LoadError):
        program = dpctl.program.create_program_from_spirv(queue, artifact.binary, "")
        kernel = program.get_sycl_kernel(entry.name)
    return IntelModule(kernel, artifact, entry, info, addresses)


class IntelModule:
    """A built kernel bundle."""

    def __init__(
        self,
        kernel: dpctl.program.SyclKernel,
        artifact: Artifact,
        entry: EntryPoint,
        info: DeviceInfo,
        addresses: Addresses,
    ) -> None:
        self.kernel: dpctl.program.SyclKernel | None = kernel
        self.artifact = artifact
        self.info = info
        self.addresses = addresses
        self._entry = entry

    def live(self) -> dpctl.program.SyclKernel:
        if self.kernel is None:
            raise DriverError(
                f"the module of {self.artifact.entry} on {self.info.name} is closed. Load it again."
            )
        return self.kernel

    def function(self, name: str | None = None) -> IntelFunction:
        self.live()
        if name is not None and name != self._entry.name:
            raise LoadError(
                f"the module of {self.artifact.entry} on {self.info.name} has no entry {name!r} "
                f"that its artifact describes. It describes: {self._entry.name}."
            )
        return IntelFunction(self, self._entry)

    def native(self) -> bytes | None:
        return None  # dpctl gives no machine code out

    def close(self) -> None:
        self.kernel = None


class IntelFunction:
    """An entry of a module."""

    def __init__(self, module: IntelModule, entry: EntryPoint) -> None:
        self._module = module
        self._entry = entry

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def artifact(self) -> Artifact:
        return self._module.artifact

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        artifact, module = self.artifact, self._module
        where = f"{self.name} on {module.info.name}"
        kernel = module.live()
        check_block(artifact, self._entry, module.info, int(kernel.work_group_size))
        if len(args) != len(artifact.parameters):
            raise LaunchError(
                f"{where} has {len(artifact.parameters)} parameters, {len(args)} values were given."
            )
        fixed: list[Any] = [None] * len(args)
        dynamic: list[tuple[int, Callable[[Value], Any]]] = []
        for index, value in enumerate(args):
            convert = _converter(index, self._entry, artifact, module.addresses)
            if value is None:
                dynamic.append((index, convert))
            else:
                fixed[index] = convert(value)
        return _prepared(module, config, fixed, dynamic, where)

    def launch(self, config: LaunchConfig, args: Sequence[Value], stream: Stream) -> None:
        launch_once(self, config, args, stream)


_UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


def _converter(
    index: int, entry: EntryPoint, artifact: Artifact, addresses: Addresses
) -> Callable[[Value], Any]:
    """What makes an argument that dpctl takes: memory objects, and a few of ctypes' types."""
    type_ = artifact.parameters[index].type
    if entry.parameters[index] == "pointer":
        return _remembering(addresses)
    if type_ == "fp32":
        return ctypes.c_float
    if type_ == "fp64":
        return ctypes.c_double
    pack = PACK["u64" if type_.startswith("*") else type_]

    def convert(value: Value) -> Any:
        data = pack(value)
        return _UNSIGNED[len(data)].from_buffer_copy(data)

    return convert


def _remembering(addresses: Addresses) -> Callable[[Value], Any]:
    """Addresses to memory objects; those that are not ours cost dpctl 5 µs to check, once."""
    foreign: dict[int, Any] = {}
    own = addresses.own

    def convert(value: Value) -> Any:
        address = int(value)
        found = own.get(address) or foreign.get(address)
        if found is None:
            found = addresses.find(address)
            if len(foreign) >= _REMEMBERED:
                foreign.clear()
            foreign[address] = found
        return found

    return convert


def _prepared(
    module: IntelModule,
    config: LaunchConfig,
    fixed: list[Any],
    dynamic: list[tuple[int, Callable[[Value], Any]]],
    where: str,
) -> PreparedLaunch:
    """The launch as one function. Each call has its own argument list: no lock is needed."""
    x, y, z = config.grid
    threads = module.artifact.block[0]
    # SYCL counts dimensions from the slowest
    global_size, local_size = [z, y, x * threads], [1, 1, threads]
    count = len(dynamic)

    def launch(values: Sequence[Value], stream: Any) -> None:
        queue, kernel = stream.queue, module.kernel
        if queue is None or kernel is None or len(values) != count:
            _refuse(module, stream, where, len(values), count)
        arguments = fixed.copy()
        for (index, convert), value in zip(dynamic, values, strict=True):
            arguments[index] = convert(value)
        try:
            if stream.in_order:
                queue.submit_async(kernel, arguments, global_size, local_size)
            else:
                queue.submit_barrier()
                queue.submit_async(kernel, arguments, global_size, local_size)
                queue.submit_barrier()
        except ERRORS as error:
            raise failure(error, f"{where} cannot be launched", LaunchError) from error

    return launch


def _refuse(module: IntelModule, stream: Any, where: str, given: int, count: int) -> None:
    """Say which of the launch's conditions is not met."""
    module.live()
    stream.live()
    raise LaunchError(f"{where} takes {count} dynamic values, {given} were given.")
