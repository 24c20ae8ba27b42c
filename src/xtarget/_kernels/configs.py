"""The configurations of a kernel: which there are, and which of them a call takes.

A configuration never changes a result, only how fast it comes. Which is the fastest for a key (the
sizes, flags and dtypes that the author names) on a target is measured when somebody asks for it
(`Kernel.tune`) and kept; without a measurement a call takes the first one that is not pruned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .._system import files
from .._values import environment
from .._values.authoring import Config
from .._values.errors import ArgumentError
from .declarations import constant_of

__all__ = ["configs_of", "forget", "key_text", "measured", "remember"]

#: The fastest configuration by kernel, target and key.
_measured: dict[tuple[str, str], dict[str, int]] = {}
_FOLDER: Final = ("tuned",)
_MOST_BYTES: Final = 16 << 20


def configs_of(kernel: str, given: Sequence[Any]) -> tuple[Config, ...]:
    """Configurations of ours and of Triton (`triton.Config`).

    Raises:
        ArgumentError: one is none.
    """
    found = []
    for config in given:
        if isinstance(config, Config):
            options = dict(config.options)
            constants, warps, stages = config.constants, config.num_warps, config.num_stages
        elif hasattr(config, "kwargs") and hasattr(config, "num_warps"):
            if getattr(config, "pre_hook", None) is not None:
                raise ArgumentError(
                    f"{kernel}: its configuration {config} has a pre_hook. Say by init what an "
                    "output begins with (xtarget.spec.Out), and leave the hook out."
                )
            options = {
                name: value
                for name, usual in (("num_ctas", 1), ("maxnreg", None))
                if (value := getattr(config, name, usual)) != usual
            }
            constants, warps, stages = config.kwargs, config.num_warps, config.num_stages
        else:
            raise ArgumentError(
                f"{kernel}: {config!r:.80} of its configs is no configuration. Write "
                'xtarget.spec.Config({"BLOCK": 64}, num_warps=4), or triton.Config.'
            )
        known = {name: constant_of(value) for name, value in constants.items()}
        found.append(Config(known, warps, stages, options))
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


def measured(kernel: str, target: str, identity: Callable[[], str]) -> Mapping[str, int]:
    """What is known of a kernel on a target: the number of a configuration for each key.

    Args:
        identity: what a measurement is good for.
    """
    known = _measured.get((kernel, target))
    if known is None:
        known = _measured[kernel, target] = _read(_path(kernel, target, identity()))
    return known


def remember(kernel: str, target: str, identity: str, key: str, number: int) -> None:
    """Keep a measurement, in this process and beside the cache of binaries.

    Where nothing can be written, this process alone has it.
    """
    path = _path(kernel, target, identity)
    known = _read(path) | _measured.get((kernel, target), {}) | {key: number}
    _measured[kernel, target] = known
    settings = environment.cache_settings()
    if path is None or settings.mode != "readwrite":
        return
    text = json.dumps({"kernel": kernel, "target": target, "fastest": known}, indent=1)
    with suppress(OSError):  # a full or a read-only disk
        files.make_folders(settings.folder, _FOLDER, shared=settings.shared)
        files.write(path, text.encode(), shared=settings.shared)


def forget(kernel: str) -> None:
    """Another kernel has this name now."""
    for known in [one for one in list(_measured) if one[0] == kernel]:
        _measured.pop(known, None)


def _path(kernel: str, target: str, identity: str) -> Path | None:
    settings = environment.cache_settings()
    if settings.mode == "off":
        return None
    digest = hashlib.sha256("\n".join((kernel, target, identity)).encode()).hexdigest()
    return settings.folder.joinpath(*_FOLDER, f"{digest[:32]}.json")


def _read(path: Path | None) -> dict[str, int]:
    """What a file holds; nothing where it is missing, or none of ours."""
    if path is None:
        return {}
    try:
        found = json.loads(files.read_regular(path, _MOST_BYTES))["fastest"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    numbers = found.items() if isinstance(found, dict) else ()
    return {key: number for key, number in numbers if type(number) is int}
