"""Files and settings of the tool chain, for the tests of its identity. They need Triton."""

from __future__ import annotations

import os
from pathlib import Path

from xtarget.targets._triton import toolchain

__all__ = ["replaced", "settings"]


def replaced(path: Path, text: str) -> None:
    """Another content at the same path, with the same size and time where it can be."""
    before = path.stat() if path.exists() else None
    path.unlink(missing_ok=True)
    path.write_text(text)
    if before is not None:
        path.chmod(before.st_mode)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def settings() -> str:
    return toolchain.fingerprint()
