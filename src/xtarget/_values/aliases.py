"""Short names for the types of a call, for signatures that pass one on."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

__all__ = ["Args", "Key", "Options"]

#: Arguments of a kernel, by position.
Args = tuple[Any, ...]
#: Options of a call, by name.
Options = dict[str, Any]
#: A call without its addresses: kernel, device, layouts, options.
Key = tuple[Hashable, ...]
