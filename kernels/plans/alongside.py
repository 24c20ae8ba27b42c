"""What may stand beside the result of a kernel that sends it through further operators
(`tails.at_places`): names of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["NOTHING", "PLACES"]

PLACES: Final = "cde"
#: Constants of a launch that stores its result as it is.
NOTHING: Final[Mapping[str, Any]] = {
    name: None for one in PLACES for name in (one, f"s{one}", one.upper())
}
