"""Inline assembly of another vendor is refused before LLVM sees it: some LLVMs end the process."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")

import triton
import triton.language as tl

from xtarget._devices import registry
from xtarget._values.errors import CompileError
from xtarget._values.types import CompileRequest, KernelSource, Target


@triton.jit
def of_amd(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, tl.inline_asm_elementwise("v_mov_b32 $0, $1", "=v,v", [v], tl.float32, True, 1))


@triton.jit
def of_nvidia(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [v], tl.float32, True, 1))


def compiled(kernel: Any, target: str) -> Any:
    request = CompileRequest(
        source=KernelSource(kernel.__name__, "ab" * 32, __file__, lambda: kernel),
        signature=(("x", "*fp32"), ("o", "*fp32"), ("N", "constexpr")),
        constants=(("N", 64),),
    )
    parsed = Target.parse(target)
    return registry.compiler(parsed.vendor).compile(request, parsed)


@pytest.mark.parametrize(
    ("kernel", "own", "other", "kind"),
    [(of_amd, "amd:gfx942", "nvidia:sm_90", "v"), (of_nvidia, "nvidia:sm_90", "amd:gfx942", "f")],
)
def test_registers_of_another_vendor_are_refused(
    kernel: Any, own: str, other: str, kind: str
) -> None:
    assert compiled(kernel, own).binary
    with pytest.raises(CompileError, match=f"^kernel {kernel.__name__} cannot be") as caught:
        compiled(kernel, other)
    assert f"wants registers of kind '{kind}'" in str(caught.value)
