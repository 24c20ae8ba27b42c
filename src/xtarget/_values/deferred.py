"""Objects that stand for arrays that are not computed yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aliases import Args

__all__ = ["Deferred"]


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
