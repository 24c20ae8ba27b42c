"""Read the description that an hsaco contains: arch, kernels, argument layout, resources.

Source: LLVM, "User Guide for AMDGPU Backend", sections "ELF Code Object" (header flags) and "Code
Object Metadata" (note records of version 4 and 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from ..._values.errors import LoadError
from ..._values.types import Artifact, Resources
from ..._values.value_classes import value_class
from .._binaries.elf import Elf
from .._binaries.msgpack import unpack
from . import kernarg

__all__ = ["MACHS", "CodeObject", "Kernel", "KernelArgument", "check_agreement", "read_kernels"]

_EM_AMDGPU = 224
_ABI_AMDHSA = 64
_NT_AMDGPU_METADATA = 32
#: Size of the implicit arguments of code object version 5.
_HIDDEN_BYTES = 256
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"

#: EF_AMDGPU_MACH: e_flags & 0xff to the processor.
MACHS: Mapping[int, str] = {
    0x2C: "gfx900",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x41: "gfx1100",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x55: "gfx1152",
    0x58: "gfx1153",
}
#: Two bits of e_flags each, from bit 8: EF_AMDGPU_FEATURE_{XNACK,SRAMECC}_*_V4.
_SETTINGS = ("unsupported", "any", "off", "on")


@value_class(frozen=True, slots=True)
class KernelArgument:
    """One entry of `.args`: bytes `offset` to `offset + size`, and `.value_kind`."""

    offset: int
    size: int
    kind: str

    @property
    def hidden(self) -> bool:
        """Filled in by the run time, not by the caller."""
        return self.kind.startswith("hidden_")


@value_class(frozen=True, slots=True)
class Kernel:
    """A kernel of a code object, as its metadata describe it.

    Attributes:
        arguments: `.args`, in order.
        kernarg_bytes: `.kernarg_segment_size`.
        wavefront_size: lanes of a wavefront (warp).
        max_threads: `.max_flat_workgroup_size`; Triton sets it to the block's exact size.
        dynamic_stack: needs a stack that the binary cannot put a size on.
        resources: registers, spills, scratch, LDS.
    """

    name: str
    arguments: tuple[KernelArgument, ...]
    kernarg_bytes: int
    wavefront_size: int
    max_threads: int
    dynamic_stack: bool
    resources: Resources


@value_class(frozen=True, slots=True)
class CodeObject:
    """A parsed hsaco.

    Attributes:
        arch: `gfx942`.
        xnack, sramecc: `unsupported`, `any`, `off` or `on`: what the code demands of the device.
        kernels: by name.
    """

    arch: str
    xnack: str
    sramecc: str
    kernels: Mapping[str, Kernel]

    @classmethod
    def parse(cls, data: bytes) -> CodeObject:
        """Read a raw code object.

        Raises:
            LoadError: not one, or damaged; the message says where.
        """
        if data.startswith(_BUNDLE):
            raise LoadError(
                "this hsaco is an offload bundle; xtarget loads raw code objects. Take the one for "
                "your device out of it with clang-offload-bundler --unbundle."
            )
        elf = Elf.parse(data)
        if (elf.machine, elf.os_abi) != (_EM_AMDGPU, _ABI_AMDHSA):
            raise LoadError(
                f"this ELF file is for machine {elf.machine}, ABI {elf.os_abi}; an hsaco has "
                f"{_EM_AMDGPU} (AMD GPU) and {_ABI_AMDHSA} (HSA). Compile the kernel for amd:…"
            )
        arch = MACHS.get(elf.flags & 0xFF)
        if arch is None:
            raise LoadError(
                f"this hsaco is for a processor with the number 0x{elf.flags & 0xFF:02x}, which "
                f"this xtarget does not know. It knows {', '.join(sorted(MACHS.values()))}."
            )
        notes = [n for n in elf.notes() if (n.name, n.type) == ("AMDGPU", _NT_AMDGPU_METADATA)]
        if not notes:
            raise LoadError(
                "this hsaco has no AMDGPU metadata note, so its kernels are unknown. Compile the "
                "kernel again."
            )
        return cls(
            arch,
            _SETTINGS[elf.flags >> 8 & 3],
            _SETTINGS[elf.flags >> 10 & 3],
            read_kernels(unpack(notes[0].data)),
        )


class _Table:
    """A metadata map whose entries are checked for their type."""

    def __init__(self, value: Any, what: str) -> None:
        if not isinstance(value, dict):
            raise self._wrong(what, value, "a map")
        self._map, self._what = value, what

    @staticmethod
    def _wrong(what: str, value: Any, wanted: str) -> LoadError:
        return LoadError(
            f"in this hsaco, {what} is {value!r:.80} instead of {wanted}. Compile the kernel again."
        )

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._map.get(key, default)
        if not isinstance(value, int) or not 0 <= value < 1 << 32:
            raise self._wrong(f"{key} of {self._what}", value, "a size")
        return int(value)

    def text(self, key: str) -> str:
        value = self._map.get(key)
        if not isinstance(value, str):
            raise self._wrong(f"{key} of {self._what}", value, "text")
        return value

    def list(self, key: str) -> list[Any]:
        value = self._map.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(f"{key} of {self._what}", value, "a list")
        return value


def read_kernels(metadata: Any) -> dict[str, Kernel]:
    """The kernels of a metadata note's content, by name."""
    table = _Table(metadata, "the metadata")
    kernels = [_kernel(_Table(k, "a kernel")) for k in table.list("amdhsa.kernels")]
    return {k.name: k for k in kernels}


def _kernel(table: _Table) -> Kernel:
    arguments = [_Table(a, "an argument") for a in table.list(".args")]
    return Kernel(
        name=table.text(".name"),
        arguments=tuple(
            KernelArgument(a.integer(".offset"), a.integer(".size"), a.text(".value_kind"))
            for a in arguments
        ),
        kernarg_bytes=table.integer(".kernarg_segment_size"),
        wavefront_size=table.integer(".wavefront_size"),
        max_threads=table.integer(".max_flat_workgroup_size"),
        dynamic_stack=bool(table.integer(".uses_dynamic_stack", 0)),
        resources=Resources(
            registers=table.integer(".vgpr_count"),
            scalar_registers=table.integer(".sgpr_count"),
            accumulator_registers=table.integer(".agpr_count", 0),
            spilled_registers=table.integer(".vgpr_spill_count", 0)
            + table.integer(".sgpr_spill_count", 0),
            local_bytes=table.integer(".private_segment_fixed_size"),
            static_shared_bytes=table.integer(".group_segment_fixed_size"),
        ),
    )


def check_agreement(artifact: Artifact, code: CodeObject) -> Kernel:
    """The artifact's kernel, after a check that the binary is what the artifact says.

    The run time checks none of this: HIP reads each argument where the metadata say, whatever
    bytes it was given.

    Raises:
        LoadError: they differ; the message has both sides.
    """

    def differ(what: str, said: object, found: object) -> LoadError:
        return LoadError(
            f"the hsaco of {artifact.entry} does not agree with its description: {what} should be "
            f"{said}, and the binary says {found}. Compile the kernel again."
        )

    if code.arch != artifact.target.arch:
        raise differ("the arch", artifact.target.arch, code.arch)
    kernel = code.kernels.get(artifact.entry)
    if kernel is None:
        raise differ("a kernel", artifact.entry, ", ".join(sorted(code.kernels)) or "none")
    if kernel.wavefront_size != artifact.warp_size:
        raise differ("the warp size", artifact.warp_size, kernel.wavefront_size)
    if kernel.max_threads != artifact.block[0]:
        raise differ("threads per block", artifact.block[0], kernel.max_threads)
    try:
        fields = kernarg.layout(artifact.parameters)
    except KeyError as error:
        raise LoadError(
            f"a parameter of {artifact.entry} has the type {error.args[0]!r}, which cannot be "
            "passed to a kernel by value."
        ) from None
    said = [(f.offset, f.size, "global_buffer" if f.is_pointer else "by_value") for f in fields]
    found = [(a.offset, a.size, a.kind) for a in kernel.arguments if not a.hidden]
    for parameter, ours, theirs in zip_longest(artifact.parameters, said, found):
        if ours != theirs:
            name = parameter.name if parameter else "a further argument"
            raise differ(f"{name} (offset, size, kind)", ours, theirs)
    # Hidden arguments lie behind ours, and HIP fills them in. Triton 3.9 kernels for gfx950 with
    # num_stages > 1 declare them without using them (LLVM takes llvm.amdgcn.asyncmark for a call).
    # A compiler may count only to the end of the last one, and not in whole 8 bytes as Triton does.
    least = max((f.offset + f.size for f in fields), default=0)
    most = kernarg.segment_bytes(fields)
    most += _HIDDEN_BYTES if any(a.hidden for a in kernel.arguments) else 0
    if not least <= kernel.kernarg_bytes <= most:
        raise differ("argument bytes", least, kernel.kernarg_bytes)
    for hidden in (a for a in kernel.arguments if a.hidden):
        if not least <= hidden.offset <= kernel.kernarg_bytes - hidden.size:
            raise differ(f"{hidden.kind}", f"behind byte {least}", hidden.offset)
    if kernel.dynamic_stack:
        raise LoadError(
            f"{artifact.entry} needs a stack of unknown size (recursion or a call through a "
            "pointer), which a launch cannot provide. Rewrite the kernel without it."
        )
    return kernel
