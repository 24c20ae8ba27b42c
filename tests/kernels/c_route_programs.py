"""Programs and libraries of users by which routes without Triton are tried on a device."""

from __future__ import annotations

__all__ = ["BLOCKS", "CATALOG", "CHECKED", "LIBRARY", "ROWS", "SCRIPT", "WRITTEN"]

#: Half types, division, integers that wrap, shifts, two results, options, bool.
ROWS = "add-bfloat16 gelu-float16 divmod-int8 pow-uint32 left_shift-int16 frexp-float32 clip-int64 "
ROWS += "logical_xor-bool nextafter-float64 fmod-float32 bit_count-int32 addcmul-float16"

#: Rows, each compared with its reference, in a process that has no Triton.
CHECKED = """
import sys

sys.modules["triton"] = None  # an import of it fails
import numpy as np

device, *rows = sys.argv[1:]
from operator_values import arguments
from operators import own
from oracle import check

import xtarget

with np.errstate(all="ignore"):
    for row in rows:
        name, dtype = row.split("-")
        check(name, *arguments(own()[name], dtype), device=device)
"""
SCRIPT = (
    CHECKED
    + """x = np.arange(60000, dtype=np.float32).reshape(3, 100, 200)
y = x.transpose(0, 2, 1)[:, ::2, ::-1]
np.testing.assert_array_equal(xtarget.run("mul", y, 2.5, device=device), y * np.float32(2.5))
long = np.array([2**53 + 1, -(2**62) - 2**53 - 1, 2**61 + 2**52 + 1])
near = xtarget.run("cast", long, dtype="bfloat16", device=device)
assert near.astype(np.float64).tolist() == [2.0**53, -(2.0**62), 2.0**61], near  # rounded once
near = xtarget.run("cast", np.array([2049 + 2**-30, 1e-7]), dtype="float16", device=device)
assert near.tolist() == [2050.0, 1.1920928955078125e-07], near
try:
    xtarget.run("bincount", np.array([4, 6]), length=7, device=device)
except xtarget.NoCompilerError as error:
    print(error)
assert not any(name.startswith("triton.") for name in sys.modules)
"""
)

LIBRARY = '''
import triton
import triton.language as tl

SCALES = tl.constexpr((1.5, -2.0))


@triton.jit
def scaled(x, times, WHICH: tl.constexpr):
    """A number that is carried through a loop whose length is known at run time."""
    total = x * 0
    for step in range(times):
        total += x * SCALES[WHICH] + step
    return total


@triton.jit
def kernel_(a, out, n, times, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, scaled(tl.load(a + i, mask=i < n, other=7), times, WHICH), mask=i < n)
'''
CATALOG = """
from xtarget.spec import Input, KernelSpec, Launch, Output, Plan, cdiv


def plan(call):
    (a,) = call.args
    out = call.output(a.shape, a.dtype)
    arguments = {"a": Input(0), "out": Output(0), "n": a.size, "times": 3}
    launch = Launch("own:kernel_", arguments, {"WHICH": 1, "BLOCK": 64}, (cdiv(a.size, 64), 1, 1))
    return Plan((out,), (launch,))


KERNELS = (KernelSpec("looped", ("a",), plan),)
"""


#: For both languages: the prelude has the words that differ.
WRITTEN = """
KERNEL(THREADS) void kernel_(GLOBAL const TYPE_a* a, GLOBAL TYPE_out* out, int n, int times) {
  for (int lane = xt_thread; lane < BLOCK; lane += THREADS) {
    const int i = xt_block(0) * BLOCK + lane;
    if (i < n) out[i] = a[i] * times + WHICH;
  }
}
"""

#: Blocks of several axes: reductions, and what walks rows.
BLOCKS = """
import sys

sys.modules["triton"] = None
import numpy as np
from dataclasses import replace

device, threads = sys.argv[1:]
if threads == "several":  # the OpenCL of a processor takes one thread for a block
    from xtarget.targets._c import dialects

    dialects.DIALECTS["OpenCL C"] = replace(dialects.OPENCL, one_thread=False)
from operators import sample
from oracle import check

import xtarget

check("sum", sample("int8", 40, 300), device=device, axis=0)
check("argmin", sample("float16", 7, 130), device=device, axis=1)
length = 40000 if device.startswith("cpu") else 1000
check("softmax", sample("float32", 2, length), device=device)
if device.startswith("nvidia"):  # 112 KiB of shared memory, which the launch asks for
    check("softmax", sample("float64", 2, 9000), device=device)
if threads == "one":
    check("var", sample("bfloat16", 5, 9), device=device)
    check("rms_norm", sample("float64", 3, 50), np.ones(50), device=device)
if device.startswith("cpu") and threads == "one":  # GPUs' products have tl.dot
    check("matmul", sample("float32", 70, 300), sample("float32", 300, 90), device=device)
check("cumsum", sample("int8", 3, 700), device=device, axis=1)  # 56 KiB
check("cummax", sample("float32", 3, 300), device=device, axis=1)
numbers = sample("int16", 2, 60 if device.startswith("emu") else 500)
check("gcd", *numbers, device=device)  # a while of what differs between elements
np.testing.assert_array_equal(xtarget.run("unique", numbers, device=device), np.unique(numbers))
np.testing.assert_array_equal(  # Philox's words: the same on every device and by every route
    xtarget.run("rand", shape=(3,), seed=7, device=device),
    np.float32([0.9545971155166626, 0.7501521706581116, 0.11417734622955322]),
)
nan = np.array([[1.0, np.nan], [-np.inf, np.inf]], np.float32)
check("max", nan, device=device, axis=1)
"""
