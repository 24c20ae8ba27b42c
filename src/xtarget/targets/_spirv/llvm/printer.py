"""The printer of LLVM IR: a module is the text of its objects."""

from __future__ import annotations

from .ir import Function, Module

__all__ = ["printed"]


def printed(module: Module) -> str:
    """The module's text, with the declarations that passes added at its end."""
    lines: list[str] = []
    for item in module.items:
        if isinstance(item, Function):
            lines.append(item.head)
            for block in item.blocks:
                lines += block.head
                lines += [one.text for one in block.code]
            lines.append("}")
        else:
            lines.append(item.text)
    lines += module.declarations.values()
    return "\n".join(lines) + "\n"
