"""device_print: AMD's calls that collect format and arguments, as one call of OpenCL's printf."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .ir import Instruction, Line, Module
from .reader import instructions
from .text import UnsupportedError
from .words import string_of

__all__ = ["lower_printf", "quoted", "strings"]

_BEGIN = ("__ockl_printf_begin", "__ockl_fprintf_stderr_begin", "__ockl_fprintf_begin",
          "__ockl_printf_stderr_begin")  # fmt: skip
_APPEND = "__ockl_printf_append_"
_SPECIFIER = re.compile(r"%[-+ #0]*(\*|\d+)?(?:\.\d+)?(?:hh|h|ll|l)?([a-zA-Z%])")


@dataclass(slots=True)
class _Message:
    """A printf that is being put together."""

    format: str = ""
    arguments: list[str] = field(default_factory=list)


def lower_printf(module: Module) -> None:
    """Replace the calls; formats become constants of their own."""
    if not any("__ockl_printf" in line.name for line in module.lines("declare")):
        return
    texts = strings(module)
    messages: dict[str, _Message] = {}
    formats: dict[str, str] = {}

    def change(one: Instruction) -> list[Instruction] | None:
        name = one.callee
        if name in _BEGIN:
            messages[one.name] = _Message()
            return []
        if not name.startswith(_APPEND):
            return None
        handle, *given = one.values
        message = messages[one.name] = messages[handle]
        if name == f"{_APPEND}args":
            message.arguments += given[1 : 1 + int(given[0])]
        elif name != f"{_APPEND}string_n" or given[0] not in texts:
            raise UnsupportedError(
                "device_print of a string that is not a constant", "append_string_n"
            )
        else:
            message.format += texts[given[0]].rstrip("\0")
        # the last part
        return instructions(*_call(module, message, formats)) if given[-1] == "1" else []

    module.rewrite(change, ops=("call",), having="printf")
    module.drop(
        lambda line: (
            line.kind == "declare" and line.name.startswith("__ockl_") and "printf" in line.name
        )
    )
    module.items[:0] = [
        Line("global", _constant(name, text), name[1:]) for text, name in formats.items()
    ]
    module.declarations["printf"] = "declare spir_func i32 @printf(ptr addrspace(2), ...)"


def strings(module: Module) -> dict[str, str]:
    """The module's constant strings, their final zero byte included, by name with `@`."""
    return {
        f"@{line.name}": text
        for line in module.lines("global")
        if (text := string_of(line.text)) is not None
    }


def quoted(data: bytes) -> str:
    """Type and value of a constant with these bytes."""
    text = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}"
        for byte in data
    )
    return f'[{len(data)} x i8] c"{text}"'


def _constant(name: str, text: str) -> str:
    data = text.encode("latin-1") + b"\0"
    return f"{name} = internal addrspace(2) constant {quoted(data)}, align 1"


def _call(module: Module, message: _Message, formats: dict[str, str]) -> list[str]:
    """Every argument arrives as 64 bits: floats get their type back, integers print as long."""
    lines: list[str] = []
    given: list[str] = []
    arguments = iter(message.arguments)

    def specifier(match: re.Match[str]) -> str:
        text, width, conversion = match[0], match[1], match[2]
        if conversion == "%":
            return text
        if width == "*":  # OpenCL's printf takes no width from an argument; Triton's are constants
            given_width = next(arguments)
            text = text.replace("*", given_width if given_width.isdigit() else "")
        value = next(arguments)
        if conversion in "fFeEgGaA":
            number = module.temporary()
            lines.append(f"  {number} = bitcast i64 {value} to double")
            if module.layout.fp64:
                given.append(f"double {number}")
            else:  # it was widened from a float, which the optimiser sees
                given.append(f"float {module.temporary()}")
                lines.append(f"  {given[-1][6:]} = fptrunc double {number} to float")
            return text
        given.append(f"i64 {value}")
        if conversion == "p":
            return "0x%lx"
        return f"{text[:-1].rstrip('hl')}l{conversion}"

    text = _SPECIFIER.sub(specifier, message.format)
    name = formats.setdefault(text, f"@xt.format.{len(formats)}")
    arguments_text = ", ".join([f"ptr addrspace(2) {name}", *given])
    lines.append(
        f"  {module.temporary()} = call spir_func i32 (ptr addrspace(2), ...) "
        f"@printf({arguments_text})"
    )
    return lines
