"""The folder of this package."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["FOLDER"]

#: The folder of `xtarget`, as it was imported: links are not resolved.
FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
