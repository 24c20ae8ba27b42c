"""Parameters that may stand beside the result of a kernel that sends it through further operators
(`tails.at_places`): their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["NOTHING", "NOTHING_BEFORE", "PLACES", "PLACES_BEFORE"]

PLACES: Final = "cde"
#: What may stand beside what a scan reads.
PLACES_BEFORE: Final = "fgh"
#: Constants of a launch that stores its result as it is.
NOTHING: Final[Mapping[str, Any]] = {
    name: None for one in PLACES for name in (one, f"s{one}", one.upper())
}
#: Of one that reads it as it is.
NOTHING_BEFORE: Final[Mapping[str, Any]] = {
    name: None for one in PLACES_BEFORE for name in (one, f"s{one}", one.upper())
}
