"""The part of a call's binding that all calls of its class share: loaded functions, dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._values.types import CompileRequest, LaunchConfig
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets._objects.scalars import NEAREST
from ..targets.base import Function, Stream, Value
from .overlap import Overlaps
from .sized import BoundLaunch, Sized

__all__ = ["Form", "LoadedLaunch", "overlaps_of", "sized"]

_Shape = tuple[int, ...]


@value_class(frozen=True, slots=True)
class LoadedLaunch:
    """A launch that only lacks its grid and the values that depend on sizes.

    Attributes:
        order: for each dynamic value, its place in the call's values; -1, -2... are scratch.
        halves: places in `order` of numbers that mean a half precision, and which: they are
            rounded to it.
        function: None while it is not loaded.
        request: what the function is loaded for.
    """

    function: Function | None
    order: tuple[int, ...]
    halves: tuple[tuple[int, str], ...]
    request: CompileRequest

    @property
    def loaded(self) -> Function:
        assert self.function is not None
        return self.function

    def bound(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Value | None],
        scratch: tuple[int, ...],
    ) -> BoundLaunch:
        function = self.loaded
        prepared = function.prepare(LaunchConfig(grid), values)
        if not self.halves:
            return BoundLaunch(
                prepared, self.order, scratch, function, grid, values, (), self.request
            )
        halves = [(place, NEAREST[dtype]) for place, dtype in self.halves]

        def launch(given: Sequence[Value], stream: Stream) -> None:
            own = list(given)
            for place, nearest in halves:
                own[place] = nearest(own[place])
            prepared(own, stream)

        return BoundLaunch(
            launch, self.order, scratch, function, grid, values, self.halves, self.request
        )


@value_class(frozen=True, slots=True)
class Form:
    """The part of a call's binding that all calls of a class share.

    Attributes:
        outputs, temporaries: their dtypes.
        spans: the arguments whose spans are given.
    """

    outputs: tuple[str, ...]
    temporaries: tuple[str, ...]
    launches: tuple[LoadedLaunch, ...]
    spans: tuple[int, ...]


def sized(form: Form, numbers: Any, types: Callable[[], Sequence[tuple[Any, Any]]]) -> Sized:
    """The part of a bound call that depends on sizes.

    Args:
        numbers: (outputs, temporaries, launches, overlaps, spans, bytes of the temporaries):
            layouts as (shape, strides), launches as (grid, values, scratch), spans as (low, high).
        types: gives the pairs of layouts that must not overlap.
    """
    outputs, temporaries, launches, overlaps, spans, _ = numbers
    return Sized(
        tuple(map(ArrayType, form.outputs, *_columns(outputs))),
        tuple(map(ArrayType, form.temporaries, *_columns(temporaries))),
        tuple(
            loaded.bound(*values) for loaded, values in zip(form.launches, launches, strict=True)
        ),
        overlaps_of(overlaps, types),
        dict(zip(form.spans, spans, strict=True)),
    )


def overlaps_of(
    limits: Sequence[tuple[int, int]], types: Callable[[], Sequence[tuple[Any, Any]]]
) -> tuple[tuple[int, int, Overlaps], ...]:
    """`Sized.overlaps`."""
    return tuple(
        [
            (low, high, Overlaps(partial(_pair, types, number)))
            for number, (low, high) in enumerate(limits)
        ]
    )


def _columns(layouts: Sequence[tuple[_Shape, _Shape]]) -> tuple[list[_Shape], list[_Shape]]:
    return [shape for shape, _ in layouts], [strides for _, strides in layouts]


def _pair(
    types: Callable[[], Sequence[tuple[Any, Any]]], number: int
) -> tuple[ArrayType, ArrayType]:
    first, second = types()[number]
    return ArrayType(*first), ArrayType(*second)
