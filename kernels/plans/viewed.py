"""From call to launches: a kernel whose arguments are views of the caller's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from xtarget import spec

from .bits import NARROW
from .lies import SHAPES, VIEWS, regrouped
from .movement import copy_launch

__all__ = ["Steps", "viewed"]

#: Operators that give views, one after another, each with all of its options.
Steps: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]


def viewed(
    plan: Callable[[spec.Call], spec.Plan], views: Sequence[Steps]
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a kernel that reads views: other strides, in the same launches. Elements that no
    strides give in another shape are copied first.

    Args:
        plan: of the kernel.
        views: of each argument.
    """

    def seen(call: spec.Call) -> spec.Plan:
        args, copies = list(call.args), _Copies(call)
        for index, steps in enumerate(views):
            for operator, options in steps:
                args[index] = copies.view(index, args[index], operator, options)
        return copies.before(plan(replace(call, args=tuple(args))))

    return seen


class _Copies:
    """Copies of arguments that are made before a plan's launches: each copy's layout, and which
    argument it is of, with the layout of what is copied."""

    def __init__(self, call: spec.Call) -> None:
        self.call = call
        self.made: list[tuple[spec.ArrayType, int, spec.ArrayType]] = []

    def view(self, index: int, x: Any, operator: str, options: Mapping[str, Any]) -> spec.ArrayType:
        """The result of an operator on an argument, or on a view of it."""
        own = replace(self.call, args=(x,), options=options, out=None, outs=())
        if operator in VIEWS:
            shape, strides, start = VIEWS[operator](own)
            assert not start, f"{operator} begins elsewhere"
            return spec.ArrayType(x.dtype, tuple(shape), tuple(strides))
        shape = SHAPES[operator](own)
        found = regrouped(x, shape)
        if found is None:
            packed = spec.contiguous_strides(x.shape)
            self.made.append((spec.ArrayType(x.dtype, x.shape, packed), index, x))
            found = spec.contiguous_strides(shape)
        return spec.ArrayType(x.dtype, tuple(shape), found)

    def before(self, plan: spec.Plan) -> spec.Plan:
        """The plan with the copies in front, in temporaries behind its own."""
        if not self.made or not plan.launches:
            return plan
        first = len(plan.temporaries)
        launches: list[spec.Launch] = []
        held: dict[int, spec.Input | spec.Temporary] = {}
        for number, (goal, index, x) in enumerate(self.made):
            there = spec.Temporary(first + number)
            source = held.get(index, spec.Input(index))
            copies = copy_launch(self.call, source, x.shape, x.strides, goal.strides, out=there)
            if x.dtype in NARROW:
                copies = tuple(replace(launch, bits=("x", "out")) for launch in copies)
            launches += copies
            held[index] = there
        for launch in plan.launches:
            given = {
                name: held.get(own.index, own) if isinstance(own, spec.Input) else own
                for name, own in launch.args.items()
            }
            launches.append(replace(launch, args=given))
        temporaries = (*plan.temporaries, *(goal for goal, _, _ in self.made))
        return replace(plan, launches=tuple(launches), temporaries=temporaries)
