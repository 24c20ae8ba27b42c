"""From call to launches: fused sections with several results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from xtarget import spec

from .elementwise import shape_of

__all__ = ["Result", "several"]


class Result(NamedTuple):
    """A result of a section.

    Attributes:
        dtype: of it.
        gives: as of `fused.section`, in a section of rows.
        places: the arguments that it is made of.
        steps: that give it alone, of these arguments.
        folds: whether a row is folded by them.
    """

    dtype: str
    gives: str
    places: tuple[int, ...]
    steps: str
    folds: bool


def several(
    whole: Callable[[spec.Call], spec.Plan],
    results: Sequence[Result],
    alone: Callable[[Result], Callable[[spec.Call], spec.Plan]],
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a section with several results: one launch where all are made of elements of one
    shape, else one for each.

    Args:
        whole: the plan of all.
        alone: the plan of one, for a call that has its arguments.
    """
    plans = [alone(result) for result in results]

    def plan(call: spec.Call) -> spec.Plan:
        given = [tuple(call.args[place] for place in result.places) for result in results]
        shape = shape_of(call, *(arg.shape for arg in call.args))
        if all(shape_of(call, *(arg.shape for arg in args)) == shape for args in given):
            return whole(call)
        outs: list[spec.ArrayType] = []
        launches: list[spec.Launch] = []
        for number, (result, args, own) in enumerate(zip(results, given, plans, strict=True)):
            goal = call.outs[number] if call.outs else None
            made = own(replace(call, args=args, out=goal, outs=()))
            outs += made.outputs
            launches += (_placed(launch, result.places, number) for launch in made.launches)
        return spec.Plan(tuple(outs), tuple(launches))

    return plan


def _placed(launch: spec.Launch, places: Sequence[int], number: int) -> spec.Launch:
    """A launch of the plan for one result, in that for all."""

    def own(argument: spec.Argument) -> spec.Argument:
        if isinstance(argument, spec.Input):
            return spec.Input(places[argument.index])
        return spec.Output(number) if isinstance(argument, spec.Output) else argument

    return replace(launch, args={name: own(arg) for name, arg in launch.args.items()})
