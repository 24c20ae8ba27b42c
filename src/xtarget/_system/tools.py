"""Find programs of other makers that xtarget runs."""

from __future__ import annotations

import os
import shutil

__all__ = ["find_tool"]


def find_tool(name: str) -> str | None:
    """A program on the PATH, or named by its path. Relative entries of the PATH, which mean the
    current folder, do not count.
    """
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(p for p in entries if os.path.isabs(p)))
