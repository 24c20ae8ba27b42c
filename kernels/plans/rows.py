"""From call to launches: kernels over rows (softmax and the norms)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xtarget import spec

from . import choices, tuned, tuning
from .elementwise import compute_dtype, normal_axes
from .layouts import collapse, is_huge, widened, without_axes

__all__ = ["layer_norm", "log_softmax", "rms_norm", "softmax", "softmin"]

#: Elements of a step along a short row of a huge array, where few kernels serve all.
_SHORT = 256


def _launch(
    call: spec.Call,
    source: str,
    x: spec.ArrayType,
    out: spec.ArrayType,
    axis: int,
    args: Mapping[str, spec.Argument],
    constants: Mapping[str, Any],
    *,
    walks: bool = False,
) -> spec.Launch:
    """The launch of `source`, or of `source`_long where a row is too long for one piece.

    Args:
        walks: there is `source`_walk too, for devices that read a row again at little cost; and it
            is exact enough if one lane adds a row's elements one after the other.

    `x` and `out` have the same shape and are not empty.
    """
    n, cx, co = x.shape[axis], x.strides[axis], out.strides[axis]
    rows = collapse(*(without_axes(v, (axis,)) for v in (x.shape, out.strides, x.strides)))
    so, sx = rows.strides
    dtype = compute_dtype(out.dtype)
    wide = 2 if dtype == "float64" else 1
    # where rows are closer to each other than the elements of a row, lanes go across rows
    across = abs(cx) != 1 and len(sx) == len(rows.lengths) and rows.size > 1
    general = tuning.is_general(call)
    huge = general and is_huge(x.size)
    side_by_side = cx == 1 and co == 1 and len(so) == len(rows.lengths) + 1
    plain = not general or (side_by_side and not rows.lengths and not huge)
    if not plain:  # two kernels for all such: rows as elements of a row are, or anywhere
        across = across and not huge and not rows.lengths and not so
        rows = rows if across else widened(rows, (4, 8), full=True)
        so, sx = rows.strides
    sizes = tuned.rows(call, source, n, rows.size, x.itemsize, across=across)
    columns = sizes.columns if walks and across and rows.size >= 16 else 0
    long = n * wide > sizes.piece or columns > 0 or huge
    whole = tuning.coarse(n, quarters=not plain) if general else spec.next_power_of_2(n)
    if general and not long:
        whole = min(whole, sizes.piece // wide)
    if huge:
        whole = sizes.step // wide if n > _SHORT else _SHORT
    block_n = min(sizes.step // wide, whole) if long else whole
    want_m = max(sizes.tile // wide // block_n, 16 if across else 1)
    # the same for few rows as for many, so that one kernel serves both; a long one is work
    block_m = want_m
    if long and not huge:
        block_m = sizes.together if rows.size >= sizes.together else 1
    if columns:
        block_m, block_n = max(16, tuning.columns(rows.size, columns) // wide), 1
    elif across and long:
        block_m = 16
        wanted = max(sizes.step, sizes.tile) // wide
        block_n = max(1, min(wanted, whole) // block_m)
    tile = block_m * block_n * wide
    while tile > max(sizes.piece, sizes.tile) and block_m > 1:
        block_m, tile = block_m // 2, tile // 2
    warps = min(sizes.max_warps, max(1, spec.next_power_of_2(tile // sizes.per_warp)))
    group: dict[str, Any] = {}
    if walks and long and not sizes.walks:
        found = None if across or not plain else _measured(call, x, n, rows.size)
        group = {"GROUP": 1}
        if found is not None:
            block_m, (block_n, group["GROUP"], warps) = 1, found.config
            long = found.text.get("way") != "whole"
            group = group if long else {}
    elif long and (sizes.walks or not walks):
        group = {"APART": sizes.walks and not across}
    loose = ("n", "shape") if across else ("m", "shape")
    if not across and co != 1:  # stores apart from each other are made one by one, wherever
        loose += ("so", "co")
    # a stride of 1 is a constant, so that neighbours are seen to lie side by side
    steps = {"cx": cx, "co": co}
    fixed = {name: 1 for name, step in steps.items() if step == 1 and plain}
    aligned_by = tuning.aligned_by(call.vendor, "n")
    if not plain:
        aligned_by = ()
    elif across:
        aligned_by = tuning.aligned_by(call.vendor, across=("m",))
    return spec.Launch(
        f"{source}{('_walk' if walks and sizes.walks else '_long') if long else ''}",
        {
            "x": spec.Input(0),
            "out": spec.Output(),
            "m": rows.size,
            "n": n,
            "shape": rows.lengths,
            "sx": sx,
            "so": so,
            **{name: step for name, step in steps.items() if name not in fixed},
            **args,
        },
        {
            **fixed,
            **constants,
            "T": spec.dtype_constant(dtype),
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            **group,
        },
        (spec.cdiv(rows.size, block_m), 1, 1),
        num_warps=warps,
        aligned_by=aligned_by,
        loose=loose,
    )


def _measured(call: spec.Call, x: spec.ArrayType, n: int, rows: int) -> choices.Row | None:
    """How a long softmax was found to be the fastest: columns of a step, elements of each, warps;
    `whole`: there is one step.
    """
    for row in choices.rows(call.vendor, call.arch, "softmax of long rows"):
        if row.text["bytes"] == str(x.itemsize) and row.holds(n=n, rows=rows):
            return row
    return None


def softmax(call: spec.Call) -> spec.Plan:
    """The plan of softmax along the option `axis`."""
    return _softmax(call)


def log_softmax(call: spec.Call) -> spec.Plan:
    """The plan of log_softmax along the option `axis`."""
    return _softmax(call, LOG=True)


def softmin(call: spec.Call) -> spec.Plan:
    """The plan of softmin along the option `axis`."""
    return _softmax(call, NEGATE=True)


def _softmax(call: spec.Call, *, LOG: bool = False, NEGATE: bool = False) -> spec.Plan:
    x = call.array(0)
    axes = normal_axes(call, call.options["axis"], x.ndim, several=False)
    out = call.output(x.shape, x.dtype)
    if len(axes) != 1:
        raise spec.ArgumentError(
            f"{call.kernel}: axis is {call.options['axis']!r} for an array of shape "
            f"{x.shape}; it has to be one axis. Reshape the array where several are meant."
        )
    if not out.size:
        return spec.Plan((out,), ())
    constants = {"LOG": LOG, "NEGATE": NEGATE}
    launch = _launch(call, "softmaxes:softmax", x, out, axes[0], {}, constants, walks=True)
    return spec.Plan((out,), (launch,))


def layer_norm(call: spec.Call) -> spec.Plan:
    """The plan of layer_norm over the last axis, with or without weight and bias."""
    return _norm(call, "normalization:layer_norm", ("weight", "bias"))


def rms_norm(call: spec.Call) -> spec.Plan:
    """The plan of rms_norm over the last axis, with or without weight; eps None: as torch, that of
    float64 or float32, in which half types are computed.
    """
    return _norm(call, "normalization:rms_norm", ("weight",))


def _norm(call: spec.Call, source: str, parameters: tuple[str, ...]) -> spec.Plan:
    x = call.array(0)
    if not x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: x has no dimension to normalize; it needs at least one."
        )
    n = x.shape[-1]
    places = [place for place in range(1, len(call.args)) if call.args[place] is not spec.ABSENT]
    given = {parameters[place - 1]: place for place in places}
    args: dict[str, spec.Argument] = {}
    constants: dict[str, Any] = {}
    for name in parameters:
        stride = f"s{name[0]}"
        if name not in given:
            constants |= {name: None, stride: 0}
            continue
        array = call.array(given[name])
        if array.shape != (n,):
            raise spec.ArgumentError(
                f"{call.kernel}: {name} has shape {array.shape}, but x has shape {x.shape}: "
                f"{name} needs shape ({n},), one element for each of the last axis."
            )
        args[name] = spec.Input(given[name])
        if array.strides[0] == 1:
            constants[stride] = 1
        else:
            args[stride] = array.strides[0]
    out = call.output(x.shape, call.rules.promote(*(arg.dtype for arg in call.args)))
    if not out.size:
        return spec.Plan((out,), ())
    eps = call.options["eps"]
    if eps is None:
        eps = 2.0**-52 if out.dtype == "float64" else 2.0**-23
    args["eps"] = spec.Scalar(float(eps), compute_dtype(out.dtype))
    return spec.Plan((out,), (_launch(call, source, x, out, x.ndim - 1, args, constants),))
