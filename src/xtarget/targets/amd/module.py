"""Loaded code objects, and launching their kernels."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..._values.errors import (
    ArgumentError,
    DriverError,
    LaunchError,
    LoadError,
    OutOfResourcesError,
)
from ..._values.types import Artifact, LaunchConfig, Parameter
from .. import base, optional
from .._objects.loaded_code import LoadedCode
from .._objects.module import CLOSINGS, FunctionBase, ModuleBase, check_block, check_grid, refuse
from . import kernarg, library
from .code_object import CodeObject, Kernel, check_agreement
from .status import call, check

if TYPE_CHECKING:
    from .device import HipDevice

__all__ = ["HipFunction", "HipModule", "load"]

# HIP_LAUNCH_PARAM_BUFFER_POINTER, address, HIP_LAUNCH_PARAM_BUFFER_SIZE, address of the size,
# HIP_LAUNCH_PARAM_END; then the size itself, then the argument bytes.
_HEAD = "6Q"
_HEAD_BYTES = 48
_SIZE_AT = 40
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
#: HIP refuses more threads in x without saying why.
_MOST_THREADS = 1 << 32


class _Image(LoadedCode):
    """A code object that HIP has loaded. It is unloaded with the last of the module, its functions
    and their prepared launches, so that none of them can start code that is gone.
    """

    __slots__ = ("_binary", "_device")

    def __init__(self, device: HipDevice, artifact: Artifact) -> None:
        self._device = device
        self._binary = artifact.binary  # HIP keeps reading it after the call
        where = f"{artifact.entry} on {device.info.name}"
        with device.current():
            args = ("hipModuleLoadData", self._binary)
            handle = call(device.hip, *args, doing=f"loading {where}")
        super().__init__(handle, where, device.staying)

    def close(self) -> None:
        handle, self.raw = self.raw, None
        if handle is None:
            return
        device, doing = self._device, f"unloading {self.where}"

        def unload() -> None:
            with device.entered():
                try:
                    call(device.hip, "hipDeviceSynchronize", doing=doing)  # it may still run
                finally:
                    call(device.hip, "hipModuleUnload", handle, doing=doing)

        device.captures.later(unload)


class HipModule(ModuleBase):
    """A loaded code object."""

    def __init__(
        self, device: HipDevice, artifact: Artifact, image: _Image, code: CodeObject, kernel: Kernel
    ) -> None:
        super().__init__(image, artifact, device.info, sorted(code.kernels))
        self._device = device
        self._kernel = kernel

    def function(self, name: str | None = None) -> HipFunction:
        return HipFunction(self, self._device, self._kernel, self.described(name))


def load(device: HipDevice, artifact: Artifact) -> HipModule:
    """Load an artifact, checked against its binary and the device before HIP sees it.

    Raises:
        LoadError: it does not fit, or HIP refuses it.
        OutOfResourcesError: its block or its shared memory is larger than any on this device.
    """
    try:
        code = CodeObject.parse(artifact.binary)
    except LoadError as error:
        what = f"{artifact.entry} cannot be loaded on {device.info.name}"
        raise LoadError(f"{what}: {error}") from error
    _check_device(device, artifact, code)
    check_block(artifact, device.info)  # before the comparison, which would not name the limit
    kernel = check_agreement(artifact, code)
    return HipModule(device, artifact, _Image(device, artifact), code, kernel)


def _check_device(device: HipDevice, artifact: Artifact, code: CodeObject) -> None:
    """Raise LoadError for code that this device cannot run (HIP checks less, and later)."""
    info = device.info
    if code.arch != info.target.arch:
        raise LoadError(
            f"{artifact.entry} was compiled for amd:{code.arch}; {info.name} ({info.product}) is "
            f"{info.target}. Compile it for {info.target}."
        )
    for feature, wanted in (("xnack", code.xnack), ("sramecc", code.sramecc)):
        has = device.features.get(feature, "off")
        if wanted in ("on", "off") and wanted != has:
            raise LoadError(
                f"{artifact.entry} was compiled for {feature} {wanted}; {info.name} has it {has}. "
                f"Compile it without a demand on {feature}, or switch it on the device (HSA_XNACK)."
            )
    if artifact.warp_size != info.warp_size:
        raise LoadError(
            f"{artifact.entry} was compiled for warps of {artifact.warp_size} threads; {info.name} "
            f"has warps of {info.warp_size}. Compile it for {info.target}."
        )


class HipFunction(FunctionBase):
    """A kernel of a module."""

    def __init__(self, module: HipModule, device: HipDevice, kernel: Kernel, image: _Image) -> None:
        super().__init__(module)
        self._device = device
        self._kernel = kernel
        self.code: _Image = image
        args = ("hipModuleGetFunction", image.live(), self.name.encode())
        self._handle = call(device.hip, *args, doing=f"looking up {module.where}")

    def prepare(
        self, config: LaunchConfig, args: Sequence[base.Value | None]
    ) -> base.PreparedLaunch:
        self._check_values(args)
        self._check_block()
        self._check_grid(config.grid)
        if self.artifact.cooperative:
            self._check_residency(config)
        return self._launcher(config.grid, args)

    def prepare_grids(self, args: Sequence[base.Value | None]) -> optional.GridLaunch:
        self._check_values(args)
        self._check_block()
        start, check_grid = self._launcher(None, args), self._check_grid

        def launch(grid: tuple[int, int, int], values: Sequence[base.Value], stream: Any) -> None:
            check_grid(grid)
            start(values, stream, grid)

        return launch

    def native(self, config: LaunchConfig) -> optional.NativeLaunch | None:
        artifact, device = self.artifact, self._device
        entries = library.launch_entries(device.hip)
        if entries is None or artifact.cooperative:
            return None
        launch, current_device, fills = entries
        return optional.NativeLaunch(
            entry=launch,
            function=int(self._handle),
            current_context=0 if device.alone else current_device,
            context=device.ordinal,
            block=artifact.block,
            shared_bytes=artifact.shared_bytes,
            module=self._module,
            code=self.code,
            fields=tuple((one.offset, one.size) for one in kernarg.layout(artifact.parameters)),
            buffer_bytes=self._kernel.kernarg_bytes,
            fills=fills,
            closings=CLOSINGS,
        )

    def _launcher(
        self, grid: tuple[int, int, int] | None, args: Sequence[base.Value | None]
    ) -> Callable[..., None]:
        """The launch as one function.

        Args:
            grid: of launches that give none of their own.
        """
        parameters = self.artifact.parameters
        converters = [self._converter(p) for p in parameters]
        template: list[Any] = [
            0 if value is None else convert(value) if convert else value
            for value, convert in zip(args, converters, strict=True)
        ]
        dynamic = [i for i, value in enumerate(args) if value is None]
        packer = kernarg.packer(parameters, _HEAD, self._kernel.kernarg_bytes)
        try:
            packer.pack(*(0,) * 6, *template)  # a constant that does not fit is found here
        except struct.error as error:
            raise self._unfit(template, error) from error
        # a word of the segment is picked from the values of the call, or from the constants
        order = [dynamic.index(i) if i in dynamic else len(dynamic) + i for i in range(len(args))]
        conversions = [(at, c) for at, i in enumerate(dynamic) if (c := converters[i])]
        return self._start(grid, packer, template, order, conversions, len(dynamic))

    def _start(
        self,
        grid: tuple[int, int, int] | None,
        packer: struct.Struct,
        template: list[Any],
        order: list[int],
        conversions: list[tuple[int, Any]],
        wanted: int,
    ) -> Callable[..., None]:
        """The part that runs at every call; nothing it writes to is shared between calls."""
        device, hip, handle = self._device, self._device.hip, self._handle
        module, image = self._module, self.code
        block = self.artifact.block
        sizes = (*block, self.artifact.shared_bytes)
        storage_type = ctypes.c_char * packer.size
        launch = hip.hipModuleLaunchKernel
        if self.artifact.cooperative:
            launch = self._cooperatively()
        pack_into, address_of = packer.pack_into, ctypes.addressof
        nbytes, alone = packer.size - _HEAD_BYTES, device.alone
        # two extra picks (of the zero behind the words): itemgetter gives no tuple for one
        pick = itemgetter(*order, -1, -1)

        def doing(grid: Any) -> str:
            return f"launching {self.name} with grid {grid} and block {block} on {device.info.name}"

        def start(values: Sequence[base.Value], stream: Any, grid: Any = grid) -> None:
            on = stream.raw
            if len(values) != wanted or on is None or module.raw is None or device.raw is None:
                device.live()
                refuse(module, stream, len(values), wanted)
            words: Any = (*values, *template, 0)
            storage = storage_type()
            here = address_of(storage)
            head = (
                _BUFFER_POINTER,
                here + _HEAD_BYTES,
                _BUFFER_SIZE,
                here + _SIZE_AT,
                _END,
                nbytes,
            )
            try:
                if conversions:
                    words = list(words)
                    for at, convert in conversions:
                        words[at] = convert(words[at])
                words = pick(words)[:-2]
                pack_into(storage, 0, *head, *words)
            except (struct.error, TypeError, ValueError) as error:
                raise self._unfit(words, error) from error
            # the null stream, 0, cannot be captured, and graphs of ours keep their code
            if on and not (image.stays or stream.recording):
                image.launching(stream)
            try:
                if alone:
                    result = launch(handle, *grid, *sizes, on, None, storage)
                else:
                    with device.current():
                        result = launch(handle, *grid, *sizes, on, None, storage)
            except ValueError as error:
                raise DriverError(
                    f"{doing(grid)} failed with a status unknown here: {error}."
                ) from error
            if result[0]:
                check(result, hip, doing(grid), launching=True)

        return start

    def _check_grid(self, grid: tuple[int, int, int]) -> None:
        artifact = self.artifact
        x, y, z = self._device.grid_limits
        most_x = min(x, (_MOST_THREADS - 1) // artifact.block[0])
        check_grid(artifact, self._device.info, grid, (most_x, y, z))

    def _check_block(self) -> None:
        artifact, info = self.artifact, self._device.info
        static = self._kernel.resources.static_shared_bytes or 0
        check_block(artifact, info, static_shared=static)
        if artifact.cluster != 1:
            raise LaunchError(
                f"{self.name} was compiled for blocks in clusters, which AMD GPUs do not have. "
                "Compile it with num_ctas=1."
            )

    def _check_residency(self, config: LaunchConfig) -> None:
        """Refuse a grid whose blocks would wait for others that cannot start."""
        artifact, device = self.artifact, self._device
        info, hip = device.info, device.hip
        doing = f"asking {info.name} how many blocks of {self.name} can run at the same time"
        with device.current():
            attribute = hip.hipDeviceAttribute_t.hipDeviceAttributeCooperativeLaunch
            if not call(hip, "hipDeviceGetAttribute", attribute, device.ordinal, doing=doing):
                raise LaunchError(
                    f"{self.name} was compiled for a cooperative launch, which {info.name} "
                    f"({info.product}) does not have. Compile it without launch_cooperative_grid."
                )
            ask = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
            sizes = (artifact.block[0], artifact.shared_bytes)
            each = call(hip, ask, self._handle, *sizes, doing=doing)
        x, y, z = config.grid
        if x * y * z > each * info.compute_units:
            raise OutOfResourcesError(
                f"{self.name} is launched cooperatively with {x * y * z} blocks, which all have to "
                f"run at the same time; {info.name} ({info.product}) holds "
                f"{each * info.compute_units}: {each} on each of {info.compute_units} compute "
                "units. Launch fewer blocks, and let each of them do more."
            )

    def _cooperatively(self) -> Callable[..., tuple[Any, ...]]:
        """HIP's cooperative launch, called like the other one; it wants the address of each value
        instead of one buffer."""
        places = [field.offset for field in kernarg.layout(self.artifact.parameters)]
        pointers = ctypes.c_void_p * len(places)
        launch = self._device.hip.hipModuleLaunchCooperativeKernel

        def start(*args: Any) -> tuple[Any, ...]:
            *before, _, storage = args
            first = ctypes.addressof(storage) + _HEAD_BYTES
            result: tuple[Any, ...] = launch(*before, pointers(*[first + at for at in places]))
            return result

        return start

    def _converter(self, parameter: Parameter) -> Any:
        """Return the function that converts a parameter's value before it is packed, or None."""
        scratch = {
            "global_scratch": self.artifact.global_scratch,
            "profile_scratch": self.artifact.profile_scratch,
        }.get(parameter.hidden or "")
        if scratch is None or scratch.nbytes == 0:
            return kernarg.conversion(parameter)

        def not_null(value: base.Value) -> base.Value:
            if not value:
                raise LaunchError(
                    f"{self.name} needs {scratch.nbytes:,} bytes of {parameter.hidden} for every "
                    "block, and was given none. Allocate it and pass its address."
                )
            return value

        return not_null

    def _unfit(self, words: Sequence[Any], error: Exception) -> ArgumentError:
        """The error for a value that its parameter cannot hold."""
        parameters = self.artifact.parameters
        picked = words if len(words) == len(parameters) else ()
        for parameter, word in zip(parameters, picked, strict=False):
            try:
                kernarg.packer([parameter]).pack(word)
            except struct.error as reason:
                return ArgumentError(
                    f"{self.name}: the value {word!r} does not fit the parameter {parameter.name} "
                    f"of type {parameter.type} ({reason})."
                )
        return ArgumentError(f"{self.name}: a value has the wrong type ({error}).")
