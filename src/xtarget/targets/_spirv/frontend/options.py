"""The options of the back end: their meaning and their valid values."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

__all__ = ["CAPABILITIES", "HINTS", "NAME", "Options"]

#: The back end's name among Triton's, and the first part of its targets.
NAME = "spirv"

_POINTERS = ("real", "integer")
CAPABILITIES = ("fp64", "fp16", "int64_atomics")
_LANES = ("threads", "vectors")
_WARP_SIZES = (8, 16, 32)
#: Options that are true or false, beside the capabilities.
_SWITCHES = (
    "half_math",
    "kernel_clock",
    "cpu_accesses",
    "debug",
    "sanitize_overflow",
    "enable_fp_fusion",
)
#: Options by which other back ends fit code to their GPUs: how fast it is, not what it computes.
#: Code that gives them is meant to run here as well, so they are taken and change nothing.
HINTS = frozenset(
    {
        *("enable_reflect_ftz", "launch_pdl", "maxnreg", "min_shared_mem"),  # NVIDIA
        *("ptx_options", "ptx_version", "sched4reg"),
        *("allow_flush_denorm", "kpack", "llvm_fn_attrs", "matrix_instr_nonkdim"),  # AMD
        *("schedule_hint", "waves_per_eu", "wgp_cu_mode"),
        *("generate_native_code", "grf_mode"),  # Intel's fork of Triton
    }
)


class OptionError(ValueError, AssertionError):
    """An option out of range. Triton's own back ends assert on options, and code that uses Triton
    expects that.
    """


@dataclass(frozen=True)
class Options:
    """Options of one compilation. Triton's front end expects those after `pointers` of every back
    end.

    Attributes:
        warp_size: threads of a warp, the sub-group size in SPIR-V's words.
        pointers: `real`, or `integer`: the entry takes addresses as 64-bit integers.
        fp64, fp16, int64_atomics: the device has these. A kernel that wants one it has not is
            refused with the line.
        half_math: the device has functions of halves; without, they go through floats.
        function_bytes: the widest vector that a function of the device takes; 0: any.
        kernel_clock: the device has the extension SPV_KHR_shader_clock.
        dot_bytes: shared memory that large dots may take to be loops (see `dots`); with zero, every
            dot is unrolled.
        dot_elements: of the sum of such a loop, that one thread holds in registers.
        thread_elements: of a tensor that one thread shall have at most: the block gets more warps
            than `num_warps` then (see `blocks`). Zero: as many as asked for.
        cpu_accesses: loads and addresses are written as a CPU's run time handles them best (see
            `word_accesses` and `wide_indices`).
        lanes: `threads`, or `vectors`: a block of one warp becomes one thread, if it can be.
        ir_override: a file that Triton takes in place of the stage that its suffix names.
    """

    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    warp_size: int = 16
    pointers: str = "real"
    fp64: bool = True
    fp16: bool = True
    int64_atomics: bool = True
    half_math: bool = True
    function_bytes: int = 0
    kernel_clock: bool = False
    dot_bytes: int = 0
    dot_elements: int = 16
    thread_elements: int = 0
    cpu_accesses: bool = False
    lanes: str = "threads"
    enable_fp_fusion: bool = True
    debug: bool = False
    sanitize_overflow: bool = True
    arch: str = "spirv64"
    supported_fp8_dtypes: tuple[str, ...] = (
        "fp8e4b15",
        "fp8e4b8",
        "fp8e4nv",
        "fp8e5",
        "fp8e5b16",
    )
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    launch_cooperative_grid: bool = False
    ir_override: str | None = None
    backend_name: str = NAME
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False

    def __post_init__(self) -> None:
        value = self.num_warps
        if not isinstance(value, int) or value < 1 or value & (value - 1):
            raise OptionError(f"num_warps is {value!r}; it must be a power of 2.")
        if self.warp_size not in _WARP_SIZES:
            raise OptionError(f"warp_size is {self.warp_size!r}; it must be one of {_WARP_SIZES}.")
        for name in ("num_stages", "dot_bytes", "thread_elements"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise OptionError(f"{name} is {value!r}; it must be 0 or more.")
        value = self.dot_elements
        if not isinstance(value, int) or value < 1 or value & (value - 1):
            raise OptionError(f"dot_elements is {value!r}; it must be a power of 2.")
        if self.extern_libs:
            raise OptionError(
                f"extern_libs is {dict(self.extern_libs)}; bitcode of other libraries is made for "
                "one GPU and cannot become SPIR-V. Leave it out: libdevice is built in."
            )
        if self.pointers not in _POINTERS:
            raise OptionError(f"pointers is {self.pointers!r}; it must be one of {_POINTERS}.")
        for name in (*CAPABILITIES, *_SWITCHES):
            if getattr(self, name) not in (True, False):
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be True or False.")
        if self.function_bytes and self.function_bytes < 16:
            raise OptionError(
                f"function_bytes is {self.function_bytes}; it must be 0, or 16 at least."
            )
        if self.lanes not in _LANES:
            raise OptionError(f"lanes is {self.lanes!r}; it must be one of {_LANES}.")

    def hash(self) -> str:
        """Triton's key of these options."""
        return hashlib.sha256(repr(sorted(asdict(self).items())).encode()).hexdigest()
