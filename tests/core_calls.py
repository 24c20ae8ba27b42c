"""Arrays of each library, and calls that the compiled core makes, for the tests of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget._launch import run as launching

__all__ = ["KINDS", "TWIN", "check_while_forgotten", "host", "hot", "made", "of_kind"]

#: Libraries whose arrays the core reads by itself.
KINDS = ("NumPy", "torch", "xtarget")
#: `xtarget.run` as Python makes it, without the core.
TWIN: Callable[..., Any] = launching._run_in_python


def of_kind(kind: str, values: np.ndarray[Any, Any], device: str) -> Any:
    if kind == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed here")
        tensor = torch.from_numpy(values.copy())
        return tensor.to("cuda") if device.startswith("nvidia") else tensor
    return xtarget.asarray(values, device=device) if kind == "xtarget" else values


def host(array: Any) -> np.ndarray[Any, Any]:
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def made(core: Any) -> int:
    """Calls that the core has made."""
    return int(core.statistics()[0])


def hot(core: Any, *args: Any, **named: Any) -> int:
    """Make a call until the core makes it; how many of the last two it has made."""
    for _ in range(3):
        xtarget.run(*args, **named)
    before = made(core)
    for _ in range(2):
        xtarget.run(*args, **named)
    return made(core) - before


def check_while_forgotten(right: Callable[[int, int], bool], turns: range, pause: int) -> None:
    """Make calls in four threads, while all that is known is forgotten every few turns.

    Args:
        right: makes a call, by the number of the thread and the turn.
    """
    wrong: list[tuple[int, int]] = []

    def work(number: int) -> None:
        for turn in turns:
            if not right(number, turn):
                wrong.append((number, turn))
            if number == 0 and turn % pause == 0:
                launching.forget_calls()

    in_threads(work, range(4))
    assert not wrong
