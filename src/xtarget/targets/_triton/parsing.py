"""Triton's modules from their text."""

from __future__ import annotations

from typing import Any

from ..._system.scratch import Folder

__all__ = ["new_context", "parse_module"]


def new_context(load_dialects: Any) -> Any:
    """A context with Triton's dialects and those that `load_dialects` of a back end adds."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    load_dialects(context)
    return context


def parse_module(context: Any, text: str) -> Any:
    """A module of this text in a context. Triton's binding reads files only."""
    from triton._C.libtriton import ir

    with Folder("ir") as folder:
        file = folder / "module.ttir"
        file.write_text(text, encoding="utf-8")
        module = ir.parse_mlir_module(str(file), context)
    module.context = context
    return module
