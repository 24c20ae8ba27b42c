"""How OpenCL C, CUDA C++ and HIP C++ write what the translator needs of all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..._values.value_classes import value_class
from .hip import HEAD, MATH
from .values import DType

__all__ = ["CUDA", "DIALECTS", "HIP", "OPENCL", "OPENCL_GPU", "Dialect"]

#: What CUDA C++ has and OpenCL C has not.
_OF_CUDA_ALONE = frozenset(
    ("erfcx", "erfinv", "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1", "normcdf")
)
#: These are for float and double; CUDA's for float end in f.
_CUDA_MATH = {**{name: name for name in MATH}, "nearbyint": "rint"}
_OPENCL_MATH = {name: own for name, own in _CUDA_MATH.items() if name not in _OF_CUDA_ALONE}

#: float16 and bfloat16 as the bits that are in memory, and as a float that has the same value. The
#: rounding is to the nearest, the even one of two.
_NARROW = """
DEVICE float xt_from_bfloat16(ushort bits) { return xt_float((uint)bits << 16); }
DEVICE ushort xt_to_bfloat16(float x) {
  const uint bits = xt_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
DEVICE float xt_from_float16(ushort bits) {
  const uint sign = ((uint)bits & 0x8000u) << 16, rest = ((uint)bits & 0x7fffu) << 13;
  if (rest >= 0x0f800000u) return xt_float(sign | rest | 0x7f800000u);
  if (rest >= 0x00800000u) return xt_float(sign | (rest + 0x38000000u));
  return xt_float(sign | xt_bits((float)rest * 0x1p-37f));
}
DEVICE ushort xt_to_float16(float x) {
  const uint all = xt_bits(x), size = all & 0x7fffffffu, sign = (all >> 16) & 0x8000u;
  if (size > 0x7f800000u) return (ushort)(sign | 0x7e00u | ((size >> 13) & 0x3ffu));
  if (size >= 0x477ff000u) return (ushort)(sign | 0x7c00u);
  if (size < 0x38800000u) /* adding 0.5 leaves the bits of a subnormal number at the end */
    return (ushort)(sign | (xt_bits(xt_float(size) + 0.5f) - 0x3f000000u));
  return (ushort)(sign | ((size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13));
}
"""
#: A double as a float whose last bit says that something was lost: what is rounded once more, to a
#: narrow type, comes out as if it were rounded once. And an integer of which a double loses nothing
#: but the place of what was lost.
_ODD = """
DEVICE long xt_sticky_long(long x) {
  const long low = x & 0x7ffL, size = x < 0 ? -(x + 1) : x;
  return size >> 53 ? (x - low) | (low ? 0x800L : 0L) : x;
}
DEVICE ulong xt_sticky_ulong(ulong x) {
  const ulong low = x & 0x7ffUL;
  return x >> 53 ? (x - low) | (low ? 0x800UL : 0UL) : x;
}
DEVICE float xt_odd(double x) {
  const float near = (float)x;
  if ((double)near == x || x != x) return near;
  uint bits = xt_bits(near);
  if (fabs((double)near) > fabs(x)) bits -= 1u;
  return xt_float(bits | 1u);
}
"""
_OPENCL = """#pragma OPENCL FP_CONTRACT OFF
#define DEVICE static inline
#define GLOBAL __global
#define KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1)))
#define SHARED __local
#define xt_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define xt_thread ((int)get_local_id(0))
#define xt_block(axis) ((int)get_group_id(axis))
#define xt_blocks(axis) ((int)get_num_groups(axis))
#define xt_float(bits) as_float(bits)
#define xt_bits(x) as_uint(x)
#define xt_double(bits) as_double(bits)
#define xt_bits64(x) as_ulong(x)
"""
_CUDA = """typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define KERNEL(threads) extern "C" __global__ __launch_bounds__(threads)
#define SHARED __shared__
#define xt_barrier() __syncthreads()
#define xt_thread ((int)threadIdx.x)
#define xt_block(axis) ((int)(axis == 0 ? blockIdx.x : axis == 1 ? blockIdx.y : blockIdx.z))
#define xt_blocks(axis) ((int)(axis == 0 ? gridDim.x : axis == 1 ? gridDim.y : gridDim.z))
#define xt_float(bits) __uint_as_float(bits)
#define xt_bits(x) __float_as_uint(x)
#define xt_double(bits) __longlong_as_double((long long)(bits))
#define xt_bits64(x) ((ulong)__double_as_longlong(x))
"""
#: The includes that a file begins with, blank lines and comments between them.
_BLANK = r"(?:[ \t]*(?://[^\n]*)?\n)*"
_INCLUDES = re.compile(rf"{_BLANK}(?:[ \t]*#[ \t]*include\b[^\n]*\n{_BLANK})+")
_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}


@value_class(frozen=True, slots=True)
class Dialect:
    """A language that kernels are written in.

    Attributes:
        name: for people.
        head: the text in front of every kernel.
        suffixes: of files in it, the preferred one first.
        math: C functions by libdevice's names.
        float_suffix: of the names of functions of float.
        signed_char: the type of bytes with a sign.
        one_thread: a block of one thread is as fast as any: it is a processor's.
        shared_bytes: of memory that each GPU gives the threads of a block without asking.
        asked_bytes: that some give if the launch asks for them.
    """

    name: str
    suffixes: tuple[str, ...]
    head: str
    math: Mapping[str, str]
    float_suffix: str = ""
    signed_char: str = "char"
    one_thread: bool = False
    shared_bytes: int = 48 << 10
    asked_bytes: int = 0

    def type(self, dtype: DType) -> str:
        """The C type of a value."""
        if dtype.element_ty is not None:
            return f"GLOBAL {self.in_memory(dtype.element_ty)}*"
        if dtype.kind == "b":
            return "bool"
        if dtype.kind == "f":
            return "double" if dtype.bits == 64 else "float"
        if dtype.kind == "i" and dtype.bits == 8:
            return self.signed_char
        return f"{'u' if dtype.kind == 'u' else ''}{_INTEGERS[dtype.bits]}"

    def in_memory(self, dtype: DType) -> str:
        """The C type of an array's element: the bits of those that C has no type for."""
        return "uchar" if dtype.kind == "b" else "ushort" if dtype.narrow else self.type(dtype)

    def written(self, text: str, name: str, macros: Mapping[str, str]) -> str:
        """A source file that somebody wrote, with macros in front; messages name its own lines.

        What the file begins with stays in front of the macros, if it includes anything: headers
        have names of their own, such as `WARP_SIZE`."""
        lines = [f"#define {macro} {value}" for macro, value in macros.items()]
        top = _INCLUDES.match(text)
        first = [f'#line 1 "{name}"', top[0]] if top else []
        begin = top.end() if top else 0
        own = f'#line {text.count(chr(10), 0, begin) + 1} "{name}"'
        return "\n".join([*first, self.head + _NARROW, *lines, own, text[begin:]])

    def file(self, kernel: str, *, double: bool) -> str:
        """A whole source file."""
        return self.head + _NARROW + (_ODD if double else "") + "\n" + kernel


OPENCL = Dialect("OpenCL C", ("cl",), _OPENCL, _OPENCL_MATH, one_thread=True)
OPENCL_GPU = replace(OPENCL, name="OpenCL C for GPUs", one_thread=False)
CUDA = Dialect("CUDA C++", ("cu",), _CUDA, _CUDA_MATH, "f", "signed char", asked_bytes=227 << 10)
HIP = replace(
    CUDA, name="HIP C++", suffixes=("hip", "cu"), head=HEAD + _CUDA, shared_bytes=64 << 10,
    asked_bytes=0,
)  # fmt: skip
DIALECTS = {dialect.name: dialect for dialect in (OPENCL, OPENCL_GPU, CUDA, HIP)}
