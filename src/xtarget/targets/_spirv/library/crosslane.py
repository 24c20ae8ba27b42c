"""Values that move between the lanes of a warp: AMD's ways, through sub-group shuffles."""

from __future__ import annotations

from ..llvm.ir import Instruction, Module
from ..llvm.reader import instructions
from ..llvm.text import UnsupportedError
from .helpers import BITS, builtin, function

__all__ = ["define", "specialize_dpp"]

_SUFFIX_TYPES = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "f16": "half",
    "bf16": "i16",
    "f32": "float",
    "f64": "double",
}

#: Operation: its parameters behind the value (or the values `%old` and `%v`).
_OPERATIONS = {
    "readlane": "i32 %lane",
    "permlanex16": "i32 %low, i32 %high, i1 %inactive, i1 %bound",
}
_TAKES_OLD = ("permlanex16", "dpp")

_LANE = f"%lane = {builtin('get_sub_group_local_id', 'i32')}"


def _shuffle(result: str, value: str, lane: str, type_: str = "i32") -> str:
    return f"{result} = {builtin('sub_group_shuffle', type_, f'{type_} {value}', f'u32 {lane}')}"


_DPP = "xt.amdgcn.update.dpp."


def specialize_dpp(module: Module) -> None:
    """Put the constant operands of `update.dpp` into the callee's name, so that its definition can
    be short: kernels call it hundreds of times.
    """
    if not any(line.name.startswith(_DPP) for line in module.lines("declare")):
        return
    module.drop(lambda line: line.kind == "declare" and line.name.startswith(_DPP))
    module.rewrite(lambda one: _specialized(module, one), having=_DPP)


def _specialized(module: Module, one: Instruction) -> list[Instruction] | None:
    name = one.callee
    if not name.startswith(_DPP):
        return None
    old, value, *controls = one.operands
    control, rows, banks, bound = (
        {"true": "1", "false": "0"}.get(operand.value, operand.value) for operand in controls
    )
    name = f"xt.dpp.{control}.{rows}.{banks}.{bound}.{name.removeprefix(_DPP)}"
    given = (f"{operand.type} {operand.value}" for operand in (old, value))
    return instructions(f"{one.indented}{module.call(one.type, name, *given)}")


def define(name: str, warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    if name.startswith("xt.dpp."):
        operation, _, suffix = name.removeprefix("xt.").rpartition(".")
    elif name.startswith("xt.amdgcn."):
        operation, _, suffix = name.removeprefix("xt.amdgcn.").rpartition(".")
    else:
        return None
    if operation == "readfirstlane" and suffix in _SUFFIX_TYPES:
        # Triton asks for it only where the value is the same in all lanes
        type_ = _SUFFIX_TYPES[suffix]
        return function(name, type_, f"{type_} %v", f"ret {type_} %v")
    if operation == "ballot" and suffix in ("i32", "i64"):
        return _ballot(name, suffix, warp_size)
    if f"{operation}.{suffix}" in ("mbcnt.lo", "mbcnt.hi"):
        return _count_below(name, suffix)
    if f"{operation}.{suffix}" == "ds.bpermute":
        body = f"%n = lshr i32 %address, 2\n%source = and i32 %n, {warp_size - 1}"
        shuffle = _shuffle("%r", "%v", "%source")
        return function(
            name, "i32", "i32 %address, i32 %v", body, shuffle, "ret i32 %r", convergent=True
        )
    kind = operation.partition(".")[0]
    if suffix not in _SUFFIX_TYPES or kind not in (*_OPERATIONS, "dpp"):
        return None
    type_ = _SUFFIX_TYPES[suffix]
    if type_ not in ("i32", "i64"):
        return _as_integer(name, operation, type_, kind)
    if kind == "readlane":
        shuffle = _shuffle("%r", "%v", "%lane", type_)
        given = f"{type_} %v, i32 %lane"
        return function(name, type_, given, shuffle, f"ret {type_} %r", convergent=True)
    if kind == "permlanex16":
        return _permlanex16(name, type_, warp_size)
    control, rows, banks, bound = (int(n) for n in operation.split(".")[1:])
    return _dpp(name, type_, control, rows, banks, bound, warp_size)


def _dpp(
    name: str, type_: str, control: int, rows: int, banks: int, bound: int, warp_size: int
) -> str:
    """AMD "RDNA3 ISA", section 7.6 (DPP16): rows of 16 lanes, banks of 4.

    `bound`: a lane without a source gets 0, otherwise it keeps the old value, as do the lanes of
    rows and banks whose bit is clear.
    """
    n = control & 15
    kind = control >> 4
    exists = ""
    if control < 0x100:  # quad_perm: two bits for each lane of a quad
        source = f"""%q0 = and i32 %lane, 3
            %q1 = shl i32 %q0, 1
            %q2 = lshr i32 {control}, %q1
            %q3 = and i32 %q2, 3
            %q4 = and i32 %lane, -4
            %source = or i32 %q4, %q3"""
    elif kind == 0x10:  # row_shl
        source = f"%in = and i32 %lane, 15\n%source = add i32 %lane, {n}"
        exists = f"%exists = icmp ult i32 %in, {16 - n}"
    elif kind == 0x11:  # row_shr
        source = f"%in = and i32 %lane, 15\n%source = sub i32 %lane, {n}"
        exists = f"%exists = icmp uge i32 %in, {n}"
    elif kind == 0x12:  # row_ror
        source = f"""%in = sub i32 %lane, {n}
            %turned = and i32 %in, 15
            %row = and i32 %lane, -16
            %source = or i32 %row, %turned"""
    elif control in (0x140, 0x141):  # row_mirror, row_half_mirror
        source = f"%source = xor i32 %lane, {15 if control == 0x140 else 7}"
    elif kind == 0x15:  # row_share
        source = f"%row = and i32 %lane, -16\n%source = or i32 %row, {n}"
    elif kind == 0x16:  # row_xmask
        source = f"%source = xor i32 %lane, {n}"
    else:
        raise UnsupportedError(f"llvm.amdgcn.update.dpp with control {control:#x}", "update.dpp")
    result = "%moved"
    lines = [
        _LANE,
        source,
        f"%inside = and i32 %source, {warp_size - 1}",
        _shuffle("%moved", "%v", "%inside", type_),
    ]
    if exists:
        otherwise = 0 if bound else "%old"
        lines += [
            exists,
            f"%bounded = select i1 %exists, {type_} %moved, {type_} {otherwise}",
        ]
        result = "%bounded"
    if (rows, banks) != (15, 15):
        lines.append(
            f"""%rown = lshr i32 %lane, 4
            %rowbit = lshr i32 {rows}, %rown
            %bank = lshr i32 %lane, 2
            %bankn = and i32 %bank, 3
            %bankbit = lshr i32 {banks}, %bankn
            %both = and i32 %rowbit, %bankbit
            %enabled = trunc i32 %both to i1
            %masked = select i1 %enabled, {type_} {result}, {type_} %old"""
        )
        result = "%masked"
    given = f"{type_} %old, {type_} %v"
    return function(name, type_, given, *lines, f"ret {type_} {result}", convergent=True)


def _permlanex16(name: str, type_: str, warp_size: int) -> str:
    """Lane n of a row of 16 reads from the neighbouring row the lane that nibble n of high:low
    names.
    """
    return function(
        name,
        type_,
        f"{type_} %old, {type_} %v, {_OPERATIONS['permlanex16']}",
        _LANE,
        f"""%n = and i32 %lane, 7
        %upper = and i32 %lane, 8
        %isupper = icmp ne i32 %upper, 0
        %nibbles = select i1 %isupper, i32 %high, i32 %low
        %shift = shl i32 %n, 2
        %shifted = lshr i32 %nibbles, %shift
        %pick = and i32 %shifted, 15
        %row = and i32 %lane, 16
        %other = xor i32 %row, 16
        %anywhere = or i32 %other, %pick
        %source = and i32 %anywhere, {warp_size - 1}""",
        _shuffle("%r", "%v", "%source", type_),
        f"ret {type_} %r",
        convergent=True,
    )


def _ballot(name: str, type_: str, warp_size: int) -> str:
    """A bit of every lane, gathered by exchanging with lanes at distance 1, 2, 4..."""
    lines = [_LANE, "%bit = zext i1 %p to i32", "%b1 = shl i32 %bit, %lane"]
    step = 1
    while step < warp_size:
        lines += [
            f"%o{step} = xor i32 %lane, {step}",
            _shuffle(f"%t{step}", f"%b{step}", f"%o{step}"),
            f"%b{2 * step} = or i32 %b{step}, %t{step}",
        ]
        step *= 2
    cast = "bitcast" if type_ == "i32" else "zext"
    lines.append(f"%r = {cast} i32 %b{step} to {type_}")
    return function(name, type_, "i1 %p", *lines, f"ret {type_} %r", convergent=True)


def _count_below(name: str, half: str) -> str:
    """Bits of the mask that belong to lanes below this one; no warp here has an upper half."""
    if half == "hi":
        return function(name, "i32", "i32 %mask, i32 %start", "ret i32 %start")
    return function(
        name,
        "i32",
        "i32 %mask, i32 %start",
        _LANE,
        """%one = shl i32 1, %lane
        %below = sub i32 %one, 1
        %bits = and i32 %mask, %below
        %count = call i32 @llvm.ctpop.i32(i32 %bits)
        %r = add i32 %count, %start
        ret i32 %r""",
    )


def _as_integer(name: str, operation: str, type_: str, kind: str) -> str:
    """Any other type as the integer of 32 or 64 bits that holds it."""
    prefix = "xt." if kind == "dpp" else "xt.amdgcn."
    further = [_OPERATIONS[kind]] if kind in _OPERATIONS else []
    values = ["old", "v"] if kind in _TAKES_OLD else ["v"]
    bits = BITS.get(type_, type_)
    word = "i64" if bits == "i64" else "i32"
    widen, narrow = ("bitcast", "bitcast") if bits == word else ("zext", "trunc")
    lines = []
    for value in values:
        lines += [
            f"%{value}bits = bitcast {type_} %{value} to {bits}",
            f"%{value}word = {widen} {bits} %{value}bits to {word}",
        ]
    passed = ", ".join([f"{word} %{value}word" for value in values] + further)
    lines += [
        f"%word = call {word} @{prefix}{operation}.{word}({passed})",
        f"%bits = {narrow} {word} %word to {bits}",
        f"%r = bitcast {bits} %bits to {type_}",
        f"ret {type_} %r",
    ]
    given = ", ".join([f"{type_} %{value}" for value in values] + further)
    return function(name, type_, given, *lines, convergent=True)
