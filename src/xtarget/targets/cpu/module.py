"""Modules and functions: programs from machine code, of an earlier build or of a child's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import pyopencl as cl

from ..._values.errors import LaunchError, LoadError, XTargetError
from ..._values.types import Artifact, DeviceInfo
from .._binaries.spirv import EntryPoint, check_local_size
from .._objects.asserts import Asserts
from .._objects.module import ModuleBase, QueueFunction, check_block, refuse
from .._objects.scalars import PACK
from .._workers.jit import Jit
from ..base import Value
from .discover import discover
from .kernel_objects import Arguments, KernelObjects
from .memory import ALLOCATIONS, pointer
from .program import from_machine_code, machine_code, native_key, with_header
from .status import check, failure

__all__ = ["CpuFunction", "CpuModule", "build", "expect_build", "tried"]

#: Intel's CPU compiler crashes and hangs on some modules (facts/spirv.md, 9.2).
_jit = Jit("xtarget.targets.cpu.jit")


def expect_build() -> None:
    """Have the child load the run time while the caller goes on."""
    _jit.start()


@lru_cache(maxsize=4)
def _machine_code(what: str, key: str, binary: bytes, entry: str) -> bytes:
    """Of a module, by a child; the last ones again, which were tried before they were loaded."""
    return _jit.build(what, key, binary, entry)


def tried(artifact: Artifact) -> None:
    """Build an artifact for the first CPU device here, if there is one.

    Raises:
        LoadError: the run time refuses it; its log is in the message.
    """
    for device, info in discover().devices[:1]:
        _machine_code(_what(artifact, info), native_key(device), artifact.binary, artifact.entry)


def _what(artifact: Artifact, info: DeviceInfo) -> str:
    return f"{artifact.entry} cannot be loaded on {info.name} ({info.product})"


def build(
    context: cl.Context,
    device: cl.Device,
    artifact: Artifact,
    entry: EntryPoint,
    info: DeviceInfo,
    key: str,
    native: bytes | None,
    asserts: Asserts | None = None,
) -> CpuModule:
    """Load an artifact whose SPIR-V was checked. This process never compiles it: a child does.

    Args:
        key: the device's `native_key`.
        native: machine code of an earlier build.

    Raises:
        LoadError: the run time refuses it; its log is in the message.
    """
    what = _what(artifact, info)
    code = machine_code(artifact.binary, native)
    if code is not None:
        try:
            program = from_machine_code(context, device, code, what)
        except XTargetError:
            pass  # another run time's code: the contract says to build the SPIR-V instead
        else:
            return CpuModule(program, device, artifact, entry, info, asserts)
    code = _machine_code(what, key, artifact.binary, artifact.entry)
    program = from_machine_code(context, device, code, what)
    return CpuModule(program, device, artifact, entry, info, asserts)


class CpuModule(ModuleBase):
    """A built program. Kernels keep it alive in the run time until their work is done."""

    def __init__(
        self,
        program: cl.Program,
        device: cl.Device,
        artifact: Artifact,
        entry: EntryPoint,
        info: DeviceInfo,
        asserts: Asserts | None = None,
    ) -> None:
        super().__init__(program, artifact, info, [entry.name])
        self.asserts = asserts
        self._device = device
        self._entry = entry

    def function(self, name: str | None = None) -> CpuFunction:
        self.described(name)
        return CpuFunction(self, self._device, self._entry)

    def native(self) -> bytes | None:
        program = self.live()
        with check(f"reading the machine code of {self.artifact.entry} failed"):
            code = bytes(program.get_info(cl.program_info.BINARIES)[0])
        return with_header(self.artifact.binary, code)


class CpuFunction(QueueFunction):
    """An entry of a module."""

    def __init__(self, module: CpuModule, device: cl.Device, entry: EntryPoint) -> None:
        super().__init__(module)
        self._entry = entry
        self._asserts = module.asserts
        self._objects = KernelObjects(partial(_new_object, module, entry), self.name)
        kernel = self._objects.first.kernel
        # 0.0 equals -0.0, so a float is set each time
        self._floats = [
            index
            for index, parameter in enumerate(module.artifact.parameters)
            if "f" in parameter.type.partition("*")[0]
        ]
        self._fits = False
        self._block = module.artifact.block[0]
        with check(f"reading the limits of {module.where} failed", LoadError):
            self._threads = int(
                kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
            )

    def _global_size(self, grid: tuple[int, int, int]) -> tuple[int, int, int]:
        x, y, z = grid
        return x * self._block, y, z

    def _prepared(self, global_size: Any, args: Sequence[Value | None]) -> Callable[..., None]:
        artifact, module = self.artifact, self._module
        self._check_values(args)
        if self._asserts is not None:
            args = self._asserts.fill_in(artifact, args)
        if not self._fits:
            check_block(artifact, module.info, most_threads=self._threads)
            check_local_size(artifact, self._entry)
            self._fits = True
        floats = any(args[index] is None for index in self._floats)

        def make() -> Arguments:
            taken = self._objects.take()
            with check(f"the arguments of {module.where} cannot be set", LaunchError):
                taken.serve(args)
            return taken

        return _launcher(module, make, self._objects, global_size, compare=not floats)


def _new_object(module: CpuModule, entry: EntryPoint) -> Arguments:
    program, artifact = module.live(), module.artifact
    with check(f"making the kernel {module.where} failed", LoadError):
        kernel = cl.Kernel(program, artifact.entry)
    count = len(artifact.parameters)
    setters = [_setter(kernel, index, entry, artifact) for index in range(count)]
    lasting = [
        operator.not_
        if entry.parameters[index] == "pointer"
        else _never
        if "f" in type_
        else _always
        for index, type_ in enumerate(p.type for p in artifact.parameters)
    ]
    return Arguments(kernel, setters, lasting)


def _always(value: Value) -> bool:
    return True


def _never(value: Value) -> bool:
    return False


def _setter(
    kernel: cl.Kernel, index: int, entry: EntryPoint, artifact: Artifact
) -> Callable[[Value], None]:
    """Return a function that sets one argument."""
    type_ = artifact.parameters[index].type
    if entry.parameters[index] == "pointer":
        set_arg = kernel.set_arg
        return lambda address: set_arg(index, pointer(address))  # type: ignore[arg-type]  # an integer
    pack = PACK["u64" if type_.startswith("*") else type_]
    # the public set_arg tries memory objects first and takes 7 µs for bytes (pyopencl 2026.1)
    set_bytes = getattr(kernel, "_set_arg_buf", kernel.set_arg)
    return lambda value: set_bytes(index, pack(value))


def _launcher(
    module: ModuleBase,
    make: Callable[[], Arguments],
    objects: KernelObjects,
    global_size: Any,
    *,
    compare: bool,
) -> Callable[..., None]:
    """The launch as one function; only what changed since the last call is set again.

    Each call takes a kernel object for itself, so that no other thread, and no signal handler that
    launches the same, sets its arguments meanwhile.

    Args:
        global_size: threads in x, y, z, of launches that give none of their own.
        compare: equal values are the same ones.
    """
    local_size = module.artifact.block
    enqueue = cl.enqueue_nd_range_kernel
    first = make()
    count = len(first.dynamic)
    unused = [first]
    objects.belongs(unused)
    take, give_back = unused.pop, unused.append

    def launch(values: Sequence[Value], stream: Any, global_size: Any = global_size) -> None:
        given = tuple(values)
        queue = stream.raw
        if queue is None or module.raw is None or len(given) != count:
            refuse(module, stream, len(given), count)
        try:
            arguments = take()
        except IndexError:
            arguments = make()
            objects.belongs(unused)
        try:
            now = ALLOCATIONS.freed
            known = arguments.last if arguments.set_at is now and compare else None
            if given != known:
                arguments.last = None  # a failure on the way leaves nothing to trust
                if known is None:
                    for set_value, value in zip(arguments.dynamic, given, strict=True):
                        set_value(value)
                else:
                    for set_value, value, old in zip(arguments.dynamic, given, known, strict=True):
                        if value != old:
                            set_value(value)
                arguments.last, arguments.set_at = given, now
            enqueue(queue, arguments.kernel, global_size, local_size)
        except cl.Error as error:
            raise failure(error, f"{module.where} cannot be launched", LaunchError) from error
        finally:
            give_back(arguments)

    return launch
