"""Modules and functions: SYCL kernel bundles from SPIR-V."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dpctl
import dpctl.program

from ..._values.errors import LaunchError, LoadError
from ..._values.types import Artifact, DeviceInfo
from .._binaries.spirv import EntryPoint, check_local_size
from .._objects.asserts import Asserts
from .._objects.module import ModuleBase, QueueFunction, check_block, refuse
from .._objects.scalars import ctypes_maker
from ..base import Value
from .memory import Addresses
from .status import ERRORS, failure

__all__ = ["IntelFunction", "IntelModule", "check_warps"]

#: Foreign addresses that one prepared launch remembers before it starts again.
_REMEMBERED = 256


def check_warps(
    artifact: Artifact, entry: EntryPoint, info: DeviceInfo, widths: Sequence[int]
) -> None:
    """Raises LoadError where the device has no warps as the module demands them."""
    if entry.subgroup_size is not None and entry.subgroup_size not in widths:
        raise LoadError(
            f"{artifact.entry} cannot be loaded on {info.name} ({info.product}): it was compiled "
            f"for warps of {entry.subgroup_size}, the device has warps of "
            f"{', '.join(map(str, widths))}. Compile it with the option warp_size={max(widths)}."
        )


class IntelModule(ModuleBase):
    """A loaded kernel, and the kept parts of its module."""

    def __init__(
        self,
        kernel: dpctl.program.SyclKernel,
        artifact: Artifact,
        entry: EntryPoint,
        info: DeviceInfo,
        addresses: Addresses,
        native: bytes,
        asserts: Asserts | None = None,
    ) -> None:
        super().__init__(kernel, artifact, info, [entry.name])
        self._native = native
        self._entry = entry
        self._addresses = addresses
        self.asserts = asserts

    def native(self) -> bytes:
        self.live()
        return self._native

    def function(self, name: str | None = None) -> IntelFunction:
        kernel = self.described(name)
        return IntelFunction(self, self._entry, int(kernel.work_group_size), self._addresses)


class IntelFunction(QueueFunction):
    """An entry of a module."""

    def __init__(
        self, module: IntelModule, entry: EntryPoint, threads: int, addresses: Addresses
    ) -> None:
        super().__init__(module)
        self._entry = entry
        self._threads = threads
        self._addresses = addresses
        self._asserts = module.asserts

    def _global_size(self, grid: tuple[int, int, int]) -> list[int]:
        x, y, z = grid
        return [z, y, x * self.artifact.block[0]]  # SYCL counts dimensions from the slowest

    def _prepared(self, global_size: Any, args: Sequence[Value | None]) -> Callable[..., None]:
        artifact, module = self.artifact, self._module
        self._check_values(args)
        if self._asserts is not None:
            args = self._asserts.fill_in(artifact, args)
        check_block(artifact, module.info, most_threads=self._threads)
        check_local_size(artifact, self._entry)
        fixed: list[Any] = [None] * len(args)
        dynamic: list[tuple[int, Callable[[Value], Any]]] = []
        for index, value in enumerate(args):
            convert = _converter(index, self._entry, artifact, self._addresses)
            if value is None:
                dynamic.append((index, convert))
            else:
                fixed[index] = convert(value)
        return _launcher(module, global_size, fixed, dynamic)


def _converter(
    index: int, entry: EntryPoint, artifact: Artifact, addresses: Addresses
) -> Callable[[Value], Any]:
    """Return a function that makes dpctl's arguments: memory objects or a few ctypes types."""
    if entry.parameters[index] == "pointer":
        return _remembering(addresses)
    type_ = artifact.parameters[index].type
    return ctypes_maker("u64" if type_.startswith("*") else type_)


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


def _launcher(
    module: ModuleBase,
    global_size: Any,
    fixed: list[Any],
    dynamic: list[tuple[int, Callable[[Value], Any]]],
) -> Callable[..., None]:
    """The launch as one function. Each call has its own argument list: no lock is needed.

    Args:
        global_size: threads in z, y, x, of launches that give none of their own.
    """
    local_size = [1, 1, module.artifact.block[0]]
    count = len(dynamic)

    def launch(values: Sequence[Value], stream: Any, global_size: Any = global_size) -> None:
        queue, kernel = stream.raw, module.raw
        if queue is None or kernel is None or len(values) != count:
            refuse(module, stream, len(values), count)
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
            raise failure(error, f"{module.where} cannot be launched", LaunchError) from error

    return launch
