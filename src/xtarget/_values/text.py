"""Text as it may be shown: no control characters of a file that somebody else made, and no secrets
of a URL.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["hide_secrets", "one_line", "printable", "shown_url"]

_HIDDEN: Final = "..."
#: A URL in a text, up to a space or a quote.
_URL: Final = re.compile(r"[A-Za-z][\w+.:-]*://[^\s'\"<>]+")


def printable(text: str) -> str:
    """The text with escapes in place of what moves cursors, changes colours or reverses words; line
    ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str) -> str:
    """As `printable`, for a cell of a table: line ends and tabs are escaped too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def shown_url(url: str) -> str:
    """A URL without user, password, query and fragment; other text as it is."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return url
    # a password may hold any character, also ones that should have been quoted
    user, at, rest = rest.rpartition("@")
    end = re.search(r"[?#]", rest)
    if end:
        rest = rest[: end.start()] + end[0] + _HIDDEN
    elif at and re.search(r"[?#]", user):  # the @ was one of the query
        rest = _HIDDEN
    return f"{scheme}://{_HIDDEN + '@' if at else ''}{rest}"


def hide_secrets(text: str, url: str) -> str:
    """A library's message about a URL without what is secret in it: the whole, or a part, as it was
    written or decoded. Other URLs in it lose theirs too."""
    for secret in sorted(_secrets(url), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return _URL.sub(lambda found: shown_url(found[0]), text)


def _secrets(url: str) -> set[str]:
    """Return the parts of a URL that must not be shown."""
    import urllib.parse

    _, slashes, rest = url.partition("://")
    if not slashes:
        return set()
    user, _, after = rest.rpartition("@")
    # also the pieces that a library takes such a URL apart into
    found = {user, *user.split(":", 1), *re.split(r"[/?#:@&;=]", user)}
    for part in (rest, after):
        query = re.split(r"[?#]", part, maxsplit=1)[1:]
        for text in query:
            found.add(text)
            for pair in re.split(r"[&;#]", text):
                found |= {pair, pair.partition("=")[2]}
    found |= {urllib.parse.unquote(text) for text in found}
    found |= {urllib.parse.unquote_plus(text) for text in found}
    return {text for text in found if len(text) > 2}
