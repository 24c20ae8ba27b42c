"""Values that all layers share: dtypes, targets, compile requests, artifacts, device descriptions.

Standard library only; nothing here knows a vendor's API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from . import vendors
from .errors import UnknownTargetError, shortened
from .value_classes import value_class

__all__ = [
    "COMPUTED",
    "DTYPES",
    "Artifact",
    "CompileRequest",
    "Constant",
    "DType",
    "DeviceInfo",
    "DtypeConstant",
    "KernelSource",
    "LaunchConfig",
    "MemoryUse",
    "Parameter",
    "ProbeReport",
    "Resources",
    "Scratch",
    "SourceText",
    "Target",
    "TypeText",
    "WrittenSource",
]


@value_class(frozen=True, slots=True)
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
        DType("float8_e4m3fn", "fp8e4nv", 1, "f"),
        DType("float8_e5m2", "fp8e5", 1, "f"),
    )
}

#: Those that operators compute with. The others (floats of 8 bits) are for casts, and for users'
#: kernels.
COMPUTED: Final = tuple(name for name in DTYPES if not name.startswith("float8"))


# ------------------------------------------------------------------------------------------ targets

#: Characters of a target: they are parts of file names.
_LONGEST_TARGET: Final = 80


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """The target of a compilation: a vendor and an arch, written `vendor:arch` (`nvidia:sm_90`,
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
        given = (text if isinstance(text, str) else shortened(text)).strip()
        vendor, _, arch = given.lower().partition(":")
        vendor, arch = vendor.strip(), arch.strip()
        if not arch:
            vendor, arch = vendors.product(vendor) or (vendor, "")
        vendor = vendors.canonical(vendor)
        traits = vendors.traits(vendor)
        arch = arch or traits.default_arch
        arch = traits.parse_arch(arch) if arch else ""
        if (
            not vendor.isidentifier()
            or not arch
            or not given.isascii()
            or len(given) > _LONGEST_TARGET
            or not all(c.isalnum() or c in "_.-" for c in arch)
        ):
            raise UnknownTargetError(
                f"{shortened(given)} is not a target. Write vendor:arch, for example "
                f"{', '.join(vendors.example_targets())}, or a product name: "
                f"{', '.join(vendors.products())}."
            )
        return cls(vendor, arch)


# ---------------------------------------------------------------------------------------- compiling


@value_class(frozen=True, slots=True)
class DtypeConstant:
    """A compile-time constant that is an element type; the kernel gets Triton's dtype object."""

    name: str


Constant: TypeAlias = bool | int | float | str | DtypeConstant | tuple["Constant", ...] | None

#: A parameter's type as Triton writes it: `*fp32`, `i32`, `constexpr`, or a tuple of these for a
#: tuple parameter.
TypeText: TypeAlias = str | tuple["TypeText", ...]


@value_class(frozen=True, slots=True)
class SourceText:
    """A Triton function as text that says all of it: for compilers that are not Triton.

    Attributes:
        modules: path and text of each file by its module, those that the function's file imports
            among them.
        function: `module:function`.
        given: globals of the function's file, and the functions that they stand for.
    """

    modules: Mapping[str, tuple[str, bytes]]
    function: str
    given: tuple[tuple[str, SourceText], ...] = ()


@value_class(frozen=True, slots=True)
class WrittenSource:
    """A source of a kernel in another language than Triton.

    Attributes:
        suffix: of its file: `cl` (OpenCL C), `cu` (CUDA C++).
        text: the file's content.
        name: the file's name, for the compiler's messages.
    """

    suffix: str
    text: bytes = field(repr=False)
    name: str


@value_class(frozen=True, slots=True)
class KernelSource:
    """The source of a kernel's code.

    Attributes:
        name: the function's name, which is also the entry's name in every binary.
        digest: sha256 (hex) of all that the function is made from: its text, the text of the
            functions that it calls, and the values that they read.
        path: the file, for messages only; never part of a key.
        load: returns the `triton.JITFunction`. Triton is imported in this call, never earlier.
        parts: (label, text) of the inputs of `digest`, if they were read from the loaded function;
            empty if the file's text says all.
        unidentified: the reason why nothing made from the source may be kept; empty if it may.
        again: returns the source as it is loaded now. Its digest differs if what `load` imported is
            not what `digest` was made of. None: there is nothing to compare.
        holds: says whether the digest is still right, within nanoseconds. None: nothing is loaded,
            so nothing can have changed.
        places: files and lines of the functions, if they go into a binary.
        library: the folder of the kernel's library and its source text there, by which another
            process finds it; None for a function of a program.
        text: the text that `digest` stands for; None where a text does not say all.
        written: sources in other languages, which `digest` does not cover.
    """

    name: str
    digest: str
    path: str = field(compare=False)
    load: Callable[[], Any] = field(compare=False, repr=False)
    parts: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    unidentified: str = field(default="", compare=False)
    again: Callable[[], KernelSource] | None = field(default=None, compare=False, repr=False)
    holds: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    places: str = field(default="", compare=False, repr=False)
    library: tuple[str, str] | None = field(default=None, compare=False, repr=False)
    text: SourceText | None = field(default=None, compare=False, repr=False)
    written: tuple[WrittenSource, ...] = ()


@value_class(frozen=True, slots=True)
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
        writes: parameters whose memory it may write; None if that is not known. It does not
            change the binary, and is not part of a key.
        elementwise: it may not combine elements of a block in what it writes. As little part of a
            key.
    """

    source: KernelSource
    signature: tuple[tuple[str, TypeText], ...]
    constants: tuple[tuple[str, Constant], ...] = ()
    aligned: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 2
    line_info: bool = False
    options: tuple[tuple[str, Constant], ...] = ()
    writes: tuple[str, ...] | None = field(default=None, compare=False)
    elementwise: bool = field(default=False, compare=False)

    def __eq__(self, other: object) -> bool:
        """To Python 1, 1.0 and True are equal, and so are 0.0 and -0.0: other kernels come out."""
        if type(other) is not CompileRequest:
            return NotImplemented
        return self is other or (
            self.source == other.source
            and self.signature == other.signature
            and repr(self.constants) == repr(other.constants)
            and self.aligned == other.aligned
            and self.num_warps == other.num_warps
            and self.num_stages == other.num_stages
            and self.line_info == other.line_info
            and repr(self.options) == repr(other.options)
        )


@value_class(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled entry, in the entry's order.

    Attributes:
        name: the kernel's name for it; `shape.0` is the first element of the tuple parameter
            `shape`.
        type: Triton's type text (`*fp32`, `i32`, `fp64`).
        hidden: None, or `global_scratch` / `profile_scratch`: memory that the runtime provides; or
            `assert_memory`, where the device puts memory of its own for the message of a failed
            device_assert, whatever value it is given.
        access: what the kernel does with the memory behind a pointer: `r` reads, `w` writes, `a`
            updates atomically, `p` perhaps writes, `m` writes what it has made of many elements of
            a block (a reduction); None where nobody has looked.
        stored: where its first write is: file, function, and lines from its `def` on
            (`kernels.py:scale+2`); or file and line, where the function is not known.
    """

    name: str
    type: str
    hidden: str | None = None
    access: str | None = None
    stored: str | None = None

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@value_class(frozen=True, slots=True)
class Scratch:
    """Global memory that the kernel wants from the runtime: `nbytes` for every block, on `align`
    bytes.
    """

    nbytes: int = 0
    align: int = 1


@value_class(frozen=True, slots=True)
class Resources:
    """The resources that a binary reports, per thread unless stated otherwise.

    None: the format does not say.

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


@value_class(frozen=True, slots=True)
class Artifact:
    """A compiled kernel: the bytes, and all that loading and launching needs.

    Attributes:
        target: what it was compiled for.
        format: `cubin`, `hsaco`, `spirv` or `cl` (OpenCL C); also the file's suffix.
        entry: name of the entry point.
        binary: the raw bytes, as the vendor's own tools read them.
        num_warps, warp_size: the block is `num_warps * warp_size` threads, in one dimension.
        shared_bytes: shared memory of a block, bytes. Dynamic on CUDA and HIP (to be asked for at
            launch), part of the module in SPIR-V.
        parameters: every parameter of the entry, hidden ones included.
        global_scratch, profile_scratch: memory behind the hidden parameters.
        cluster: blocks per cluster (Triton's num_ctas), 1 nearly always.
        cooperative: all blocks must be resident at once.
        early: it waits by itself for the launch in front of it, before it reads or writes memory,
            and so may be started before that has ended (CUDA's programmatic dependent launch).
        route: the way by which it was made: `triton`, or another of its vendor's.
        resources: what the binary tells about itself.
        texts: compiler stages by name (`ptx`, `ttir`, `ttgir`, `llir`, `amdgcn`), those that were
            kept.
        stage_seconds: how long each stage took to compile, in their order, where that is known.
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
    early: bool = False
    route: str = "triton"
    resources: Resources = Resources()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    stage_seconds: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block in x, y, z."""
        return (self.num_warps * self.warp_size, 1, 1)


# ------------------------------------------------------------------------------------------ devices


@value_class(frozen=True, slots=True)
class LaunchConfig:
    """The number of blocks to start, in x, y, z. The block itself belongs to the artifact.

    A grid with a zero in it starts nothing and is not an error.
    """

    grid: tuple[int, int, int]


@value_class(frozen=True, slots=True)
class DeviceInfo:
    """The properties of a device that are known without using it.

    Attributes:
        name: `nvidia:0`.
        target: the target to compile for.
        product: the vendor's marketing name.
        memory_bytes: global memory.
        compute_units: multiprocessors, compute units, Xe cores x vector engines as the run time
            counts them, CPU threads.
        driver_version: as the run time writes it.
        warp_size: threads in a warp, as code for `target` uses it on this device.
        max_threads_per_block, max_shared_bytes: limits of one block.
        host_memory: kernels can use the host's pageable memory in place (NumPy arrays need no
            copy).
        fp64: has float64.
        compile_options: options of the vendor's compiler for code for this very device:
            `{"fp64": False}`. The request's own options take precedence.
        runs_on: `silicon`, `CPU runtime`, `emulator` or `fake`; one is never called another.
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


@value_class(frozen=True, slots=True)
class MemoryUse:
    """Memory of a device, in bytes.

    Attributes:
        in_use: what was allocated and is not given back yet: arrays, temporaries, graphs.
        peak: the most that this ever was.
        cached: what nobody uses, kept for the next allocation.
        modules: binaries that are loaded.
        kernels: how many these are.
        pinned: memory of the host that copies to the device and back go through, used or kept.
    """

    in_use: int
    peak: int
    cached: int
    modules: int = 0
    kernels: int = 0
    pinned: int = 0


@value_class(frozen=True, slots=True)
class ProbeReport:
    """The answer of a probe: devices, or a sentence that says why there are none and what to do."""

    vendor: str
    devices: tuple[DeviceInfo, ...] = ()
    reason: str | None = None
