"""The route `template`: PTX of elementwise kernels from a text with holes. The driver makes machine
code of it; no compiler has to be installed."""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Final

from ..._system.package import FOLDER
from .._c.values import DType
from .._template.elementwise import Elementwise
from .._template.holes import Template
from .._template.route import SHARED, TemplateRoute
from .._template.steps import Operand, Step
from .compiler import CubinCompiler

__all__ = ["PtxTemplates", "text_of"]

_WARP_SIZE: Final = 32
#: The oldest PTX that knows the arch: `.version` by the first arch that needs a newer one.
_VERSIONS: Final = ((120, "8.7"), (103, "8.6"), (100, "8.6"), (0, "7.8"))
#: Instructions of steps, by kind: floating, integer, bool.
_NAMES: Final = {
    "add": ("add.rn", "add", ""),
    "sub": ("sub.rn", "sub", ""),
    "mul": ("mul.rn", "mul.lo", ""),
    "neg": ("neg", "neg", ""),
    "not": ("", "not", "not"),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
    "eq": ("setp.eq", "setp.eq", ""),
    "ne": ("setp.neu", "setp.ne", ""),
    "lt": ("setp.lt", "setp.lt", ""),
    "le": ("setp.le", "setp.le", ""),
    "gt": ("setp.gt", "setp.gt", ""),
    "ge": ("setp.ge", "setp.ge", ""),
}
#: Steps of integers whose instruction does not care for the sign and has no word for it.
_BITS: Final = ("not", "and", "or", "xor")
_INSTRUCTION: Final = Template("instruction", "  {{NAME}}.{{TYPE}} {{RESULT}}, {{OPERANDS}};")
_REGISTER: Final = Template("register", "  .reg .{{TYPE}} {{NAME}};")
_ARRAY: Final = Template(
    "array",
    """  .reg .b64 {{NAME}};
  ld.param.u64 {{NAME}}, [{{PARAMETER}}];
  cvta.to.global.u64 {{NAME}}, {{NAME}};""",
)
_ADDRESS: Final = Template("address", "  mad.lo.s64 offset, i, {{BYTES}}, {{ARRAY}};")
_LOAD: Final = Template("load", "  ld.{{SPACE}}.{{TYPE}} {{RESULT}}, [{{PLACE}}];")
_STORE: Final = Template("store", "  st.global.{{TYPE}} [offset], {{VALUE}};")


@cache
def _skeleton() -> Template:
    name = "elementwise.ptx"
    with open(os.path.join(FOLDER, "targets", "nvidia", name), encoding="utf-8") as file:
        return Template(name, file.read())


def _in_memory(dtype: DType) -> str:
    """A type as loads and stores name it."""
    return "u8" if dtype.is_bool() else f"{'s' if dtype.kind == 'i' else dtype.kind}{dtype.bits}"


def _computed(dtype: DType) -> str:
    """A type as instructions name it: short integers are computed in 32 bits."""
    if dtype.is_bool():
        return "pred"
    return _in_memory(dtype)[0] + str(max(32, dtype.bits))


class _Lines:
    """The instructions of a kernel, as they are written."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def taken(self) -> str:
        found, self.lines = "\n".join(self.lines), []
        return found

    def register(self, name: str, type_: str) -> str:
        if type_ != "pred":
            type_ = f"b{type_[1:]}" if type_[0] in "su" else type_
        self.lines.append(_REGISTER.fill({"TYPE": type_, "NAME": name}))
        return name

    def write(self, name: str, type_: str, result: str, *operands: str) -> None:
        values = {"NAME": name, "TYPE": type_, "RESULT": result, "OPERANDS": ", ".join(operands)}
        self.lines.append(_INSTRUCTION.fill(values))

    def operand(self, value: Operand) -> str:
        if value.number >= 0:
            return f"v{value.number}"
        if value.dtype.is_floating():
            wide = value.dtype.bits == 64
            packed = struct.pack(">d" if wide else ">f", value.constant)
            return f"0{'d' if wide else 'f'}{packed.hex().upper()}"
        if value.dtype.is_bool():  # a predicate is no immediate
            name = self.register(f"c{len(self.lines)}", "pred")
            self.write("setp.ne", "u32", name, "1" if value.constant else "0", "0")
            return name
        return str(int(value.constant))

    def short(self, dtype: DType, name: str) -> None:
        """The bits of a short integer as those of its value in 32."""
        if dtype.bits < 32:
            type_ = _in_memory(dtype)
            self.write(f"cvt.{_computed(dtype)}", type_, name, name)

    def step(self, step: Step) -> None:
        operands = [self.operand(operand) for operand in step.operands]
        result = self.register(self.operand(step.result), _computed(step.result.dtype))
        type_ = _computed(step.dtype)
        if step.name == "cast":
            self._cast(step, result, operands[0])
        elif step.name == "select":
            condition, first, second = operands
            self.write("selp", type_, result, first, second, condition)
        else:
            kind = 0 if step.dtype.is_floating() else 2 if step.dtype.is_bool() else 1
            if kind == 1 and step.name in _BITS:
                type_ = f"b{type_[1:]}"
            elif step.name == "neg" and kind == 1:
                type_ = f"s{type_[1:]}"
            self.write(_NAMES[step.name][kind], type_, result, *operands)
            if kind == 1 and step.result.dtype == step.dtype:
                self.short(step.dtype, result)

    def _cast(self, step: Step, result: str, value: str) -> None:
        have, wanted = step.dtype, step.result.dtype
        type_ = _computed(wanted)
        if have.is_bool():
            one, zero = (self.operand(Operand(wanted, constant=n)) for n in (1, 0))
            self.write("selp", type_, result, one, zero, value)
        elif wanted.is_floating():
            narrows = not have.is_floating() or wanted.bits < have.bits
            name = f"cvt{'.rn' if narrows else ''}.{type_}"
            self.write(name, _computed(have), result, value)
        else:
            self.write(f"cvt.{type_}", _computed(have), result, value)
            self.short(wanted, result)


def _version(arch: str) -> str:
    number = int(arch.removeprefix("sm_"))
    return next(version for least, version in _VERSIONS if number >= least)


def text_of(kernel: Elementwise, entry: str, arch: str, threads: int) -> str:
    """The kernel's PTX."""
    lines = _Lines()
    types = {one.name: "u64" if one.pointer else _in_memory(one.dtype) for one in kernel.inputs}
    types |= {"out": "u64", "n": "s64" if kernel.wide else "s32"}
    listed = [f"  .param .{types[p.name]} p_{p.name}" for p in kernel.parameters]
    arrays = [one.name for one in kernel.inputs if one.pointer] + ["out"]
    pointers = "\n".join(_ARRAY.fill({"NAME": f"{a}_", "PARAMETER": f"p_{a}"}) for a in arrays)
    if kernel.wide:
        lines.lines.append(_LOAD.fill(_loaded("param", "s64", "count", "p_n")))
    else:
        number_ = lines.register("short_count", "s32")
        lines.lines.append(_LOAD.fill(_loaded("param", "s32", number_, "p_n")))
        lines.write("cvt.s64", "s32", "count", number_)
    count = lines.taken()
    for one in kernel.inputs:
        value = lines.operand(one.value)
        computed = "u32" if one.dtype.is_bool() else _computed(one.dtype)
        name = lines.register(f"r{value}" if one.dtype.is_bool() else value, computed)
        if one.pointer:
            size = str(max(1, one.dtype.bits // 8))
            lines.lines.append(_ADDRESS.fill({"BYTES": size, "ARRAY": f"{one.name}_"}))
            lines.lines.append(_LOAD.fill(_loaded("global", _in_memory(one.dtype), name, "offset")))
        else:
            given = _loaded("param", _in_memory(one.dtype), name, f"p_{one.name}")
            lines.lines.append(_LOAD.fill(given))
        if one.dtype.is_bool():
            lines.write("setp.ne", "u32", lines.register(value, "pred"), name, "0")
    loads = lines.taken()
    for step in kernel.steps.found:
        lines.step(step)
    steps = lines.taken()
    element, value = kernel.result.dtype, lines.operand(kernel.result)
    if element.is_bool():
        lines.write("selp", "u32", lines.register("stored", "u32"), "1", "0", value)
        value = "stored"
    elif kernel.result.number < 0:  # a number is not stored as it stands
        lines.write("mov", f"b{max(32, element.bits)}", _result(lines, element), value)
        value = "stored"
    size = str(max(1, element.bits // 8))
    lines.lines.append(_ADDRESS.fill({"BYTES": size, "ARRAY": "out_"}))
    lines.lines.append(_STORE.fill({"TYPE": _in_memory(element), "VALUE": value}))
    return _skeleton().fill(
        {
            "VERSION": _version(arch),
            "ARCH": arch,
            "ENTRY": entry,
            "PARAMETERS": ",\n".join(listed),
            "THREADS": str(threads),
            "ARRAYS": pointers,
            "COUNT": count,
            "EACH": str(kernel.each),
            "STRIDE": str(threads),
            "LOADS": loads,
            "STEPS": steps,
            "STORE": lines.taken(),
        }
    )


def _result(lines: _Lines, dtype: DType) -> str:
    return lines.register("stored", _computed(dtype))


def _loaded(space: str, type_: str, result: str, place: str) -> dict[str, str]:
    return {"SPACE": space, "TYPE": type_, "RESULT": result, "PLACE": place}


class PtxTemplates(TemplateRoute):
    """`TemplateRoute` for PTX."""

    format = "ptx"
    stage = "ptx"
    sources = (*SHARED, "targets/nvidia/template.py")

    def __init__(self) -> None:
        super().__init__(_WARP_SIZE)

    def archs(self) -> tuple[str, ...]:
        return CubinCompiler.ARCHS

    def _skeleton(self) -> Template:
        return _skeleton()

    def _text(self, kernel: Elementwise, entry: str, arch: str, threads: int) -> str:
        return text_of(kernel, entry, arch, threads)

    def _binary(self, text: str) -> bytes:
        return text.encode()
