"""Kernels that NVIDIA's GPUs may start before the launch in front of them has ended."""

import triton
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def ordered():
    """Wait for the launch in front, whose results are there then, and let the one behind come. A
    kernel that is compiled with `launch_pdl` calls it first, before it reads or writes memory.
    """
    gdc_wait()
    gdc_launch_dependents()
