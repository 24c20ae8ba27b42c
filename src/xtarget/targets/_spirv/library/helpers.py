"""Helpers with which the families of `library` write a definition."""

from __future__ import annotations

__all__ = ["BITS", "builtin", "function", "named_byte", "of_row"]

#: Integer type of the same width.
BITS = {"half": "i16", "float": "i32", "double": "i64"}

#: Itanium mangling, as OpenCL's built-in functions have it; `u32` and `u64` are unsigned.
_MANGLED = {
    "half": "Dh",
    "float": "f",
    "double": "d",
    "i32": "i",
    "i64": "l",
    "u32": "j",
    "u64": "m",
}

_UNSIGNED = {"u32": "i32", "u64": "i64"}


def named_byte(number: int, eight: str, selector: str) -> str:
    """`%byte<number>`: the byte of an i64 that the last three bits of a selector name, as i32."""
    return f"""%at.bytes{number} = and i32 {selector}, 7
        %at.bits{number} = shl i32 %at.bytes{number}, 3
        %at{number}.i64 = zext i32 %at.bits{number} to i64
        %moved{number} = lshr i64 {eight}, %at{number}.i64
        %low{number} = trunc i64 %moved{number} to i32
        %byte{number} = and i32 %low{number}, 255"""


def builtin(name: str, result: str, *arguments: str) -> str:
    """A call of an OpenCL built-in function; arguments are `type value`."""
    pairs = [argument.split(" ", 1) for argument in arguments]
    mangled = f"_Z{len(name)}{name}{''.join(_MANGLED[type_] for type_, _ in pairs) or 'v'}"
    given = ", ".join(f"{_UNSIGNED.get(type_, type_)} {value}" for type_, value in pairs)
    return f"call spir_func {result} @{mangled}({given})"


def function(name: str, result: str, parameters: str, *body: str, convergent: bool = False) -> str:
    """A definition. It is always inlined: constants that control it then fold away."""
    kind = "alwaysinline convergent nounwind" if convergent else "alwaysinline nounwind"
    lines = "\n".join(_line(line.strip()) for text in body for line in text.strip().splitlines())
    return f"define linkonce_odr {result} @{name}({parameters}) {kind} {{\n{lines}\n}}"


def _line(text: str) -> str:
    """A line as LLVM prints it: a label at the margin, an instruction indented."""
    return text if text.endswith(":") else f"  {text}"


def of_row(name: str, row: tuple[str, str, str]) -> str:
    """The definition of a table's row: result, parameters, and the text that computes %r."""
    result, parameters, body = row
    return function(name, result, parameters, body, f"ret {result} %r")
