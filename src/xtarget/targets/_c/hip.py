"""The text in front of HIP C++: the words of CUDA C++ for clang, and AMD's mathematical functions.

HIP's own headers are not needed. What a compiler of HIP that has them defines is left to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["HEAD", "MATH", "in_library"]

#: Functions that the processor, or LLVM without a library, has.
_BUILTIN: Final = (
    "rint",
    "floor",
    "ceil",
    "sqrt",
    "fma",
    "fmax",
    "fmin",
    "fabs",
    "trunc",
    "copysign",
)
#: Functions of AMD's library, by how many numbers they take, and what it calls them.
_LIBRARY: Final[Mapping[str, tuple[int, str]]] = {
    **{
        name: (1, name)
        for name in (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin"),
            *("acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "rsqrt", "tgamma"),
            *("asinh", "acosh", "atanh", "cbrt", "erfcx", "erfinv", "j0", "j1", "y0", "y1"),
        )
    },
    "cyl_bessel_i0": (1, "i0"),
    "cyl_bessel_i1": (1, "i1"),
    "normcdf": (1, "ncdf"),
    **{name: (2, name) for name in ("atan2", "fmod", "hypot", "pow", "nextafter")},
    "ldexp": (2, "ldexp"),
}
#: The mathematical functions of CUDA C++, which HIP C++ has too.
MATH: Final = (*_BUILTIN, *_LIBRARY)
_WORDS: Final = """#ifndef __HIPCC_RTC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define XT_WORD(code) \\
  struct { __device__ __forceinline__ operator unsigned() const { return code; } }
#define XT_PLACE(code) (((const unsigned*)__builtin_amdgcn_implicitarg_ptr())[code])
static constexpr __device__ struct {
  XT_WORD(__builtin_amdgcn_workitem_id_x()) x;
  XT_WORD(__builtin_amdgcn_workitem_id_y()) y;
  XT_WORD(__builtin_amdgcn_workitem_id_z()) z;
} threadIdx{};
static constexpr __device__ struct {
  XT_WORD(__builtin_amdgcn_workgroup_id_x()) x;
  XT_WORD(__builtin_amdgcn_workgroup_id_y()) y;
  XT_WORD(__builtin_amdgcn_workgroup_id_z()) z;
} blockIdx{};
static constexpr __device__ struct {
  XT_WORD(XT_PLACE(0)) x;
  XT_WORD(XT_PLACE(1)) y;
  XT_WORD(XT_PLACE(2)) z;
} gridDim{};
static constexpr __device__ struct {
  XT_WORD(((const unsigned short*)__builtin_amdgcn_implicitarg_ptr())[6]) x;
  XT_WORD(((const unsigned short*)__builtin_amdgcn_implicitarg_ptr())[7]) y;
  XT_WORD(((const unsigned short*)__builtin_amdgcn_implicitarg_ptr())[8]) z;
} blockDim{};
static __device__ __forceinline__ void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define __uint_as_float(bits) __builtin_bit_cast(float, (unsigned)(bits))
#define __float_as_uint(x) __builtin_bit_cast(unsigned, (float)(x))
#define __longlong_as_double(bits) __builtin_bit_cast(double, (long long)(bits))
#define __double_as_longlong(x) __builtin_bit_cast(long long, (double)(x))
#define XT_OCLC(type, name, value) \\
  extern "C" __device__ __constant__ __attribute__((weak)) const type __oclc_##name = value;
XT_OCLC(unsigned char, finite_only_opt, 0)
XT_OCLC(unsigned char, unsafe_math_opt, 0)
XT_OCLC(unsigned char, daz_opt, 0)
XT_OCLC(unsigned char, correctly_rounded_sqrt32, 1)
XT_OCLC(unsigned char, wavefrontsize64, XT_WARP == 64)
XT_OCLC(int, ISA_version, XT_ISA)
XT_OCLC(int, ABI_version, 500)
"""


def _declared() -> str:
    lines = []
    for name in _BUILTIN:
        lines += [f"#define {name} __builtin_{name}", f"#define {name}f __builtin_{name}f"]
    for name, (count, own) in _LIBRARY.items():
        for type_, suffix, bits in (("double", "", 64), ("float", "f", 32)):
            second = "" if count == 1 else ", int" if name == "ldexp" else f", {type_}"
            declared = f"{type_} {name}{suffix}({type_}{second});"
            lines.append(f"#define {name}{suffix} __ocml_{own}_f{bits}")
            lines.append(f'extern "C" __device__ __attribute__((const)) {declared}')
    return "\n".join(lines) + "\n"


HEAD: Final = _WORDS + _declared() + "#endif\n"
_CALLED: Final = re.compile(rf"\b({'|'.join(_LIBRARY)})f?\s*\(")


def in_library(text: str) -> tuple[str, ...]:
    """The functions of AMD's library that a text without the head calls."""
    return tuple(sorted({found.group(1) for found in _CALLED.finditer(text)}))
