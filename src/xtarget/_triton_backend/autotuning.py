"""Triton's autotuner for arrays: what it resets and restores between two configurations.

It calls the methods of torch's tensors for that (`zero_`, `clone`, `copy_`), by default hooks that
each autotuner makes for itself when its kernel is decorated, long before a driver is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arguments import is_array

__all__ = ["restore_arrays"]


class _Resettable:
    """An array with the three methods."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def zero_(self) -> None:
        self._array[...] = 0

    def clone(self) -> Any:
        return self._array.copy()

    def copy_(self, values: Any) -> None:
        self._array[...] = values


class _Hook:
    """In place of a hook that each autotuner has in its dictionary: the same, given arrays that it
    can use. A user's own hook gets what the kernel was called with.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, tuner: Any, owner: type | None = None) -> Any:
        if tuner is None:
            return self
        hook: Callable[..., Any] = vars(tuner)[self._name]
        if vars(tuner).get(f"user_defined_{self._name}"):
            return hook

        def with_arrays(values: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            given = {k: _Resettable(v) if is_array(v) else v for k, v in values.items()}
            return hook(given, *args, **kwargs)

        return with_arrays

    def __set__(self, tuner: Any, hook: Callable[..., Any]) -> None:
        vars(tuner)[self._name] = hook


def restore_arrays(tuner: Any) -> None:
    """Let `reset_to_zero` and `restore_value` name arrays, in this process.

    Args:
        tuner: Triton's class `Autotuner`. A descriptor of the class goes before what its objects
            have in their dictionaries, so that this serves those that exist already.
    """
    for name in ("pre_hook", "post_hook"):
        if not hasattr(tuner, name):
            setattr(tuner, name, _Hook(name))
