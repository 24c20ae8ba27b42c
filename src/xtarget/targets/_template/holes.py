"""Text with named holes: `{{NAME}}`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from itertools import chain

__all__ = ["HoleError", "Template"]

_HOLE = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")


class HoleError(ValueError):
    """A hole without a value, or a value without a hole; the text is one sentence."""


class Template:
    """A text whose holes are known by name.

    Args:
        name: for messages.
        text: `add.rn.{{TYPE}} {{RESULT}}, {{A}}, {{B}};`.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        pieces = _HOLE.split(text)
        texts, self.holes = pieces[::2], tuple(pieces[1::2])
        self._count = len(set(self.holes))
        # filled by the interpreter's own formatting, at once
        escaped = [text.replace("%", "%%") for text in texts]
        named = [f"%({hole})s" for hole in self.holes]
        self._pattern = "".join(chain.from_iterable(zip(escaped, [*named, ""], strict=True)))
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        if "{{" in "".join(texts):
            raise HoleError(
                f"the template {name} has a hole without a name: a name is of capital letters, "
                "{{LIKE_THIS}}."
            )

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with a value for each hole.

        Raises:
            HoleError: a hole has no value, or a value no hole.
        """
        try:
            if len(values) == self._count:
                return self._pattern % values
        except KeyError:
            pass
        raise self._unlike(values)

    def _unlike(self, values: Mapping[str, str]) -> HoleError:
        missing = [hole for hole in dict.fromkeys(self.holes) if hole not in values]
        if missing:
            return HoleError(
                f"the template {self.name} has no value for {{{{{missing[0]}}}}}"
                + (f" and {len(missing) - 1} more." if len(missing) > 1 else ".")
            )
        unknown = values.keys() - set(self.holes)
        return HoleError(
            f"the template {self.name} has no hole {{{{{min(unknown)}}}}}; it has "
            f"{', '.join(dict.fromkeys(self.holes)) or 'none'}."
        )
