"""The choices of plans: what was measured here, or is shipped with the kernels.

The nearest range serves (`chooser`). Of one range, what was measured on this machine stands before
what was shipped, and both before what a plan takes by rule.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from .._system import files
from .._system.locks import Lock
from .._values import environment
from .._values.choosing import Chooser, Question, octave_of
from .._values.errors import ArgumentError
from .._values.symbolic_integers import peek
from .._values.value_classes import value_class
from . import libraries
from .tuning_files import DEFAULT, Entry, merged, read_file, text_of

__all__ = [
    "Served",
    "chooser",
    "fields",
    "forget",
    "is_trying",
    "local_entries",
    "note_asked",
    "on_change",
    "shipped_entries",
    "shipped_folder",
    "store",
    "stored_entries",
    "trying",
]

_FOLDER: Final = ("tuned",)
#: How many octaves, in all sizes together, a range may be away to serve a call.
_FARTHEST: Final = 3

#: Called after what is known has changed.
on_change: list[Callable[[], None]] = []

_lock = Lock()
#: By folder of the cache, target and table.
_local: dict[tuple[str, str, str], tuple[Entry, ...]] = {}
_shipped: dict[str, tuple[Entry, ...]] = {}


@value_class(frozen=True, slots=True)
class Served:
    """An answer to a question of a plan.

    Attributes:
        sizes: as numbers.
        how: `measured`, `derived`, `default`, `tried` while it is tuned, or `asked for`.
        where: the entry, for people.
    """

    asked: Question
    sizes: Mapping[str, int]
    choice: Any
    how: str
    where: str = ""


@dataclass(slots=True)
class _Trial:
    """The choices that plans take in this context, by table, and the questions that they asked."""

    taken: Mapping[str, Any]
    seen: list[Served] = field(default_factory=list)


_trial: ContextVar[_Trial | None] = ContextVar("xtarget_trial", default=None)


@contextlib.contextmanager
def trying(taken: Mapping[str, Any]) -> Iterator[list[Served]]:
    """Within it, plans of this context take these choices.

    Args:
        taken: by table; a table that is not in it is chosen as ever.

    Gives:
        what was asked, and answered.
    """
    trial = _Trial(taken)
    token = _trial.set(trial)
    try:
        yield trial.seen
    finally:
        _trial.reset(token)


def note_asked(choice: Any) -> None:
    """The question that was answered last has another choice, which the caller asks for."""
    trial = _trial.get()
    if trial is not None and trial.seen:
        trial.seen[-1] = replace(trial.seen[-1], choice=choice, how="asked for", where="config=")


def is_trying() -> bool:
    """Whether plans of this context are made to try choices."""
    return _trial.get() is not None


@cache
def chooser(target: str, *, local: bool = True) -> Chooser:
    """A function that answers the questions of plans for a target.

    Args:
        local: entries that were measured here answer too; if not, only shipped ones, the same
            everywhere.
    """

    def choose(asked: Question) -> Any:
        trial = _trial.get()
        if trial is not None and asked.table in trial.taken:
            choice, how, where = trial.taken[asked.table], "tried", ""
        else:
            found = _nearest(target, asked, local=local)
            if found is None:
                choice, how, where = asked.default, asked.origin, asked.source
            else:
                choice, entry = found
                how, where = entry.how, f"{entry.device}, {entry.range_text() or entry.table}"
        if trial is not None:
            sizes = {name: peek(size) for name, size in asked.sizes.items()}
            trial.seen.append(Served(asked, sizes, choice, how, where))
        return choice

    return choose


def _nearest(target: str, asked: Question, *, local: bool) -> tuple[Any, Entry] | None:
    """The choice of the nearest range, and the entry that says it; None: the default is nearer."""
    known = local_entries(target, asked.table) if local else ()
    shipped = [entry for entry in shipped_entries(target) if entry.table == asked.table]
    if not known and not shipped:
        return None
    words = dict(asked.words())
    fitting = [entry for entry in (*known, *shipped) if entry.words == words]
    if not fitting:
        return None
    sizes = asked.sizes
    usual = asked.text(asked.default)
    if all(entry.best in (DEFAULT, usual) for entry in fitting):
        # whichever is nearest says the same: the call's class has no ranges for it
        sizes = {name: peek(size) for name, size in sizes.items()}
    octaves = {name: octave_of(size) for name, size in sizes.items()}
    best: tuple[int, Any, Entry] | None = None
    for entry in fitting:
        own = entry.octaves
        if own.keys() != octaves.keys():
            continue
        away = sum(abs(own[name] - octave) for name, octave in octaves.items())
        if away > _FARTHEST or (best is not None and best[0] <= away):
            continue
        if asked.origin != "default" and not _is_near(entry, sizes):
            continue
        choice = asked.default if entry.best == DEFAULT else asked.read(entry.best)
        if choice is not None:
            best = away, choice, entry
        elif "key" not in words:  # a configuration that its author's `prune` left out is none
            _tell_unreadable(entry.table, entry.range_text(), entry.device, entry.best, usual)
    return None if best is None else best[1:]


@cache
def _tell_unreadable(table: str, sizes: str, device: str, best: str, usual: str) -> None:
    """Warn of an entry, once."""
    import logging  # is seldom needed, and brings traceback

    logging.getLogger("xtarget").warning(
        "A measurement of %s for %s on %s is ignored: its choice is %s, where this version of "
        "xtarget has one like %s. `xtarget tune` measures it again.",
        table, sizes, device, best, usual,
    )  # fmt: skip


def _is_near(entry: Entry, sizes: Mapping[str, int]) -> bool:
    """Whether an entry stands before a default that was measured too, by rules for more sizes: its
    own are within an eighth of the call's."""
    return all(-(-7 * own // 8) <= sizes[name] <= 9 * own // 8 for name, own in entry.sizes.items())


# ----------------------------------------------------------------------------------------- on disk


def shipped_folder() -> Path:
    """The folder with the files of entries that come with our kernels, `VENDOR-ARCH.json`."""
    return libraries.own_folder() / "choices" / "tuned"


@cache
def fields(table: str) -> tuple[str, ...] | None:
    """The names of a choice's numbers in a table of our library; None: it has no such table."""
    path = libraries.own_folder() / "tables.json"
    found = json.loads(path.read_text(encoding="utf-8")).get(table)
    return None if found is None else tuple(found)


def shipped_entries(target: str) -> tuple[Entry, ...]:
    """The entries for a target that come with our kernels."""
    found = _shipped.get(target)
    if found is None:
        name = f"{target.replace(':', '-')}.json"
        path = shipped_folder() / name
        found = _shipped[target] = tuple(read_file(path)) if path.is_file() else ()
    return found


def local_entries(target: str, table: str) -> tuple[Entry, ...]:
    """The entries that were measured or imported here."""
    key = _key(target, table)
    found = _local.get(key)
    if found is None:
        found = _local[key] = tuple(_read(_path(target, table)))
    return found


def _key(target: str, table: str) -> tuple[str, str, str]:
    return str(environment.cache_settings().folder), target, table


def store(entries: Sequence[Entry]) -> bool:
    """Keep entries in this process and beside the cache of binaries, with those that are there.

    Returns:
        whether they are on disk; where nothing can be written, this process alone has them.
    """
    written = True
    for target, table in dict.fromkeys((entry.target, entry.table) for entry in entries):
        own = [entry for entry in entries if (entry.target, entry.table) == (target, table)]
        with _lock:
            path = _path(target, table)
            key = _key(target, table)
            known = merged(_local.get(key, ()), _read(path), own)
            _local[key] = tuple(known)
            written &= _write(path, known)
    for changed in on_change:
        changed()
    return written


def _write(path: Path | None, known: Sequence[Entry]) -> bool:
    settings = environment.cache_settings()
    if path is None or settings.mode != "readwrite":
        return False
    try:
        files.make_folders(settings.folder, _FOLDER, shared=settings.shared)
        files.write(path, text_of(known).encode(), shared=settings.shared)
    except OSError:  # a full or a read-only disk
        return False
    return True


def stored_entries() -> list[Entry]:
    """All that is on disk here."""
    settings = environment.cache_settings()
    if settings.mode == "off":
        return []
    folder = settings.folder.joinpath(*_FOLDER)
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [entry for path in paths for entry in _read(path)]


def forget(table: str | None = None) -> None:
    """Read what is on disk again: of one table, or of all."""
    for key in [key for key in list(_local) if table in (None, key[2])]:
        _local.pop(key, None)
    if table is None:
        _shipped.clear()


libraries.on_added.append(forget)


def _path(target: str, table: str) -> Path | None:
    settings = environment.cache_settings()
    if settings.mode == "off":
        return None
    digest = hashlib.sha256("\n".join((target, table)).encode()).hexdigest()
    return settings.folder.joinpath(*_FOLDER, f"{digest[:32]}.json")


def _read(path: Path | None) -> list[Entry]:
    """The entries of a file: none where it is missing, and a warning where it is not readable as
    one of ours."""
    if path is None:
        return []
    try:
        return read_file(path) if path.exists() else []
    except (FileNotFoundError, NotADirectoryError):  # the cache tells of a folder that is none
        return []
    except (OSError, ArgumentError) as error:
        import logging  # is seldom needed, and brings traceback

        logging.getLogger("xtarget").warning("A file of measurements is ignored: %s", error)
        return []
