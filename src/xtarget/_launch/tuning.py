"""Finding out which configuration of a kernel is the fastest for a call, by launching each of them.

This happens only where somebody asks for it: by `Kernel.tune`, or for the first call of each key by
`XTARGET_TUNE=1`, as Triton's autotuner does it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._arrays import adopt, is_scalar, view_of
from .._devices import registry
from .._devices.streams import resolve
from .._kernels import configs, libraries
from .._kernels.declared_plans import CONFIG
from .._values.authoring import Config
from .._values.environment import compile_mode
from .._values.errors import ArgumentError, FrozenError, XTargetError
from .._values.types import Target
from ..spec import Call, Plan
from ..targets.base import Capturable
from . import planning
from .arguments import argument_types, check_arguments, place_of, placed
from .prepared import Prepared

__all__ = ["Trial", "Tuning", "bench", "tune", "tune_first"]

#: Seconds of launches of each measurement, and how many measurements there are.
_SECONDS, _TIMES = 0.01, 3
_MOST_LAUNCHES = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration that was tried.

    Attributes:
        seconds: of a launch; None: it cannot be built or launched.
        error: why.
    """

    number: int
    config: Config
    seconds: float | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was measured for a call.

    Attributes:
        key: the calls that it holds for.
        trials: the configurations that were tried, the fastest first.
    """

    kernel: str
    target: str
    key: str
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Config:
        return self.trials[0].config

    def __str__(self) -> str:
        lines = [f"{self.kernel} on {self.target}, {self.key}"]
        for trial in self.trials:
            took = trial.error if trial.seconds is None else f"{trial.seconds * 1e6:.1f} us"
            lines.append(f"  config={trial.number} ({trial.config}): {took}")
        return "\n".join(lines)


def tune(
    name: str, args: tuple[Any, ...], out: Any, device: Any, options: dict[str, Any]
) -> Tuning:
    """Launch each configuration for a call, and keep which is the fastest.

    Arrays that the kernel updates are copied first, and `out` is written.

    Raises:
        ArgumentError: the kernel has no configurations, one of them gives another shape, or the
            arrays' stream is captured.
        FrozenError: nothing may be compiled here.
        XTargetError: no configuration works.
    """
    kernel = libraries.find(name)
    spec = kernel.spec
    if not spec.configs or spec.tuning is None:
        raise ArgumentError(
            f"{name} has no configurations to choose from. Give them by configs=, to its decorator."
        )
    if compile_mode() == "error":
        raise FrozenError(
            f"{name} cannot be tuned: XTARGET_COMPILE=error forbids to compile its configurations. "
            "Tune it before, in a process that may; what is found is kept."
        )
    asked = _asked(name, args, device, options)
    return _tuned(asked, out, device)


def tune_first(
    name: str,
    args: tuple[Any, ...],
    out: Any,
    device: Any,
    stream: Any,
    options: dict[str, Any],
) -> None:
    """Tune for a call that is about to be made, if nothing is known of its key (`XTARGET_TUNE`).

    Neither the caller's arrays nor `out` are written. Nothing is done where a kernel may not be
    compiled, or a stream is captured: the arrays', or the one that the call names.
    """
    if options.get(CONFIG) is not None or compile_mode() == "error":
        return
    asked = _asked(name, args, device, options, stream)
    known = configs.measured(name, str(asked.target), lambda: asked.identity)
    if asked.key in known or asked.captured:
        return
    if len(asked.allowed) == 1:  # nothing to compare, as in Triton
        configs.remember(name, str(asked.target), asked.identity, asked.key, asked.allowed[0])
        return
    if out is not None:
        out = [_copied(array) for array in out] if isinstance(out, tuple) else _copied(out)
    _tuned(asked, out, device)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call whose configurations are compared."""

    kernel: libraries.RegisteredKernel
    args: tuple[Any, ...]
    options: dict[str, Any]
    views: list[Any]
    call: Call
    target: Target
    key: str
    identity: str
    allowed: tuple[int, ...]
    captured: bool


def _asked(
    name: str, args: tuple[Any, ...], device: Any, options: dict[str, Any], stream: Any = None
) -> _Asked:
    kernel = libraries.find(name)
    spec = kernel.spec
    assert spec.tuning is not None, "a kernel with configurations"
    args, options = placed(name, args, options)
    check_arguments(spec, args, options)
    options.pop(CONFIG, None)
    views = [None if a is None or is_scalar(a) else view_of(a) for a in args]
    opened = registry.open_device(place_of(spec, views, device))
    info = opened.info
    types = argument_types(spec, args, views)
    call = planning.call_of(kernel, types, options, info.target, info.compute_units)
    key, identity, allowed = spec.tuning(call)
    streams = [
        view.kind.current_stream(opened, adopt(array))
        for array, view in zip(args, views, strict=True)
        if view is not None and view.place is not None
    ]
    if stream is not None:
        streams.append(resolve(opened, stream))
    captured = any(isinstance(one, Capturable) and one.capturing() for one in streams)
    return _Asked(kernel, args, options, views, call, info.target, key, identity, allowed, captured)


def _tuned(asked: _Asked, out: Any, device: Any) -> Tuning:
    kernel, call, allowed, options = asked.kernel, asked.call, asked.allowed, asked.options
    spec = kernel.spec
    name = spec.name
    plans = {
        number: planning.make_plan(kernel, replace(call, options={**call.options, CONFIG: number}))
        for number in allowed
    }
    _check_same_results(name, spec.configs, plans)
    if asked.captured:
        raise ArgumentError(
            f"{name} cannot be tuned while its stream is captured into a graph. Tune it before."
        )
    names = [one.rstrip("?") for one in spec.inputs]
    own = tuple(
        _copied(arg) if view is not None and names[index] in spec.updates else arg
        for index, (arg, view) in enumerate(zip(asked.args, asked.views, strict=True))
    )
    trials = [
        _trial(name, number, spec.configs[number], own, out, device, {**options, CONFIG: number})
        for number in allowed
    ]
    trials.sort(key=lambda trial: (trial.seconds is None, trial.seconds))
    if trials[0].seconds is None:
        raise XTargetError(
            f"no configuration of {name} works for this call; the first: {trials[0].error}"
        )
    target = str(asked.target)
    configs.remember(name, target, asked.identity, asked.key, trials[0].number)
    for changed in libraries.on_change:
        changed(spec.name)
    return Tuning(name, target, asked.key, tuple(trials))


def bench(
    name: str, args: tuple[Any, ...], out: Any, device: Any, options: dict[str, Any]
) -> float:
    """Seconds of a launch (`Kernel.bench`)."""
    launch = Prepared(name, args, out, device, None, options)
    launch()
    return _seconds(launch)


def _check_same_results(name: str, known: Sequence[Config], plans: Mapping[int, Plan]) -> None:
    """Configurations say how, never what.

    Raises:
        ArgumentError: one changes the layout of a result.
    """

    def said(plan: Plan) -> list[str]:
        return [f"{type_.dtype} {tuple(type_.shape)}" for type_ in plan.outputs]

    first, *others = plans
    for number in others:
        here, there = said(plans[number]), said(plans[first])
        if here != there:
            raise ArgumentError(
                f"{name}: config={number} ({known[number]}) gives {', '.join(here)} where "
                f"config={first} ({known[first]}) gives {', '.join(there)}. A configuration may "
                "not change the result; make the size a flag or an argument."
            )


def _copied(array: Any) -> Any:
    """An array of its own with the same elements."""
    copy = getattr(array, "clone", None) or getattr(array, "copy", None)
    if copy is None:
        raise ArgumentError(
            f"a {type(array).__name__} has neither clone() nor copy(), so what the kernel updates "
            "in place cannot be kept while it is tuned. Give an array that has one."
        )
    return copy()


def _trial(
    name: str,
    number: int,
    config: Config,
    args: tuple[Any, ...],
    out: Any,
    device: Any,
    options: dict[str, Any],
) -> Trial:
    try:
        launch = Prepared(name, args, out, device, None, options)
        launch()
        return Trial(number, config, _seconds(launch))
    except XTargetError as error:  # a configuration may need more than the device has
        return Trial(number, config, None, str(error))


def _seconds(launch: Prepared) -> float:
    """The least time of a launch: the device's, where it is known where the launch goes."""
    wait, stream = launch.waits()
    wait()
    start = time.perf_counter()
    launch()
    wait()
    once = max(time.perf_counter() - start, 1e-7)
    count = max(1, min(_MOST_LAUNCHES, int(_SECONDS / once)))
    found = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        first = None if stream is None else stream.record()
        for _ in range(count):
            launch()
        if stream is None or first is None:
            wait()
            found.append((time.perf_counter() - start) / count)
            continue
        last = stream.record()
        last.synchronize()
        found.append(last.elapsed_ms(first) / 1e3 / count)
        first.close()
        last.close()
    return min(found)
