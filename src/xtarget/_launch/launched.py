"""A launch's function and arguments by its parameters' names, for who observes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._values.value_classes import value_class
from .sized import BoundLaunch

__all__ = ["Launched"]


@value_class(frozen=True, slots=True, eq=False)
class Launched:
    """A launch and its arguments.

    Attributes:
        values: of the call: its arrays and numbers, the results, and the layouts of memory that
            only the call uses.
    """

    launch: BoundLaunch
    values: Sequence[Any]

    def arrays(self) -> list[str]:
        """The parameters that are arrays."""
        assert self.launch.request is not None
        return [
            name
            for name, type_ in self.launch.request.signature
            if isinstance(type_, str) and type_.startswith(("*", "tensordesc"))
        ]

    def arguments(self) -> dict[str, Any]:
        """By the names of the Triton function's parameters, in their order: arrays, numbers,
        tuples of numbers, and constants.
        """
        launch = self.launch
        if launch.request is None or launch.function is None or launch.values is None:
            return {}
        order, given = iter(launch.order), {}
        parameters = launch.function.artifact.parameters
        for parameter, fixed in zip(parameters, launch.values, strict=True):
            place = next(order) if fixed is None else -1
            given[parameter.name] = self.values[place] if place >= 0 else fixed
        constants = dict(launch.request.constants)
        return {
            name: tuple(given.get(f"{name}.{number}") for number in range(len(type_)))
            if isinstance(type_, tuple)
            else constants.get(name, given.get(name))
            for name, type_ in launch.request.signature
        }
