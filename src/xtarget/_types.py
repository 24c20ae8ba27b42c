"""Values that all layers share: dtypes, targets, compile requests, artifacts, device descriptions.

Standard library only; nothing here knows a vendor's API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ._errors import UnknownTargetError

__all__ = [
    "DTYPES",
    "VENDOR_ALIASES",
    "Artifact",
    "CompileRequest",
    "Constant",
    "DType",
    "DeviceInfo",
    "DtypeConstant",
    "KernelSource",
    "LaunchConfig",
    "Parameter",
    "ProbeReport",
    "Resources",
    "Scratch",
    "Target",
    "TypeText",
]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    `name` is NumPy's (`float32`), `triton` is Triton's (`fp32`), `kind` is one of `b` (bool), `i`,
    `u`, `f`.
    """

    name: str
    triton: str
    itemsize: int
    kind: str


DTYPES: Final[Mapping[str, DType]] = {
    d.name: d
    for d in (
        DType("bool", "i1", 1, "b"),
        DType("int8", "i8", 1, "i"),
        DType("int16", "i16", 2, "i"),
        DType("int32", "i32", 4, "i"),
        DType("int64", "i64", 8, "i"),
        DType("uint8", "u8", 1, "u"),
        DType("uint16", "u16", 2, "u"),
        DType("uint32", "u32", 4, "u"),
        DType("uint64", "u64", 8, "u"),
        DType("float16", "fp16", 2, "f"),
        DType("bfloat16", "bf16", 2, "f"),
        DType("float32", "fp32", 4, "f"),
        DType("float64", "fp64", 8, "f"),
    )
}


# ------------------------------------------------------------------------------------------ targets

VENDOR_ALIASES: Final[Mapping[str, str]] = {
    "cuda": "nvidia",
    "hip": "amd",
    "rocm": "amd",
    "xpu": "intel",
    "opencl": "cpu",
}

#: The arch of a target that is named by its vendor alone, where one arch serves every device of the
#: vendor.
_DEFAULT_ARCH: Final[Mapping[str, str]] = {"intel": "spirv64", "cpu": "spirv64"}

#: Product names, lower case without spaces and dashes, to targets.
#: Sources: NVIDIA "CUDA GPU compute capability" table; AMD ROCm "GPU hardware specifications";
#: Intel product briefs.
_PRODUCTS: Final[Mapping[str, str]] = {
    "t4": "nvidia:sm_75",
    "a100": "nvidia:sm_80",
    "a10": "nvidia:sm_86",
    "rtx3090": "nvidia:sm_86",
    "l4": "nvidia:sm_89",
    "l40s": "nvidia:sm_89",
    "rtx4090": "nvidia:sm_89",
    "h100": "nvidia:sm_90",
    "h200": "nvidia:sm_90",
    "gh200": "nvidia:sm_90",
    "b200": "nvidia:sm_100",
    "gb200": "nvidia:sm_100",
    "rtx5090": "nvidia:sm_120",
    "mi210": "amd:gfx90a",
    "mi250": "amd:gfx90a",
    "mi250x": "amd:gfx90a",
    "mi300a": "amd:gfx942",
    "mi300x": "amd:gfx942",
    "mi325x": "amd:gfx942",
    "mi350x": "amd:gfx950",
    "mi355x": "amd:gfx950",
    "rx7900xtx": "amd:gfx1100",
    "rx7900xt": "amd:gfx1100",
    "rx9070": "amd:gfx1201",
    "rx9070xt": "amd:gfx1201",
    "pvc": "intel:spirv64",
    "max1550": "intel:spirv64",
    "dg2": "intel:spirv64",
    "a770": "intel:spirv64",
    "bmg": "intel:spirv64",
    "b580": "intel:spirv64",
    "lnl": "intel:spirv64",
}


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """What code is compiled for: a vendor and an arch, written `vendor:arch` (`nvidia:sm_90`,
    `amd:gfx942`).
    """

    vendor: str
    arch: str

    def __str__(self) -> str:
        return f"{self.vendor}:{self.arch}"

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """Read a target.

        Takes `vendor:arch`, the vendors' other names (`cuda:90`, `hip:gfx942`, `xpu`), a vendor
        with one portable arch (`cpu`, `intel`), and product names (`h200`, `mi300x`, `bmg`).
        Whether the installed compiler knows the arch is for the compiler to say.

        Raises:
            UnknownTargetError: the text has none of these forms.
        """
        if isinstance(text, Target):
            return text
        given = str(text).strip()
        product = given.lower().replace(" ", "").replace("-", "").replace("_", "")
        if product in _PRODUCTS:
            return cls.parse(_PRODUCTS[product])
        vendor, _, arch = given.lower().partition(":")
        vendor, arch = VENDOR_ALIASES.get(vendor.strip(), vendor.strip()), arch.strip()
        if not arch:
            arch = _DEFAULT_ARCH.get(vendor, "")
        if vendor == "nvidia" and arch:
            digits = arch.removeprefix("sm").removeprefix("_").replace(".", "")
            arch = f"sm_{digits}" if digits[:1].isdigit() else ""
        if vendor == "amd":
            arch = arch.partition(":")[0]  # gfx942:sramecc+:xnack-
            arch = arch if arch.startswith("gfx") and len(arch) > 3 else ""
        if (
            not vendor.isidentifier()
            or not arch
            or not all(c.isalnum() or c in "_.-" for c in arch)
        ):
            raise UnknownTargetError(
                f"{given!r} is not a target. Write vendor:arch, for example nvidia:sm_90, "
                "amd:gfx942, intel:spirv64 or cpu:spirv64, or a product name: "
                f"{', '.join(sorted(_PRODUCTS))}."
            )
        return cls(vendor, arch)


# ---------------------------------------------------------------------------------------- compiling


@dataclass(frozen=True, slots=True)
class DtypeConstant:
    """A compile-time constant that is an element type; the kernel gets Triton's dtype object."""

    name: str


Constant: TypeAlias = bool | int | float | str | DtypeConstant | tuple["Constant", ...] | None

#: A parameter's type as Triton writes it: `*fp32`, `i32`, `constexpr`, or a tuple of these for a
#: tuple parameter.
TypeText: TypeAlias = str | tuple["TypeText", ...]


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Where a kernel's code comes from.

    Attributes:
        name: the function's name, which is also the entry's name in every binary.
        digest: sha256 (hex) of all source text that the function can reach.
        path: the file, for messages only; never part of a key.
        load: returns the `triton.JITFunction`; importing Triton happens in there and nowhere
            earlier.
    """

    name: str
    digest: str
    path: str = field(compare=False)
    load: Callable[[], Any] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One specialization of a kernel, with everything that can change its binary except target and
    toolchain.

    Attributes:
        source: the kernel.
        signature: (parameter, type) for every parameter of the kernel, constants as `constexpr`.
        constants: (parameter, value) of the `constexpr` ones.
        aligned: parameters whose value is a multiple of 16; an element of a tuple parameter is
            written `shape.0`.
        num_warps, num_stages: Triton's options of the same names.
        line_info: keep source lines in the binary (off: reproducible, path-free, half the size).
        options: further options of Triton's back end, by name.
    """

    source: KernelSource
    signature: tuple[tuple[str, TypeText], ...]
    constants: tuple[tuple[str, Constant], ...] = ()
    aligned: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 2
    line_info: bool = False
    options: tuple[tuple[str, Constant], ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled entry, in the entry's order.

    Attributes:
        name: the kernel's name for it; `shape.0` is the first element of the tuple parameter
            `shape`.
        type: Triton's type text (`*fp32`, `i32`, `fp64`).
        hidden: None, or `global_scratch` / `profile_scratch`: memory that the runtime provides; or
            `assert_memory`, where the device puts memory of its own for the message of a failed
            device_assert, whatever value it is given.
    """

    name: str
    type: str
    hidden: str | None = None

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@dataclass(frozen=True, slots=True)
class Scratch:
    """Global memory that the kernel wants from the runtime: `nbytes` for every block, on `align`
    bytes.
    """

    nbytes: int = 0
    align: int = 1


@dataclass(frozen=True, slots=True)
class Resources:
    """What the binary says it uses, per thread unless named otherwise. None: this format does not
    tell.

    Attributes:
        registers: vector registers (CUDA registers, AMD VGPRs).
        scalar_registers: AMD SGPRs.
        accumulator_registers: AMD AGPRs.
        spilled_registers: registers kept in memory.
        local_bytes: private memory (CUDA local memory, AMD scratch), bytes.
        static_shared_bytes: shared memory that is part of the binary, bytes per block.
    """

    registers: int | None = None
    scalar_registers: int | None = None
    accumulator_registers: int | None = None
    spilled_registers: int | None = None
    local_bytes: int | None = None
    static_shared_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel: the bytes, and all that loading and launching needs.

    Attributes:
        target: what it was compiled for.
        format: `cubin`, `hsaco` or `spirv`; also the file's suffix.
        entry: name of the entry point.
        binary: the raw bytes, as the vendor's own tools read them.
        num_warps, warp_size: the block is `num_warps * warp_size` threads, in one dimension.
        shared_bytes: shared memory of a block, bytes. Dynamic on CUDA and HIP (to be asked for at
            launch), part of the module in SPIR-V.
        parameters: every parameter of the entry, hidden ones included.
        global_scratch, profile_scratch: memory behind the hidden parameters.
        cluster: blocks per cluster (Triton's num_ctas), 1 nearly always.
        cooperative: all blocks must be resident at once.
        resources: what the binary tells about itself.
        texts: compiler stages by name (`ptx`, `ttir`, `ttgir`, `llir`, `amdgcn`), those that were
            kept.
    """

    target: Target
    format: str
    entry: str
    binary: bytes = field(repr=False)
    num_warps: int
    warp_size: int
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    global_scratch: Scratch = Scratch()
    profile_scratch: Scratch = Scratch()
    cluster: int = 1
    cooperative: bool = False
    resources: Resources = Resources()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block in x, y, z."""
        return (self.num_warps * self.warp_size, 1, 1)


# ------------------------------------------------------------------------------------------ devices


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """How many blocks to start, in x, y, z. The block itself belongs to the artifact.

    A grid with a zero in it starts nothing and is no error.
    """

    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What is known of a device without using it.

    Attributes:
        name: `nvidia:0`.
        target: what to compile for.
        product: the vendor's marketing name.
        memory_bytes: global memory.
        compute_units: multiprocessors, compute units, Xe cores x vector engines as the run time
            counts them, CPU threads.
        driver_version: as the run time writes it.
        warp_size: threads of a warp that code for `target` uses on it.
        max_threads_per_block, max_shared_bytes: limits of one block.
        host_memory: kernels can use the host's pageable memory in place (NumPy arrays need no
            copy).
        fp64: has float64.
        compile_options: of the vendor's compiler, that code for this very device is compiled with:
            `{"fp64": False}`. The request's own go first.
        runs_on: `silicon`, `CPU runtime`, `emulator` or `fake`; never one called the other.
        details: further facts for `xtarget devices --json`.
    """

    name: str
    target: Target
    product: str
    memory_bytes: int
    compute_units: int
    driver_version: str
    warp_size: int
    max_threads_per_block: int
    max_shared_bytes: int
    host_memory: bool = False
    fp64: bool = True
    compile_options: Mapping[str, bool | int] = field(default_factory=dict, hash=False)
    runs_on: str = "silicon"
    details: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def vendor(self) -> str:
        return self.name.partition(":")[0]

    @property
    def ordinal(self) -> int:
        """Its number in the vendor's run time; an emulated device is the only one of its own."""
        number = self.name.partition(":")[2]
        return int(number) if number.isdigit() else 0


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The answer of a probe: devices, or a sentence that says why there are none and what to do."""

    vendor: str
    devices: tuple[DeviceInfo, ...] = ()
    reason: str | None = None
