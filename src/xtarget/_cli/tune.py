"""`xtarget tune`: which configuration of a kernel is the fastest for a call."""

from __future__ import annotations

import json

import xtarget

from .._devices import choice, registry
from .._system.progress import progress
from .arguments import choose_inputs
from .base import echo
from .run import check_size, random_arguments
from .values import CallOptions

__all__ = ["tune_kernel"]


def tune_kernel(kernel: str, call_options: CallOptions, device: str | None, as_json: bool) -> None:
    """Try each configuration on random input, and print what was found and kept.

    Raises:
        ArgumentError: the kernel has no configurations.
    """
    inputs = choose_inputs(kernel, call_options)
    name = choice.default_device() if device is None else registry.find_device(device)
    check_size(kernel, inputs, registry.open_device(name).info)
    args = random_arguments(inputs, 0)
    with progress(f"tuning {inputs.spec.name}"):
        found = xtarget.get(kernel).tune(*args, device=name, **inputs.options)
    if not as_json:
        echo(found)
        echo(f"kept: config={found.trials[0].number} for {found.key}")
        return
    trials = [
        {"config": trial.number, "is": str(trial.config), "seconds": trial.seconds,
         "error": trial.error}
        for trial in found.trials
    ]  # fmt: skip
    told = {"kernel": found.kernel, "target": found.target, "key": found.key, "trials": trials}
    echo(json.dumps(told, indent=2))
