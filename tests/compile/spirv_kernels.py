"""Kernels over the breadth of Triton's language, and some that SPIR-V refuses."""

from __future__ import annotations

import spirv_across
import spirv_control
import spirv_elements
import triton
import triton.language as tl
from spirv_cases import Case

CASES: dict[str, Case] = {**spirv_elements.CASES, **spirv_across.CASES, **spirv_control.CASES}


@triton.jit
def refused_assembly(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.inline_asm_elementwise(
        "v_mov_b32 $0, $1", "=v,v", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(o + i, v)


@tl.core.extern
def _unknown(value, _semantic=None):
    types = {(tl.dtype("fp32"),): ("an_unknown_function", tl.dtype("fp32"))}
    return tl.core.extern_elementwise("", "", [value], types, is_pure=True, _semantic=_semantic)


@triton.jit
def refused_library(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, _unknown(tl.load(x + i)))


REFUSED = {
    fn.fn.__name__: Case(fn, {"x": "*fp32", "o": "*fp32"}, {"B": 32})
    for fn in (refused_assembly, refused_library)
}
