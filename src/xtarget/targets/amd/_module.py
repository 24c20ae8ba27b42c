"""Loaded code objects, and launching their kernels."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..._errors import ArgumentError, DriverError, LaunchError, LoadError, OutOfResourcesError
from ..._types import Artifact, LaunchConfig, Parameter
from .. import base
from . import _kernarg
from ._status import call, check
from .code_object import CodeObject, Kernel, check_agreement

if TYPE_CHECKING:
    from ._device import HipDevice

__all__ = ["HipFunction", "HipModule"]

# HIP_LAUNCH_PARAM_BUFFER_POINTER, address, HIP_LAUNCH_PARAM_BUFFER_SIZE, address of the size,
# HIP_LAUNCH_PARAM_END; then the size itself, then the argument bytes.
_HEAD = "6Q"
_HEAD_BYTES = 48
_SIZE_AT = 40
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
#: HIP refuses more threads in x without saying why.
_MOST_THREADS = 1 << 32


class HipModule:
    """A code object on a device, checked against its artifact and the device before HIP sees it."""

    def __init__(self, device: HipDevice, artifact: Artifact) -> None:
        code = CodeObject.parse(artifact.binary)
        _check_device(device, artifact, code)
        self._kernel = check_agreement(artifact, code)
        self._names = sorted(code.kernels)
        self._device = device
        self._artifact = artifact
        doing = f"loading {artifact.entry} on {device.info.name}"
        with device.current():
            # HIP keeps reading the image after the call, so the artifact has to live as long
            self._handle = call(device.hip, "hipModuleLoadData", artifact.binary, doing=doing)

    def function(self, name: str | None = None) -> base.Function:
        name = self._artifact.entry if name is None else name
        if name != self._artifact.entry:
            raise LoadError(
                f"the module of {self._artifact.entry} has no described entry {name!r}; it has "
                f"{', '.join(self._names)}, of which {self._artifact.entry} is described."
            )
        device = self._device
        doing = f"looking up {name} on {device.info.name}"
        handle = call(device.hip, "hipModuleGetFunction", self._handle, name.encode(), doing=doing)
        return HipFunction(self, device, self._artifact, self._kernel, handle)

    def native(self) -> bytes | None:
        return None

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            doing = f"unloading {self._artifact.entry} from {self._device.info.name}"
            call(self._device.hip, "hipModuleUnload", handle, doing=doing)


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


class HipFunction:
    """A kernel of a module."""

    def __init__(
        self,
        module: HipModule,
        device: HipDevice,
        artifact: Artifact,
        kernel: Kernel,
        handle: Any,
    ) -> None:
        self._module = module  # keeps the binary's bytes alive
        self._device = device
        self._artifact = artifact
        self._kernel = kernel
        self._handle = handle

    @property
    def name(self) -> str:
        return self._artifact.entry

    @property
    def artifact(self) -> Artifact:
        return self._artifact

    def launch(self, config: LaunchConfig, args: Sequence[base.Value], stream: base.Stream) -> None:
        base.launch_once(self, config, args, stream)

    def prepare(
        self, config: LaunchConfig, args: Sequence[base.Value | None]
    ) -> base.PreparedLaunch:
        self._check_grid(config)
        self._check_resources()
        parameters = self._artifact.parameters
        if len(args) != len(parameters):
            raise ArgumentError(
                f"{self.name} takes {len(parameters)} arguments "
                f"({', '.join(p.name for p in parameters)}), and got {len(args)}."
            )
        converters = [self._converter(p) for p in parameters]
        template: list[Any] = [
            0 if value is None else convert(value) if convert else value
            for value, convert in zip(args, converters, strict=True)
        ]
        dynamic = [i for i, value in enumerate(args) if value is None]
        packer = _kernarg.packer(parameters, _HEAD, self._kernel.kernarg_bytes)
        try:
            packer.pack(*(0,) * 6, *template)  # a constant that does not fit is found here
        except struct.error as error:
            raise self._unfit(template, error) from error
        # a word of the segment is picked from the values of the call, or from the constants
        order = [dynamic.index(i) if i in dynamic else len(dynamic) + i for i in range(len(args))]
        conversions = [(at, c) for at, i in enumerate(dynamic) if (c := converters[i])]
        return self._launcher(config.grid, packer, template, order, conversions, len(dynamic))

    def _launcher(
        self,
        grid: tuple[int, int, int],
        packer: struct.Struct,
        template: list[Any],
        order: list[int],
        conversions: list[tuple[int, Any]],
        wanted: int,
    ) -> base.PreparedLaunch:
        """The part that runs at every call; nothing it writes to is shared between calls."""
        device, hip, handle = self._device, self._device.hip, self._handle
        block = self._artifact.block
        dimensions = (*grid, *block, self._artifact.shared_bytes)
        storage_type = ctypes.c_char * packer.size
        launch, pack_into, address_of = (
            hip.hipModuleLaunchKernel,
            packer.pack_into,
            ctypes.addressof,
        )
        nbytes, alone = packer.size - _HEAD_BYTES, device.alone
        # two extra picks (of the zero behind the words): itemgetter gives no tuple for one
        pick = itemgetter(*order, -1, -1)
        doing = f"launching {self.name} with grid {grid} and block {block} on {device.info.name}"

        def start(values: Sequence[base.Value], stream: base.Stream) -> None:
            if len(values) != wanted:
                raise ArgumentError(
                    f"this launch of {self.name} takes {wanted} values, and got {len(values)}."
                )
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
            try:
                if alone:
                    result = launch(handle, *dimensions, stream.handle, None, storage)
                else:
                    with device.current():
                        result = launch(handle, *dimensions, stream.handle, None, storage)
            except ValueError as error:
                raise DriverError(f"{doing} failed with a status unknown here: {error}.") from error
            if result[0]:
                check(result, hip, doing, launching=True)

        return start

    def _check_grid(self, config: LaunchConfig) -> None:
        threads = self._artifact.block[0]
        for axis, blocks, most in zip("xyz", config.grid, self._device.grid_limits, strict=True):
            if axis == "x":
                most = min(most, (_MOST_THREADS - 1) // threads)
            if blocks < 1 or blocks > most:
                raise OutOfResourcesError(
                    f"{self.name} cannot start {blocks:,} blocks in {axis} on "
                    f"{self._device.info.name}: the limit is {most:,} blocks of {threads} threads. "
                    "Let each block do more, or split the work over several launches."
                )

    def _check_resources(self) -> None:
        artifact, info = self._artifact, self._device.info
        if artifact.block[0] > info.max_threads_per_block:
            raise OutOfResourcesError(
                f"{self.name} has {artifact.block[0]} threads in a block; {info.name} takes at "
                f"most {info.max_threads_per_block}. Compile it with a smaller num_warps."
            )
        shared = artifact.shared_bytes + (self._kernel.resources.static_shared_bytes or 0)
        if shared > info.max_shared_bytes:
            raise OutOfResourcesError(
                f"{self.name} needs {shared:,} bytes of shared memory (LDS) in a block; "
                f"{info.name} has {info.max_shared_bytes:,}. Compile it with smaller tiles or a "
                "smaller num_stages."
            )
        if artifact.cluster != 1 or artifact.cooperative:
            raise LaunchError(
                f"{self.name} was compiled for "
                + ("blocks in clusters" if artifact.cluster != 1 else "a cooperative launch")
                + ", which xtarget does not launch on AMD. Compile it with num_ctas=1 and without "
                "launch_cooperative_grid."
            )

    def _converter(self, parameter: Parameter) -> Any:
        """What the value of a parameter goes through before it is packed, or None."""
        scratch = {
            "global_scratch": self._artifact.global_scratch,
            "profile_scratch": self._artifact.profile_scratch,
        }.get(parameter.hidden or "")
        if scratch is None or scratch.nbytes == 0:
            return _kernarg.conversion(parameter)

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
        parameters = self._artifact.parameters
        picked = words if len(words) == len(parameters) else ()
        for parameter, word in zip(parameters, picked, strict=False):
            try:
                _kernarg.packer([parameter]).pack(word)
            except struct.error as reason:
                return ArgumentError(
                    f"{self.name}: the value {word!r} does not fit the parameter {parameter.name} "
                    f"of type {parameter.type} ({reason})."
                )
        return ArgumentError(f"{self.name}: a value has the wrong type ({error}).")
