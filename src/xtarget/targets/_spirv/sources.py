"""Identity of this compiler's own source."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["digest"]


@cache
def digest() -> str:
    """sha256 over all files of this package, by name."""
    total = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        data = path.read_bytes()
        total.update(f"{path.name} {len(data)}\n".encode())
        total.update(data)
    return total.hexdigest()
