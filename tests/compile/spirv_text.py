"""LLVM IR of tests: read, printed and verified. Imported where llvmlite is."""

from __future__ import annotations

import llvmlite.binding as llvm

from xtarget.targets._spirv.llvm.ir import Module
from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.llvm.text import Layout

__all__ = ["LAYOUT", "body", "draft", "verified"]

LAYOUT = Layout(num_warps=2, warp_size=16, shared_bytes=64)


def draft(text: str, entry: str = "k") -> Module:
    """The module of a text, or of lines of a function."""
    text = text.strip("\n")
    if "define " not in text:
        lines = [line for line in text.split("\n") if line.startswith("  ")]
        others = [line for line in text.split("\n") if not line.startswith("  ")]
        text = "\n".join(["define void @k() {", "e:", *lines, "}", *others])
    return read(text, entry, LAYOUT)


def body(module: Module) -> list[str]:
    return [one.text for one in module.code()]


def verified(text: str) -> str:
    """The text as llvmlite prints it; LLVM's verifier has accepted it."""
    module = llvm.parse_assembly(text)
    module.verify()
    return str(module)
