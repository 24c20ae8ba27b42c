"""LDS (shared memory) instructions, and those that go through the LDS crossbar."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from . import lds_atomics, shadow
from .access import SIZES, load_part, store_part
from .decode import Instruction
from .lds_atomics import lds_places
from .memory import Array
from .operands import unsupported
from .valu import Step
from .waves import ACC, Waves

__all__ = ["build"]

_NAME = re.compile(r"^ds_(load|store)_([uib]\d+)(_d16)?(_hi)?$")
_TWO = re.compile(r"^ds_(load|store)_2addr_(stride64_)?b(32|64)$")
_TRANSPOSED = re.compile(r"^ds_load_(?:b64|b96)_tr_b(4|6|8|16)$")


def build(ins: Instruction) -> Step | None:
    """The step of a DS instruction; None when it is none of these."""
    if ins.format != "ds":
        return None
    if ins.fields.get("gds"):
        raise unsupported(ins, "global data share")
    simple: dict[str, Callable[[Instruction], Step]] = {
        "ds_bpermute_b32": _bpermute,
        "ds_permute_b32": _permute,
        "ds_swizzle_b32": _swizzle,
        "ds_nop": lambda _: lambda w: None,
    }
    make = simple.get(ins.mnemonic)
    if make is not None:
        return make(ins)
    if match := _TWO.match(ins.mnemonic):
        return _two(ins, match[1] == "load", int(match[3]) // 8, 64 if match[2] else 1)
    if match := _TRANSPOSED.match(ins.mnemonic):
        return _transposed(ins, int(match[1]))
    if match := _NAME.match(ins.mnemonic):
        way, suffix, d16, high = match.groups()
        if way == "load":
            return _load(ins, suffix, bool(d16), bool(high))
        return _store(ins, suffix, bool(high))
    return lds_atomics.build(ins)


def _base(ins: Instruction) -> int:
    return ACC if ins.fields.get("acc") else 0


def _offset(ins: Instruction) -> int:
    """The two bytes of the offset as one number, as instructions with one address have it."""
    return ins.fields["offset1"] << 8 | ins.fields["offset0"]


def _note_blank(w: Waves, ins: Instruction, blank: Array) -> None:
    if (blank & w.mask).any():
        w.group.blank_loads.setdefault(ins.address, (ins, None))


def _read(w: Waves, ins: Instruction, place: Array, register: int, words: int) -> None:
    group = w.group
    if group.races is not None:
        group.races.lds_read(w, place, 4 * words)
    index = place >> 2
    blank = group.lds_blank.reshape(-1, 4)
    some = group.lds_blank_left
    for i in range(words):
        values = group.lds_views[4][index + i]
        w.put(register + i, values)
        if some:
            none = blank[index + i]
            if none.any():
                _note_blank(w, ins, none.any(axis=-1))
                bits = (none.view(np.uint8) * np.uint8(0xFF)).view(np.uint32)[..., 0]
                shadow.loaded(w, register + i, bits)
            else:
                w.mark(None, (register + i,))
    if not some and w.undefined:
        w.defined((), tuple(range(register, register + words)))


def _write(w: Waves, place: Array, register: int, words: int) -> None:
    group = w.group
    if group.races is not None:
        registers = tuple(range(register, register + words))
        data = np.stack([w.vu[r] for r in registers], -1).view(np.uint8)
        group.races.lds_write(w, place, 4 * words, data, w.blank(registers))
    index = place >> 2
    where = None if w.full else w.mask
    if where is not None:
        index = index[where]
    blank = group.lds_blank.reshape(-1, 4)
    for i in range(words):
        values = w.vu[register + i]
        group.lds_views[4][index + i] = values if where is None else values[where]
        none = shadow.octets(w, register + i) if w.undefined else None
        if none is None:
            blank[index + i] = False
        else:
            group.lds_blank_left = True
            blank[index + i] = none if where is None else none[where]


def _load(ins: Instruction, suffix: str, d16: bool, high: bool) -> Step:
    nbytes, dtype = SIZES[suffix]
    address, register, offset = ins.fields["addr"], ins.fields["vdst"] + _base(ins), _offset(ins)

    def step(w: Waves) -> None:
        place = lds_places(w, address, offset, nbytes, "reads")
        if nbytes >= 4:
            _read(w, ins, place, register, nbytes // 4)
            return
        group = w.group
        if group.races is not None:
            group.races.lds_read(w, place, nbytes)
        values = group.lds_views[nbytes][place >> (nbytes - 1)].view(dtype)
        row = w.vu[register]
        np.copyto(row, load_part(values, row, d16, high), where=w.mask)
        blank = group.lds_blank[place[..., None] + np.arange(nbytes)]
        _note_blank(w, ins, blank.any(axis=-1))
        shadow.loaded_part(w, register, blank, dtype, d16, high)

    return step


def _store(ins: Instruction, suffix: str, high: bool) -> Step:
    nbytes, _ = SIZES[suffix]
    address, register, offset = ins.fields["addr"], ins.fields["data0"] + _base(ins), _offset(ins)

    def step(w: Waves) -> None:
        place = lds_places(w, address, offset, nbytes, "writes")
        if nbytes >= 4:
            _write(w, place, register, nbytes // 4)
            return
        group = w.group
        whole = store_part(w.vu[register], high, nbytes)
        if group.races is not None:
            data = np.ascontiguousarray(whole).view(np.uint8)
            none = shadow.stored_bits(w, register, high, nbytes)
            group.races.lds_write(w, place, nbytes, data, none)
        values, place = whole[w.mask], place[w.mask]
        group.lds_views[nbytes][place >> (nbytes - 1)] = values
        octets = shadow.octets(w, register)
        for i in range(nbytes):
            if octets is None:
                group.lds_blank[place + i] = False
            else:
                group.lds_blank_left = True
                group.lds_blank[place + i] = octets[..., i + 2 * high][w.mask]

    return step


def _two(ins: Instruction, load: bool, nbytes: int, stride: int) -> Step:
    """Two elements at two offsets, counted in elements."""
    address, base = ins.fields["addr"], _base(ins)
    offsets = [ins.fields[f"offset{i}"] * nbytes * stride for i in (0, 1)]
    words = nbytes // 4
    if load:
        registers = [ins.fields["vdst"] + base, ins.fields["vdst"] + base + words]
    else:
        registers = [ins.fields["data0"] + base, ins.fields["data1"] + base]

    def step(w: Waves) -> None:
        # both addresses first: the destination may be the address register
        places = [
            lds_places(w, address, offset, nbytes, "reads" if load else "writes")
            for offset in offsets
        ]
        for place, register in zip(places, registers, strict=True):
            if load:
                _read(w, ins, place, register, words)
            else:
                _write(w, place, register, words)

    return step


def _transposed(ins: Instruction, bits: int) -> Step:
    """ds_read_b64_tr and ds_read_b96_tr: what a lane reads is a row's piece; 16 lanes together
    transpose them.

    A group of 16 lanes holds a tile of 16 columns; lane l ends with column l.
    """
    address, register, offset = ins.fields["addr"], ins.fields["vdst"] + _base(ins), _offset(ins)
    words = 3 if bits == 6 else 2
    count = 32 * words // bits
    dtype = np.uint16 if bits == 16 else np.uint8
    lane, element = np.arange(16)[:, None], np.arange(count)[None, :]
    from_lane = element * (16 // count) + lane // count
    from_element = np.broadcast_to(lane % count, from_lane.shape)

    def turned(raw: Array) -> Array:
        """Of waves x lanes x words."""
        shape = raw.shape[0], raw.shape[1] // 16, 16, count
        if bits >= 8:
            tiles = raw.view(dtype).reshape(shape)
        else:
            bit = np.unpackbits(raw.view(np.uint8), axis=-1, bitorder="little")
            tiles = bit.reshape(*shape, bits)
        found = np.ascontiguousarray(tiles[:, :, from_lane, from_element])
        if bits < 8:
            found = np.packbits(
                found.reshape(*raw.shape[:2], count * bits), axis=-1, bitorder="little"
            )
        return found.view(np.uint32).reshape(raw.shape)

    def step(w: Waves) -> None:
        if not w.full:
            raise unsupported(ins, "with inactive lanes")
        place = lds_places(w, address, offset, 4 * words, "reads")
        _read(w, ins, place, register, words)
        found = turned(np.stack(w.vu[register : register + words], axis=-1))
        unknown = [w.unknown_of(register + i) for i in range(words)]
        for i in range(words):
            w.vu[register + i][...] = found[..., i]
        if any(each is not None for each in unknown):
            none = np.zeros(w.mask.shape, np.uint32)
            there = [none if each is None else each for each in unknown]
            found = turned(np.stack(there, axis=-1))
            for i in range(words):
                w.note_unknown(register + i, found[..., i])

    return step


# ------------------------------------------------------------------------------------- lane to lane


def _pull(w: Waves, register: int, data: int, origin: Array, valid: Array | None) -> None:
    """Each active lane gets `data` of lane `origin`; 0 where that one is inactive or not valid."""
    rows = np.arange(w.count)[:, None]
    value = w.vu[data][rows, origin]
    there = w.mask[rows, origin]
    if valid is not None:
        there = there & valid
    value = np.where(there, value, np.uint32(0))
    bad = w.undefined.get(data)
    moved = None if bad is None else bad[rows, origin] & there
    np.copyto(w.vu[register], value, where=w.mask)
    if moved is not None:
        w.mark(moved, (register,))
    elif w.undefined:
        w.defined((), (register,))


def _bpermute(ins: Instruction) -> Step:
    fields = ins.fields
    offset = _offset(ins)

    def step(w: Waves) -> None:
        if w.undefined:
            w.demand((fields["addr"],), "as a lane's number")
        origin = (w.vu[fields["addr"]] + np.uint32(offset)) >> 2 & np.uint32(w.lanes - 1)
        _pull(w, fields["vdst"], fields["data0"], origin, None)

    return step


def _permute(ins: Instruction) -> Step:
    """ds_permute: each active lane pushes its value to the lane that it names."""
    fields = ins.fields
    offset = _offset(ins)

    def step(w: Waves) -> None:
        w.demand((fields["addr"],), "as a lane's number")
        target = (w.vu[fields["addr"]] + np.uint32(offset)) >> 2 & np.uint32(w.lanes - 1)
        value = np.zeros((w.count, w.lanes), np.uint32)
        waves, lanes = np.nonzero(w.mask)
        value[waves, target[waves, lanes]] = w.vu[fields["data0"]][waves, lanes]
        none = w.undefined.get(fields["data0"])
        bad = np.zeros((w.count, w.lanes), bool)
        if none is not None:
            bad[waves, target[waves, lanes]] = none[waves, lanes]
        np.copyto(w.vu[fields["vdst"]], value, where=w.mask)
        w.mark(bad, (fields["vdst"],))

    return step


def _swizzle(ins: Instruction) -> Step:
    fields = ins.fields
    control = _offset(ins)
    if control & 0x8000:
        if control & 0x7F00:
            raise unsupported(ins, f"swizzle 0x{control:x}")
        picks = np.array([control >> 2 * i & 3 for i in range(4)])

        def source(lane: Array) -> Array:
            return (lane & ~3) | picks[lane & 3]

    else:
        keep, set_, flip = control & 31, control >> 5 & 31, control >> 10 & 31

        def source(lane: Array) -> Array:
            return (lane & ~31) | ((lane & 31 & keep | set_) ^ flip)

    def step(w: Waves) -> None:
        origin = np.broadcast_to(source(w.lane), w.mask.shape)
        # the value stands where other instructions have the address
        _pull(w, fields["vdst"], fields["addr"], origin, None)

    return step
