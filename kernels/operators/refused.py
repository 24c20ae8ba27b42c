"""Names that other libraries have and no kernel here can serve, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REFUSED"]

REFUSED: Mapping[str, str] = {}
