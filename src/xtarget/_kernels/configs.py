"""The configurations of a kernel.

A configuration never changes a result, only how fast it comes. Which is the fastest for a key (the
sizes, flags and dtypes that the author names) on a target is measured when somebody asks for it
(`Kernel.tune`) and kept (`tunings`); without a measurement a call takes the first one that is not
pruned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._values.authoring import Config
from .._values.errors import ArgumentError
from .declarations import constant_of

__all__ = ["configs_of", "key_text"]


def configs_of(kernel: str, given: Sequence[Any]) -> tuple[Config, ...]:
    """Configurations of ours and of Triton (`triton.Config`).

    Raises:
        ArgumentError: one is none.
    """
    found = []
    for config in given:
        if isinstance(config, Config):
            options, hook = dict(config.options), config.pre_hook
            constants, warps, stages = config.constants, config.num_warps, config.num_stages
        elif hasattr(config, "kwargs") and hasattr(config, "num_warps"):
            hook = getattr(config, "pre_hook", None)
            options = {
                name: value
                for name, usual in (("num_ctas", 1), ("maxnreg", None))
                if (value := getattr(config, name, usual)) != usual
            }
            constants, warps, stages = config.kwargs, config.num_warps, config.num_stages
        else:
            raise ArgumentError(
                f"{kernel}: {config!r:.80} of its configs is not a configuration. Write "
                'xtarget.spec.Config({"BLOCK": 64}, num_warps=4), or triton.Config.'
            )
        known = {name: constant_of(value) for name, value in constants.items()}
        if hook is not None and not callable(hook):
            raise ArgumentError(
                f"{kernel}: the pre_hook of its configuration is {hook!r:.80}. Give a function of "
                "the call's arguments by name."
            )
        found.append(Config(known, warps, stages, options, hook))
    for config in found:
        if config.constants.keys() != found[0].constants.keys():
            raise ArgumentError(
                f"{kernel}: its configurations ({found[0]}) and ({config}) name different "
                "constants. Each of them gives all."
            )
    return tuple(found)


def key_text(values: Mapping[str, Any]) -> str:
    """A key as text, the same in every process."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
