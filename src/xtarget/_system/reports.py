"""Reports that commands have written as JSON, read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .._values.errors import XTargetError
from .files import read_regular

__all__ = ["read_report"]

_MOST_BYTES: Final = 64 << 20


@contextmanager
def read_report(path: Path, command: str, schema: int) -> Iterator[dict[str, Any]]:
    """The report of `xtarget COMMAND` in `path`; the block checks its parts.

    A `ValueError`, `KeyError`, `TypeError` or `AttributeError` of the block says what is wrong.

    Raises:
        XTargetError: the file cannot be read, or is something else.
    """
    try:
        found = json.loads(read_regular(path, _MOST_BYTES))
        if found["schema"] != schema:
            raise XTargetError(
                f"{path} is a report of schema {found['schema']}; this xtarget reads {schema}. "
                f"Run xtarget {command} again with this version."
            )
        yield found
    except OSError as error:
        raise XTargetError(
            f"{path} cannot be read: {error.strerror or error}. Give a file that "
            f"`xtarget {command} --report` wrote."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise XTargetError(
            f"{path} is not a report of `xtarget {command} --report`: {why}."
        ) from error
