"""The route `template`: PTX of elementwise kernels from a text with holes. The driver makes machine
code of it; no compiler has to be installed."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from functools import cache
from typing import Final

from ..._system.package import FOLDER
from .._c.values import DType, dtype_of
from .._template.elementwise import Elementwise
from .._template.holes import Template
from .._template.patterns import text_of_step
from .._template.prepared import Body
from .._template.route import SHARED, Given, TemplateRoute
from .._template.steps import Operand, Step, held, in_memory
from .compiler import CubinCompiler

__all__ = ["PtxTemplates"]

_WARP_SIZE: Final = 32
#: The oldest PTX that knows the arch: `.version` by the first arch that needs a newer one.
_VERSIONS: Final = ((120, "8.7"), (103, "8.6"), (100, "8.6"), (0, "7.8"))
#: Instructions of steps, by kind: floating, integer, bool.
_NAMES: Final = {
    "add": ("add.rn", "add", ""),
    "sub": ("sub.rn", "sub", ""),
    "mul": ("mul.rn", "mul.lo", ""),
    "div": ("div.rn", "div", ""),
    "rem": ("", "rem", ""),
    "neg": ("neg", "", ""),
    "not": ("", "not", "not"),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
    "shl": ("", "shl", ""),
    "shr": ("", "shr", ""),
    "eq": ("setp.eq", "setp.eq", ""),
    "ne": ("setp.neu", "setp.ne", ""),
    "lt": ("setp.lt", "setp.lt", ""),
    "le": ("setp.le", "setp.le", ""),
    "gt": ("setp.gt", "setp.gt", ""),
    "ge": ("setp.ge", "setp.ge", ""),
}
#: Steps of integers whose instruction does not care for the sign and has no word for it.
_BITS: Final = ("not", "and", "or", "xor", "shl")
#: Mathematical functions of float and double, and those of which the result's type comes too.
_MATH: Final = {"sqrt": "sqrt.rn", "fma": "fma.rn", "fabs": "abs"}
_WHOLE: Final = {
    "floor": "cvt.rmi",
    "ceil": "cvt.rpi",
    "trunc": "cvt.rzi",
    "rint": "cvt.rni",
    "nearbyint": "cvt.rni",
}
_INSTRUCTION: Final = Template("instruction", "  {{NAME}}.{{TYPE}} {{RESULT}}, {{OPERANDS}};")
_REGISTER: Final = Template("register", "  .reg .{{TYPE}} {{NAME}};")
_ADDRESS: Final = Template("address", "  mad.lo.s64 {{RESULT}}, {{INDEX}}, {{BYTES}}, {{ARRAY}};")
_LOAD: Final = Template("load", "  {{WHERE}}ld.{{SPACE}}.{{TYPE}} {{RESULT}}, [{{PLACE}}];")
_STORE: Final = Template("store", "  {{WHERE}}st.global.{{TYPE}} [{{PLACE}}], {{VALUE}};")


@cache
def _skeleton() -> Template:
    name = "elementwise.ptx"
    with open(os.path.join(FOLDER, "targets", "nvidia", name), encoding="utf-8") as file:
        return Template(name, file.read())


def _kept(dtype: DType) -> str:
    """A type as loads and stores name it."""
    dtype = held(dtype)
    return "u64" if dtype.is_ptr() else f"{'s' if dtype.kind == 'i' else dtype.kind}{dtype.bits}"


def _computed(dtype: DType) -> str:
    """A type as instructions name it: short integers are computed in 32 bits."""
    if dtype.is_bool():
        return "pred"
    return _kept(dtype)[0] + str(max(32, held(dtype).bits))


class _Lines:
    """The instructions of a step, as they are written: a text with numbered holes.

    Attributes:
        RESULT: the hole of the result's register, in which names of further ones begin.
    """

    RESULT: Final = "{0}"

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def register(self, name: str, type_: str) -> str:
        if type_ != "pred":
            type_ = f"b{type_[1:]}" if type_[0] in "su" else type_
        self.lines.append(_REGISTER.fill({"TYPE": type_, "NAME": name}))
        return name

    def extra(self, type_: str) -> str:
        """A register of no value's."""
        self._count += 1
        return self.register(f"{self.RESULT}_{self._count}", type_)

    def write(self, name: str, type_: str, result: str, *operands: str) -> None:
        values = {"NAME": name, "TYPE": type_, "RESULT": result, "OPERANDS": ", ".join(operands)}
        self.lines.append(_INSTRUCTION.fill(values))

    def number(self, value: Operand) -> str:
        """A number that is known."""
        dtype = held(value.dtype)
        if dtype.is_floating():
            wide = dtype.bits == 64
            packed = struct.pack(">d" if wide else ">f", value.constant)
            return f"0{'d' if wide else 'f'}{packed.hex().upper()}"
        if dtype.is_bool():  # a predicate is no immediate
            name = self.extra("pred")
            self.write("setp.ne", "u32", name, "1" if value.constant else "0", "0")
            return name
        return str(int(value.constant))

    def short(self, dtype: DType, name: str) -> None:
        """The bits of a short integer as those of its value in 32."""
        if dtype.kind in "iu" and dtype.bits < 32:
            self.write(f"cvt.{_computed(dtype)}", _kept(dtype), name, name)

    def step(self, step: Step) -> None:
        operands = [
            self.number(operand) if operand.known else f"{{{place}}}"
            for place, operand in enumerate(step.operands, 1)
        ]
        dtype, made = step.dtype, held(step.result.dtype)
        if step.name == "store":
            self._store(dtype, *operands)
            return
        result = self.register(self.RESULT, _computed(made))
        type_ = _computed(dtype)
        match step.name:
            case "parameter":
                given = _loaded("param", _kept(dtype), result, f"p_{_named(step.parameter)}")
                self.lines.append(_LOAD.fill(given))
                if dtype.is_ptr():
                    self.write("cvta.to.global", "u64", result, result)
            case "index" | "pointer" | "constant":
                bits = f"b{type_[1:]}" if type_[0] in "su" else type_
                self.write("mov", bits, result, *(operands or ["i"]))
            case "bits":
                self.write("mov", f"b{max(32, dtype.bits)}", result, *operands)
                self.short(made, result)
            case "load":
                self._load(dtype, result, *operands)
            case "offset":
                address, index = operands
                values = {"RESULT": result, "INDEX": index, "ARRAY": address}
                self.lines.append(_ADDRESS.fill({**values, "BYTES": str(_bytes(dtype))}))
            case "cast":
                self._cast(dtype, made, result, operands[0])
            case "select":
                condition, first, second = operands
                self.write("selp", type_, result, first, second, condition)
            case name if name in _MATH:
                self.write(_MATH[name], type_, result, *operands)
            case name if name in _WHOLE:
                self.write(f"{_WHOLE[name]}.{type_}", type_, result, *operands)
            case name:
                self._plain(name, dtype, made, result, operands)

    def _plain(
        self, name: str, dtype: DType, made: DType, result: str, operands: list[str]
    ) -> None:
        type_ = _computed(dtype)
        kind = 0 if dtype.is_floating() else 2 if dtype.is_bool() else 1
        if kind == 1 and name in _BITS:
            type_ = f"b{type_[1:]}"
        if name in ("shl", "shr") and dtype.bits == 64:  # they shift by 32 bits
            by = self.extra("u32")
            self.write("cvt.u32", "u64", by, operands[1])
            operands = [operands[0], by]
        self.write(_NAMES[name][kind], type_, result, *operands)
        if made == dtype:
            self.short(dtype, result)

    def _load(self, dtype: DType, result: str, address: str, mask: str = "") -> None:
        if mask:
            self.write("mov", f"b{max(32, dtype.bits)}", result, "0")
        self.lines.append(_LOAD.fill(_loaded("global", _kept(dtype), result, address, mask)))

    def _store(self, dtype: DType, address: str, value: str, mask: str = "") -> None:
        if not value.startswith("{"):  # a number is not stored as it stands
            name = self.extra(_computed(dtype))
            self.write("mov", f"b{max(32, dtype.bits)}", name, value)
            value = name
        values = {"TYPE": _kept(dtype), "PLACE": address, "VALUE": value}
        self.lines.append(_STORE.fill({**values, "WHERE": f"@{mask} " if mask else ""}))

    def _cast(self, have: DType, wanted: DType, result: str, value: str) -> None:
        type_ = _computed(wanted)
        if have.is_bool():
            one, zero = (self.number(Operand("", wanted, constant=n)) for n in (1, 0))
            self.write("selp", type_, result, one, zero, value)
        elif wanted.is_floating():
            narrows = not have.is_floating() or wanted.bits < have.bits
            self.write(f"cvt{'.rn' if narrows else ''}.{type_}", _computed(have), result, value)
        else:
            towards = ".rzi" if have.is_floating() else ""
            self.write(f"cvt{towards}.{type_}", _computed(have), result, value)
            self.short(wanted, result)


def _bytes(address: DType) -> int:
    assert address.element_ty is not None
    return in_memory(address.element_ty).bits // 8


def _named(parameter: str) -> str:
    return parameter.replace(".", "_")


def _version(arch: str) -> str:
    number = int(arch.removeprefix("sm_"))
    return next(version for least, version in _VERSIONS if number >= least)


def _values(kernel: Elementwise) -> Mapping[str, str]:
    """The values of the skeleton's holes that neither the arch nor the sizes decide."""
    listed = [f"  .param .{_given(p.type)} p_{_named(p.name)}" for p in kernel.parameters]
    parameters = [_count(kernel)]
    lines: list[str] = []
    for number, step in enumerate(kernel.steps):
        text = text_of_step(_written, step, number)
        (parameters if step.name == "parameter" else lines).append(text)
    return {
        "PARAMETERS": ",\n".join(listed),
        "GIVEN": "\n".join(parameters),
        "STEPS": "\n".join(lines),
    }


def _count(kernel: Elementwise) -> str:
    """How the number of elements is read."""
    lines, place = _Lines(), f"p_{kernel.count}"
    if kernel.wide:
        lines.lines.append(_LOAD.fill(_loaded("param", "s64", "count", place)))
    else:
        short = lines.register("short", "s32")
        lines.lines.append(_LOAD.fill(_loaded("param", "s32", short, place)))
        lines.write("cvt.s64", "s32", "count", short)
    return "\n".join(lines.lines)


def _written(step: Step) -> str:
    lines = _Lines()
    lines.step(step)
    return "\n".join(lines.lines)


def _given(type_: str) -> str:
    """A parameter's type."""
    dtype = dtype_of(type_)
    return _kept(dtype if dtype.is_ptr() else in_memory(dtype))


def _loaded(space: str, type_: str, result: str, place: str, mask: str = "") -> dict[str, str]:
    where = f"@{mask} " if mask else ""
    return {"SPACE": space, "TYPE": type_, "RESULT": result, "PLACE": place, "WHERE": where}


class PtxTemplates(TemplateRoute):
    """`TemplateRoute` for PTX."""

    format = "ptx"
    stage = "ptx"
    sources = (*SHARED, "targets/nvidia/template.py")

    def __init__(self) -> None:
        super().__init__(_WARP_SIZE)

    def _native(self, name: str, dtype: DType) -> bool:
        return name in _MATH or name in _WHOLE

    def archs(self) -> tuple[str, ...]:
        return CubinCompiler.ARCHS

    def _skeleton(self) -> Template:
        return _skeleton()

    def _body(self, kernel: Elementwise, entry: str) -> Body:
        holes, texts, begin = {}, [], 0
        for name, value in _values(kernel).items():
            texts.append(value.encode())
            holes[name] = begin, len(texts[-1])
            begin += len(texts[-1])
        return Body(kernel.parameters, holes, b"".join(texts))

    def _binary(self, body: Body, given: Given) -> bytes:
        values = {
            name: body.data[begin : begin + size].decode()
            for name, (begin, size) in body.holes.items()
        }
        sizes = {"THREADS": given.threads, "EACH": given.each, "STRIDE": given.threads}
        values |= {name: str(number) for name, number in sizes.items()}
        values |= {"VERSION": _version(given.arch), "ARCH": given.arch, "ENTRY": given.entry}
        return _skeleton().fill(values).encode()

    def _stage(self, kernel: Elementwise, given: Given, binary: bytes) -> str:
        return binary.decode()
