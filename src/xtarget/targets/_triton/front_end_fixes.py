"""Mistakes in the front end of older Tritons, which is mended for our compilations.

Negative zeros: Triton 3.6 to 3.8 makes every scalar that equals 0 a null value: -0.0 as a literal,
a global or a constant is +0.0. Triton 3.6 and 3.7 write `-x` as `0 - x`, which is +0.0 for +0.0.
Triton 3.9 has both right, and what is done here is what it does.

tl.atomic_cas: AMD's lowering to LLVM IR, through which our SPIR-V compiler goes too, ends with an
error for some of it in Triton 3.6. For tensors, it takes a wrong part of LLVM's result where a
thread has several elements, and hands floats to an operation of LLVM that takes integers. Triton
3.7 has both right. Here the front end makes operations of integers, each with one element a thread
at most.

tl.load(other=) of 8 or 16 bits: NVIDIA's lowering in Triton 3.6 fills a register of 32 bits with a
constant whose sign has been extended, so of four elements beside each other with -128 three become
-1. Triton 3.9 has it right. Here what is masked is put in after the load.

Calls with tuples: Triton 3.6 names a specialization of a function by the values in its tuples one
after the other, so f((a,), ()) and f((), (a,)) are one to it, and the second call runs the code of
the first. Later Tritons name the tuples' types. Here the name says how the values are grouped.

Names of one value: Triton 3.6 to 3.9 finds what a loop carries by comparing values before it and
after one step. So of two names that stand for one value before it, the one that only takes the
other's value (`last = total` in each step) is not carried, and keeps its first value. Here it is.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any

from .files import is_ours

__all__ = ["mend_front_end"]

#: The first Tritons that have it right.
_RIGHT_ZEROS, _RIGHT_FILLS, _RIGHT_EXCHANGES = (3, 9), (3, 9), (3, 7)
#: Whose operations of tl.atomic_cas go through AMD's lowering.
_EXCHANGING = ("hip", "spirv")


@cache
def mend_front_end() -> None:
    """Mend this process's Triton for our compilations, and for those of its own launching that are
    for our back end. Compilations for Triton's own back ends stay as they are.
    """
    import triton
    from triton._C.libtriton import ir
    from triton.compiler import code_generator
    from triton.language.semantic import TritonSemantic

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    _carry_names_of_one_value(code_generator)
    if version < _RIGHT_ZEROS:
        TritonSemantic.scalar_constant = _constant(TritonSemantic.scalar_constant)
        if not hasattr(ir.builder, "create_fneg"):
            TritonSemantic.minus = _minus(TritonSemantic.minus)
        if "constants" in inspect.signature(code_generator.mangle_fn).parameters:
            _name_by_groups(code_generator)  # they stand beside the values' types
    if version < _RIGHT_FILLS:
        TritonSemantic.load = _filled(TritonSemantic.load)
    if version < _RIGHT_EXCHANGES:
        TritonSemantic.atomic_cas = _exchanged(TritonSemantic.atomic_cas)


def _carry_names_of_one_value(code_generator: Any) -> None:
    """Let loops carry what takes the place of a value that it was before the loop, too."""
    generator = code_generator.CodeGenerator
    original = generator._find_carries

    def find_carries(self: Any, node: Any, liveins: Any, ignore: Any = frozenset()) -> Any:
        names, handles, types = original(self, node, liveins, ignore)
        if not is_ours(self):
            return names, handles, types
        written = {
            one.id
            for statement in node.body
            for one in ast.walk(statement)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        for name, value in liveins.items():
            if name not in written or name in names or name in ignore:
                continue
            if code_generator._is_triton_value(value):
                own = code_generator.flatten_values_to_ir([value])
                if any(one in handles for one in own):
                    names.append(name)
                    handles.extend(own)
                    types.append(value.type)
        return names, handles, types

    generator._find_carries = find_carries


def _name_by_groups(code_generator: Any) -> None:
    """Add to the names of functions how the values of a call's tuples are grouped."""
    from triton.language import core

    groups: ContextVar[str] = ContextVar("groups", default="")
    call, mangle = code_generator.CodeGenerator.call_JitFunction, code_generator.mangle_fn

    def grouped(value: Any) -> str:
        if not isinstance(value, list | tuple | core.tuple):
            return "v"
        return f"T{''.join(map(grouped, value))}E"

    def call_function(self: Any, fn: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        args = tuple(args)  # Gluon hands over an iterator
        bound = inspect.getcallargs(fn.fn, *args, **kwargs)
        text = "".join(grouped(bound[name]) for name in fn.arg_names)
        token = groups.set(text if "T" in text and is_ours(self) else "")
        try:
            return call(self, fn, args, kwargs, *rest, **more)
        finally:
            groups.reset(token)

    def mangle_fn(*args: Any, **kwargs: Any) -> str:
        name: str = mangle(*args, **kwargs)
        return f"{name}__{text}" if (text := groups.get()) else name

    code_generator.CodeGenerator.call_JitFunction = call_function
    code_generator.mangle_fn = mangle_fn


def _constant(original: Callable[..., Any]) -> Callable[..., Any]:
    def scalar_constant(self: Any, value: Any, dtype: Any) -> Any:
        number = getattr(value, "value", value)
        negative_zero = isinstance(number, float) and number == 0 and math.copysign(1.0, number) < 0
        if not negative_zero or dtype is None or not dtype.is_floating() or not is_ours(self):
            return original(self, value, dtype)
        return self.tensor(_negative_zero(self.builder, dtype), dtype)

    return scalar_constant


def _minus(original: Callable[..., Any]) -> Callable[..., Any]:
    def minus(self: Any, input: Any) -> Any:
        scalar = input.type.scalar
        if scalar.is_ptr() or not scalar.is_floating() or not is_ours(self):
            return original(self, input)
        # LLVM makes it fneg
        zero = self.tensor(_negative_zero(self.builder, scalar), scalar)
        return self.sub(zero, input, True)

    return minus


def _negative_zero(builder: Any, dtype: Any) -> Any:
    if dtype.is_fp8():
        return builder.create_fp_trunc(builder.get_fp32(-0.0), dtype.to_ir(builder))
    return getattr(builder, f"get_{dtype.name}")(-0.0)


def _filled(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, ptr: Any, mask: Any, other: Any, *how: Any) -> Any:
        options: Any = getattr(self.builder, "options", None)
        kind = getattr(ptr.type.scalar, "element_ty", None)
        if (
            mask is None
            or other is None
            or getattr(options, "backend_name", None) != "cuda"
            or not is_ours(self)
            or kind is None
            or kind.is_block()
            or not kind.is_int()
            or kind.primitive_bitwidth not in (8, 16)
        ):
            return original(self, ptr, mask, other, *how)
        zero = self.scalar_constant(0, kind)
        return self.where(mask, original(self, ptr, mask, zero, *how), self.cast(other, kind))

    return load


def _exchanged(original: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core

    def atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        options: Any = getattr(self.builder, "options", None)
        if (
            getattr(options, "backend_name", None) not in _EXCHANGING
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
