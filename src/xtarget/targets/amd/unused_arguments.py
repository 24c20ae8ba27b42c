"""Kernels that are pipelined with gfx950's asynchronous copies, without what they never read.

LLVM takes `llvm.amdgcn.asyncmark` of Triton 3.9 for a call to code that it cannot see, and gives
such a kernel all that this code might want: 256 bytes of arguments which HIP fills in for each
launch, among them the buffer of a service that runs calls of kernels on the host, and a heap. HIP
starts both at the kernel's first launch, or when a graph with the kernel is made. Where nothing in
the module asks for these arguments (`llvm.amdgcn.implicitarg.ptr`) LLVM is told so, as it finds
out by itself for all other kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["kept_out", "without"]

_TAKEN_FOR_A_CALL = "llvm.amdgcn.asyncmark"
_ASKS = "llvm.amdgcn.implicitarg.ptr"
#: Source: LLVM, User Guide for AMDGPU Backend, "LLVM IR Attributes".
_UNUSED = tuple(
    f"amdgpu-no-{what}"
    for what in (
        "implicitarg-ptr",
        "hostcall-ptr",
        "heap-ptr",
        "default-queue",
        "completion-action",
        "multigrid-sync-arg",
    )
)


def without(module: Any) -> None:
    """Let the functions of an LLVM module, once optimised, say that they do not use these arguments
    if that is so.

    Args:
        module: Triton's object. It declares the intrinsics that it uses.
    """
    functions = list(module.get_functions())
    names = {function.name for function in functions}
    if _TAKEN_FOR_A_CALL not in names or _ASKS in names:
        return
    for function in functions:
        if not function.is_declaration():
            for attribute in _UNUSED:
                function.add_fn_attr(attribute, "")


class _Llvm:
    """Triton's module of LLVM, with `without` after LLVM's optimisations."""

    def __init__(self, llvm: Any) -> None:
        self._llvm = llvm

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llvm, name)

    def optimize_module(self, module: Any, *args: Any, **options: Any) -> None:
        self._llvm.optimize_module(module, *args, **options)
        without(module)


@contextmanager
def kept_out() -> Iterator[None]:
    """A compilation by Triton's AMD back end, with `without` after LLVM's optimisations."""
    from triton.backends.amd import compiler

    llvm = compiler.llvm
    compiler.llvm = _Llvm(llvm)
    try:
        yield
    finally:
        compiler.llvm = llvm
