"""Atomic operations: lane after lane, so that lanes which meet in one place see each other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .decode import Instruction
from .memory import Access, Array, Unknown
from .operands import unsupported
from .waves import ACC, Waves

__all__ = ["OPERATIONS", "atomic", "perform"]

_NAME = re.compile(r"^(?:global|flat|buffer)_atomic_([a-z_]+?)_([uibf]+\d+)$")


def _pair(dtype: Any) -> Callable[[Any, Any], Any]:
    """The sums of two halves of a word each."""

    def add(old: Any, x: Any) -> Any:
        halves = np.array([old, x], np.uint32).view(dtype).reshape(2, 2)
        return (halves[0] + halves[1]).view(np.uint32)[0]

    return add


#: new = f(old, data), by name.
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "min": lambda old, x: x if x < old or old != old else old,
    "max": lambda old, x: x if x > old or old != old else old,
    "rsub": lambda old, x: x - old,
    "sub_clamp": lambda old, x: old - x if old > x else type(old)(0),
    "cond_sub": lambda old, x: old - x if old >= x else old,
    "csub": lambda old, x: old - x if old > x else type(old)(0),
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "swap": lambda old, x: x,
    "inc": lambda old, x: type(old)(0) if old >= x else old + type(old)(1),
    "pk_add_f16": _pair(np.float16),
    "pk_add_bf16": _pair(ml_dtypes.bfloat16),
    "dec": lambda old, x: x if old == 0 or old > x else old - type(old)(1),
}
_DTYPES = {
    "u32": np.uint32,
    "i32": np.int32,
    "b32": np.uint32,
    "f32": np.float32,
    "u64": np.uint64,
    "i64": np.int64,
    "b64": np.uint64,
    "f64": np.float64,
}


def perform(memory: Array, places: Array, name: str, data: list[Array], before: Array) -> None:
    """One operation for each place, in order.

    Args:
        memory: elements.
        places: indices into it.
        data: the operands, one element for each place (two of them for cmpswap: new, wanted).
        before: gets the old values.
    """
    if name == "cmpswap":
        for i, place in enumerate(places.tolist()):
            old = memory[place]
            before[i] = old
            if old == data[1][i]:
                memory[place] = data[0][i]
        return
    function = OPERATIONS[name]
    for i, place in enumerate(places.tolist()):
        old = memory[place]
        before[i] = old
        memory[place] = function(old, data[0][i])


def atomic(ins: Instruction, address: Any) -> Callable[[Waves], None]:
    """The step of a global atomic."""
    name, dtype = _parse(ins)
    fields = ins.fields
    size = np.dtype(dtype).itemsize
    words = size // 4
    data_register = fields["data"] + (ACC if fields.get("acc") else 0)
    buffer = ins.format == "mubuf"
    target = data_register if buffer else fields["vdst"] + (ACC if fields.get("acc") else 0)
    returns = fields.get("glc") or fields.get("sc0") or fields.get("th", 0) & 1
    count = 2 if name == "cmpswap" else 1
    reads = tuple(range(data_register, data_register + words * count))
    access = Access(size, writing=True, align=size, words=name == "cmpswap")

    def step(w: Waves) -> None:
        arena = w.group.arena
        addresses, active = address(w)
        place, full = arena.locate(addresses, access, active)
        mask = w.mask if active is None else active
        if w.undefined:
            w.demand(reads, "in an atomic operation", those=mask)
        if w.group.races is not None:
            w.group.races.memory.atomic(w, place, mask, size)
        places = place[mask]
        none = np.zeros(len(places), bool)
        if not full:
            whole = places[:, None] + np.arange(size)
            none = (arena.written[whole] == 0).any(axis=1)
            if none.any() and name != "swap":
                lane = int(np.flatnonzero(mask)[np.argmax(none)])
                block = arena.block_of_offset(int(places[np.argmax(none)]))
                raise Unknown(f"changes what was never written, in {arena.describe(block)}", lane)
            arena.written[whole.reshape(-1)] = 1
        data = [_elements(w, data_register + words * i, words, dtype, mask) for i in range(count)]
        before = np.empty(len(places), dtype)
        memory = arena.views[size].view(dtype)
        with np.errstate(all="ignore"):
            perform(memory, places >> (2 if size == 4 else 3), name, data, before)
        if returns:
            raw = before.view(np.uint32).reshape(len(places), words)
            for i in range(words):
                w.vu[target + i][mask] = raw[:, i]
            blank = np.zeros(w.mask.shape, bool)
            blank[mask] = none
            w.mark(blank if none.any() else None, tuple(range(target, target + words)), mask)

    return step


def _parse(ins: Instruction) -> tuple[str, Any]:
    match = _NAME.match(ins.mnemonic)
    if match is None:
        raise unsupported(ins)
    name, dtype = match[1], _DTYPES.get(match[2])
    if name == "pk_add":
        name, dtype = f"{name}_{match[2]}", np.uint32
    if dtype is None or (name not in OPERATIONS and name != "cmpswap"):
        raise unsupported(ins)
    return name, dtype


def _elements(w: Waves, register: int, words: int, dtype: Any, mask: Array) -> Array:
    raw = np.stack([w.vu[register + i][mask] for i in range(words)], axis=-1)
    return np.ascontiguousarray(raw).view(dtype)[:, 0]
