"""tl.atomic_cas with Triton 3.6, where AMD's lowering to LLVM IR ends with an error for some of it.

For tensors, that lowering takes a wrong part of LLVM's result where a thread has several elements,
and hands floats to an operation of LLVM that takes integers. Triton 3.7 has both right. Our SPIR-V
compiler goes through the same lowering. So the front end makes operations of integers, each with
one element a thread at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from .files import is_ours

__all__ = ["mend_exchanges"]

#: The first Triton that does it right.
_RIGHT = (3, 7)
_BACKENDS = ("hip", "spirv")


@cache
def mend_exchanges() -> None:
    """Mend this process's Triton for our compilations, and for those of its own launching that are
    for our back end. Compilations for Triton's own back ends stay as they are.
    """
    import triton
    from triton.language.semantic import TritonSemantic

    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < _RIGHT:
        TritonSemantic.atomic_cas = _mended(TritonSemantic.atomic_cas)


def _mended(original: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core

    def atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        options: Any = getattr(self.builder, "options", None)
        if (
            getattr(options, "backend_name", None) not in _BACKENDS
            or not is_ours(self)
            or not ptr.type.is_block()
            or not ptr.shape == cmp.shape == val.shape
        ):
            return original(self, ptr, cmp, val, sem, scope)
        if val.dtype.is_floating() and ptr.dtype.element_ty == cmp.dtype == val.dtype:
            bits = core.get_int_dtype(val.dtype.primitive_bitwidth, signed=True)
            cell = self.cast(ptr, core.pointer_type(bits, ptr.dtype.address_space))
            expected, new = self.bitcast(cmp, bits), self.bitcast(val, bits)
            found = atomic_cas(self, cell, expected, new, sem, scope)
            return self.bitcast(found, val.dtype)
        if ptr.numel.value <= options.num_warps * options.warp_size:
            return original(self, ptr, cmp, val, sem, scope)
        pairs = [ptr.numel.value // 2, 2]
        split = (self.split(self.reshape(value, pairs, False)) for value in (ptr, cmp, val))
        first, second = (
            atomic_cas(self, cells, expected, new, sem, scope)
            for cells, expected, new in zip(*split, strict=True)
        )
        return self.reshape(self.join(first, second), [int(size) for size in ptr.shape], False)

    return atomic_cas
