"""A convolution as launches: which of the ways is taken, and that of few channels."""

from __future__ import annotations

import math

from xtarget import spec

from . import tuned, tuning, tuning_windows
from .elementwise import compute_dtype
from .phases import apart, divides
from .pointwise import is_pointwise, pointwise
from .problems import KINDS, Operands, Problem
from .shifted import shifted
from .tapped import tapped, worth_taps

__all__ = ["convolved"]


def convolved(call: spec.Call, problem: Problem, arrays: Operands) -> list[spec.Launch]:
    """The launches of a convolution."""
    if is_pointwise(problem, arrays) and min(problem.rows, problem.channels) > 1:
        return pointwise(call, problem, arrays)
    if worth_taps(call, problem):
        return tapped(call, problem, arrays)
    if tuning.outer_products(call.vendor) and divides(problem):
        return shifted(call, problem, arrays)
    return [_launch(call, one, arrays) for one in apart(problem)]


def _launch(call: spec.Call, p: Problem, arrays: Operands) -> spec.Launch:
    """One launch, where every element is reached by an address of its own."""
    dtype, total = arrays.dtype, compute_dtype(arrays.dtype)
    positions = p.positions
    products = p.channels * math.prod(p.kernel)
    numbers: dict[str, spec.Argument] = {
        **p.numbers(),
        "up": p.up or (1, 1, 1),
        "sx": p.sx,
        "sw": p.sw,
        "so": p.so,
    }
    constants = {**arrays.absent(), "SPREAD": p.up is not None, "T": spec.dtype_constant(total)}
    if tuning.outer_products(call.vendor) or min(p.rows, products) < tuning_windows.LEAST:
        channels, width, warps = tuning_windows.direct_tile(call.vendor, p.rows)
        source, stages, options = "direct", 2, {}
    else:
        usual = tuning_windows.tile(
            call.vendor, KINDS[dtype], p.rows, positions, p.groups, call.compute_units
        )
        sizes = {"rows": p.rows, "positions": positions, "products": products, "groups": p.groups}
        tile = tuned.windows(call, "implicit", usual, sizes, dtype)
        channels, width, warps, stages = (
            tile.channels, tile.positions, tile.num_warps, tile.num_stages
        )  # fmt: skip
        source, options = "implicit", dict(tuning.matmul_options(call.vendor))
        operand = dtype if call.vendor in tuning.MATRIX_UNITS else total
        constants |= {"DOT": spec.dtype_constant(operand), "BLOCK_K": tile.k}
    return spec.Launch(
        f"convolution:{source}",
        {**arrays.given(), **numbers},
        {**constants, "BLOCK_C": channels, "BLOCK_P": width},
        (spec.cdiv(positions, width) * spec.cdiv(p.rows, channels) * p.groups, 1, 1),
        num_warps=warps,
        num_stages=stages,
        options=options,
        loose=tuple(numbers),
    )
