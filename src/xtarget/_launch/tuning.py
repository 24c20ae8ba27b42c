"""Find out which configuration of a kernel is the fastest for a call, by launching each of them.

This happens only where somebody asks for it: by `Kernel.tune` and `xtarget tune`, or for the first
call of each key by `XTARGET_TUNE=1`, as Triton's autotuner does it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._arrays import adopt, is_scalar, view_of
from .._devices import registry
from .._devices.streams import resolve
from .._kernels import libraries, tunings
from .._values.choosing import CONFIG
from .._values.environment import compile_mode
from .._values.errors import ArgumentError, FrozenError
from ..spec import ArrayType
from ..targets.optional import Capturable
from . import planning
from .arguments import argument_types, check_arguments, place_of, placed
from .prepared import Prepared
from .trials import copied, seconds_of
from .tuning_results import Asked, Show, Tuning
from .tuning_search import Search

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from .._executors.opening import Given
    from .._values.aliases import Args, Options

__all__ = ["bench", "tune", "tune_first"]


def tune(
    name: str,
    args: Args,
    out: Any,
    device: Any,
    options: Options,
    *,
    again: bool = False,
    show: Show = lambda done, total, what: None,
    executor: Given = None,
) -> Tuning:
    """Launch each configuration for a call, and keep which is the fastest.

    Arrays that the kernel updates are copied first, and `out` is written. A configuration that was
    measured for these sizes on this device before is not measured again.

    Args:
        again: measure it again.
        show: is told what is tried.
        executor: its workers compile the configurations; they are timed here.

    Raises:
        ArgumentError: the kernel has no configurations, one of them gives another shape, the
            arrays' stream is captured, or `executor` is none.
        FrozenError: nothing may be compiled here.
        XTargetError: no configuration works.
    """
    if compile_mode() == "error":
        raise FrozenError(
            f"{name} cannot be tuned: XTARGET_COMPILE=error forbids to compile its configurations. "
            "Tune it before, in a process that may; what is found is kept."
        )
    asked = _question(name, args, device, options)
    if any(isinstance(one, ArrayType) and not one.size for one in asked.types):
        raise ArgumentError(
            f"{name} cannot be tuned for arrays of no elements. Give it larger ones."
        )
    if not asked.questions:
        raise ArgumentError(
            f"{name} has no configurations to choose from for this call, so that there is nothing "
            "to tune. A kernel of your own gets them by configs=, of its decorator."
        )
    if asked.captured:
        raise ArgumentError(
            f"{name} cannot be tuned while its stream is captured into a graph. Tune it before."
        )
    from .._executors.opening import opened  # few programs tune

    with opened(executor) as elsewhere:
        return _tuned(asked, out, again=again, show=show, strict=True, executor=elsewhere)


def tune_first(name: str, args: Args, out: Any, device: Any, stream: Any, options: Options) -> None:
    """Tune for a call that is about to be made, if nothing is known of its key (`XTARGET_TUNE`).

    Neither the caller's arrays nor `out` are written. Nothing is done where a kernel may not be
    compiled, or a stream is captured: the arrays', or the one that the call names.
    """
    if options.get(CONFIG) is not None or compile_mode() == "error" or tunings.is_trying():
        return
    asked = _question(name, args, device, options, stream)
    if asked.captured or not any(one.how == "default" for one in asked.questions):
        return
    if out is not None:
        out = [copied(array) for array in out] if isinstance(out, tuple) else copied(out)
    _tuned(asked, out, again=False, show=lambda done, total, what: None, strict=False)


def _question(name: str, args: Args, device: Any, options: Options, stream: Any = None) -> Asked:
    kernel = libraries.find(name)
    spec = kernel.spec
    args, options = placed(name, args, options)
    check_arguments(spec, args, options)
    options.pop(CONFIG, None)
    views = [None if a is None or is_scalar(a) else view_of(a) for a in args]
    opened = registry.open_device(place_of(spec, views, device))
    info = opened.info
    types = argument_types(spec, args, views)
    aligned = [view is not None and view.address % 16 == 0 for view in views]
    call = planning.call_of(
        kernel, types, options, info.target, info.compute_units, aligned=aligned
    )
    with tunings.trying({}) as seen:
        planning.make_plan(kernel, call)
    questions = {(one.asked.table, str(one.sizes)): one for one in seen}
    streams = [
        view.kind.current_stream(opened, adopt(array))
        for array, view in zip(args, views, strict=True)
        if view is not None and view.place is not None
    ]
    if stream is not None:
        streams.append(resolve(opened, stream))
    captured = any(isinstance(one, Capturable) and one.capturing() for one in streams)
    several = tuple(one for one in questions.values() if one.asked.variants())
    return Asked(kernel, args, options, views, types, call, opened, several, captured)


def _tuned(
    asked: Asked,
    out: Any,
    *,
    again: bool,
    show: Show,
    strict: bool,
    executor: Executor | None = None,
) -> Tuning:
    """Answer one question after the other, each with the answers that were found before it."""
    taken: dict[str, Any] = {}
    found: list[Tuning] = []
    for question in asked.questions:
        if question.asked.table in taken:
            continue
        one = Search(
            asked, question, taken, out, show, again=again, strict=strict, executor=executor
        ).run()
        found.append(one)
        if one.interrupted:
            break
        taken[question.asked.table] = one.best
    first, *others = found
    interrupted = any(one.interrupted for one in found)
    return replace(first, more=tuple(others), interrupted=interrupted)


def bench(name: str, args: Args, out: Any, device: Any, options: Options) -> float:
    """Seconds of a launch (`Kernel.bench`)."""
    launch = Prepared(name, args, out, device, None, options)
    launch()
    return seconds_of(launch)
