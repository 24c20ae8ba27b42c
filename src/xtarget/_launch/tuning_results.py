"""The question that a tuner answers for a call, and its answer: the configurations with times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._arrays import View
from .._kernels import libraries, tunings
from .._values.types import CompileRequest, DeviceInfo
from .._values.value_classes import value_class
from ..spec import ArrayType, Call, Plan, ScalarType
from ..targets.base import Device
from . import planning
from .specializing import requests

__all__ = ["NOT_TRIED", "Asked", "Show", "Trial", "Tuning"]

if TYPE_CHECKING:
    from .._values.aliases import Options


#: Told with what is done, the number of all, and what is tried now.
Show = Callable[[int, int, str], None]

#: How the error begins of a choice that a model put behind others.
NOT_TRIED: Final = "not tried"


@value_class(frozen=True, slots=True)
class Trial:
    """A configuration that was tried.

    Attributes:
        config: a `Config`, or the named numbers of a kernel of our library.
        seconds: of a launch, the median; None: it was dropped.
        error: why.
        lower, upper: quartiles, seconds.
        kept: the result is of an earlier tuning.
    """

    number: int
    config: Any
    seconds: float | None
    error: str = ""
    text: str = ""
    lower: float = 0.0
    upper: float = 0.0
    kept: bool = False


@value_class(frozen=True, slots=True)
class Tuning:
    """The measurements for a call.

    Attributes:
        key: the calls that it holds for.
        trials: the configurations that were tried, the fastest first.
        stored: whether it is kept; `note` says why not.
        interrupted: Ctrl-C ended it; what was measured is kept.
        more: of further choices of the same call.
    """

    kernel: str
    target: str
    key: str
    trials: tuple[Trial, ...]
    stored: bool = True
    note: str = ""
    interrupted: bool = False
    more: tuple[Tuning, ...] = ()

    @property
    def best(self) -> Any:
        return self.trials[0].config

    @property
    def dropped(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.seconds is None)

    def __str__(self) -> str:
        lines = [f"{self.kernel} on {self.target}, {self.key}"]
        for trial in self.trials:
            took = trial.error if trial.seconds is None else f"{trial.seconds * 1e6:.1f} us"
            lines.append(f"  config={trial.number} ({trial.text}): {took}")
        return "\n".join([*lines, *map(str, self.more)])


@value_class(frozen=True, slots=True)
class Asked:
    """A call whose configurations are compared.

    Attributes:
        questions: of its plan, each with two answers or more.
    """

    kernel: libraries.RegisteredKernel
    args: tuple[Any, ...]
    options: Options
    views: list[View | None]
    types: Sequence[ArrayType | ScalarType]
    call: Call
    device: Device
    questions: tuple[tunings.Served, ...]
    captured: bool

    @property
    def info(self) -> DeviceInfo:
        return self.device.info

    def planned(self, taken: Mapping[str, Any]) -> tuple[Plan, list[CompileRequest]]:
        """The plan with some choices, by table, and the binaries that it needs."""
        with tunings.trying(taken):
            plan = planning.make_plan(self.kernel, self.call)
        aligned = [view is not None and view.address % 16 == 0 for view in self.views]
        found = requests(self.kernel, plan, self.types, aligned)
        return plan, [request for launch, request, _ in found if 0 not in launch.grid]
