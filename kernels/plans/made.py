"""From call to launches: kernels of which an argument is made by operators, in the kernel or in a
launch of its own, for fused functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from xtarget import spec

from ..operators.rules import FLOATS_OF_8_BITS

__all__ = ["Made", "as_bits", "computed_first"]


class Made(NamedTuple):
    """An argument of a kernel that operators give.

    Attributes:
        steps: of the argument in its place, `a`, and of some behind the kernel's own.
        dtype: of what they give.
        place: among the kernel's own.
        count: of the arguments behind those that belong to it.
    """

    steps: str
    dtype: str
    place: int
    count: int


def as_bits(launch: spec.Launch, dtypes: Sequence[str]) -> spec.Launch:
    """A launch that takes floats of 8 bits among its arguments, of these dtypes, as their bits."""
    narrow = [
        name
        for name, own in launch.args.items()
        if isinstance(own, spec.Input) and dtypes[own.index] in FLOATS_OF_8_BITS
    ]
    return replace(launch, bits=(*launch.bits, *narrow)) if narrow else launch


def computed_first(
    call: spec.Call,
    made: Made,
    heads: int,
    first: Callable[[spec.Call], spec.Plan],
    product: Callable[[spec.Call], spec.Plan],
) -> spec.Plan:
    """The plan in which an argument of a kernel is made by a launch of its own.

    Args:
        heads: how many arguments the kernel has before those that belong to `made`.
        first: the plan of the operators that make it.
        product: that of the kernel, with what stands beside its result behind its arguments.
    """
    end = heads + made.count
    own = (made.place, *range(heads, end))
    args = tuple(call.args[place] for place in own)
    made_first = first(
        replace(call, args=args, options={}, out=None, outs=(), aligned=_aligned(call, own))
    )
    (factor,) = made_first.outputs
    left = (*range(heads), *range(end, len(call.args)))
    args = tuple(factor if place == made.place else call.args[place] for place in left)
    aligned = (*_aligned(call, left, made.place), *call.aligned[len(call.args) :])
    whole = product(replace(call, args=args, aligned=aligned))
    between = spec.Temporary(len(whole.temporaries))

    def of_steps(argument: spec.Argument) -> spec.Argument:
        if isinstance(argument, spec.Input):
            return spec.Input(own[argument.index])
        return between if isinstance(argument, spec.Output) else argument

    def of_product(argument: spec.Argument) -> spec.Argument:
        if not isinstance(argument, spec.Input):
            return argument
        return between if argument.index == made.place else spec.Input(left[argument.index])

    return replace(
        whole,
        launches=(
            *(_with(launch, of_steps) for launch in made_first.launches),
            *(_with(launch, of_product) for launch in whole.launches),
        ),
        temporaries=(*whole.temporaries, factor),
    )


def _aligned(call: spec.Call, places: tuple[int, ...], known: int = -1) -> tuple[bool, ...]:
    """Return which of some arguments begin at a multiple of 16 bytes.

    Args:
        known: the place of one that does.
    """
    if not call.aligned:
        return ()
    return tuple(place == known or call.aligned[place] for place in places)


def _with(launch: spec.Launch, change: Callable[[spec.Argument], spec.Argument]) -> spec.Launch:
    return replace(launch, args={name: change(own) for name, own in launch.args.items()})
