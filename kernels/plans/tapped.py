"""Convolutions of `x` whose channels lie side by side: a step of the product takes channels of one
tap (`convolution:tapped`). Arrays in another order are copied first, where that is worth it.
"""

from __future__ import annotations

import math
from typing import Final

from xtarget import spec

from . import choices, tuned, tuning, tuning_windows
from .elementwise import compute_dtype
from .layouts import collapse
from .matrices import aligned
from .movement import copy_launch
from .phases import apart, divides
from .problems import KINDS, LOOSE, Operands, Problem

__all__ = ["channels_inside", "tapped", "worth_parts", "worth_taps"]

#: Products from which on operands are copied.
_WORTH: Final = 2**24
#: Channels of `x` that are worth a step of their own.
_LEAST: Final = 16


def worth_taps(call: spec.Call, problem: Problem) -> bool:
    """Whether a step has enough channels of one tap, and they lie side by side or will do so."""
    p = problem
    if tuning.outer_products(call.vendor) or min(p.rows, p.channels) < _LEAST or not divides(p):
        return False
    return p.sx[1] == 1 or _copies(p)


def worth_parts(call: spec.Call, problem: Problem) -> bool:
    """Whether the gradient by weights has enough rows and channels, and they lie side by side or
    will do so.
    """
    p = problem
    if tuning.outer_products(call.vendor) or min(p.rows, p.channels) < _LEAST:
        return False
    return (p.sx[1] == 1 and p.so[1] == 1) or _copies(p)


def _copies(p: Problem) -> bool:
    return p.products >= _WORTH


def channels_inside(
    call: spec.Call,
    array: spec.Input | spec.Temporary,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    temporaries: list[spec.ArrayType],
) -> tuple[list[spec.Launch], spec.Input | spec.Temporary, tuple[int, ...]]:
    """An array of samples, channels and three axes whose channels lie side by side: as it is, or a
    copy; and its strides.
    """
    if strides[1] == 1:
        return [], array, strides
    samples, channels, *lengths = shape
    steps = spec.contiguous_strides((samples, *lengths, channels))
    turned = (steps[0], 1, *steps[1:4])
    copy = spec.Temporary(len(temporaries))
    temporaries.append(spec.ArrayType(dtype, (samples, *lengths, channels), steps))
    return list(copy_launch(call, array, shape, strides, turned, out=copy)), copy, turned


def _weights(
    call: spec.Call, p: Problem, arrays: Operands
) -> tuple[list[spec.Launch], spec.Input | spec.Temporary, tuple[int, ...]]:
    """The weights, whose rows or channels lie side by side, or as they are; and their strides.
    NVIDIA's units that multiply float32 want rows, as they do of a matrix.
    """
    by_rows = KINDS[arrays.dtype] == "single" and call.vendor == "nvidia"
    if p.sw[1] == 1 or (p.sw[2] == 1 and not by_rows) or not _copies(p):
        return [], arrays.weight, p.sw
    turned: tuple[int, ...]
    if by_rows:
        shape = (p.groups, *p.kernel, p.channels, p.rows)
        steps = spec.contiguous_strides(shape)
        turned = (steps[0], 1, steps[4], *steps[1:4])
    else:
        shape = (p.groups, p.rows, *p.kernel, p.channels)
        steps = spec.contiguous_strides(shape)
        turned = (steps[0], steps[1], 1, *steps[2:5])
    copy = spec.Temporary(len(arrays.temporaries))
    arrays.temporaries.append(spec.ArrayType(arrays.dtype, shape, steps))
    own = (p.groups, p.rows, p.channels, *p.kernel)
    return list(copy_launch(call, arrays.weight, own, p.sw, turned, out=copy)), copy, turned


def _described(
    call: spec.Call, p: Problem, dtype: str, weight: spec.Input | spec.Temporary
) -> bool:
    """Whether a copy engine may fetch the weights: the device has one (as those with measured
    products of matrices do), and a row has all channels of a tap, then those of the next one.
    """
    if dtype not in ("float16", "bfloat16") or not choices.rows(call.vendor, call.arch, "matmul"):
        return False
    step, taps = p.channels, []
    for n in reversed(p.kernel):
        taps.append(step if n > 1 else None)
        step *= n
    regular = p.sw[2] == 1 and p.sw[1] == step and (p.groups == 1 or p.sw[0] == p.rows * step)
    for own, wanted in zip(reversed(p.sw[3:]), taps, strict=True):
        regular = regular and wanted in (None, own)
    # rows begin at multiples of 16 bytes: `even` channels do
    return regular and p.from_weight == 0 and aligned(call, weight)


def tapped(call: spec.Call, p: Problem, arrays: Operands) -> list[spec.Launch]:
    """The launches."""
    shape = (p.samples, p.groups * p.channels, *p.in_shape)
    launches, x, sx = channels_inside(call, arrays.x, arrays.dtype, shape, p.sx, arrays.temporaries)
    more, weight, sw = _weights(call, p, arrays)
    arrays = arrays._replace(x=x, weight=weight)
    for one in apart(p._replace(sx=sx, sw=sw)):
        more.append(_launch(call, one, arrays))
    return launches + more


def _launch(call: spec.Call, p: Problem, arrays: Operands) -> spec.Launch:
    dtype, total = arrays.dtype, compute_dtype(arrays.dtype)
    usual = tuning_windows.tapped_tile(
        call.vendor, KINDS[dtype], p.rows, p.channels, p.positions, p.groups, call.compute_units
    )
    sizes = {
        "rows": p.rows, "positions": p.positions, "products": p.channels * math.prod(p.kernel),
        "groups": p.groups,
    }  # fmt: skip
    tile = tuned.windows(call, "tapped", usual, sizes, dtype)
    operand = dtype if call.vendor in tuning.MATRIX_UNITS else total
    # in the order of positions, which is that of the result's axes
    goal = collapse((p.samples, *p.out_shape), (p.so[0], *p.so[2:]), keep_order=True)
    even = p.channels % tile.k == 0
    described = even and _described(call, p, dtype, arrays.weight)
    # a stride of 1 is a constant, so that neighbours are seen to lie side by side
    steps = {"wr": p.sw[1], "wc": p.sw[2], "oc": p.so[1]}
    args: dict[str, spec.Argument] = {
        **arrays.given(),
        **p.numbers(),
        "sx": (p.sx[0], *p.sx[2:]),
        "sw": (p.sw[0], *p.sw[3:]),
        "goal_shape": goal.lengths,
        "so": goal.strides[0],
        **{name: step for name, step in steps.items() if step != 1},
    }
    constants = {
        **arrays.absent(),
        **{name: 1 for name, step in steps.items() if step == 1},
        "DOT": spec.dtype_constant(operand),
        "T": spec.dtype_constant(total),
        "AXES": p.rank,
        "EVEN": even,
        "BLOCK_P": tile.positions,
        "BLOCK_C": tile.channels,
        "BLOCK_K": tile.k,
        "DESCRIBED": described,
    }
    blocks = spec.cdiv(p.positions, tile.positions) * spec.cdiv(p.rows, tile.channels)
    return spec.Launch(
        "convolution:tapped",
        args,
        constants,
        (blocks * p.groups, 1, 1),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        options=tuning.matmul_options(call.vendor),
        aligned_by=("rows", "channels"),
        loose=("tap_count", *LOOSE, *(("positions",) if p.so[1] == 1 else ())),
        on_aligned=described,
    )
