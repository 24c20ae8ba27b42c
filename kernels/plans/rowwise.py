"""From call to launch: generated kernels over rows (`kernels/rowwise.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype, shape_of
from .layouts import broadcast_strides, collapse
from .tuning_fused import fused_rows

__all__ = ["rowwise"]


def rowwise(steps: str, result: str, gives: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a fused section over rows: the last axis of all of its arrays together.

    Args:
        steps: of the section.
        result: dtype of what it gives.
        gives: `wide`, `kept` or `dropped` (`fused.section`).
    """

    def plan(call: spec.Call) -> spec.Plan:
        shape = shape_of(call, *(arg.shape for arg in call.args))
        outer, n = shape[:-1], shape[-1]
        out = call.output({"wide": shape, "kept": (*outer, 1), "dropped": outer}[gives], result)
        if not out.size:
            return spec.Plan((out,), ())
        if not n:
            raise spec.ArgumentError(f"{call.kernel}: rows have no elements to reduce.")
        return spec.Plan((out,), (_launch(call, steps, outer, n, out, gives),))

    return plan


def _launch(
    call: spec.Call, steps: str, outer: tuple[int, ...], n: int, out: spec.ArrayType, gives: str
) -> spec.Launch:
    letters = "abcdefgh"[: len(call.args)]
    given = dict(zip(letters, call.args, strict=True))
    arrays = {a: arg for a, arg in given.items() if isinstance(arg, spec.ArrayType)}
    own = {a: broadcast_strides(arg, (*outer, n)) for a, arg in arrays.items()}
    rows = collapse(outer, out.strides[: len(outer)], *(strides[:-1] for strides in own.values()))
    apart = {f"c{a}": strides[-1] for a, strides in own.items()}
    apart["co"] = out.strides[-1] if gives == "wide" else 0
    # a step of 1 or 0 is a constant: neighbours are then seen to lie side by side, or to be one
    fixed = {name: step for name, step in apart.items() if step in (0, 1)}
    computed = {a: compute_dtype(arg.dtype) for a, arg in given.items()}
    sizes = fused_rows(call.vendor)
    words = 2 if any(dtype.endswith("64") for dtype in computed.values()) else 1
    held = n * words * spec.next_power_of_2(len(arrays))
    length = tuning.length_of_tile(call, n)
    across = any(name != "co" for name in apart.keys() - fixed.keys()) and rows.size >= 16
    walks = held > sizes.piece
    if walks:
        block_n = min(sizes.step // words, length)
        block_m = 16 if across else 1
        block_n = max(1, block_n // block_m)
    else:
        block_n = length
        block_m = max(1, sizes.tile // words // block_n)
    constants: dict[str, Any] = {
        f"T{a.upper()}": spec.dtype_constant(t) for a, t in computed.items()
    }
    constants |= {f"s{a}": spec.dtype_constant(given[a].dtype) for a in given if a not in arrays}
    if walks:
        constants["TURN"] = tuning.in_turn(call.vendor) * block_n
    return spec.Launch(
        f"{'walk' if walks else 'whole'}.{''.join(arrays)}|{steps}",
        {
            **{a: spec.Input(index) for index, a in enumerate(letters)},
            "out": spec.Output(),
            "m": rows.size,
            "n": n,
            "shape": rows.lengths,
            **{f"s{a}": one for a, one in zip(arrays, rows.strides[1:], strict=True)},
            "so": rows.strides[0],
            **{name: step for name, step in apart.items() if name not in fixed},
        },
        {**fixed, **constants, "BLOCK_M": block_m, "BLOCK_N": block_n},
        (spec.cdiv(rows.size, block_m), 1, 1),
        num_warps=min(
            sizes.max_warps,
            max(1, spec.next_power_of_2(block_m * block_n * words // sizes.per_warp)),
        ),
        aligned_by=tuning.aligned_by(call.vendor, "n"),
        loose=("m", "shape"),
    )
