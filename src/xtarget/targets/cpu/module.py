"""Modules and functions: programs built from SPIR-V, or from machine code of an earlier build."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pyopencl as cl

from ..._errors import DriverError, LaunchError, LoadError, XTargetError
from ..._types import Artifact, DeviceInfo, LaunchConfig
from .._launch_limits import check_block
from .._scalars import PACK
from .._spirv_binary import EntryPoint
from ..base import PreparedLaunch, Stream, Value, launch_once
from .errors import check, failure
from .memory import pointer

__all__ = ["CpuFunction", "CpuModule", "build"]

_NATIVE_MAGIC = b"XTCLBIN1"

# Intel's CPU compiler has crashed in processes that build much (facts/spirv.md, 9.2), and pyopencl
# reports build logs through the process-wide warnings: one build at a time.
_build_lock = threading.Lock()


def _native_header(spirv: bytes, machine_code: bytes) -> bytes:
    """What proves that machine code is whole and was built from this SPIR-V."""
    return _NATIVE_MAGIC + hashlib.sha256(spirv).digest() + hashlib.sha256(machine_code).digest()


_HEADER_BYTES = len(_native_header(b"", b""))


def _built(program: cl.Program, device: cl.Device, what: str) -> cl.Program:
    with _build_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # "there is a log" is no news
        try:
            return program.build(devices=[device])
        except cl.Error as error:
            try:
                log = program.get_build_info(device, cl.program_build_info.LOG)
            except cl.Error:
                log = str(error)
            raise failure(error, what, LoadError, log) from error


def build(
    context: cl.Context,
    device: cl.Device,
    artifact: Artifact,
    entry: EntryPoint,
    info: DeviceInfo,
    native: bytes | None,
) -> CpuModule:
    """Load an artifact whose SPIR-V was checked.

    Raises:
        LoadError: the run time refuses it; its log is in the message.
    """
    what = f"{artifact.entry} cannot be loaded on {info.name} ({info.product})"
    if native is not None:
        code = native[_HEADER_BYTES:]
        if native[:_HEADER_BYTES] == _native_header(artifact.binary, code):
            try:
                with check(what, LoadError):
                    program = cl.Program(context, [device], [code])
                return CpuModule(_built(program, device, what), device, artifact, entry, info)
            except XTargetError:
                pass  # another run time's code: the contract says to build the SPIR-V instead
    with check(what, LoadError):
        program = cl.Program(context, artifact.binary)
    return CpuModule(_built(program, device, what), device, artifact, entry, info)


class CpuModule:
    """A built program."""

    def __init__(
        self,
        program: cl.Program,
        device: cl.Device,
        artifact: Artifact,
        entry: EntryPoint,
        info: DeviceInfo,
    ) -> None:
        self._program: cl.Program | None = program
        self._device = device
        self._entry = entry
        self.artifact = artifact
        self.info = info

    @property
    def closed(self) -> bool:
        return self._program is None

    def live(self) -> cl.Program:
        if self._program is None:
            raise DriverError(
                f"the module of {self.artifact.entry} on {self.info.name} is closed. Load it again."
            )
        return self._program

    def function(self, name: str | None = None) -> CpuFunction:
        self.live()
        if name is not None and name != self._entry.name:
            raise LoadError(
                f"the module of {self.artifact.entry} on {self.info.name} has no entry {name!r} "
                f"that its artifact describes. It describes: {self._entry.name}."
            )
        return CpuFunction(self, self._device, self._entry)

    def native(self) -> bytes | None:
        with check(f"reading the machine code of {self.artifact.entry} failed"):
            code = bytes(self.live().get_info(cl.program_info.BINARIES)[0])
        return _native_header(self.artifact.binary, code) + code if code else None

    def close(self) -> None:
        # kernels keep the program alive in the run time until their work is done
        self._program = None


class CpuFunction:
    """An entry of a module."""

    def __init__(self, module: CpuModule, device: cl.Device, entry: EntryPoint) -> None:
        self._module = module
        self._device = device
        self._entry = entry
        with check(f"making the kernel {entry.name} on {module.info.name} failed", LoadError):
            kernel = cl.Kernel(module.live(), entry.name)
            self._threads = int(
                kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
            )
        # argument values live in the kernel object, so every prepared launch has its own;
        # this one serves the first
        self._spare: list[cl.Kernel] = [kernel]

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def artifact(self) -> Artifact:
        return self._module.artifact

    def _kernel(self) -> cl.Kernel:
        try:
            return self._spare.pop()
        except IndexError:
            with check(f"making the kernel {self.name} failed", LoadError):
                return cl.Kernel(self._module.live(), self.name)

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        artifact, module = self.artifact, self._module
        where = f"{self.name} on {module.info.name}"
        module.live()
        check_block(artifact, self._entry, module.info, self._threads)
        if len(args) != len(artifact.parameters):
            raise LaunchError(
                f"{where} has {len(artifact.parameters)} parameters, {len(args)} values were given."
            )
        kernel = self._kernel()
        dynamic: list[Callable[[Value], None]] = []
        compare = True  # 0.0 equals -0.0, so a float is set each time
        with check(f"the arguments of {where} cannot be set", LaunchError):
            for index, value in enumerate(args):
                set_value = _setter(kernel, index, self._entry, artifact)
                if value is None:
                    dynamic.append(set_value)
                    compare &= "f" not in artifact.parameters[index].type.partition("*")[0]
                else:
                    set_value(value)
        return _prepared(module, kernel, config, dynamic, compare, where)

    def launch(self, config: LaunchConfig, args: Sequence[Value], stream: Stream) -> None:
        launch_once(self, config, args, stream)


def _setter(
    kernel: cl.Kernel, index: int, entry: EntryPoint, artifact: Artifact
) -> Callable[[Value], None]:
    """What sets one argument."""
    type_ = artifact.parameters[index].type
    if entry.parameters[index] == "pointer":
        return lambda address: kernel.set_arg(index, pointer(int(address)))
    pack = PACK["u64" if type_.startswith("*") else type_]
    # the public set_arg tries memory objects first and takes 7 µs for bytes (pyopencl 2026.1)
    set_bytes = getattr(kernel, "_set_arg_buf", kernel.set_arg)
    return lambda value: set_bytes(index, pack(value))


def _prepared(
    module: CpuModule,
    kernel: cl.Kernel,
    config: LaunchConfig,
    dynamic: list[Callable[[Value], None]],
    compare: bool,
    where: str,
) -> PreparedLaunch:
    """The launch as one function; only what changed since the last call is set again."""
    block = module.artifact.block
    x, y, z = config.grid
    global_size, local_size = (x * block[0], y, z), block
    enqueue, lock = cl.enqueue_nd_range_kernel, threading.Lock()
    count = len(dynamic)
    last: tuple[Value, ...] | None = None

    def launch(values: Sequence[Value], stream: Any) -> None:
        nonlocal last
        given = tuple(values)
        queue = stream.queue
        if queue is None or module.closed or len(given) != count:
            _refuse(module, stream, where, len(given), count)
        try:
            with lock:
                if given != last or not compare:
                    known, last = last, None  # a failure on the way leaves nothing to trust
                    if known is None or not compare:
                        for set_value, value in zip(dynamic, given, strict=True):
                            set_value(value)
                    else:
                        for set_value, value, old in zip(dynamic, given, known, strict=True):
                            if value != old:
                                set_value(value)
                    last = given
                enqueue(queue, kernel, global_size, local_size)
        except cl.Error as error:
            raise failure(error, f"{where} cannot be launched", LaunchError) from error

    return launch


def _refuse(module: CpuModule, stream: Any, where: str, given: int, count: int) -> None:
    """Say which of the launch's conditions is not met."""
    module.live()
    stream.live()
    raise LaunchError(f"{where} takes {count} dynamic values, {given} were given.")
