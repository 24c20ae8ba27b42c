"""Atomic operations that core SPIR-V does not have: on floats and on 8 and 16 bits.

They become loops of compare-and-exchange, on the containing 32-bit word where the value is smaller.
"""

from __future__ import annotations

import re

from ..library.helpers import BITS, function
from .ir import Instruction, Module
from .reader import instructions
from .text import UnsupportedError

__all__ = ["define", "lower_atomics"]

_NATIVE = ("i32", "i64")


def lower_atomics(module: Module) -> None:
    """Call a loop for every operation that SPIR-V has no instruction for."""
    module.rewrite(lambda one: _CHANGES[one.op](module, one), ops=_CHANGES)


def _operation(module: Module, one: Instruction) -> list[Instruction] | None:
    address, value = one.operands
    type_, operation = value.type, one.parts.extra
    if type_.is_vector or type_.is_pointer:
        raise UnsupportedError(f"an atomic operation ({one.text.strip()})", "atomicrmw ")
    if type_ in _NATIVE and not operation.startswith("f"):
        return None
    # bfloat16 is carried in i16 by now: only there do integers and float operations meet
    kind = "bf16" if type_ == "i16" and operation.startswith("f") else type_
    name = f"xt.atomic.{operation}.{kind}.{address.type.space}"
    given = (f"{address.type} {address.value}", f"{type_} {value.value}")
    return instructions(f"{one.indented}{module.call(type_, name, *given)}")


def _exchange(module: Module, one: Instruction) -> list[Instruction] | None:
    address, expected, value = one.operands
    type_ = value.type
    if type_.is_vector or type_.is_pointer:
        raise UnsupportedError(f"an atomic exchange ({one.text.strip()})", "cmpxchg ")
    if type_ in _NATIVE:
        return None
    name = f"xt.atomic.cas.{type_}.{address.type.space}"
    given = tuple(f"{o.type} {o.value}" for o in (address, expected, value))
    return instructions(f"{one.indented}{module.call(f'{{ {type_}, i1 }}', name, *given)}")


_CHANGES = {"atomicrmw": _operation, "cmpxchg": _exchange}


_NAME = re.compile(r"xt\.atomic\.(\w+)\.(\w+)\.(\d)")

_COMPARISONS = {
    "max": "icmp sgt",
    "min": "icmp slt",
    "umax": "icmp ugt",
    "umin": "icmp ult",
    # a NaN in memory is replaced, a NaN given is not stored
    "fmax": "fcmp ogt",
    "fmin": "fcmp olt",
}
_PLAIN = ("add", "sub", "and", "or", "xor", "fadd", "fsub")


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    operation, kind, space = match.groups()
    type_ = "i16" if kind == "bf16" else kind
    word = BITS.get(type_, type_)
    pointer = f"ptr addrspace({space})" if space != "0" else "ptr"
    if word not in ("i8", "i16", "i32", "i64"):
        return None
    if operation == "cas":
        return _small_exchange(name, type_, pointer) if type_ in ("i8", "i16") else None
    step = _step(operation, kind, type_)
    if step is None:
        return None
    if word in ("i8", "i16"):
        return _small_loop(name, type_, word, pointer, step)
    return function(
        name,
        type_,
        f"{pointer} %p, {type_} %v",
        f"""%first = {_load(pointer, "%p", word)}
        br label %loop
        loop:
        %seen = phi {word} [ %first, %0 ], [ %now, %loop ]
        %old = bitcast {word} %seen to {type_}
        {step}
        %bits = bitcast {type_} %new to {word}
        {_compare_exchange(pointer, "%p", word, "%seen", "%bits")}
        br i1 %done, label %end, label %loop
        end:
        ret {type_} %old""",
    )


def _size(word: str) -> int:
    return int(word[1:]) // 8


def _load(pointer: str, address: str, word: str) -> str:
    scope = 'syncscope("device") monotonic'
    return f"load atomic {word}, {pointer} {address} {scope}, align {_size(word)}"


def _compare_exchange(pointer: str, address: str, word: str, old: str, new: str) -> str:
    return f"""%result = cmpxchg {pointer} {address}, {word} {old}, {word} {new} \
syncscope("device") acq_rel acquire, align {_size(word)}
        %now = extractvalue {{ {word}, i1 }} %result, 0
        %done = extractvalue {{ {word}, i1 }} %result, 1"""


def _step(operation: str, kind: str, type_: str) -> str | None:
    """`%new` from `%old` and `%v`."""
    if kind == "bf16":
        body = _step(operation, "float", "float")
        if body is None:
            return None
        body = body.replace("%old", "%wold").replace("%v", "%wv").replace("%new", "%wnew")
        return f"""%wold = call float @xt.bf16.extend(i16 %old)
        %wv = call float @xt.bf16.extend(i16 %v)
        {body}
        %new = call i16 @xt.bf16.truncate(float %wnew)"""
    if operation == "xchg":
        return f"%new = bitcast {type_} %v to {type_}"
    if operation in _PLAIN:
        return f"%new = {operation} {type_} %old, %v"
    if operation not in _COMPARISONS:
        return None
    test = f"%better = {_COMPARISONS[operation]} {type_} %v, %old"
    if operation.startswith("f"):
        test += f"\n%nan = fcmp uno {type_} %old, %old\n%take = or i1 %better, %nan"
    chosen = "%take" if operation.startswith("f") else "%better"
    return f"{test}\n%new = select i1 {chosen}, {type_} %v, {type_} %old"


def _containing_word(pointer: str, bits: int) -> str:
    """`%word` points to the aligned 32-bit word around `%p`, `%mask` covers the value in it."""
    return f"""%address = ptrtoint {pointer} %p to i64
        %aligned = and i64 %address, -4
        %word = inttoptr i64 %aligned to {pointer}
        %offset = and i64 %address, 3
        %offset8 = shl i64 %offset, 3
        %shift = trunc i64 %offset8 to i32
        %mask = shl i32 {(1 << bits) - 1}, %shift
        %others = xor i32 %mask, -1
        %first = {_load(pointer, "%word", "i32")}"""


def _small_loop(name: str, type_: str, bits: str, pointer: str, step: str) -> str:
    return function(
        name,
        type_,
        f"{pointer} %p, {type_} %v",
        f"""{_containing_word(pointer, int(bits[1:]))}
        br label %loop
        loop:
        %seen = phi i32 [ %first, %0 ], [ %now, %loop ]
        %shifted = lshr i32 %seen, %shift
        %oldbits = trunc i32 %shifted to {bits}
        %old = bitcast {bits} %oldbits to {type_}
        {step}
        %newbits = bitcast {type_} %new to {bits}
        %wide = zext {bits} %newbits to i32
        %placed = shl i32 %wide, %shift
        %kept = and i32 %seen, %others
        %whole = or i32 %kept, %placed
        {_compare_exchange(pointer, "%word", "i32", "%seen", "%whole")}
        br i1 %done, label %end, label %loop
        end:
        ret {type_} %old""",
    )


def _small_exchange(name: str, type_: str, pointer: str) -> str:
    pair = f"{{ {type_}, i1 }}"
    return function(
        name,
        pair,
        f"{pointer} %p, {type_} %expected, {type_} %v",
        f"""{_containing_word(pointer, int(type_[1:]))}
        %wide = zext {type_} %v to i32
        %placed = shl i32 %wide, %shift
        br label %loop
        loop:
        %seen = phi i32 [ %first, %0 ], [ %now, %try ]
        %shifted = lshr i32 %seen, %shift
        %old = trunc i32 %shifted to {type_}
        %equal = icmp eq {type_} %old, %expected
        br i1 %equal, label %try, label %end
        try:
        %kept = and i32 %seen, %others
        %whole = or i32 %kept, %placed
        {_compare_exchange(pointer, "%word", "i32", "%seen", "%whole")}
        br i1 %done, label %end, label %loop
        end:
        %half = insertvalue {pair} poison, {type_} %old, 0
        %both = insertvalue {pair} %half, i1 %equal, 1
        ret {pair} %both""",
    )
