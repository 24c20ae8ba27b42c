"""Memory instructions on global, constant and private memory."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from . import private, shadow
from .access import NAME, SIZES, load_part, store_part
from .atomics import atomic
from .decode import Instruction
from .memory import Access, Array, Fault
from .operands import plain, unsupported
from .ordering import bypasses, cache_step
from .valu import Step
from .waves import ACC, M0, SGPR, Waves

__all__ = ["build"]

_OFF = {"cdna": 127, "rdna": 124}
_CACHES = ("buffer_gl0_inv", "buffer_gl1_inv", "global_inv", "global_wb", "global_wbinv",
           "buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol")  # fmt: skip
_ALL_WRITTEN = np.uint32(0x01010101)
_STORING = "to write it to global memory"
_OCTET = np.uint32(0xFF)

#: An address function gives addresses (uint64, waves x lanes) and active lanes (None for all);
#: for a buffer also those out of its range, which read 0 and write nothing.
Address = Callable[[Waves], tuple[Array, "Array | None"]]


def build(ins: Instruction) -> Step | None:
    """The step of a memory instruction; None when it is none of these."""
    if ins.format == "smem":
        return _scalar(ins)
    if ins.format not in ("global", "flat", "mubuf", "scratch"):
        return None
    if ins.mnemonic in _CACHES:
        return cache_step(ins)
    if ins.format == "scratch":
        return private.build(ins)
    address = _buffer_address(ins) if ins.format == "mubuf" else _flat_address(ins)
    if "_atomic_" in ins.mnemonic:
        return atomic(ins, address)
    match = NAME.match(ins.mnemonic)
    if match is None:
        return None
    if ins.format == "mubuf" and ins.arch == "gfx90a" and not match[2]:
        return _either(ins, private.buffer(ins), _global(ins, match, address))
    return _global(ins, match, address)


def _either(ins: Instruction, private_step: Step | None, global_step: Step | None) -> Step | None:
    """gfx90a reaches private memory by a buffer, which only its description tells."""
    if private_step is None or global_step is None:
        return global_step
    high = plain(ins, ins.fields["srsrc"] * 4 + 1, "u32")

    def step(w: Waves) -> None:
        w.demand(high.reads, "as a buffer's description", everywhere=True)
        swizzled = bool((high.get(w) & np.uint32(private.SWIZZLED)).any())
        (private_step if swizzled else global_step)(w)

    return step


def _global(ins: Instruction, match: re.Match[str], address: Address) -> Step | None:
    way, lds, _d16, high, suffix = match.groups()
    if lds or ins.fields.get("lds"):
        return _to_lds(ins, address, SIZES[suffix][0]) if way == "load" else None
    d16 = bool(_d16)
    if way == "load":
        return _load(ins, address, suffix, d16, bool(high))
    return _store(ins, address, suffix, bool(high))


def _register(ins: Instruction, slot: str) -> int:
    return ins.fields[slot] + (ACC if ins.fields.get("acc") else 0)


def _flat_address(ins: Instruction) -> Address:
    fields, offset = ins.fields, np.uint64(ins.fields["offset"] & (1 << 64) - 1)
    off = _OFF["cdna" if ins.cdna else "rdna"]
    if ins.format == "flat" or fields["saddr"] == off:
        vector = plain(ins, 256 + fields["addr"], "u64")

        def from_vector(w: Waves) -> tuple[Array, Array | None]:
            if w.undefined:
                w.demand(vector.reads, "as an address")
            return vector.get(w) + offset, None if w.full else w.mask

        return from_vector
    scalar = plain(ins, fields["saddr"], "u64")
    part = plain(ins, 256 + fields["addr"], "u32")

    def from_both(w: Waves) -> tuple[Array, Array | None]:
        if w.undefined:
            w.demand((*scalar.reads, *part.reads), "as an address")
        return part.get(w) + (scalar.get(w) + offset), None if w.full else w.mask

    return from_both


def _buffer_address(ins: Instruction) -> Address:
    fields = ins.fields
    if fields["idxen"] or fields.get("tfe"):
        raise unsupported(ins, "indexed buffer")
    size = _access_bytes(ins)
    first = fields["srsrc"] * (1 if ins.arch == "gfx1201" else 4)
    low, high, records, word3 = (plain(ins, first + i, "u32") for i in range(4))
    part = plain(ins, 256 + fields["addr"], "u32")
    offset = np.uint64(fields["offset"])
    soffset = plain(ins, fields["soffset"], "u32")
    reads = (*low.reads, *high.reads, *records.reads, *word3.reads, *soffset.reads)

    def address(w: Waves) -> tuple[Array, Array | None]:
        if w.undefined:
            w.demand(reads, "as a buffer's description", everywhere=True)
        upper = high.get(w)
        if (upper >> 16 & 0x3FFF).any():
            raise unsupported(ins, "structured buffer")
        base = low.get(w).astype(np.uint64)
        base = base | (upper & np.uint32(0xFFFF)).astype(np.uint64) << np.uint64(32)
        place = np.broadcast_to(offset, (w.count, w.lanes))
        if fields["offen"]:
            if w.undefined:
                w.demand(part.reads, "as an address")
            place = part.get(w).astype(np.uint64) + offset
        extra = soffset.get(w).astype(np.uint64)
        limit = records.get(w).astype(np.uint64)
        inside = place + (extra if ins.cdna else np.uint64(0)) + np.uint64(size) <= limit
        return base + place + extra, inside & w.mask

    return address


def _access_bytes(ins: Instruction) -> int:
    suffix = ins.mnemonic.rpartition("_")[2]
    if suffix in SIZES:
        return SIZES[suffix][0]
    return 8 if suffix.endswith("64") else 4


def _load(ins: Instruction, address: Address, suffix: str, d16: bool, high: bool) -> Step:
    nbytes, dtype = SIZES[suffix]
    register = _register(ins, "data" if ins.format == "mubuf" else "vdst")
    zeroes = ins.format == "mubuf"
    words = max(1, nbytes // 4)
    writes = tuple(range(register, register + words))
    alone = ins.retried or bypasses(ins)
    access = Access(nbytes, writing=False, align=min(nbytes, 4), words=ins.whole_words)

    def step(w: Waves) -> None:
        arena = w.group.arena
        addresses, active = address(w)
        place, full = arena.locate(addresses, access, active)
        if w.group.races is not None:
            w.group.races.memory.load(w, place, active, nbytes, ins.address, alone)
        lanes = None if w.full else w.mask
        blank: Array | None = None
        if nbytes < 4:
            values = arena.views[nbytes][place >> (nbytes - 1)].view(dtype)
            octets: Array | None = None
            if not full:
                octets = arena.written[place[..., None] + np.arange(nbytes)] == 0
            if zeroes and active is not None:
                values = np.where(active, values, values.dtype.type(0))
            loaded = load_part(values, w.vu[register], d16, high)
            _put(w, register, loaded, lanes)
            if w.undefined or not full:
                if octets is not None and active is not None:
                    octets = octets & active[..., None]
                _note(w, None if octets is None else octets.any(axis=-1), ins, place)
                shadow.loaded_part(w, register, octets, dtype, d16, high)
            return
        place = place >> 2
        view, seen_words = arena.views[4], arena.written.view(np.uint32)
        for i in range(words):
            values = view[place + i]
            if zeroes and active is not None:
                values = np.where(active, values, np.uint32(0))
            _put(w, register + i, values, lanes)
            if not full:
                blank = (seen_words[place + i] ^ _ALL_WRITTEN) * _OCTET
                _mark(w, register + i, blank, active, ins, place << 2)
        if full and w.undefined:
            w.defined((), writes)

    return step


def _put(w: Waves, register: int, values: Array, lanes: Array | None) -> None:
    if lanes is None:
        w.vu[register][...] = values
    else:
        np.copyto(w.vu[register], values, where=lanes)


def _mark(
    w: Waves, register: int, unknown: Array, active: Array | None, ins: Instruction, place: Array
) -> None:
    """Note which bits of a loaded register hold nothing."""
    if active is not None:
        unknown = np.where(active, unknown, np.uint32(0))
    if unknown.any():
        _note(w, unknown != 0, ins, place)
        shadow.loaded(w, register, unknown)
    elif w.undefined:
        w.defined((), (register,))


def _note(w: Waves, blank: Array | None, ins: Instruction, place: Array) -> None:
    """Note a load of what was never written, for messages."""
    if blank is not None and blank.any():
        first = int(np.broadcast_to(place, blank.shape).reshape(-1)[int(np.argmax(blank))])
        w.group.blank_loads.setdefault(ins.address, (ins, first))


def _store(ins: Instruction, address: Address, suffix: str, high: bool) -> Step:
    nbytes, _dtype = SIZES[suffix]
    register = _register(ins, "data")
    words = max(1, nbytes // 4)
    access = Access(nbytes, writing=True, align=min(nbytes, 4))

    def step(w: Waves) -> None:
        arena = w.group.arena
        addresses, active = address(w)
        place, full = arena.locate(addresses, access, active)
        if w.undefined:
            # a buffer's bounds mask lanes as well as EXEC does
            for i in range(words):
                shadow.demand_part(w, register + i, high, nbytes, _STORING, active)
        if w.group.races is not None:
            if nbytes < 4:
                whole = store_part(w.vu[register], high, nbytes)[..., None]
            else:
                whole = np.stack([w.vu[register + i] for i in range(words)], -1)
            data = np.ascontiguousarray(whole).view(np.uint8)
            w.group.races.memory.store(w, place, active, nbytes, data)
        if active is not None:
            if not active.any():
                return
            place = place[active]
        if nbytes < 4:
            values = store_part(w.vu[register], high, nbytes)
            values = values if active is None else values[active]
            arena.views[nbytes][place >> (nbytes - 1)] = values
            if not full:
                for i in range(nbytes):
                    arena.written[place + i] = 1
            return
        place = place >> 2
        for i in range(words):
            values = w.vu[register + i]
            arena.views[4][place + i] = values if active is None else values[active]
            if not full:
                arena.written.view(np.uint32)[place + i] = _ALL_WRITTEN

    return step


def _to_lds(ins: Instruction, address: Address, nbytes: int) -> Step:
    """global_load_lds: to LDS at M0 + offset, lane after lane."""
    if nbytes < 4:
        raise unsupported(ins)
    offset = ins.fields["offset"]
    words = nbytes // 4
    reach = np.uint32(0x3FFFF if ins.arch == "gfx950" else 0xFFFF)  # gfx950 has 160 KiB of LDS
    access = Access(nbytes, writing=False, align=4)

    def step(w: Waves) -> None:
        group = w.group
        addresses, active = address(w)
        w.demand((SGPR + M0,), "as a place in LDS", everywhere=True)
        place, full = group.arena.locate(addresses, access, active)
        lds = (w.su[M0] & reach).astype(np.int64) + offset + w.lane * nbytes
        wrong = (lds + nbytes > group.lds_bytes) & w.mask
        if wrong.any():
            raise Fault(
                f"writes LDS beyond the {group.lds_bytes} bytes of the launch",
                int(np.argmax(wrong)),
            )
        lds = lds + (w.block * group.room)[:, None]
        if group.races is not None:
            group.races.memory.load(w, place, active, nbytes, ins.address, bypasses(ins))
            words_ = [group.arena.views[4][(place >> 2) + i] for i in range(words)]
            data = np.ascontiguousarray(np.stack(words_, -1)).view(np.uint8)
            group.races.lds_write(w, lds, nbytes, data)
        where = w.mask
        for i in range(words):
            values = group.arena.views[4][(place >> 2) + i]
            group.lds_views[4][(lds[where] >> 2) + i] = values[where]
        for i in range(nbytes):
            seen = True if full else group.arena.written[place + i][where] == 0
            group.lds_blank[lds[where] + i] = False if full else seen

    return step


def _scalar(ins: Instruction) -> Step | None:
    name, fields = ins.mnemonic, ins.fields
    if name in ("s_dcache_inv", "s_gl1_inv", "s_dcache_wb", "s_icache_inv"):
        return lambda w: None
    match = re.match(r"^s_load_([uib]\d+)$", name)
    if match is None:
        return None
    nbytes, dtype = SIZES[match[1]]
    base = plain(ins, fields["sbase"] * 2, "u64")
    offset = np.uint64(fields["offset"] & (1 << 64) - 1)
    extra = None
    if ins.cdna:
        if fields["soffset_en"]:
            extra = plain(ins, fields["soffset"], "u32")
        if not fields["imm"]:
            raise unsupported(ins, "an offset in a register")
    elif fields["soffset"] != 124:
        extra = plain(ins, fields["soffset"], "u32")
    register = fields["sdata"]
    reads = base.reads + (extra.reads if extra else ())
    access = Access(nbytes, writing=False, align=min(nbytes, 4), words=ins.whole_words)

    def step(w: Waves) -> None:
        w.demand(reads, "as an address", everywhere=True)
        arena = w.group.arena
        addresses = base.get(w) + offset
        if extra is not None:
            addresses = addresses + extra.get(w)
        place, full = arena.locate(addresses, access, None)
        if w.group.races is not None:
            first = np.broadcast_to(w.lane == 0, w.mask.shape)
            w.group.races.memory.load(w, place, first, nbytes, ins.address, ins.retried)
        place = place[:, 0]
        if nbytes < 4:
            values = arena.views[nbytes][place >> (nbytes - 1)].view(dtype)
            w.s[register] = values.astype(np.int32).view(np.uint32)
            octets = arena.written[place[:, None, None] + np.arange(nbytes)] == 0
            raw = octets.view(np.uint8) * _OCTET.astype(np.uint8)
            unknown = load_part(raw.view(dtype)[..., 0], raw, False, False)
            _mark_scalar(w, register, unknown, ins, place)
            return
        for i in range(nbytes // 4):
            w.s[register + i] = arena.views[4][(place >> 2) + i]
            if full:
                w.undefined.pop(SGPR + register + i, None)
            else:
                seen = arena.written.view(np.uint32)[(place >> 2) + i]
                _mark_scalar(w, register + i, ((seen ^ _ALL_WRITTEN) * _OCTET)[:, None], ins, place)

    return step


def _mark_scalar(w: Waves, register: int, unknown: Array, ins: Instruction, place: Array) -> None:
    unknown = np.broadcast_to(unknown, (w.count, 1))
    _note(w, unknown[:, 0] != 0, ins, place)
    w.note_unknown(SGPR + register, unknown)
