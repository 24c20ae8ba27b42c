"""From call to launches: losses of rows, each, or their sum or mean."""

from __future__ import annotations

from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype, one_axis
from .entropy import reduction_option, rows_reduced
from .folds import is_floating
from .gradients import alike, rows_launch
from .layouts import collapse

__all__ = ["cosine_distance", "ctc", "pairwise"]


def cosine_distance(call: spec.Call) -> spec.Plan:
    """The plan of cosine_distance_loss: 1 - the sum of the products along the option `axis`."""
    x, y = alike(call, "x", "y")
    axis = one_axis(call, x.ndim)
    dtype = call.rules.promote(x.dtype, y.dtype)
    shape = tuple(1 if at == axis else n for at, n in enumerate(x.shape))

    def launch(out: spec.Output | spec.Temporary, layout: spec.ArrayType) -> spec.Launch:
        rows = spec.ArrayType(layout.dtype, *_without(layout, axis))
        return rows_launch(
            call,
            "row_losses:cosine_distance",
            {"x": spec.Input(0), "y": spec.Input(1), "out": out},
            {"x": x, "y": y},
            axis,
            compute_dtype(dtype),
            beside={"o": rows},
        )

    return rows_reduced(call, shape, dtype, launch)


def _without(array: spec.ArrayType, axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides without an axis."""
    return (
        (*array.shape[:axis], *array.shape[axis + 1 :]),
        (*array.strides[:axis], *array.strides[axis + 1 :]),
    )


def pairwise(call: spec.Call) -> spec.Plan:
    """The plan of mean_pairwssqerr_loss: of each sample (axis 0), all other axes are one row."""
    x, y = alike(call, "x", "y")
    if not x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: x has no dimension; it needs one of the samples, and others."
        )
    dtype = call.rules.promote(x.dtype, y.dtype)
    inner = collapse(x.shape[1:], x.strides[1:], y.strides[1:])
    sizes = tuning.rows(call.vendor)
    block = min(sizes.step, tuning.length_of_tile(call, inner.size))

    def launch(out: spec.Output | spec.Temporary, layout: spec.ArrayType) -> spec.Launch:
        return spec.Launch(
            "row_losses:pairwise",
            {
                "x": spec.Input(0),
                "y": spec.Input(1),
                "out": out,
                "n": 0 if 0 in x.shape else inner.size,
                "step_x": x.strides[0],
                "step_y": y.strides[0],
                "step_out": layout.strides[0],
                **inner.named("sx", "sy"),
            },
            {"T": spec.dtype_constant(compute_dtype(dtype)), "BLOCK": block},
            (x.shape[0], 1, 1),
            num_warps=min(sizes.max_warps, max(1, block // sizes.per_warp)),
        )

    return rows_reduced(call, x.shape[:1], dtype, launch)


def _lengths(call: spec.Call, place: int, samples: tuple[int, ...]) -> int:
    """The step of an argument with an integer for each sample."""
    given = call.array(place)
    name = ("input_lengths", "target_lengths")[place - 2]
    if given.dtype not in ("int32", "int64"):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {given.dtype}; it has to be int32 or int64."
        )
    if given.shape != samples and given.shape != (samples or (1,)):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} has shape {given.shape}; with these log-probabilities it needs "
            f"{samples}, a number for each sample."
        )
    return given.strides[0] if given.ndim else 0


def ctc(call: spec.Call) -> spec.Plan:
    """The plan of ctc_loss, as torch's: one block a sample."""
    x, target = call.array(0), call.array(1)
    if x.ndim not in (2, 3):
        raise spec.ArgumentError(
            f"{call.kernel}: log_probs has shape {x.shape}; it needs (steps, samples, classes), or "
            "(steps, classes) of one sample."
        )
    if not is_floating(x.dtype):
        raise spec.ArgumentError(f"{call.kernel}: log_probs is {x.dtype}; it has to be floating.")
    if target.dtype not in ("int32", "int64"):
        raise spec.ArgumentError(
            f"{call.kernel}: targets is {target.dtype}; labels are int32 or int64."
        )
    samples = x.shape[1:2] if x.ndim == 3 else ()
    steps, count, classes = x.shape[0], (x.shape[1] if samples else 1), x.shape[-1]
    packed = target.ndim == 1
    if not packed and (target.ndim != 2 or target.shape[0] != count):
        raise spec.ArgumentError(
            f"{call.kernel}: targets has shape {target.shape}; it needs ({count}, labels), or one "
            "dimension with the labels of all samples one after the other."
        )
    si, sl = _lengths(call, 2, samples), _lengths(call, 3, samples)
    blank = call.options["blank"]
    if isinstance(blank, bool) or not isinstance(blank, int) or not 0 <= blank < classes:
        raise spec.ArgumentError(
            f"{call.kernel}: blank is {blank!r}; it is a class, from 0 to {classes - 1}."
        )
    computed = compute_dtype(x.dtype)
    room = 2 * target.shape[-1] + 1
    block = min(64 if tuning.outer_products(call.vendor) else 256, spec.next_power_of_2(room))
    memory = spec.ArrayType(computed, (count, 2, room), (2 * room, room, 1))
    numbers: dict[str, Any] = {
        "steps": steps,
        "classes": classes,
        "longest": target.shape[-1],
        "blank": spec.Scalar(blank, "int64"),
        "room": room,
        "xt": x.strides[0],
        "xn": x.strides[1] if samples else 0,
        "xc": x.strides[-1],
        "tn": 0 if packed else target.strides[0],
        "ts": target.strides[-1],
        "si": si,
        "sl": sl,
    }

    def launch(out: spec.Output | spec.Temporary, layout: spec.ArrayType) -> spec.Launch:
        return spec.Launch(
            "row_losses:ctc",
            {
                "x": spec.Input(0),
                "target": spec.Input(1),
                "inputs": spec.Input(2),
                "targets": spec.Input(3),
                "alpha": spec.Temporary(0),
                "out": out,
                **numbers,
                "step_out": layout.strides[0] if layout.ndim else 0,
            },
            {
                "PACKED": packed,
                "INFINITY": not call.options["zero_infinity"],
                "EACH": reduction_option(call) == "mean",
                "T": spec.dtype_constant(computed),
                "BLOCK": block,
            },
            (count, 1, 1),
            num_warps=max(1, block // 64),
        )

    return rows_reduced(call, samples, x.dtype, launch, memory)
