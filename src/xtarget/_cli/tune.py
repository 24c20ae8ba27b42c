"""`xtarget tune kernel`: which configuration of a kernel is the fastest for a call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np

import xtarget

from .._bench.page import time_text
from .._compile.bars import progress_bar
from .._devices import choice, registry
from .._launch.tuning import tune
from .._launch.tuning_results import NOT_TRIED, Trial, Tuning
from .._values.types import DeviceInfo
from ..spec import ArrayType
from .arguments import Inputs, choose_inputs
from .base import compiling, echo
from .run import check_size, random_arguments
from .tables import echo_wrapped, print_table
from .values import CallOptions

__all__ = ["tune_kernel"]

#: Of the kernel that takes m x n x k as one shape, the option that says which operands lie by
#: columns.
_PRODUCT, _TRANSPOSED = "matmul", "transposed"


def tune_kernel(
    kernel: str,
    call_options: CallOptions,
    device: str | None,
    *,
    executor: str,
    again: bool,
    as_json: bool,
) -> tuple[bool, bool]:
    """Try each configuration on random input, and print what was found and kept.

    Returns:
        whether it was kept, and whether it was interrupted.

    Raises:
        ArgumentError: the kernel has no configurations, or the arrays do not fit the memory.
    """
    inputs = _inputs(kernel, call_options)
    name = choice.default_device() if device is None else registry.find_device(device)
    info = registry.open_device(name).info
    check_size(kernel, inputs, info)
    args = [_placed(one, layout, info) for one, layout in
            zip(random_arguments(inputs, 0), inputs.args, strict=True)]  # fmt: skip
    bar = progress_bar(f"tune {inputs.spec.name}", "configurations", "planning")
    with compiling(), bar as show:
        found = tune(
            kernel,
            tuple(args),
            None,
            name,
            dict(inputs.options),
            again=again,
            show=show,
            executor=executor,
        )
    parts = (found, *found.more)
    kept = all(one.stored for one in parts)
    if as_json:
        echo(json.dumps({**_record(found), "more": [_record(one) for one in found.more]}, indent=2))
        return kept, found.interrupted
    for one in parts:
        _print(one, info)
    if found.interrupted:
        echo("interrupted: what was measured is kept; the same command goes on from there.")
    return kept, found.interrupted


def _inputs(kernel: str, given: CallOptions) -> Inputs:
    """The arguments; a product of matrices may be given as m x n x k, and by layout."""
    from .._kernels import libraries

    spec = libraries.find(kernel).spec
    options = dict(given.options)
    if spec.name != _PRODUCT:
        return choose_inputs(kernel, given)
    transposed = str(options.pop(_TRANSPOSED, ""))
    if transposed not in ("", "a", "b", "ab"):
        raise click.BadParameter(f"transposed={transposed!r}: it is a, b or ab.")
    shapes = given.shapes
    if len(shapes) == 1 and len(shapes[0]) == 3:
        m, n, k = shapes[0]
        shapes = ((m, k), (k, n))
    inputs = choose_inputs(kernel, replace(given, shapes=shapes, options=options))
    args = [
        _by_columns(arg) if letter in transposed and isinstance(arg, ArrayType) else arg
        for letter, arg in zip("ab", inputs.args, strict=False)
    ]
    return replace(inputs, args=tuple(args))


def _by_columns(array: ArrayType) -> ArrayType:
    """The same matrix, whose columns lie one after the other."""
    if array.ndim != 2:
        raise click.BadParameter(f"{_TRANSPOSED}= is for matrices; {array.shape} has other axes.")
    return replace(array, strides=(1, array.shape[0]))


def _placed(value: Any, layout: Any, info: DeviceInfo) -> Any:
    """On the device in the layout; a CPU's devices take the host's arrays in place."""
    if not isinstance(value, np.ndarray):
        return value
    lies = isinstance(layout, ArrayType) and not layout.contiguous
    packed = np.ascontiguousarray(value.T) if lies else value
    if info.host_memory:
        return packed.T if lies else packed
    placed = xtarget.asarray(packed, device=info.name)
    return placed.T if lies else placed


# ------------------------------------------------------------------------------------------ output


def _record(found: Tuning) -> dict[str, Any]:
    trials = [
        {"config": trial.number, "is": trial.text, "seconds": trial.seconds, "lower": trial.lower,
         "upper": trial.upper, "kept": trial.kept, "error": trial.error}
        for trial in found.trials
    ]  # fmt: skip
    return {
        "kernel": found.kernel, "target": found.target, "key": found.key, "stored": found.stored,
        "note": found.note, "interrupted": found.interrupted, "trials": trials,
    }  # fmt: skip


def _print(found: Tuning, info: DeviceInfo) -> None:
    timed = [trial for trial in found.trials if trial.seconds is not None]
    common = _common(timed)
    echo_wrapped(f"{found.kernel} on {info.name} ({info.product}), {found.key}")
    if common:
        echo_wrapped(f"all have {', '.join(f'{name}={value}' for name, value in common.items())}")
    usual = next((trial for trial in timed if trial.number == 0), None)
    print_table(
        ("config", "is", "median", "quartiles", "of the best", ""),
        [_line(trial, timed[0], common, usual) for trial in timed],
    )
    if found.dropped:
        tried = [trial for trial in found.dropped if not trial.error.startswith(NOT_TRIED)]
        hopeless = len(found.dropped) - len(tried)
        if hopeless:
            echo_wrapped(
                f"{hopeless} were not tried: a model puts them far behind (--json names them)"
            )
        if tried:
            echo_wrapped(f"{len(tried)} were dropped:")
        for trial in tried:
            echo_wrapped(f"  config={trial.number} ({trial.text}): {trial.error}")
    if found.note:
        echo_wrapped(found.note)
    else:
        echo_wrapped(f"kept: config={timed[0].number} ({timed[0].text}) for {found.key}")


def _line(
    trial: Trial, best: Trial, common: Mapping[str, str], usual: Trial | None
) -> tuple[str, ...]:
    assert trial.seconds is not None
    assert best.seconds is not None
    words = ["the default"] if trial is usual else []
    words += ["measured before"] if trial.kept else []
    own = ", ".join(p for p in trial.text.split(", ") if p.partition("=")[0] not in common)
    return (
        str(trial.number),
        own or trial.text,
        time_text(trial.seconds),
        f"{time_text(trial.lower)}..{time_text(trial.upper)}",
        f"{trial.seconds / best.seconds:.2f} x",
        ", ".join(words),
    )


def _common(trials: Sequence[Trial]) -> dict[str, str]:
    """The values that all configurations share."""
    if len(trials) < 2:
        return {}
    parts = [dict(p.partition("=")[::2] for p in trial.text.split(", ")) for trial in trials]
    first = parts[0]
    return {n: v for n, v in first.items() if all(one.get(n) == v for one in parts[1:])}
