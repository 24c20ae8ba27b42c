"""The values of options as callers in C write them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

__all__ = ["option_of", "option_text", "option_texts"]


def option_text(value: Any) -> str | None:
    """An option's value as callers in C write it; None: they cannot."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    if isinstance(value, tuple | list):
        each = [option_text(one) for one in value]
        return None if None in each else f"({', '.join(map(str, each))})"
    return None


def option_of(text: str) -> Any:
    """The value of an option that a caller in C has written.

    Raises:
        ValueError: `option_text` writes no value so.
    """
    words = {"none": None, "true": True, "false": False}
    if text in words:
        return words[text]
    try:
        value = float(text) if text.lstrip("+-") in ("nan", "inf") else ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text  # all that literal_eval raises
    value = tuple(value) if isinstance(value, list) else value
    if option_text(value) is None:
        raise ValueError(f"{text!r} is no number, text, or list of them")
    return value


def option_texts(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
    """Options with their values as text, by name; None: C cannot write one of them."""
    texts = {name: option_text(value) for name, value in options.items()}
    known = tuple(sorted((name, text) for name, text in texts.items() if text is not None))
    return known if len(known) == len(texts) else None
