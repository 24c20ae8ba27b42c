"""Objects that stand for arrays that are not computed yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aliases import Args, Options

__all__ = ["Deferred", "deferred_among", "take"]


class Deferred:
    """An argument of `xtarget.run` that takes the call itself, as of a function that is traced."""

    def take_call(
        self, kernel: str, args: Args, given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """Take a call that one of whose arguments this is.

        Args:
            given: those of `out`, `device` and `stream` that are not None.
        """
        raise NotImplementedError


def deferred_among(values: Iterable[Any]) -> Deferred | None:
    """The first one of the values."""
    return next((value for value in values if isinstance(value, Deferred)), None)


def take(
    array: Deferred, kernel: str, args: Args, out: Any, device: Any, stream: Any, options: Options
) -> Any:
    """Give it a call of `xtarget.run`."""
    given = {"out": out, "device": device, "stream": stream}
    return array.take_call(
        kernel, args, {name: value for name, value in given.items() if value is not None}, options
    )
