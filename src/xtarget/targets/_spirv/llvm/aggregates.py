"""Rewrites of aggregates that SPIR-V cannot have: struct phis, one-element vectors, i128.

Triton makes each thread's part of a tensor a struct and carries it through loops as one value; its
loads and stores are vectors, also of one element; a 64-bit multiply-high is 128-bit arithmetic.
"""

from __future__ import annotations

from .ir import Function, Instruction, Module
from .reader import instructions, read_instruction
from .text import UnsupportedError
from .types import IRError, type_named
from .words import fields_of, has_word, map_vectors, split_list

__all__ = ["scalarize_vectors_of_one", "split_struct_phis", "use_multiply_high"]


def split_struct_phis(module: Module) -> None:
    """One phi for each field of a struct phi, and the struct put together again behind them."""
    for function in module.functions:
        if any(one.op == "phi" and " = phi { " in one.text for one in function.code()):
            _split_phis(module, function)


def _is_struct_phi(one: Instruction) -> bool:
    return " = phi { " in one.text


def _split_phis(module: Module, function: Function) -> None:
    blocks = {f"%{block.label}": block for block in function.blocks}
    before_end: dict[str, list[str]] = {}
    parts: dict[tuple[str, str, int], str] = {}
    for block in function.blocks:
        phis: list[Instruction] = []
        wholes: list[Instruction] = []
        count = block.phis()
        for one in block.code[:count]:
            if not _is_struct_phi(one):
                phis.append(one)
                continue
            types = fields_of(one.type)
            columns: list[list[str]] = [[] for _ in types]
            for value, label in zip(one.values, one.parts.labels, strict=True):
                constants = split_list(value[1:-1]) if value.startswith("{") else None
                for i, type_ in enumerate(types):
                    if constants is not None:
                        field = constants[i][len(type_) :].strip()
                    elif not value.startswith("%"):
                        field = value  # zeroinitializer, undef and poison suit every type
                    elif (known := parts.get((value, label, i))) is not None:
                        field = known
                    else:
                        field = parts[value, label, i] = module.temporary()
                        before_end.setdefault(label, []).append(
                            f"  {field} = extractvalue {one.type} {value}, {i}"
                        )
                    columns[i].append(f"[ {field}, {label} ]")
            names = [module.temporary() for _ in types]
            phis += instructions(
                *(
                    f"  {name} = phi {type_} {', '.join(column)}"
                    for name, type_, column in zip(names, types, columns, strict=True)
                )
            )
            wholes += _put_together(module, one, names, types)
        block.code = [*phis, *wholes, *block.code[count:]]
    for label, lines in before_end.items():
        if label not in blocks:
            raise IRError("a phi with a block that the function lacks", label)
        block = blocks[label]
        block.code[-1:-1] = instructions(*lines)


def _put_together(
    module: Module, one: Instruction, names: list[str], types: list[str]
) -> list[Instruction]:
    """The struct `one` of its fields."""
    done, whole = [], "poison"
    for i, (name, type_) in enumerate(zip(names, types, strict=True)):
        made = one.name if i == len(types) - 1 else module.temporary()
        done.append(
            read_instruction(f"  {made} = insertvalue {one.type} {whole}, {type_} {name}, {i}")
        )
        whole = made
    return done


def scalarize_vectors_of_one(module: Module) -> None:
    """`<1 x T>` becomes `T`."""
    for item in module.items:
        if isinstance(item, Function):
            item.head = _scalar_types(item.head)
        elif "<1 x " in item.text:
            item.text = _scalar_types(item.text)
    module.rewrite(lambda one: _scalarized(module, one), having="<1 x ")


def _scalar_types(text: str) -> str:
    return map_vectors(text, lambda type_: type_.element if type_.length == 1 else str(type_))


def _scalarized(module: Module, one: Instruction) -> list[Instruction]:
    operands = one.operands
    if one.op == "shufflevector":
        return _shuffle(module, one)
    if one.op in ("extractelement", "insertelement") and operands[0].type.length == 1:
        type_, value = operands[0].type.element, operands[one.op == "insertelement"].value
        # LLVM's text has no plain copy; a cast of a type to itself is folded away
        value = _scalar(value)
        return instructions(f"{one.indented}bitcast {type_} {value} to {type_}")
    values = [_scalar(o.value) if o.type.length == 1 else o.value for o in operands]
    text = one.with_values(values).text
    return instructions(_scalar_types(text))


def _scalar(value: str) -> str:
    """The one element of a constant vector; another value as it is."""
    if value.startswith("splat ("):
        return value[:-1].split(" ")[-1]
    return value[1:-1].split(" ")[-1] if value[0] == "<" else value


def _shuffle(module: Module, one: Instruction) -> list[Instruction]:
    """A shuffle from or to a vector of one element."""
    left, right, mask = one.operands
    n, m, type_ = left.type.length, mask.type.length, left.type.element
    if mask.value.startswith("<"):
        picks = [part.split()[-1] for part in split_list(mask.value[1:-1])]
    else:
        picks = ["0" if mask.value.startswith("zeroinitializer") else "poison"] * m
    lines: list[str] = []

    def element(pick: str) -> str:
        if not pick.isdigit():
            return "poison"
        source, index = (left, int(pick)) if int(pick) < n else (right, int(pick) - n)
        if n == 1:
            return _scalar(source.value)
        value = module.temporary()
        lines.append(f"  {value} = extractelement {left.type} {source.value}, i32 {index}")
        return value

    if m == 1:
        value = element(picks[0])
        return instructions(*lines, f"{one.indented}bitcast {type_} {value} to {type_}")
    whole = "poison"
    for i, pick in enumerate(picks):
        value = element(pick)
        made = one.name if i == m - 1 else module.temporary()
        lines.append(f"  {made} = insertelement <{m} x {type_}> {whole}, {type_} {value}, i32 {i}")
        whole = made
    return instructions(*lines)


_WIDE = type_named("i128")
_HALF = type_named("i64")


def use_multiply_high(module: Module) -> None:
    """The high half of a 64-bit product as a call; SPIR-V has no 128-bit integers."""
    wide: dict[str, tuple[str, str]] = {}
    product: dict[str, list[str]] = {}
    high: dict[str, str] = {}

    def change(one: Instruction) -> list[Instruction] | None:
        if not one.mentions(_WIDE):
            return None
        source = one.operands[0].type if one.operands else one.type
        if one.op in ("zext", "sext") and (source, one.type) == (_HALF, _WIDE):
            wide[one.name] = (one.op, one.values[0])
        elif one.op == "mul":
            product[one.name] = one.values
        elif one.op in ("lshr", "ashr") and one.values[1] == "64":
            high[one.name] = one.values[0]
        elif one.op == "trunc" and one.type == _HALF:
            left, right = product.get(high.get(one.values[0], ""), ("", ""))
            kinds = {wide.get(left, ("", ""))[0], wide.get(right, ("", ""))[0]}
            if kinds not in ({"sext"}, {"zext"}):
                raise UnsupportedError("128-bit integer arithmetic", "i128")
            function = "__ockl_mul_hi_i64" if kinds == {"sext"} else "__ockl_mul_hi_u64"
            call = module.call("i64", function, f"i64 {wide[left][1]}", f"i64 {wide[right][1]}")
            return instructions(f"{one.indented}{call}")
        else:
            raise UnsupportedError(f"128-bit integer arithmetic ({one.text.strip()})", "i128")
        return []

    module.rewrite(change, having="i128")
    for item in module.items:
        text = item.head if isinstance(item, Function) else item.text
        if "i128" in text and has_word(text, _WIDE):
            raise UnsupportedError(f"128-bit integer arithmetic ({text.strip()})", "i128")
