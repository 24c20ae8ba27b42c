"""`xtarget.warmup("profile.json")`: what a program will use is compiled and loaded before."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from .._cache.counters import counted
from .._compile import functions
from .._compile.bars import Progress, progress_bar
from .._compile.limited import end_idle
from .._devices import registry
from .._executors.opening import Given, opened
from .._kernels import libraries
from .._values.errors import ArgumentError, NoDeviceError, UnknownKernelError, XTargetError
from .._values.types import CompileRequest, Constant, Target
from .._values.value_classes import value_class
from . import call_plans, warm_plans
from .frozen_calls import class_text, warmed_up
from .used_classes import UsedClass, read_profile

__all__ = ["Warmup", "warmup"]

_Wanted = tuple[CompileRequest, Target, dict[str, Constant]]


@value_class(frozen=True, slots=True)
class Warmup:
    """The results of a warm-up.

    Attributes:
        classes: of the profile.
        binaries: that they need.
        compiled: how many of these were not there.
        loaded: on devices of this machine.
        errors: what could not be made ready, a sentence for each.
    """

    classes: int
    binaries: int
    compiled: int
    loaded: int
    errors: tuple[str, ...]


def warmup(
    path: Any, *, workers: int | None = None, executor: Given = None, progress: bool = True
) -> Warmup:
    """Compile and load what a profile lists, so that the calls of its classes find it loaded.

    Each kernel is compiled in a process of its own. Where the profile was recorded on a device that
    is not here, its binaries are compiled for the cache. A class that cannot be made ready is
    reported, and the others are.

    Args:
        path: of a file that a program has recorded with `XTARGET_RECORD`.
        workers: processes at the same time; None: one for each processor.
        executor: any `concurrent.futures.Executor`, whose workers compile in the place of
            processes here; or `dask:ADDRESS`, `ray:ADDRESS`, `mpi`.
        progress: show a bar on the standard error, if that is a terminal.

    Raises:
        ArgumentError: the profile cannot be read, or is damaged; `workers` is not a number of
            processes, `executor` no executor.
        XTargetError: the executor's library or cluster is not there.
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise ArgumentError(f"workers={workers!r} is not a number of processes. Give 1 or more.")
    with opened(executor) as workers_elsewhere, _shown(progress) as show:
        workers = workers or len(os.sched_getaffinity(0))
        return warm(Path(path), workers, show, workers_elsewhere)


@contextlib.contextmanager
def _shown(wanted: bool) -> Iterator[Progress]:
    if wanted and sys.stderr is not None and sys.stderr.isatty():
        with progress_bar("warmup", "binaries", "what there is to compile") as show:
            yield show
    else:
        yield lambda done, total, what: None


def warm(path: Path, workers: int, show: Progress, executor: Executor | None = None) -> Warmup:
    """The same, with what shows how far it is."""
    classes = read_profile(path)
    errors: list[str] = []
    wanted: dict[tuple[CompileRequest, Target, str], _Wanted] = {}
    devices: dict[tuple[str, CompileRequest], None] = {}
    for one in classes:
        try:
            kernel = libraries.find(one.kernel)
            call = call_plans.Given(kernel, one.args, one.options, one.views, one.out_view)
            requests, tracer = warm_plans.make(call, one.info)
        except UnknownKernelError:
            errors.append(
                f"{one.kernel} is not registered here; it was in {one.origin}. Import its module, "
                "or name its library in XTARGET_KERNELS, before the warm-up."
            )
            continue
        except XTargetError as error:
            errors.append(str(error))
            continue
        text = class_text(one.args, one.views, one.out_view, one.options)
        warmed_up(one.kernel, text, tracer)
        options: dict[str, Constant] = dict(one.info.compile_options)
        for request in requests:
            key = (request, one.info.target, repr(sorted(options.items())))
            wanted[key] = request, one.info.target, options
            devices[one.info.name, request] = None
    before = counted()[0].get("compiles", 0)
    todo, done = list(wanted.values()), 0
    try:
        for index, why in functions.compile_together(todo, workers, executor=executor):
            done += 1
            if why is not None:
                errors.append(str(why))
            show(done, len(todo), f"{todo[index][0].source.name} for {todo[index][1]}")
    finally:
        end_idle()
    compiled = int(counted()[0].get("compiles", 0) - before)
    loaded = _load(classes, list(devices), errors)
    return Warmup(len(classes), len(todo), compiled, loaded, tuple(dict.fromkeys(errors)))


def _load(
    classes: list[UsedClass], wanted: list[tuple[str, CompileRequest]], errors: list[str]
) -> int:
    """Load on the devices that are here; how many were."""
    targets = {one.info.name: one.info.target for one in classes}
    here, loaded = {}, 0
    for name, target in targets.items():
        with contextlib.suppress(NoDeviceError):
            device = registry.open_device(name)
            if device.info.target == target:
                here[name] = device
    for name, request in wanted:
        if name in here:
            try:
                functions.function(here[name], request)
                loaded += 1
            except XTargetError as error:  # told once, also where compiling has failed for it
                errors.append(str(error))
    return loaded
