"""From call to launches: gated halves, and rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import Walk, compute_dtype, one_axis
from .layouts import broadcast_strides, broadcasts, collapse

__all__ = ["glu_backward", "halves", "rope", "walk"]


def walk(
    call: spec.Call,
    source: str,
    addresses: Mapping[str, spec.Argument],
    numbers: Mapping[str, spec.Argument],
    shape: Sequence[int],
    strides: Mapping[str, Sequence[int]],
    constants: Mapping[str, Any],
) -> spec.Launch:
    """One launch over an index space, whose kernel takes `n`, `shape`, strides, BLOCK, STEPS and
    ROWS as the elementwise ones do.

    Args:
        strides: by parameter; first those that memory is written along.
    """
    space = collapse(shape, *strides.values())
    sizes = tuning.flat(call.vendor)
    steps = Walk.of(space, sizes, general=tuning.is_general(call))
    space = steps.space
    return spec.Launch(
        source,
        {
            **addresses,
            "n": space.size,
            **numbers,
            "shape": space.lengths,
            **dict(zip(strides, space.strides, strict=True)),
        },
        {**constants, **steps.constants},
        steps.grid,
        num_warps=sizes.num_warps,
    )


def halves(
    function: Callable[[spec.Call], str], *, gate: int = 0
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a gated unit: one half of the argument along `axis` is the gate of the other.

    Args:
        function: from the call to its device function, `file:function`.
        gate: which half it is.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        axis, half, shape = _halved(call, x)
        out = call.output(shape, x.dtype)
        if not out.size:
            return spec.Plan((out,), ())
        places = (0, half * x.strides[axis])
        launch = walk(
            call,
            f"gates:halves({function(call)})",
            {"x": spec.Input(0), "out": spec.Output()},
            {"from_gate": places[gate], "from_other": places[1 - gate]},
            shape,
            {"so": out.strides, "sx": x.strides},
            {"TA": spec.dtype_constant(compute_dtype(x.dtype))},
        )
        return spec.Plan((out,), (launch,))

    return plan


def _halved(call: spec.Call, x: spec.ArrayType) -> tuple[int, int, tuple[int, ...]]:
    """The option `axis`, half of an array's length along it, and the shape of a half.

    Raises:
        ArgumentError: there are no halves.
    """
    axis = one_axis(call, x.ndim)
    if x.shape[axis] % 2:
        raise spec.ArgumentError(
            f"{call.kernel}: axis {axis} of an array of shape {x.shape} has no two halves; its "
            "length has to be even."
        )
    half = x.shape[axis] // 2
    return axis, half, tuple(half if i == axis else n for i, n in enumerate(x.shape))


def glu_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of glu, from that of its result and its argument."""
    d, x = call.array(0), call.array(1)
    axis, half, shape = _halved(call, x)
    if d.shape != shape:
        raise spec.ArgumentError(
            f"{call.kernel}: grad has shape {d.shape}; a half of x has shape {shape}."
        )
    out = call.output(x.shape, call.rules.promote(d.dtype, x.dtype))
    if not out.size:
        return spec.Plan((out,), ())
    launch = walk(
        call,
        "gates:glu_backward",
        {"d": spec.Input(0), "x": spec.Input(1), "out": spec.Output()},
        {"apart": half * x.strides[axis], "out_apart": half * out.strides[axis]},
        shape,
        {"so": out.strides, "sd": d.strides, "sx": x.strides},
        {"T": spec.dtype_constant(compute_dtype(out.dtype))},
    )
    return spec.Plan((out,), (launch,))


def _spread(call: spec.Call, index: int, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an argument that broadcasts to `shape`."""
    array = call.array(index)
    if not broadcasts(array.shape, shape):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} has shape {array.shape}, which does not broadcast to {shape}: "
            "one angle for each pair."
        )
    return broadcast_strides(array, shape)


def rope(back: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of rope, and of its gradient (`back`): pairs of the last axis are turned. They are
    an element of its first half and one of its second, or neighbours (`interleaved`).
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        if not x.ndim or x.shape[-1] % 2:
            raise spec.ArgumentError(
                f"{call.kernel}: x has shape {x.shape}; its last axis has to be of pairs, so of "
                "even length."
            )
        interleaved = call.options["interleaved"]
        half = x.shape[-1] // 2
        shape = (*x.shape[:-1], half)
        cosine = _spread(call, 1, "cos", shape)
        sine = _spread(call, 2, "sin", shape)
        out = call.output(x.shape, x.dtype)
        if not out.size:
            return spec.Plan((out,), ())

        def pairs(array: spec.ArrayType) -> tuple[tuple[int, ...], int]:
            last = array.strides[-1]
            if interleaved:
                return (*array.strides[:-1], 2 * last), last
            return array.strides, half * last

        (sx, apart), (so, out_apart) = pairs(x), pairs(out)
        launch = walk(
            call,
            "gates:rope",
            {
                "x": spec.Input(0),
                "cosine": spec.Input(1),
                "sine": spec.Input(2),
                "out": spec.Output(),
            },
            {"apart": apart, "out_apart": out_apart},
            shape,
            {"so": so, "sx": sx, "sc": cosine, "ss": sine},
            {"BACK": back, "T": spec.dtype_constant(compute_dtype(x.dtype))},
        )
        return spec.Plan((out,), (launch,))

    return plan
