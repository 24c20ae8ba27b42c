"""Arrays of each library, and calls that the compiled core makes, for the tests of the core."""

from __future__ import annotations

from typing import Any

import numpy as np

import xtarget

__all__ = ["host", "hot", "of_kind"]


def of_kind(kind: str, values: np.ndarray[Any, Any], device: str) -> Any:
    if kind == "torch":
        import torch

        made = torch.from_numpy(values.copy())
        return made.to("cuda") if device.startswith("nvidia") else made
    return xtarget.asarray(values, device=device) if kind == "xtarget" else values


def host(array: Any) -> np.ndarray[Any, Any]:
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def hot(core: Any, *args: Any, **named: Any) -> int:
    """Make a call until the core makes it; how many of the last two it has made."""
    for _ in range(3):
        xtarget.run(*args, **named)
    before = core.statistics()[0]
    for _ in range(2):
        xtarget.run(*args, **named)
    return int(core.statistics()[0] - before)
