"""Text with named holes: `{{NAME}}`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

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
        self._texts, self.holes = pieces[::2], tuple(pieces[1::2])
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        if "{{" in "".join(self._texts):
            raise HoleError(
                f"the template {name} has a hole without a name: a name is of capital letters, "
                "{{LIKE_THIS}}."
            )

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with a value for each hole.

        Raises:
            HoleError: a hole has no value, or a value no hole.
        """
        missing = [hole for hole in dict.fromkeys(self.holes) if hole not in values]
        if missing:
            raise HoleError(
                f"the template {self.name} has no value for {{{{{missing[0]}}}}}"
                + (f" and {len(missing) - 1} more." if len(missing) > 1 else ".")
            )
        unknown = values.keys() - set(self.holes)
        if unknown:
            raise HoleError(
                f"the template {self.name} has no hole {{{{{min(unknown)}}}}}; it has "
                f"{', '.join(dict.fromkeys(self.holes)) or 'none'}."
            )
        found = [self._texts[0]]
        for hole, text in zip(self.holes, self._texts[1:], strict=True):
            found += (values[hole], text)
        return "".join(found)
