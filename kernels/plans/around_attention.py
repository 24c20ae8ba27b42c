"""From call to launches: attention with the operators that give its arrays and those that follow,
for fused functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from xtarget import spec

from . import attention as plain
from . import hopper_attention, tuning
from .attended import Fusion, Part
from .elementwise import shape_of
from .layouts import broadcast_strides
from .made import Made, computed_first
from .outer_attention import WORTH
from .stored import inner_call, own_arguments, placed, stored_through

__all__ = ["around_attention"]

_Plan = Callable[[spec.Call], spec.Plan]
#: What makes attention's arrays, by their places.
_KINDS: Final = ("query", "key", "value")
#: Queries that read a key, up to which it may be made as it is read: two tiles.
_MOST_READERS: Final = 256
#: Where a kernel of its own serves most calls, which goes on in no other operators.
_OWN_KERNEL: Final = "hopper_attention:attention"


def around_attention(
    steps: str,
    result: str,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
    places: Sequence[int],
    heads: Sequence[tuple[Made, _Plan]],
) -> _Plan:
    """The plan of attention of the first arguments.

    Args:
        steps: of the result, `a`, and of what stands beside it, `c` to `f`, the last arguments;
            none: it is stored as it is.
        result: dtype of what they give.
        base, options: the operator.
        places: of the first arguments among the operator's own.
        heads: which of the first arguments operators give, each with the plan of these alone. What
            belongs to one stands behind the first arguments and what belongs to those before.
    """

    def plan(call: spec.Call) -> spec.Plan:
        attended = _inner(call, base, options, places, heads)
        first = base.plan(attended)
        made = first.outputs[0]
        begin = len(places) + sum(one.count for one, _ in heads)
        whole = shape_of(call, made.shape, *(arg.shape for arg in call.args[begin:]))
        fits = whole == made.shape and len(first.launches) > 0 and not _has_own_kernel(attended)
        behind = len(places)
        for number, (one, alone) in enumerate(heads):
            if not (fits and _reads(call, one, places, behind, attended)):
                left = (*heads[:number], *heads[number + 1 :])
                others = around_attention(steps, result, base, options, places, left)
                return computed_first(call, one, behind, alone, others)
            behind += one.count
        if not fits or not (steps or heads):
            own = base
            if _has_own_kernel(attended):
                own = replace(base, plan=_by_own_kernel(base.name))
            if steps:
                return stored_through(steps, result, own, options, places)(call)
            found = own.plan(replace(attended, out=call.output(whole, result)))
            launches = (placed(one, places, spec.Output()) for one in found.launches)
            return replace(found, launches=tuple(launches))
        out = call.output(whole, result)
        goal = replace(out, dtype=made.dtype)
        found = _planned(base.name)(
            replace(attended, out=goal),
            fusion=_fusion(call, steps, out, attended, places, heads, begin),
        )
        return replace(found, outputs=(out,))

    return plan


def _inner(
    call: spec.Call,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
    places: Sequence[int],
    heads: Sequence[tuple[Made, _Plan]],
) -> spec.Call:
    """The call of attention itself. What operators give lies as the array in whose place it is."""
    own, aligned = own_arguments(call, places)
    behind = len(places)
    for made, _ in heads:
        place = places[made.place]
        beside = call.args[behind : behind + made.count]
        shape = shape_of(call, own[place].shape, *(arg.shape for arg in beside))
        strides = own[place].strides
        strides = strides if own[place].shape == shape else spec.contiguous_strides(shape)
        own[place] = spec.ArrayType(made.dtype, shape, strides)
        aligned[place] = True  # it is computed first where that matters
        behind += made.count
    rest = call.aligned[len(call.args) :]
    return inner_call(call, base, options, own, (*aligned, *(rest or (True,))))


def _planned(name: str) -> Callable[..., spec.Plan]:
    return plain.attention if name == "attention" else plain.multi_head


def _by_own_kernel(name: str) -> _Plan:
    return hopper_attention.attention if name == "attention" else hopper_attention.multi_head


def _has_own_kernel(attended: spec.Call) -> bool:
    """Whether a kernel of its own serves attention here, faster than what is fused."""
    if f"{attended.vendor}:{attended.arch}" != "nvidia:sm_90":
        return False
    launches = _by_own_kernel(attended.kernel)(attended).launches
    return any(launch.source == _OWN_KERNEL for launch in launches)


def _reads(
    call: spec.Call, made: Made, places: Sequence[int], behind: int, attended: spec.Call
) -> bool:
    """Whether attention makes one of its arrays as it reads it."""
    place = places[made.place]
    first = call.args[made.place]
    if first.shape != attended.args[place].shape:
        return False
    if call.vendor == "nvidia" and made.dtype == "float64":
        # its matrix units take no float64 that less than 4 bytes have been beside (Triton 3.6)
        beside = (first, *call.args[behind : behind + made.count])
        if any(spec.ArrayType(arg.dtype, (), ()).itemsize < 4 for arg in beside):
            return False
    query, key = attended.array(0), attended.array(1)
    axis = -2 if attended.kernel != "attention" or attended.options["layout"] == "bhsd" else -3
    if tuning.outer_products(call.vendor):
        # arrays are copied, but queries that are what is computed in
        copied = place > 0 or made.dtype in ("float16", "bfloat16")
        return bool(copied or query.shape[axis] < WORTH)
    if place == 0:
        return True
    own = attended.options.get("heads") or 1
    keys = attended.options.get("kv_heads") or own
    rows = own * query.size // max(query.shape[-1], 1)
    of_keys = keys * key.size // max(key.shape[-1] * key.shape[axis], 1)
    return bool(rows <= _MOST_READERS * of_keys)


def _fusion(
    call: spec.Call,
    steps: str,
    out: spec.ArrayType,
    attended: spec.Call,
    places: Sequence[int],
    heads: Sequence[tuple[Made, _Plan]],
    begin: int,
) -> Fusion:
    def parts(first: int, count: int, shape: Sequence[int]) -> tuple[Part, ...]:
        found = []
        for index in range(first, first + count):
            arg = call.args[index]
            if isinstance(arg, spec.ArrayType):
                arg = spec.ArrayType(arg.dtype, tuple(shape), broadcast_strides(arg, shape))
            found.append(Part(spec.Input(index), arg))
        return tuple(found)

    texts, beside, behind = {}, {}, len(places)
    for made, _ in heads:
        place = places[made.place]
        texts[_KINDS[place]] = made.steps
        beside[_KINDS[place]] = parts(behind, made.count, attended.args[place].shape)
        behind += made.count
    if steps:
        texts["out"] = steps
        beside["out"] = parts(begin, len(call.args) - begin, out.shape)
    return Fusion(
        {place: index for index, place in enumerate(places)},
        tuple(arg.dtype for arg in call.args),
        texts,
        beside,
    )
