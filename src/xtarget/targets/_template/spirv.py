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
from .route import SHARED, TemplateRoute
from .steps import Operand, Step

__all__ = ["SpirvTemplates", "text_of"]

_CAPABILITIES: Final = {"i8": "Int8", "i16": "Int16", "f64": "Float64"}
#: Instructions of steps, by kind: floating, signed, unsigned, bool.
_NAMES: Final = {
    "add": ("OpFAdd", "OpIAdd", "OpIAdd", ""),
    "sub": ("OpFSub", "OpISub", "OpISub", ""),
    "mul": ("OpFMul", "OpIMul", "OpIMul", ""),
    "neg": ("OpFNegate", "OpSNegate", "OpSNegate", ""),
    "not": ("", "OpNot", "OpNot", "OpLogicalNot"),
    "and": ("", "OpBitwiseAnd", "OpBitwiseAnd", "OpLogicalAnd"),
    "or": ("", "OpBitwiseOr", "OpBitwiseOr", "OpLogicalOr"),
    "xor": ("", "OpBitwiseXor", "OpBitwiseXor", "OpLogicalNotEqual"),
    "eq": ("OpFOrdEqual", "OpIEqual", "OpIEqual", ""),
    "ne": ("OpFUnordNotEqual", "OpINotEqual", "OpINotEqual", ""),
    "lt": ("OpFOrdLessThan", "OpSLessThan", "OpULessThan", ""),
    "le": ("OpFOrdLessThanEqual", "OpSLessThanEqual", "OpULessThanEqual", ""),
    "gt": ("OpFOrdGreaterThan", "OpSGreaterThan", "OpUGreaterThan", ""),
    "ge": ("OpFOrdGreaterThanEqual", "OpSGreaterThanEqual", "OpUGreaterThanEqual", ""),
    "select": ("OpSelect", "OpSelect", "OpSelect", ""),
}
_INSTRUCTION: Final = Template("instruction", "{{RESULT}} = {{NAME}} {{TYPE}} {{OPERANDS}}")
_LOAD: Final = Template(
    "load",
    """{{AT}} = OpInBoundsPtrAccessChain {{POINTER}} {{ARRAY}} %i
{{RESULT}} = OpLoad {{TYPE}} {{AT}} Aligned {{BYTES}}""",
)
_STORE: Final = Template(
    "store",
    """%at = OpInBoundsPtrAccessChain {{POINTER}} {{ARRAY}} %i
OpStore %at {{VALUE}} Aligned {{BYTES}}""",
)


@cache
def _skeleton() -> Template:
    name = "elementwise.spvasm"
    with open(os.path.join(FOLDER, "targets", "_template", name), encoding="utf-8") as file:
        return Template(name, file.read())


class _Module:
    """The text of one kernel, as it grows."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {"%i64": "OpTypeInt 64 0"}
        self.constants: dict[str, str] = {}
        self.lines: list[str] = []

    def type(self, dtype: DType) -> str:
        """Of a value; bool has its own."""
        if dtype.is_bool():
            return "%bool"
        name = f"%{'f' if dtype.is_floating() else 'i'}{dtype.bits}"
        self.types.setdefault(
            name, f"OpType{'Float' if name[1] == 'f' else 'Int'} {dtype.bits}"
            + (" 0" if name[1] == "i" else ""),
        )  # fmt: skip
        return name

    def in_memory(self, dtype: DType) -> str:
        if dtype.is_bool():
            self.types.setdefault("%i8", "OpTypeInt 8 0")
            return "%i8"
        return self.type(dtype)

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

    def operand(self, value: Operand) -> str:
        if value.number >= 0:
            return f"%v{value.number}"
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
        result, operands = self.operand(step.result), [self.operand(o) for o in step.operands]
        if step.name == "cast":
            self._cast(step, result, operands[0])
            return
        kind = "fiub".index(step.dtype.kind)
        self.write(result, _NAMES[step.name][kind], self.type(step.result.dtype), *operands)

    def _cast(self, step: Step, result: str, value: str) -> None:
        have, wanted = step.dtype, step.result.dtype
        type_ = self.type(wanted)
        if have.is_bool():
            one, zero = (self.operand(Operand(wanted, constant=n)) for n in (1, 0))
            self.write(result, "OpSelect", type_, value, one, zero)
        elif have.is_floating():
            self.write(result, "OpFConvert", type_, value)
        elif wanted.is_floating():
            self.write(result, f"OpConvert{'S' if have.kind == 'i' else 'U'}ToF", type_, value)
        elif have.bits == wanted.bits:  # signed and unsigned are one type
            self.write(result, "OpCopyObject", type_, value)
        else:
            self.write(result, "OpSConvert" if have.kind == "i" else "OpUConvert", type_, value)


def text_of(kernel: Elementwise, entry: str, threads: int) -> str:
    """The module's assembly text."""
    module = _Module()
    listed = []
    pointers = {one.name: one.dtype for one in kernel.inputs if one.pointer}
    pointers["out"] = kernel.result.dtype
    numbers = {one.name: one.dtype for one in kernel.inputs if not one.pointer}
    for parameter in kernel.parameters:
        name = parameter.name
        if name in pointers:
            type_ = module.pointer(pointers[name])
        elif name in numbers:
            type_ = module.in_memory(numbers[name])
        else:
            type_ = module.type(dtype_of("int64" if kernel.wide else "int32"))
        listed.append((f"%p_{name}", type_))
    count = "OpCopyObject %i64 %p_n" if kernel.wide else "OpSConvert %i64 %p_n"
    for one in kernel.inputs:
        value, raw = module.operand(one.value), f"%r{one.value.number}"
        loaded = raw if one.dtype.is_bool() else value
        if one.pointer:
            module.lines.append(
                _LOAD.fill(
                    {
                        "AT": f"%at_{one.name}",
                        "POINTER": module.pointer(one.dtype),
                        "ARRAY": f"%p_{one.name}",
                        "RESULT": loaded,
                        "TYPE": module.in_memory(one.dtype),
                        "BYTES": str(max(1, one.dtype.bits // 8)),
                    }
                )
            )
        else:
            module.write(loaded, "OpCopyObject", module.in_memory(one.dtype), f"%p_{one.name}")
        if one.dtype.is_bool():
            module.write(value, "OpINotEqual", "%bool", raw, module.integer(0, "%i8"))
    loads, module.lines = module.lines, []
    for step in kernel.steps.found:
        module.step(step)
    result = module.operand(kernel.result)
    if kernel.result.dtype.is_bool():
        byte = module.integer(1, "%i8"), module.integer(0, "%i8")
        module.write("%stored", "OpSelect", "%i8", result, *byte)
        result = "%stored"
    store = _STORE.fill(
        {
            "POINTER": module.pointer(kernel.result.dtype),
            "ARRAY": "%p_out",
            "VALUE": result,
            "BYTES": str(max(1, kernel.result.dtype.bits // 8)),
        }
    )
    each, stride = module.integer(kernel.each), module.integer(threads)
    skeleton = {
        "CAPABILITIES": "\n".join(
            f"OpCapability {word}"
            for type_, word in _CAPABILITIES.items()
            if f"%{type_}" in module.types
        ),
        "ENTRY": entry,
        "THREADS": str(threads),
        "TYPES": "\n".join(f"{name} = {text}" for name, text in module.types.items()),
        "PARAMETER_TYPES": " ".join(type_ for _, type_ in listed),
        "CONSTANTS": "\n".join(f"{name} = {text}" for name, text in module.constants.items()),
        "PARAMETERS": "\n".join(f"{name} = OpFunctionParameter {type_}" for name, type_ in listed),
        "COUNT": count,
        "LOADS": "\n".join(loads),
        "STEPS": "\n".join(module.lines),
        "STORE": store,
        "EACH": each,
        "STRIDE": stride,
    }
    return _skeleton().fill(skeleton)


class SpirvTemplates(TemplateRoute):
    """`TemplateRoute` for SPIR-V."""

    format = "spirv"
    stage = "spvasm"
    sources = SHARED

    def archs(self) -> tuple[str, ...]:
        return ("spirv64",)

    def _skeleton(self) -> Template:
        return _skeleton()

    def _text(self, kernel: Elementwise, entry: str, arch: str, threads: int) -> str:
        return text_of(kernel, entry, threads)

    def _binary(self, text: str) -> bytes:
        return assemble(text)
