"""Report the content of the cache, and why an entry is missing, for the command line."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._artifacts.entry import DAMAGE, KINDS, SCHEMA, Entry, Place
from .._system import files
from .._values.errors import XTargetError
from .._values.types import Target
from .._values.value_classes import value_class
from . import evict, lock
from .cache import Cache
from .scan import Found, scan
from .store import QUARANTINE, Store

_PATIENCE = 10.0  # seconds that another process may sweep before `prune` gives up

__all__ = [
    "Chosen",
    "Miss",
    "bodies",
    "check_readable",
    "clear",
    "entries",
    "prune",
    "totals",
    "verify",
    "why",
]


@value_class(frozen=True, slots=True)
class Chosen:
    """A selection of cache entries for a command.

    Attributes:
        target: `nvidia`, `nvidia:sm_90`, or None for all.
        kernel: name of the kernel, or None for all.
        older, newer: seconds since the last use.
    """

    target: str | None = None
    kernel: str | None = None
    older: float | None = None
    newer: float | None = None

    @property
    def all(self) -> bool:
        return self == Chosen()


def entries(store: Store, chosen: Chosen) -> Iterator[tuple[Found, dict[str, Any]]]:
    """The entries of a folder, each with the fields that are shown of it. The names contain these,
    so no file is opened."""
    now = time.time_ns()
    for found in scan(store.base):
        if not found.stamp:
            continue
        folder = Path(found.folder)
        target = f"{folder.parent.name}:{folder.name}"
        age = max(0.0, (now - found.stamp) / 1e9)
        if chosen.target is not None and chosen.target not in (target, target.partition(":")[0]):
            continue
        name, _, key = found.stem.rpartition("-")
        kernel, _, kind = name.rpartition("-")
        if kind not in KINDS:
            kernel, kind = name, "artifact"
        if chosen.kernel is not None and chosen.kernel != kernel:
            continue
        if chosen.older is not None and age < chosen.older:
            continue
        if chosen.newer is not None and age > chosen.newer:
            continue
        yield (
            found,
            {
                "target": target,
                "kernel": kernel,
                "kind": kind,
                "key": key,
                "bytes": found.nbytes,
                "unused_s": round(age, 1),
                "path": str(found.mark),
            },
        )


def totals(cache: Cache) -> dict[str, Any]:
    """Entries and bytes by target of the user's own folder, and those in quarantine."""
    settings = cache.settings
    by_target: dict[str, dict[str, int]] = {}
    for _, shown in entries(cache.own, Chosen()):
        of = by_target.setdefault(shown["target"], {"entries": 0, "bytes": 0})
        of["entries"] += 1
        of["bytes"] += shown["bytes"]
    aside = {"files": 0, "bytes": 0}
    with contextlib.suppress(OSError), os.scandir(cache.own.base / QUARANTINE) as there:
        for file in there:
            aside["files"] += 1
            aside["bytes"] += file.stat(follow_symlinks=False).st_size
    return {
        "path": str(cache.root),
        "fault": _fault(cache.root, cache.settings.shared or settings.trust is not None),
        "mode": settings.mode,
        "entries": sum(of["entries"] for of in by_target.values()),
        "bytes": sum(of["bytes"] for of in by_target.values()),
        "max_bytes": settings.max_bytes,
        "by_target": by_target,
        "quarantine": aside,
        "layers": [str(layer.root) for layer in cache.layers],
        "remote": cache.remote_name,
        "trust": None if settings.trust is None else str(settings.trust),
    }


def _fault(root: Path, shared: bool) -> str | None:
    """Say why the cache cannot use or trust a folder; None if it can."""
    if os.path.exists(root) and not os.path.isdir(root):
        return f"{root} is not a folder"
    try:
        if not shared:
            files.check_folders(root, ())
    except FileNotFoundError:
        return None  # it is made by the first entry
    except (OSError, files.FolderError) as error:
        return f"{root}: {error.strerror}" if isinstance(error, OSError) else str(error)
    return None


def check_readable(store: Store) -> bool:
    """Check whether a cache exists.

    Raises:
        XTargetError: the cache exists but cannot be read, so its content is unknown.
    """
    folders = [store.root]
    for level in range(4):  # the root, the layout's version, vendors, archs
        below = []
        for folder in folders:
            try:
                with os.scandir(folder) as there:
                    for each in there:
                        if each.name.startswith(".") or (level == 0 and each.name != SCHEMA):
                            continue
                        if each.is_dir(follow_symlinks=False):
                            below.append(Path(each.path))
            except FileNotFoundError:
                if level == 0:
                    return False
            except OSError as error:
                raise XTargetError(
                    f"the cache {store.root} cannot be looked at: {folder}: "
                    f"{error.strerror or error}. Make it a folder that you may read, or name "
                    "another one in XTARGET_CACHE_DIR."
                ) from error
        folders = below
    return True


def verify(store: Store, chosen: Chosen) -> Iterator[dict[str, Any]]:
    """Read and check every entry. Each one has `fault`, which is None for an intact entry. Nothing
    is changed. Entries that are evicted meanwhile are left out."""
    reader = Store(store.root, writable=False, shared=store.shared, trust=store.trust)
    for found, shown in entries(store, chosen):
        seen: int | None = None
        while True:
            before = _inode(found.mark)
            fault = _fault_of(reader, found.mark)
            if fault is None or before is None or before == seen:
                break
            seen = before  # wrong twice is wrong; once, somebody may have removed or replaced it
        if fault is None or before is not None:
            yield {**shown, "fault": fault}


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _fault_of(reader: Store, mark: Path) -> str | None:
    """Describe the fault of an entry; None if it is intact."""
    try:
        body = reader.body(mark)
        place = Place(
            Target.parse(str(body["target"])),
            str(body["kernel"]),
            str(body["key"]),
            str(body["kind"]),
        )
        if reader.mark_path(place) != mark:
            raise ValueError("it lies where another entry belongs")
        answer = reader.check(place)
        return None if isinstance(answer, Entry) else str(answer)
    except (OSError, XTargetError, *DAMAGE) as error:
        return f"{type(error).__name__}: {error}"


def bodies(store: Store, chosen: Chosen) -> Iterator[dict[str, Any]]:
    """Yield the content of the marks of whole entries."""
    for found, _ in entries(store, chosen):
        with contextlib.suppress(OSError, XTargetError, *DAMAGE):
            yield store.body(found.mark)


def prune(cache: Cache, max_bytes: int | None, chosen: Chosen) -> dict[str, int]:
    """Remove the chosen entries, then the least recently used ones until the rest is below the cap.
    Entries in use stay."""
    base, removed, freed = cache.own.base, 0, 0
    if not chosen.all:
        removed, freed = evict.remove_all(base, [found for found, _ in entries(cache.own, chosen)])
    cap = max_bytes if max_bytes is not None else cache.settings.max_bytes
    before = sum(found.nbytes for found in scan(base))
    deadline = time.monotonic() + _PATIENCE
    while True:
        swept = evict.sweep(base, cache.own.usage, before if cap is None else cap)
        if swept is not None or time.monotonic() > deadline or not evict.wait_for_sweeper(base):
            break
    removed += swept or 0
    after = sum(found.nbytes for found in scan(base))
    return {"removed": removed, "freed_bytes": freed + max(0, before - after), "bytes": after}


def clear(cache: Cache, chosen: Chosen) -> dict[str, int]:
    """Remove the chosen entries; without a choice all of them, those in quarantine included.
    Entries in use stay and are counted in `left`."""
    base = cache.own.base
    there = [found for found, _ in entries(cache.own, chosen)]
    removed, freed = evict.remove_all(base, there)
    left = len(there) - removed
    if chosen.all:
        with contextlib.suppress(OSError):
            # behind a link are somebody's files
            for file in () if (base / QUARANTINE).is_symlink() else (base / QUARANTINE).iterdir():
                file.unlink(missing_ok=True)
    with lock.try_hold(evict.lock_path(base, "sweep")) as alone, contextlib.suppress(OSError):
        if alone and base.is_dir():
            if chosen.all:
                evict.remove_leftovers(base, alone)
            mark = cache.own.usage.mark()
            cache.own.usage.reset(sum(found.nbytes for found in scan(base)), mark)
    return {"removed": removed, "freed_bytes": freed, "left": left}


@value_class(frozen=True, slots=True)
class Miss:
    """The reason why the cache has no entry for a request.

    Attributes:
        cause: as `CacheStats.misses`.
        nearest: the mark of the entry with the fewest other key parts, None if the kernel has none
            for the target.
        differs: (key part, wanted value, value of the nearest entry).
    """

    cause: str
    nearest: str | None
    differs: tuple[tuple[str, str | None, str | None], ...]


def why(
    cache: Cache, target: Target, kernel: str, parts: Sequence[tuple[str, str]], key: str
) -> str | Miss:
    """The path of the entry that a call would use, or the reason why there is none."""
    place = Place(target, kernel, key)
    found = cache.look(place, quietly=True)
    if not isinstance(found, str):
        return str(found[0].mark_path(place))
    wanted = dict(parts)
    best: Miss | None = None
    for store in cache.stores:
        for path, body in store.bodies(place):
            try:
                have = {str(label): str(value) for label, value in body.get("key_parts", ())}
            except DAMAGE:
                continue
            if not have:  # a device's own binary has no key parts
                continue
            differs = tuple(
                (label, wanted.get(label), have.get(label))
                for label in dict.fromkeys([*wanted, *have])
                if wanted.get(label) != have.get(label)
            )
            if best is None or len(differs) < len(best.differs):
                best = Miss(found, str(path), differs)
    return best or Miss(found, None, ())
