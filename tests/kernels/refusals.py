"""Calls that are refused, as a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import xtarget


def refused(calls: Iterable[tuple[str, Any, Any, str]]) -> Callable[..., None]:
    """A test that each of these calls is an ArgumentError which says why.

    Args:
        calls: kernel, arguments, options, and a pattern of what is said.
    """

    @pytest.mark.parametrize(("name", "args", "options", "said"), list(calls))
    def test(device: str, name: str, args: Any, options: Any, said: str) -> None:
        with pytest.raises(xtarget.ArgumentError, match=said):
            xtarget.run(name, *args, device=device, **options)

    return test
