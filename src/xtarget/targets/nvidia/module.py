"""Loaded cubins and their launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import cuda.core as core
from cuda.bindings import driver

from ..._errors import DriverError, LaunchError, LoadError, OutOfResourcesError
from ..._types import Artifact, LaunchConfig
from .._scalars import PACK
from ..base import PreparedLaunch, Stream, Value, launch_once
from ._status import check, checked
from .cubin import entries_of

if TYPE_CHECKING:
    from .device import CudaDevice

__all__ = ["CudaFunction", "CudaModule"]

#: Dynamic shared memory that a function may use without asking for more.
_DEFAULT_SHARED = 48 * 1024
_INTEGERS = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


class CudaModule:
    """Loaded code: a cubin, or PTX that the driver compiles."""

    def __init__(self, device: CudaDevice, artifact: Artifact, code: Any) -> None:
        self.device, self.artifact = device, artifact
        self._code = code

    def live(self) -> Any:
        if self._code is None:
            raise DriverError(
                f"the module of {self.artifact.entry} on {self.device.info.name} is closed. Load "
                "it again."
            )
        return self._code

    def function(self, name: str | None = None) -> CudaFunction:
        code, wanted = self.live(), name or self.artifact.entry
        known = entries_of(self.artifact)
        if wanted not in known:
            raise LoadError(
                f"the {self.artifact.format} of {self.artifact.entry} has no entry {wanted!r}; it "
                f"has {', '.join(known)}."
            )
        with self.device.current(), checked(f"loading {wanted} on {self.device.info.name}"):
            return CudaFunction(self, wanted, code.get_kernel(wanted))

    def native(self) -> bytes | None:
        return None

    def close(self) -> None:
        # cuda.core unloads it when the last kernel object is gone, so no launch loses its code
        self._code = None


class CudaFunction:
    """An entry of a cubin."""

    def __init__(self, module: CudaModule, name: str, kernel: Any) -> None:
        self._module, self.name, self._kernel = module, name, kernel
        self._device = module.device
        self._shared_raised = False

    @property
    def artifact(self) -> Artifact:
        return self._module.artifact

    def _check_limits(self) -> None:
        artifact, info = self.artifact, self._device.info
        threads = artifact.block[0]
        handle = driver.CUkernel(int(self._kernel.handle))
        attribute = driver.CUfunction_attribute
        with self._device.current():
            most = check(
                driver.cuKernelGetAttribute(
                    attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, handle, info.ordinal
                ),
                f"reading the limits of {self.name}",
            )
            if threads > min(most, info.max_threads_per_block):
                raise OutOfResourcesError(
                    f"{self.name} needs {threads} threads a block (num_warps="
                    f"{artifact.num_warps}), {info.name} ({info.product}) takes "
                    f"{min(most, info.max_threads_per_block)} for it. Use a smaller num_warps."
                )
            if artifact.shared_bytes > info.max_shared_bytes:
                raise OutOfResourcesError(
                    f"{self.name} needs {artifact.shared_bytes} bytes of shared memory a block, "
                    f"{info.name} ({info.product}) has {info.max_shared_bytes}. Use smaller BLOCK "
                    "sizes or a smaller num_stages."
                )
            if artifact.shared_bytes > _DEFAULT_SHARED and not self._shared_raised:
                size = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                check(
                    driver.cuKernelSetAttribute(size, artifact.shared_bytes, handle, info.ordinal),
                    f"asking for {artifact.shared_bytes} bytes of shared memory for {self.name}",
                )
                self._shared_raised = True

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        artifact, device = self.artifact, self._device
        self._module.live()
        if len(args) != len(artifact.parameters):
            raise LaunchError(
                f"{self.name} has {len(artifact.parameters)} parameters, {len(args)} values were "
                "given."
            )
        if config.grid[1] > 65535 or config.grid[2] > 65535 or config.grid[0] > 2**31 - 1:
            raise LaunchError(
                f"{self.name}: a grid of {config.grid} blocks is larger than CUDA's limit of "
                "(2147483647, 65535, 65535). Use larger blocks."
            )
        self._check_limits()
        grid: tuple[int, ...] = config.grid
        extra: dict[str, Any] = {}
        if artifact.cluster > 1:
            extra["cluster"] = (artifact.cluster, 1, 1)
        if artifact.cooperative:
            extra["is_cooperative"] = True
        with device.current(), checked(f"preparing {self.name} on {device.info.name}"):
            launch_config = core.LaunchConfig(
                grid=grid, block=artifact.block, shmem_size=artifact.shared_bytes, **extra
            )
        return _prepared(self, device, launch_config, args)

    def launch(self, config: LaunchConfig, args: Sequence[Value], stream: Stream) -> None:
        launch_once(self, config, args, stream)


@cache
def _argument(type_: str) -> Any:
    """What makes a value one that cuda.core passes as this type."""
    if type_.startswith("*"):
        return int
    if type_ == "fp32":
        return ctypes.c_float
    if type_ == "fp64":
        return ctypes.c_double
    pack = PACK[type_]
    integer = _INTEGERS[len(pack(0))]
    return lambda value: integer(int.from_bytes(pack(value), "little"))


def _prepared(
    function: CudaFunction, device: CudaDevice, config: Any, args: Sequence[Value | None]
) -> PreparedLaunch:
    """The launch as one function. cuda.core copies the values into storage of the call's own, so
    calls from several threads do not meet."""
    launch, kernel, module = core.launch, function._kernel, function._module
    kinds = [_argument(p.type) for p in function.artifact.parameters]
    fixed = [None if a is None else kind(a) for a, kind in zip(args, kinds, strict=True)]
    dynamic = [index for index, a in enumerate(args) if a is None]
    convert = [(position, kinds[i]) for position, i in enumerate(dynamic) if kinds[i] is not int]
    count = len(dynamic)
    leading = dynamic == list(range(count)) and not convert
    tail = tuple(fixed[count:])
    what = f"launching {function.name} on {device.info.name}"

    def run(values: Sequence[Value], stream: Any) -> None:
        if len(values) != count or stream.core is None or module._code is None:
            _refuse(function, stream, len(values), count)
        if leading:
            given: Any = (*values, *tail)
        else:
            given = fixed.copy()
            for index, value in zip(dynamic, values, strict=True):
                given[index] = value
            for position, kind in convert:
                given[dynamic[position]] = kind(values[position])
        if device.always_current:
            try:
                launch(stream.core, config, kernel, *given)
            except Exception as error:
                with checked(what):
                    raise error
            return
        with device.current(), checked(what):
            launch(stream.core, config, kernel, *given)

    return run


def _refuse(function: CudaFunction, stream: Any, given: int, count: int) -> None:
    """Say which of the launch's conditions is not met."""
    function._module.live()
    stream.live()
    raise LaunchError(f"{function.name} takes {count} dynamic values, {given} were given.")
