#!/usr/bin/env python3
"""Print how many kilobytes of memory the processes of this container may have: the machine's, or a
control group's limit, of version 1 or 2, if that is less. Nothing where the kernel does not say.

    ci/memory.py [ROOT]    ROOT: a folder in the place of /
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path


def limits(root: Path) -> Iterator[int]:
    """Bytes: what the machine has, and what each control group of this process allows."""
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) * 1024
    mounted = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        # a limit of a group above holds too; a container may see the host's path, and no such
        # folder: then its own group is the root of what is mounted
        path = Path(group.lstrip("/"))
        for above in (path, *path.parents):
            yield from (int(text) for text in _lines(folder / above / name) if text != "max")


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


if __name__ == "__main__":
    found = list(limits(Path(*sys.argv[1:]) if sys.argv[1:] else Path("/")))
    if found:
        print(min(found) // 1024)
