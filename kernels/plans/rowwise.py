"""From call to launch: generated kernels over rows (`kernels/rowwise.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype, shape_of
from .layouts import Space, broadcast_strides, collapse
from .tuning_fused import fused_across, fused_rows

__all__ = ["rowwise"]


def rowwise(
    steps: str, results: Sequence[tuple[str, str]], written: str = ""
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a fused section over rows: the last axis of all of its arrays together.

    Args:
        steps: of the section.
        results: of each the dtype, and whether it is `wide`, `kept` or `dropped` (`fused.section`).
        written: which steps give further results, as in the kernel's text.
    """

    def plan(call: spec.Call) -> spec.Plan:
        shape = shape_of(call, *(arg.shape for arg in call.args))
        outer, n = shape[:-1], shape[-1]
        shapes = {"wide": shape, "kept": (*outer, 1), "dropped": outer}
        outs = tuple(
            call.output(shapes[gives], dtype, number)
            for number, (dtype, gives) in enumerate(results)
        )
        if not any(out.size for out in outs):
            return spec.Plan(outs, ())
        if not n:
            raise spec.ArgumentError(f"{call.kernel}: rows have no elements to reduce.")
        wide = [gives == "wide" for _, gives in results]
        return spec.Plan(outs, (_launch(call, steps, outer, n, outs, wide, written),))

    return plan


def _runs_across(rows: Space, own: tuple[tuple[int, ...], ...], n: int) -> bool:
    """Whether neighbours of no row lie side by side, and those of different rows do.

    Args:
        rows: strides of arrays from row to row.
        own: strides of the same arrays along all axes.
    """
    wide = [number for number, strides in enumerate(own) if strides[-1] != 0]
    if n == 1 or not wide or any(own[number][-1] == 1 for number in wide):
        return False
    return all(len(rows.strides[number]) <= len(rows.lengths) for number in wide)


def _launch(
    call: spec.Call,
    steps: str,
    outer: tuple[int, ...],
    n: int,
    outs: Sequence[spec.ArrayType],
    wide: Sequence[bool],
    written: str,
) -> spec.Launch:
    letters = "abcdefgh"[: len(call.args)]
    given = dict(zip(letters, call.args, strict=True))
    arrays = {a: arg for a, arg in given.items() if isinstance(arg, spec.ArrayType)}
    own = {a: broadcast_strides(arg, (*outer, n)) for a, arg in arrays.items()}
    names = ("out", "out2", "out3", "out4")[: len(outs)]
    rows = collapse(
        outer,
        *(out.strides[: len(outer)] for out in outs),
        *(strides[:-1] for strides in own.values()),
    )
    apart = {f"c{a}": strides[-1] for a, strides in own.items()}
    for name, out, is_wide in zip(names, outs, wide, strict=True):
        apart[name.replace("out", "co")] = out.strides[-1] if is_wide else 0
    # a step of 1 or 0 is a constant: neighbours are then seen to lie side by side, or to be one
    fixed = {name: step for name, step in apart.items() if step in (0, 1)}
    computed = {a: compute_dtype(arg.dtype) for a, arg in given.items()}
    sizes = fused_rows(call.vendor)
    words = 2 if any(dtype.endswith("64") for dtype in computed.values()) else 1
    held = n * words * spec.next_power_of_2(len(arrays))
    length = tuning.length_of_tile(call, n)
    across = any(not name.startswith("co") for name in apart.keys() - fixed.keys())
    across = across and rows.size >= 16
    turned = across and _runs_across(
        rows._replace(strides=rows.strides[len(outs) :]), tuple(own.values()), n
    )
    walks = turned or held > sizes.piece
    if turned:  # lanes go along the rows
        block_m = fused_across(call.vendor)
        block_n = max(1, min(sizes.step // words // block_m, length))
    elif walks:
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
        f"{'walk' if walks else 'whole'}.{''.join(arrays)}{written}|{steps}",
        {
            **{a: spec.Input(index) for index, a in enumerate(letters)},
            **{name: spec.Output(index) for index, name in enumerate(names)},
            "m": rows.size,
            "n": n,
            "shape": rows.lengths,
            **{f"s{a}": one for a, one in zip(arrays, rows.strides[len(outs) :], strict=True)},
            **{
                name.replace("out", "so"): one
                for name, one in zip(names, rows.strides[: len(outs)], strict=True)
            },
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
