"""From call to launches: attention whose scores go through operators before the softmax, for fused
functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xtarget import spec

from . import attention as plain
from .attended import Fusion, Part
from .layouts import broadcast_strides, broadcasts
from .options import heads_first

__all__ = ["scored"]


def scored(
    steps: str,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
    beside: Sequence[int],
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of attention of the first three arguments.

    Args:
        steps: of a score, `a`, and of what stands beside it, `b` to `h`.
        base, options: the operator.
        beside: what that is: the number of an argument, or -4 to -1: the number of the batch, of
            the head, of the query and of the key.
    """

    def plan(call: spec.Call) -> spec.Plan:
        given = len(call.args)
        attended = replace(
            call,
            kernel=base.name,
            args=call.args[:3],
            options=options,
            aligned=(*call.aligned[:3], *call.aligned[given:]) if call.aligned else (),
        )
        query, key = attended.array(0), attended.array(1)
        if not heads_first(attended):
            query, key = (plain.moved(array, (0, 2, 1, 3)) for array in (query, key))
        shape = (*query.shape[:-1], key.shape[-2])

        def part(which: int) -> Part:
            if which < 0:
                steps_of = tuple(int(axis == which + len(shape)) for axis in range(len(shape)))
                return Part(None, spec.ArrayType("int32", shape, steps_of))
            array = call.array(which)
            if not broadcasts(array.shape, shape):
                raise spec.ArgumentError(
                    f"{base.name}: what stands beside the scores has shape {array.shape}, which "
                    f"does not broadcast to that of the scores, {shape}."
                )
            layout = spec.ArrayType(array.dtype, shape, broadcast_strides(array, shape))
            return Part(spec.Input(which), layout)

        fusion = Fusion(
            {place: place for place in range(3)},
            tuple(arg.dtype for arg in call.args),
            {"score": steps},
            {"score": tuple(map(part, beside))},
        )
        return plain.attention(attended, fusion=fusion)

    return plan
