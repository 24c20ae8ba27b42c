"""device_print: AMD's calls that collect format and arguments, as one call of OpenCL's printf."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .irtext import VALUE, Draft, UnsupportedError, split_list

__all__ = ["lower_printf", "plain_prefixes", "quoted", "strings"]

_STRING = re.compile(r'(@[\w.$]+) = .*constant \[\d+ x i8\] c"((?:[^"\\]|\\\\|\\[0-9A-F]{2})*)"')
_PREFIX = re.compile(r'(?<=tt\.print )"(?:[^"\\]|\\.)*"')
_BEGIN = re.compile(rf"\s*({VALUE}) = (?:tail )?call i64 @__ockl_(?:f?printf_(?:stderr_)?begin)\(")
_APPEND = re.compile(
    rf"\s*({VALUE}) = (?:tail )?call i64 @__ockl_printf_append_(string_n|args)\((.*)\)"
)
_SPECIFIER = re.compile(r"%[-+ #0]*(\*|\d+)?(?:\.\d+)?(?:hh|h|ll|l)?([a-zA-Z%])")


@dataclass(slots=True)
class _Message:
    """A printf that is being put together."""

    format: str = ""
    arguments: list[str] = field(default_factory=list)


def plain_prefixes(ttir: str) -> str:
    """Triton's IR in which the words before printed values are no formats, as they become a part of
    one: a percent sign is said twice.
    """
    return _PREFIX.sub(lambda match: match[0].replace("%", "%%"), ttir)


def lower_printf(draft: Draft) -> None:
    """Replace the calls; formats become constants of their own."""
    if not any("@__ockl_printf" in line for line in draft.lines):
        return
    texts = strings(draft.lines)
    messages: dict[str, _Message] = {}
    formats: dict[str, str] = {}
    result = []
    for line in draft.lines:
        if match := _BEGIN.match(line):
            messages[match[1]] = _Message()
        elif match := _APPEND.match(line):
            handle, *given = (part.split()[-1] for part in split_list(match[3]))
            message = messages[match[1]] = messages[handle]
            if match[2] == "args":
                message.arguments += given[1 : 1 + int(given[0])]
            elif given[0] in texts:
                message.format += texts[given[0]].rstrip("\0")
            else:
                raise UnsupportedError(
                    "device_print of a string that is no constant", "append_string_n"
                )
            if given[-1] == "1":  # the last part
                result += _call(draft, message, formats)
        elif not (line.startswith("declare ") and "@__ockl_" in line and "printf" in line):
            result.append(line)
    draft.lines = [_constant(name, text) for text, name in formats.items()] + result
    draft.declarations["printf"] = "declare spir_func i32 @printf(ptr addrspace(2), ...)"


def strings(lines: list[str]) -> dict[str, str]:
    """The module's constant strings, their final zero byte included, by name."""
    return {m[1]: _unescape(m[2]) for line in lines if (m := _STRING.match(line))}


def quoted(data: bytes) -> str:
    """Type and value of a constant with these bytes."""
    text = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}"
        for byte in data
    )
    return f'[{len(data)} x i8] c"{text}"'


def _unescape(text: str) -> str:
    return re.sub(r"\\(?:\\|([0-9A-F]{2}))", lambda m: chr(int(m[1], 16)) if m[1] else "\\", text)


def _constant(name: str, text: str) -> str:
    data = text.encode("latin-1") + b"\0"
    return f"{name} = internal addrspace(2) constant {quoted(data)}, align 1"


def _call(draft: Draft, message: _Message, formats: dict[str, str]) -> list[str]:
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
            number = draft.temporary()
            lines.append(f"  {number} = bitcast i64 {value} to double")
            if draft.layout.fp64:
                given.append(f"double {number}")
            else:  # it was widened from a float, which the optimiser sees
                given.append(f"float {draft.temporary()}")
                lines.append(f"  {given[-1][6:]} = fptrunc double {number} to float")
            return text
        given.append(f"i64 {value}")
        if conversion == "p":
            return "0x%lx"
        return re.sub(r"(?:hh|h|ll|l)?([a-zA-Z])$", r"l\1", text)

    text = _SPECIFIER.sub(specifier, message.format)
    name = formats.setdefault(text, f"@xt.format.{len(formats)}")
    arguments_text = ", ".join([f"ptr addrspace(2) {name}", *given])
    lines.append(
        f"  {draft.temporary()} = call spir_func i32 (ptr addrspace(2), ...) "
        f"@printf({arguments_text})"
    )
    return lines
