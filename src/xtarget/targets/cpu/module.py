"""Modules and functions: programs from machine code, of an earlier build or of a child's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyopencl as cl

from ..._errors import LaunchError, LoadError, XTargetError
from ..._types import Artifact, DeviceInfo, LaunchConfig
from .._asserts import Asserts
from .._jit import Jit
from .._launch_limits import check_block
from .._module import FunctionBase, ModuleBase, refuse
from .._scalars import PACK
from .._spirv_binary import EntryPoint, check_local_size
from ..base import PreparedLaunch, Value
from .errors import check, failure
from .memory import freed, pointer
from .program import from_machine_code, machine_code, with_header

__all__ = ["CpuFunction", "CpuModule", "build", "expect_build"]

#: Addresses that one parameter of a prepared launch remembers before it starts again.
_REMEMBERED = 256
#: Intel's CPU compiler crashes and hangs on some modules (facts/spirv.md, 9.2).
_jit = Jit("xtarget.targets.cpu.jit")


def expect_build() -> None:
    """Have the child load the run time while the caller goes on."""
    _jit.start()


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
    what = f"{artifact.entry} cannot be loaded on {info.name} ({info.product})"
    code = machine_code(artifact.binary, native)
    if code is not None:
        try:
            program = from_machine_code(context, device, code, what)
        except XTargetError:
            pass  # another run time's code: the contract says to build the SPIR-V instead
        else:
            return CpuModule(program, device, artifact, entry, info, asserts)
    code = _jit.build(what, key, artifact.binary, artifact.entry)
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


class CpuFunction(FunctionBase):
    """An entry of a module."""

    def __init__(self, module: CpuModule, device: cl.Device, entry: EntryPoint) -> None:
        super().__init__(module)
        self._entry = entry
        self._asserts = module.asserts
        kernel = self._new_kernel()
        with check(f"reading the limits of {module.where} failed", LoadError):
            self._threads = int(
                kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
            )
        # argument values live in the kernel object, so every prepared launch has its own;
        # this one serves the first
        self._spare: list[cl.Kernel] = [kernel]

    def _new_kernel(self) -> cl.Kernel:
        program = self._module.live()
        with check(f"making the kernel {self._module.where} failed", LoadError):
            return cl.Kernel(program, self.name)

    def _kernel(self) -> cl.Kernel:
        try:
            return self._spare.pop()
        except IndexError:
            return self._new_kernel()

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        artifact, module = self.artifact, self._module
        self._check_values(args)
        if self._asserts is not None:
            args = self._asserts.fill_in(artifact, args)
        check_block(artifact, module.info, most_threads=self._threads)
        check_local_size(artifact, self._entry)
        kernel = self._kernel()
        dynamic: list[Callable[[Value], None]] = []
        compare = True  # 0.0 equals -0.0, so a float is set each time
        with check(f"the arguments of {module.where} cannot be set", LaunchError):
            for index, value in enumerate(args):
                set_value = _setter(kernel, index, self._entry, artifact)
                if value is None:
                    dynamic.append(set_value)
                    compare &= "f" not in artifact.parameters[index].type.partition("*")[0]
                else:
                    set_value(value)
        return _prepared(module, kernel, config, dynamic, compare)


def _setter(
    kernel: cl.Kernel, index: int, entry: EntryPoint, artifact: Artifact
) -> Callable[[Value], None]:
    """What sets one argument."""
    type_ = artifact.parameters[index].type
    if entry.parameters[index] == "pointer":
        return _pointer_setter(kernel, index)
    pack = PACK["u64" if type_.startswith("*") else type_]
    # the public set_arg tries memory objects first and takes 7 µs for bytes (pyopencl 2026.1)
    set_bytes = getattr(kernel, "_set_arg_buf", kernel.set_arg)
    return lambda value: set_bytes(index, pack(value))


def _pointer_setter(kernel: cl.Kernel, index: int) -> Callable[[Value], None]:
    """Remembers pyopencl's objects for addresses: making one takes longer than setting it. They
    refer to memory and hold none.
    """
    known: dict[Value, cl.SVM] = {}
    set_arg = kernel.set_arg

    def set_address(address: Value) -> None:
        found = known.get(address)
        if found is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            found = known[address] = pointer(int(address))
        set_arg(index, found)

    return set_address


def _prepared(
    module: ModuleBase,
    kernel: cl.Kernel,
    config: LaunchConfig,
    dynamic: list[Callable[[Value], None]],
    compare: bool,
) -> PreparedLaunch:
    """The launch as one function; only what changed since the last call is set again."""
    block = module.artifact.block
    x, y, z = config.grid
    global_size, local_size = (x * block[0], y, z), block
    enqueue, lock = cl.enqueue_nd_range_kernel, threading.Lock()
    count = len(dynamic)
    last: tuple[Value, ...] | None = None
    set_at = freed()

    def launch(values: Sequence[Value], stream: Any) -> None:
        nonlocal last, set_at
        given = tuple(values)
        queue = stream.raw
        if queue is None or module.raw is None or len(given) != count:
            refuse(module, stream, len(given), count)
        try:
            with lock:
                now = freed()
                if now != set_at:
                    last = None
                if given != last or not compare:
                    known, last = last, None  # a failure on the way leaves nothing to trust
                    if known is None or not compare:
                        for set_value, value in zip(dynamic, given, strict=True):
                            set_value(value)
                    else:
                        for set_value, value, old in zip(dynamic, given, known, strict=True):
                            if value != old:
                                set_value(value)
                    last, set_at = given, now
                enqueue(queue, kernel, global_size, local_size)
        except cl.Error as error:
            raise failure(error, f"{module.where} cannot be launched", LaunchError) from error

    return launch
