"""Undefined elements of a product of matrices: those whose row of the first operand, or column of
the second, has an undefined element, and those that are added to one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from . import shadow
from .memory import Array
from .waves import Waves

__all__ = ["blank", "either", "note", "note_halves", "parts"]

_ALL = 0xFFFFFFFF


def blank(w: Waves, registers: Iterable[int], used: int = _ALL) -> Array | None:
    """Return the lanes, active or not, in which a used bit of a register holds nothing."""
    result = None
    for register in registers:
        bits = w.unknown_of(register)
        if bits is not None:
            bad = np.broadcast_to(bits & np.uint32(used) != 0, w.mask.shape)
            result = bad if result is None else result | bad
    return result


def parts(w: Waves, register: int, words: int, nbytes: int) -> Array | None:
    """Return which elements of some registers hold nothing: waves x lanes x elements."""
    found = [w.unknown_of(register + i) for i in range(words)]
    if all(bits is None for bits in found):
        return None
    none = np.uint32(0)
    each = [np.broadcast_to(none if bits is None else bits, w.mask.shape) for bits in found]
    return np.ascontiguousarray(np.stack(each, axis=-1)).view(f"u{nbytes}") != 0


def either(*blanks: Array | None) -> Array | None:
    """Return where one of them is true."""
    result = None
    for bad in blanks:
        if bad is not None:
            result = bad if result is None else result | bad
    return result


def note(w: Waves, nothing: Array | None, register: int, words: int) -> None:
    """Note which elements of a result (waves x lanes x elements) hold nothing, in all lanes."""
    if nothing is None:
        for i in range(words):
            w.undefined.pop(register + i, None)
        return
    kind = f"u{4 * words // nothing.shape[-1]}"
    bits = np.where(nothing, np.iinfo(kind).max, 0).astype(kind).view(np.uint32)
    for i in range(words):
        w.note_unknown(register + i, bits[..., i])


def note_halves(w: Waves, nothing: Array | None, register: int, upper: bool) -> None:
    """The same for a result in one half of each register, whose other half stays."""
    lanes = np.ones(w.mask.shape, bool)
    for i in range(8):
        bad = None if nothing is None else nothing[..., i]
        shadow.mark_part(w, bad, register + i, 0xFFFF0000 if upper else 0xFFFF, lanes)
