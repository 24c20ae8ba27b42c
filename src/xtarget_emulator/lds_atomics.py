"""The LDS addresses that an instruction's lanes access, and atomic operations on LDS."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .atomics import OPERATIONS, perform
from .decode import Instruction
from .memory import Array, Fault, Unknown
from .valu import Step
from .waves import Waves

__all__ = ["build", "lds_places"]

_NAME = re.compile(r"^ds_([a-z_]+?)(_rtn)?_([uibf]+\d+)$")
_DTYPES = {"u32": np.uint32, "i32": np.int32, "b32": np.uint32, "f32": np.float32,
           "u64": np.uint64, "i64": np.int64, "b64": np.uint64, "f64": np.float64}  # fmt: skip
#: An operation by the names of the archs; with two operands, CDNA's have the wanted value first.
_NAMES = {"cmpst": "cmpswap", "cmpstore": "cmpswap", "wrxchg": "swap", "storexchg": "swap"}
_WANTED_FIRST = "cmpst"


def build(ins: Instruction) -> Step | None:
    """The step of an atomic operation; None when it is none of these."""
    match = _NAME.match(ins.mnemonic)
    if match is None:
        return None
    name, dtype = _NAMES.get(match[1], match[1]), _DTYPES.get(match[3])
    if name == "pk_add":
        name, dtype = f"{name}_{match[3]}", np.uint32
    if dtype is None or (name not in OPERATIONS and name != "cmpswap"):
        return None
    return _atomic(ins, name, bool(match[2]), dtype, match[1] == _WANTED_FIRST)


def lds_places(w: Waves, register: int, offset: int, nbytes: int, verb: str) -> Array:
    """Byte offsets in the group's LDS, with every active lane's access checked.

    Raises:
        Fault: beyond the launch's LDS, misaligned, or an address that was never written.
    """
    group = w.group
    if w.undefined:
        w.demand((register,), "as an address in LDS")
    # 32 bits: LLVM puts the part below zero in the register, and the rest in the offset
    place = (w.vu[register] + np.uint32(offset)).astype(np.int64)
    lane = w.first(place + nbytes > group.lds_bytes)
    if lane is not None:
        raise Fault(
            f"{verb} {nbytes} bytes of LDS at {place.reshape(-1)[lane]}; the launch has "
            f"{group.lds_bytes}",
            lane,
        )
    align = min(nbytes, 4)
    if align > 1:
        lane = w.first((place & (align - 1)) != 0)
        if lane is not None:
            raise Fault(
                f"{verb} LDS at {place.reshape(-1)[lane]}, which is not a multiple of {align} as "
                "it has to be",
                lane,
            )
    place = place + (w.block * group.room)[:, None]
    return place if w.full else np.where(w.mask, place, (w.block * group.room)[:, None])


def _atomic(ins: Instruction, name: str, returns: bool, dtype: Any, wanted_first: bool) -> Step:
    size = np.dtype(dtype).itemsize
    words = size // 4
    fields = ins.fields
    address, target = fields["addr"], fields["vdst"]
    slots = ["data0", "data1"] if name == "cmpswap" else ["data0"]
    registers = [fields[slot] for slot in (slots[::-1] if wanted_first else slots)]
    offset = fields["offset1"] << 8 | fields["offset0"]
    reads = tuple(r + i for r in registers for i in range(words))

    def step(w: Waves) -> None:
        place = lds_places(w, address, offset, size, "changes")
        w.demand(reads, "in an atomic operation on LDS")
        group = w.group
        if group.races is not None:
            group.races.lds_atomic(w, place, size)
        place = place[w.mask]
        if group.lds_blank[place].any():
            raise Unknown("changes LDS that was never written")
        data = []
        for register in registers:
            raw = np.stack([w.vu[register + i][w.mask] for i in range(words)], axis=-1)
            data.append(np.ascontiguousarray(raw).view(dtype)[:, 0])
        before = np.empty(len(place), dtype)
        memory = group.lds_views[size].view(dtype)
        perform(memory, place >> (2 if size == 4 else 3), name, data, before)
        if returns:
            old = before.view(np.uint32).reshape(len(place), words)
            for i in range(words):
                w.vu[target + i][w.mask] = old[:, i]
            w.defined((), tuple(range(target, target + words)))

    return step
