"""The short form's share of a family of cases: `@pytest.mark.sample(3, each=("kernel",))`.

One of three cases runs, and each value of `kernel` at least once; the others are of the long tier.
Which ones they are is a matter of the case's id and of a seed, `XTARGET_TEST_SEED` (0): one tree
runs the same cases each time, and other seeds run others, in the end all of them. Hardware runs
every case of the short form: only where kernels are compiled for a CPU do they take that long.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

__all__ = ["chosen", "drawn", "mark_those_left_out"]

_HARDWARE = ("nvidia", "amd", "intel")


def chosen(
    ids: Sequence[str], values: Sequence[Sequence[str]], one_in: int, seed: str
) -> frozenset[int]:
    """The places of the cases that run: a share of them, and for each value one that has it.

    Args:
        ids: of the cases.
        values: of each case, what has to be there at least once.
    """
    order = sorted(range(len(ids)), key=lambda i: (zlib.crc32(f"{seed} {ids[i]}".encode()), ids[i]))
    kept: set[int] = set()
    seen: set[tuple[int, str]] = set()
    for i in order:
        new = set(enumerate(values[i])) - seen
        if new:
            kept.add(i)
            seen |= new
    for i in order:
        if len(kept) >= -(-len(ids) // one_in):
            break
        kept.add(i)
    return frozenset(kept)


def drawn(count: int) -> int:
    """How many of these examples Hypothesis draws: a quarter, and all where the long tests run."""
    return count if os.environ.get("XTARGET_TEST_LONG") else -(-count // 4)


def _has_mark(call: Any, name: str) -> bool:
    return any(mark.name == name for mark in call.marks)


def mark_those_left_out(metafunc: pytest.Metafunc) -> None:
    """Mark as long the cases of a sampled test that the short form does not run."""
    mark = next(metafunc.definition.iter_markers("sample"), None)
    if mark is None:
        return
    (one_in,), each = mark.args, mark.kwargs.get("each", ())
    seed = os.environ.get("XTARGET_TEST_SEED", "0")
    devices: dict[str, list[Any]] = {}
    for call in metafunc._calls:
        device = str(call.params.get("device", ""))
        large = device.startswith("emu:") and _has_mark(call, "large")
        if not large and not _has_mark(call, "long") and not device.startswith(_HARDWARE):
            devices.setdefault(device, []).append(call)
    for device, calls in devices.items():
        ids = [_without(call.id, device) for call in calls]
        values = [[_text(call, name) for name in each] for call in calls]
        kept = chosen(ids, values, one_in, f"{seed} {metafunc.definition.name}")
        for i, call in enumerate(calls):
            if i not in kept:
                call.marks.append(pytest.mark.long.mark)


def _without(id_: str, device: str) -> str:
    """The same case has the same id on each device."""
    return "-".join(_but(id_.split("-"), device))


def _but(parts: Iterable[str], device: str) -> list[str]:
    return [part for part in parts if not device or part != device]


def _text(call: Any, name: str) -> str:
    value = call.params[name]
    return str(getattr(value, "__name__", value))
