"""Conditions that are asked at every launch, as one function of Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["all_of"]


def all_of(conditions: Sequence[str], names: Mapping[str, Any]) -> Callable[[], bool]:
    """A function that tells whether all expressions are true. One that cannot be computed, because
    a name is gone or a closure's cell is empty, is not.

    Args:
        names: what the expressions name.
    """
    code = (
        f"def make({', '.join(names)}):\n"
        " def holds():\n"
        "  try:\n"
        f"   return {' and '.join(conditions) or 'True'}\n"
        "  except (KeyError, ValueError, AttributeError):\n"
        "   return False\n"
        " return holds\n"
    )
    made: dict[str, Any] = {}
    exec(code, made)
    found: Callable[[], bool] = made["make"](**names)
    return found
