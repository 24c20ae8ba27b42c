"""A sum and the products of two pairs of bfloat16, which some CPUs have one instruction for.

Kernels call it by its scalar name, as if it were OpenCL's. It stays a function of the module, by
which a driver finds its calls (`targets.cpu.pairs`); elsewhere it is what is written here.
"""

from __future__ import annotations

__all__ = ["SCALAR", "VECTOR", "definition"]

#: float (float sum, int x, int y), mangled as OpenCL's functions are, and the same of 16 lanes.
SCALAR = "_Z13xt_bf16_pairsfii"
VECTOR = "_Z13xt_bf16_pairsDv16_fDv16_iS0_"


def definition(name: str) -> str:
    """The sum of `sum` and of the products of both halves of x and y, each rounded to a float."""
    lanes = 16 if name == VECTOR else 0
    real, whole = (f"<{lanes} x {t}>" if lanes else t for t in ("float", "i32"))
    shift, mask = (_constant(n, lanes) for n in (16, -65536))
    fma = f"llvm.fma.v{lanes}f32" if lanes else "llvm.fma.f32"
    convention = "spir_func " if lanes else ""
    return f"""define internal {convention}{real} @{name}({real} %sum, {whole} %x, {whole} %y) {{
  %xl = shl {whole} %x, {shift}
  %yl = shl {whole} %y, {shift}
  %xh = and {whole} %x, {mask}
  %yh = and {whole} %y, {mask}
  %xlf = bitcast {whole} %xl to {real}
  %ylf = bitcast {whole} %yl to {real}
  %xhf = bitcast {whole} %xh to {real}
  %yhf = bitcast {whole} %yh to {real}
  %low = call {real} @{fma}({real} %xlf, {real} %ylf, {real} %sum)
  %both = call {real} @{fma}({real} %xhf, {real} %yhf, {real} %low)
  ret {real} %both
}}
declare {real} @{fma}({real}, {real}, {real})
"""


def _constant(number: int, lanes: int) -> str:
    return f"<{', '.join([f'i32 {number}'] * lanes)}>" if lanes else str(number)
