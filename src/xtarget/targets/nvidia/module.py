"""Loaded cubins and their launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import cuda.core as core
from cuda.bindings import driver

from ..._values.types import Artifact, LaunchConfig
from .._objects.module import CLOSINGS, FunctionBase, ModuleBase, check_block, check_grid, refuse
from .._objects.scalars import ctypes_maker
from .._objects.tensor_maps import map_of
from ..base import PreparedLaunch, Value
from ..optional import GridLaunch, NativeLaunch
from .code import CudaCode
from .status import check, checked
from .tensor_maps import launch_with_maps, takes_maps

if TYPE_CHECKING:
    from .device import CudaDevice

__all__ = ["CudaFunction", "CudaModule"]

#: Dynamic shared memory that a function may use without asking for more.
_DEFAULT_SHARED = 48 * 1024
#: Blocks of a grid in x, y, z (CUDA C++ Programming Guide, "Technical Specifications").
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
#: The CUDA version from which on graphs have edges for programmatic dependent launches.
_EARLY_IN_GRAPHS = 12030


class CudaModule(ModuleBase):
    """A loaded cubin. The code stays as long as there is a function or a prepared launch of it."""

    def __init__(
        self,
        device: CudaDevice,
        artifact: Artifact,
        code: CudaCode,
        kernel: Any,
        entries: tuple[str, ...],
    ) -> None:
        super().__init__(code, artifact, device.info, entries)
        self.device, self._kernel = device, kernel

    def function(self, name: str | None = None) -> CudaFunction:
        return CudaFunction(self, self.described(name), self._kernel)


class CudaFunction(FunctionBase):
    """An entry of a cubin.

    Args:
        kernel: the driver's handle.
    """

    def __init__(self, module: CudaModule, code: CudaCode, kernel: Any) -> None:
        super().__init__(module)
        self.code: CudaCode = code
        self._handle = kernel
        self._device = module.device
        self._fits = False

    @cached_property
    def _kernel(self) -> Any:
        """The kernel that cuda.core launches. It does not hold the library: `code` does."""
        return core.Kernel.from_handle(int(self._handle))

    def _check_limits(self) -> None:
        if self._fits:
            return
        artifact, info = self.artifact, self._device.info
        handle, attribute = self._handle, driver.CUfunction_attribute
        with self._device.current():
            # Asked each time: it makes the driver load a kernel that it would load lazily, at
            # a launch, where a capture forbids it.
            most = attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
            threads: int = check(
                driver.cuKernelGetAttribute(most, handle, info.ordinal),
                f"reading the limits of {self._module.where}",
            )
            check_block(artifact, info, most_threads=threads)
            if artifact.shared_bytes > _DEFAULT_SHARED:
                size = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                check(
                    driver.cuKernelSetAttribute(size, artifact.shared_bytes, handle, info.ordinal),
                    f"asking for {artifact.shared_bytes} bytes of shared memory for "
                    f"{self._module.where}",
                )
        self._fits = True

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        artifact, device = self.artifact, self._device
        self._check_values(args)
        check_grid(artifact, device.info, config.grid, _MOST_BLOCKS)
        self._check_limits()
        with device.current(), checked(f"preparing {self._module.where}"):
            launch_config = core.LaunchConfig(grid=config.grid, **self._settings())
        return _prepared(self._module, self.code, device, self._kernel, launch_config, args)

    def prepare_grids(self, args: Sequence[Value | None]) -> GridLaunch:
        self._check_values(args)
        self._check_limits()
        artifact, device = self.artifact, self._device
        settings, make = self._settings(), core.LaunchConfig
        start = _prepared(self._module, self.code, device, self._kernel, None, args)
        _, most_y, most_z = _MOST_BLOCKS

        def launch(grid: tuple[int, int, int], values: Sequence[Value], stream: Any) -> None:
            x, y, z = grid
            if y > most_y or z > most_z or x > _MOST_BLOCKS[0]:
                check_grid(artifact, device.info, grid, _MOST_BLOCKS)
            start(values, stream, make(grid=grid, **settings))

        return launch

    def native(self, config: LaunchConfig) -> NativeLaunch | None:
        artifact = self.artifact
        entries = launch_entries()
        if entries is None or artifact.cluster > 1 or artifact.cooperative:
            return None
        self._check_limits()
        with self._device.current():
            function = check(
                driver.cuKernelGetFunction(self._handle),
                f"reading the entry of {self._module.where}",
            )
        launch, current_context = entries
        return NativeLaunch(
            entry=launch,
            function=int(function),
            current_context=current_context,
            context=self._device.context,
            block=artifact.block,
            shared_bytes=artifact.shared_bytes,
            module=self._module,
            code=self.code,
            fills=fill_entries(),
            extended=early_entry() if artifact.early else 0,
            encode=encode_entry() if takes_maps(artifact) else 0,
            closings=CLOSINGS,
        )

    def _settings(self) -> dict[str, Any]:
        """The part of cuda.core's configuration that does not depend on the grid."""
        artifact = self.artifact
        settings: dict[str, Any] = {"block": artifact.block, "shmem_size": artifact.shared_bytes}
        if artifact.cluster > 1:
            settings["cluster"] = (artifact.cluster, 1, 1)
        if artifact.cooperative:
            settings["is_cooperative"] = True
        return settings


def launch_entries() -> tuple[int, int] | None:
    """The driver's own `cuLaunchKernel` and `cuCtxGetCurrent`; None: it does not tell them."""
    launch, current = _entry(b"cuLaunchKernel"), _entry(b"cuCtxGetCurrent")
    return (launch, current) if launch and current else None


@cache
def fill_entries() -> tuple[int, int, int]:
    """The driver's own functions that fill memory with words of 8, 16 and 32 bits."""
    return (
        _entry(b"cuMemsetD8Async"),
        _entry(b"cuMemsetD16Async"),
        _entry(b"cuMemsetD32Async"),
    )


@cache
def early_entry() -> int:
    """`cuLaunchKernelEx`, for launches that may start before the one in front has ended; 0 where
    such a launch cannot be captured into a graph.
    """
    return _entry(b"cuLaunchKernelEx") if _version() >= _EARLY_IN_GRAPHS else 0


@cache
def encode_entry() -> int:
    """The driver's own `cuTensorMapEncodeTiled`."""
    return _entry(b"cuTensorMapEncodeTiled")


@cache
def _version() -> int:
    return int(check(driver.cuDriverGetVersion(), "reading the driver's version"))


@cache
def _entry(name: bytes) -> int:
    """The address of a function of the driver's; 0: it does not tell it."""
    version = _version()
    flags = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    status, address, *_ = driver.cuGetProcAddress(name, version, flags)
    return 0 if int(status) else int(address)


def _argument(type_: str) -> Any:
    """Return a converter to a value that cuda.core passes as this type; addresses stay integers."""
    by_address = type_.startswith("*") or map_of(type_) is not None
    return int if by_address else ctypes_maker(type_)


def _prepared(
    module: ModuleBase,
    code: CudaCode,
    device: CudaDevice,
    kernel: Any,
    config: Any,
    args: Sequence[Value | None],
) -> Callable[..., None]:
    """The launch as one function. cuda.core copies the values into storage of the call's own, so
    calls from several threads do not meet.

    Args:
        config: of launches that give none of their own.
    """
    launch, legacy = core.launch, core.LEGACY_DEFAULT_STREAM
    if takes_maps(module.artifact):
        launch = launch_with_maps(module.artifact.parameters, encode_entry(), module.where)
    kinds = [_argument(p.type) for p in module.artifact.parameters]
    fixed = [None if a is None else kind(a) for a, kind in zip(args, kinds, strict=True)]
    dynamic = [index for index, a in enumerate(args) if a is None]
    convert = [(position, kinds[i]) for position, i in enumerate(dynamic) if kinds[i] is not int]
    count = len(dynamic)
    leading = dynamic == list(range(count)) and not convert
    tail = tuple(fixed[count:])
    what = f"launching {module.where}"

    def run(values: Sequence[Value], stream: Any, config: Any = config) -> None:
        on = stream.raw
        if len(values) != count or on is None or module.raw is None:
            refuse(module, stream, len(values), count)
        if leading:
            given: Any = (*values, *tail)
        else:
            given = fixed.copy()
            for index, value in zip(dynamic, values, strict=True):
                given[index] = value
            for position, kind in convert:
                given[dynamic[position]] = kind(values[position])
        with device.current(), checked(what):
            # the default stream cannot be captured, and graphs of ours keep their code
            if on is not legacy and not (code.stays or stream.recording):
                code.launching(stream)
                launch_watched(on, given, stream, config)
            else:
                launch(on, config, kernel, *given)

    def launch_watched(on: Any, given: Any, stream: Any, config: Any) -> None:
        try:
            launch(on, config, kernel, *given)
            if not code.stays:
                code.launched(stream)
        except BaseException:
            code.stay()  # it may run, and nobody knows until when
            raise

    def run_leading(values: Sequence[Value], stream: Any, config: Any = config) -> None:
        """The same without the steps that this launch does not need."""
        on = stream.raw
        if (
            len(values) != count
            or on is None
            or module.raw is None
            or not device.always_current
            or (on is not legacy and not code.stays)
        ):
            run(values, stream, config)
            return
        try:
            launch(on, config, kernel, *values, *tail)
        except Exception as error:  # of any of cuda.core's classes: `checked` sorts them
            with checked(what):
                raise error

    return run_leading if leading else run
