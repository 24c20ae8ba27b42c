"""The route `template` for SPIR-V: the CPU's and Intel's elementwise kernels without a compiler."""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Final

from ..._system.package import FOLDER
from .._c.values import DType, dtype_of
from .assembler import assemble
from .elementwise import Elementwise
from .holes import Template
from .patterns import filled_in, kind_of, pattern
from .prepared import Body, filled
from .route import SHARED, Given, TemplateRoute
from .steps import Operand, Step, held, in_memory

__all__ = ["SpirvTemplates", "text_of"]

_CAPABILITIES: Final = {"i8": "Int8", "i16": "Int16", "f64": "Float64"}
#: Instructions of steps, by kind: floating, signed, unsigned, bool.
_NAMES: Final = {
    "add": ("OpFAdd", "OpIAdd", "OpIAdd", ""),
    "sub": ("OpFSub", "OpISub", "OpISub", ""),
    "mul": ("OpFMul", "OpIMul", "OpIMul", ""),
    "div": ("OpFDiv", "OpSDiv", "OpUDiv", ""),
    "rem": ("", "OpSRem", "OpUMod", ""),
    "neg": ("OpFNegate", "", "", ""),
    "not": ("", "OpNot", "OpNot", "OpLogicalNot"),
    "and": ("", "OpBitwiseAnd", "OpBitwiseAnd", "OpLogicalAnd"),
    "or": ("", "OpBitwiseOr", "OpBitwiseOr", "OpLogicalOr"),
    "xor": ("", "OpBitwiseXor", "OpBitwiseXor", "OpLogicalNotEqual"),
    "shl": ("", "OpShiftLeftLogical", "OpShiftLeftLogical", ""),
    "shr": ("", "OpShiftRightArithmetic", "OpShiftRightLogical", ""),
    "eq": ("OpFOrdEqual", "OpIEqual", "OpIEqual", ""),
    "ne": ("OpFUnordNotEqual", "OpINotEqual", "OpINotEqual", ""),
    "lt": ("OpFOrdLessThan", "OpSLessThan", "OpULessThan", ""),
    "le": ("OpFOrdLessThanEqual", "OpSLessThanEqual", "OpULessThanEqual", ""),
    "gt": ("OpFOrdGreaterThan", "OpSGreaterThan", "OpUGreaterThan", ""),
    "ge": ("OpFOrdGreaterThanEqual", "OpSGreaterThanEqual", "OpUGreaterThanEqual", ""),
    "select": ("OpSelect", "OpSelect", "OpSelect", ""),
    "constant": ("OpCopyObject", "OpCopyObject", "OpCopyObject", "OpCopyObject"),
}
#: Functions of OpenCL, by their numbers. Source: "OpenCL Extended Instruction Set", 2.1.
_MATH: Final = {
    "acos": 0,
    "acosh": 1,
    "asin": 3,
    "asinh": 4,
    "atan": 6,
    "atan2": 7,
    "atanh": 8,
    "cbrt": 11,
    "ceil": 12,
    "copysign": 13,
    "cos": 14,
    "cosh": 15,
    "erfc": 17,
    "erf": 18,
    "exp": 19,
    "exp2": 20,
    "expm1": 22,
    "fabs": 23,
    "floor": 25,
    "fma": 26,
    "fmod": 29,
    "hypot": 32,
    "ldexp": 34,
    "lgamma": 35,
    "log": 37,
    "log2": 38,
    "log10": 39,
    "log1p": 40,
    "nextafter": 47,
    "pow": 48,
    "rint": 53,
    "nearbyint": 53,
    "rsqrt": 56,
    "sin": 57,
    "sinh": 59,
    "sqrt": 61,
    "tan": 62,
    "tanh": 63,
    "tgamma": 65,
    "trunc": 66,
}
_INSTRUCTION: Final = Template("instruction", "{{RESULT}} = {{NAME}} {{TYPE}} {{OPERANDS}}")
_LOAD: Final = Template("load", "{{RESULT}} = OpLoad {{TYPE}} {{ADDRESS}} Aligned {{BYTES}}")
_STORE: Final = Template("store", "OpStore {{ADDRESS}} {{VALUE}} Aligned {{BYTES}}")
_WHERE: Final = Template(
    "where",
    """OpSelectionMerge %after_{{NUMBER}} None
OpBranchConditional {{MASK}} %then_{{NUMBER}} %else_{{NUMBER}}
%then_{{NUMBER}} = OpLabel
{{THEN}}
OpBranch %after_{{NUMBER}}
%else_{{NUMBER}} = OpLabel
OpBranch %after_{{NUMBER}}
%after_{{NUMBER}} = OpLabel""",
)
_EITHER: Final = Template(
    "either",
    """{{RESULT}} = OpPhi {{TYPE}} {{LOADED}} %then_{{NUMBER}} {{ZERO}} %else_{{NUMBER}}""",
)


@cache
def _skeleton() -> Template:
    name = "elementwise.spvasm"
    with open(os.path.join(FOLDER, "targets", "_template", name), encoding="utf-8") as file:
        return Template(name, file.read())


class _Module:
    """The text of a kernel or of a step of it, as it grows."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {"%i64": "OpTypeInt 64 0"}
        self.constants: dict[str, str] = {}
        self.lines: list[str] = []

    def type(self, dtype: DType) -> str:
        """Of a value; bool has its own."""
        if dtype.is_bool():
            return "%bool"
        dtype = held(dtype)
        name = f"%{'f' if dtype.is_floating() else 'i'}{dtype.bits}"
        self.types.setdefault(
            name, f"OpType{'Float' if name[1] == 'f' else 'Int'} {dtype.bits}"
            + (" 0" if name[1] == "i" else ""),
        )  # fmt: skip
        return name

    def in_memory(self, dtype: DType) -> str:
        return self.type(in_memory(dtype))

    def pointer(self, dtype: DType) -> str:
        element = self.in_memory(dtype)
        self.types.setdefault(f"%to_{element[1:]}", f"OpTypePointer CrossWorkgroup {element}")
        return f"%to_{element[1:]}"

    def integer(self, number: int, type_: str = "%i64") -> str:
        """A constant of an integer type."""
        bits = int(type_[2:])
        name = f"%k{type_[1:]}_{number % (1 << bits)}"
        digits = max(8, bits // 4)
        self.constants[name] = f"OpConstant {type_} 0x{number % (1 << bits):0{digits}x}"
        return name

    def number(self, value: Operand) -> str:
        """A number that is known."""
        if value.dtype.is_bool():
            name = "%true" if value.constant else "%false"
            self.constants[name] = f"OpConstant{'True' if value.constant else 'False'} %bool"
            return name
        type_ = self.type(value.dtype)
        if value.dtype.is_floating():
            wide = value.dtype.bits == 64
            packed = struct.pack("<d" if wide else "<f", value.constant)
            bits = int.from_bytes(packed, "little")
            name = f"%k{type_[1:]}_{bits:x}"
            self.constants[name] = f"OpConstant {type_} 0x{bits:0{16 if wide else 8}x}"
            return name
        return self.integer(int(value.constant), type_)

    def write(self, result: str, name: str, type_: str, *operands: str) -> None:
        values = {"RESULT": result, "NAME": name, "TYPE": type_, "OPERANDS": " ".join(operands)}
        self.lines.append(_INSTRUCTION.fill(values))

    def step(self, step: Step) -> None:
        result = "%{0}"
        operands = [
            self.number(operand) if operand.known else f"%{{{place}}}"
            for place, operand in enumerate(step.operands, 1)
        ]
        dtype, made = step.dtype, held(step.result.dtype)
        match step.name:
            case "parameter":
                self.write(result, "OpCopyObject", self.any(made), f"%p_{step.parameter}")
            case "index":
                self.write(result, "OpCopyObject", "%i64", "%i")
            case "load" | "store":
                self._of_memory(step, result, operands)
            case "offset":
                self.write(result, "OpInBoundsPtrAccessChain", self.any(made), *operands)
            case "pointer":
                same = self.any(made) == self.any(dtype)
                self.write(
                    result, "OpCopyObject" if same else "OpBitcast", self.any(made), *operands
                )
            case "bits":
                same = dtype.kind != "f" and made.kind != "f"  # signed and unsigned are one type
                self.write(
                    result, "OpCopyObject" if same else "OpBitcast", self.type(made), *operands
                )
            case "cast":
                self._cast(dtype, made, result, operands[0])
            case name if name in _MATH:
                self.write(
                    result, "OpExtInst", self.type(made), "%opencl", str(_MATH[name]), *operands
                )
            case name:
                kind = "fiub".index(dtype.kind)
                self.write(result, _NAMES[name][kind], self.type(made), *operands)

    def any(self, dtype: DType) -> str:
        """Of a value or an address."""
        return self.pointer(dtype.element_ty) if dtype.element_ty else self.type(dtype)

    def _of_memory(self, step: Step, result: str, operands: list[str]) -> None:
        size, type_ = str(step.dtype.bits // 8), self.type(step.dtype)
        loads = step.name == "load"
        address, *rest = operands
        number = "{0}"
        if loads:
            loaded = f"%loaded_{number}" if rest else result
            values = {"RESULT": loaded, "TYPE": type_, "ADDRESS": address, "BYTES": size}
            text = _LOAD.fill(values)
        else:
            text = _STORE.fill({"ADDRESS": address, "VALUE": rest.pop(0), "BYTES": size})
        if not rest:
            self.lines.append(text)
            return
        self.lines.append(_WHERE.fill({"NUMBER": number, "MASK": rest[0], "THEN": text}))
        if loads:
            zero = self.number(Operand("", step.dtype))
            values = {"RESULT": result, "TYPE": type_, "LOADED": loaded, "NUMBER": number}
            self.lines.append(_EITHER.fill({**values, "ZERO": zero}))

    def _cast(self, have: DType, wanted: DType, result: str, value: str) -> None:
        type_ = self.type(wanted)
        if have.is_bool():
            one, zero = (self.number(Operand("", wanted, constant=n)) for n in (1, 0))
            self.write(result, "OpSelect", type_, value, one, zero)
        elif have.is_floating() and wanted.is_floating():
            self.write(result, "OpFConvert", type_, value)
        elif have.is_floating():
            self.write(result, f"OpConvertFTo{'S' if wanted.kind == 'i' else 'U'}", type_, value)
        elif wanted.is_floating():
            self.write(result, f"OpConvert{'S' if have.kind == 'i' else 'U'}ToF", type_, value)
        elif have.bits == wanted.bits:
            self.write(result, "OpCopyObject", type_, value)
        else:
            self.write(result, "OpSConvert" if have.kind == "i" else "OpUConvert", type_, value)


def _written(step: Step) -> tuple[str, dict[str, str], dict[str, str]]:
    """A step's text, and the types and constants that it needs."""
    module = _Module()
    module.step(step)
    return "\n".join(module.lines), module.types, module.constants


def text_of(kernel: Elementwise, entry: str, threads: str, each: str, stride: str) -> str:
    """The module's assembly text.

    Args:
        threads, each, stride: literals, of which the last two have 64 bits.
    """
    module = _Module()
    listed = []
    for parameter in kernel.parameters:
        dtype = dtype_of(parameter.type)
        type_ = module.pointer(dtype.element_ty) if dtype.element_ty else module.in_memory(dtype)
        listed.append((f"%p_{parameter.name}", type_))
    for number, step in enumerate(kernel.steps):
        text, types, constants = pattern(_written, kind_of(step))
        module.types.update(types)
        module.constants.update(constants)
        module.lines.append(filled_in(text, step, number))
    count = f"OpCopyObject %i64 %p_{kernel.count}"
    if not kernel.wide:
        count = f"OpSConvert %i64 %p_{kernel.count}"
    skeleton = {
        "CAPABILITIES": "\n".join(
            f"OpCapability {word}"
            for type_, word in _CAPABILITIES.items()
            if f"%{type_}" in module.types
        ),
        "ENTRY": entry,
        "THREADS": threads,
        "TYPES": "\n".join(f"{name} = {text}" for name, text in module.types.items()),
        "PARAMETER_TYPES": " ".join(type_ for _, type_ in listed),
        "CONSTANTS": "\n".join(f"{name} = {text}" for name, text in module.constants.items()),
        "PARAMETERS": "\n".join(f"{name} = OpFunctionParameter {type_}" for name, type_ in listed),
        "COUNT": count,
        "STEPS": "\n".join(module.lines),
        "EACH": each,
        "STRIDE": stride,
    }
    return _skeleton().fill(skeleton)


class SpirvTemplates(TemplateRoute):
    """`TemplateRoute` for SPIR-V. A body is a module in whose words the sizes are holes."""

    format = "spirv"
    stage = "spvasm"
    sources = SHARED

    def _native(self, name: str, dtype: DType) -> bool:
        return name in _MATH

    def archs(self) -> tuple[str, ...]:
        return ("spirv64",)

    def _skeleton(self) -> Template:
        return _skeleton()

    def _body(self, kernel: Elementwise, entry: str) -> Body:
        words, holes = assemble(text_of(kernel, entry, "?THREADS:1", "?EACH:2", "?STRIDE:2"))
        return Body(kernel.parameters, holes, words)

    def _binary(self, body: Body, given: Given) -> bytes:
        return filled(body, {"THREADS": given.threads, "EACH": given.each, "STRIDE": given.threads})

    def _stage(self, kernel: Elementwise, given: Given, binary: bytes) -> str:
        each, stride = (f"0x{number:016x}" for number in (given.each, given.threads))
        return text_of(kernel, given.entry, str(given.threads), each, stride)
