"""The layers in order: read-only folders, the user's own folder, the remote store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .._artifacts.entry import (
    DAMAGE,
    Entry,
    Place,
    artifact_fields,
    key_of,
    make_entry,
    stage_times,
    unpack,
)
from .._system.life import in_forked_child
from .._values import environment
from .._values.environment import CacheSettings
from .._values.types import Artifact, Target
from .counters import count, count_miss
from .store import Cause, Store, warn

if TYPE_CHECKING:
    from .._artifacts.signatures import Signer, Trust
    from .remote import Remote

__all__ = ["Cache", "default_cache"]

_LONGEST_COMPILE = 86400.0  # seconds; an entry that says more would spoil a whole process's sum
_SECTIONS_SHARE = 8  # a part of a bundle may take an eighth of the cap


class Cache:
    """Reads and writes entries. Every failure is a miss or a skipped write; none is an error to
    the caller.

    Raises:
        UntrustedError: a key file of the settings cannot be used.
        XTargetError: nothing here can speak to the remote store of the settings.
    """

    def __init__(self, folder: Path, settings: CacheSettings | None = None) -> None:
        self.settings = (
            CacheSettings(folder) if settings is None else settings._replace(folder=folder)
        )
        self.root = folder
        self._trust, self._signer = _keys(self.settings)
        own = Store(
            folder,
            writable=self.settings.mode == "readwrite",
            shared=self.settings.shared,
            trust=self._trust,
            max_bytes=self.settings.max_bytes,
        )
        self.own = own
        self.layers = tuple(
            Store(layer, writable=False, shared=self.settings.shared, trust=self._trust)
            for layer in self.settings.layers
        )
        #: In the order in which they are asked.
        self.stores = (*self.layers, own) if self.settings.mode != "off" else ()
        self._remote: Remote | None = None
        if self.settings.remote is not None and self.settings.mode != "off":
            from .remote import Remote

            self._remote = Remote(
                self.settings.remote,
                seconds=self.settings.remote_seconds,
                writable=self.settings.remote_write,
                trust=self._trust,
            )

    @property
    def remote_name(self) -> str | None:
        """The remote store's URL without its password."""
        return None if self._remote is None else self._remote.shown

    # ------------------------------------------------------------------------------ artifacts

    def get(self, target: Target, kernel: str, key: str, *, again: bool = False) -> Artifact | None:
        """The artifact of that key on this machine, or None.

        Args:
            again: this miss was counted already.
        """
        found = self.look(Place(target, kernel, key))
        if isinstance(found, str):
            if not again:
                count_miss(found)
            return None
        store, entry = found
        count(**{"hits" if store is self.own else "layer_hits": 1})
        return _hit(entry)

    def look(self, place: Place, *, quietly: bool = False) -> tuple[Store, Entry] | Cause:
        """The first folder that has the entry; without one, the cause of the last miss.

        Args:
            quietly: leave a damaged entry where it is.
        """
        cause: Cause = "absent"
        for store in self.stores:
            try:
                found = store.check(place) if quietly else store.read(place)
            except DAMAGE:
                found = "damaged"
            if isinstance(found, Entry):
                return store, found
            cause = cause if found == "absent" else found
        return cause

    def fetch(self, target: Target, kernel: str, key: str) -> Artifact | None:
        """Fetch an artifact from the remote store and keep it here; None if the store does not have
        it."""
        if self._remote is None:
            return None
        place = Place(target, kernel, key)
        entry = self._remote.read(place)
        if entry is None:
            return None
        if self.settings.mode == "readwrite":
            self.own.write(place, entry)
        count(remote_hits=1)
        return _hit(entry)

    def find(
        self, target: Target, kernel: str, parts: Sequence[tuple[str, str]], ignore: str
    ) -> Artifact | None:
        """An artifact whose key parts equal `parts` in all but the one labelled `ignore`."""
        for store in self.stores:
            entry = store.with_equal_parts(Place(target, kernel, ""), parts, ignore)
            if entry is not None:
                count(**{"hits" if store is self.own else "layer_hits": 1})
                return _hit(entry)
        return None

    def put(
        self,
        kernel: str,
        key: str,
        parts: Sequence[tuple[str, str]],
        a: Artifact,
        *,
        seconds: float = 0.0,
    ) -> None:
        """Store an artifact that took `seconds` to compile."""
        place = Place(a.target, kernel, key)
        entry = self._write(place, *_facts(parts, a, seconds))
        if entry is not None and self._remote is not None:
            self._remote.write(place, entry)

    def sealed(self, kernel: str, key: str, parts: Sequence[tuple[str, str]], a: Artifact) -> Entry:
        """The entry of an artifact: the one that is kept, or one that is made for the occasion."""
        place = Place(a.target, kernel, key)
        found = self.look(place)
        if isinstance(found, tuple):
            return found[1]
        return make_entry(place, *_facts(parts, a, 0.0), self._signer)

    def take(
        self, target: Target, kernel: str, parts: Sequence[tuple[str, str]], blob: bytes
    ) -> Artifact:
        """An artifact that somebody else made and sealed (`sealed`), which is kept here then.

        Args:
            parts: of the key that it has to have.

        Raises:
            UntrustedError: nobody whom `XTARGET_TRUST` names has signed it.
            one of DAMAGE: it is not that entry, or not as it was written.
        """
        place = Place(target, kernel, key_of(parts))
        entry = unpack(blob, place, self._trust)
        if entry.body.get("key_parts") != [list(part) for part in parts]:
            raise ValueError("it was made from something else than its key says")
        made = entry.artifact()
        if self.settings.mode == "readwrite":
            self.own.write(place, entry)
        count(served=1)
        return made

    def set_aside(self, target: Target, kernel: str, key: str, why: str) -> None:
        """Put an entry of the user's own folder into quarantine, although it is intact."""
        self.own.set_aside(Place(target, kernel, key), why)

    # --------------------------------------------------------------------- what is not an artifact

    def get_native(self, target: Target, kernel: str, key: str) -> bytes | None:
        """Return the code that a run time made from a portable binary for one device."""
        found = self.look(Place(target, kernel, key, "native"))
        return None if isinstance(found, str) else found[1].files["bin"]

    def put_native(self, target: Target, kernel: str, key: str, binary: bytes) -> None:
        self._keep(Place(target, kernel, key, "native"), binary, {})

    def get_section(self, target: Target, key: str) -> tuple[dict[str, object], bytes] | None:
        """A bundle's part for one target: its description and its bytes."""
        found = self.look(Place(target, "bundle", key, "section"))
        if isinstance(found, str):
            return None
        listed = found[1].body.get("section")
        return (listed, found[1].files["bin"]) if isinstance(listed, dict) else None

    def put_section(
        self, target: Target, key: str, listed: Mapping[str, object], content: bytes
    ) -> None:
        """Keep a bundle's part, unless it would evict too many entries."""
        cap = self.settings.max_bytes
        if cap is None or len(content) <= cap // _SECTIONS_SHARE:
            place = Place(target, "bundle", key, "section")
            self._keep(place, content, {"section": dict(listed)})

    def _keep(self, place: Place, binary: bytes, facts: dict[str, object]) -> None:
        with self.flight(place.target, place.kernel, place.key):
            self._write(place, {"bin": binary}, facts)

    # ---------------------------------------------------------------------------------- writing

    @contextlib.contextmanager
    def flight(self, target: Target, kernel: str, key: str) -> Iterator[None]:
        """Let one process at a time work on a key. Processes that waited find the entry."""
        if self.settings.mode != "readwrite":
            yield
            return
        with self.own.flight(Place(target, kernel, key), self.settings.wait_seconds):
            yield

    def _write(
        self, place: Place, files: dict[str, bytes], facts: dict[str, object]
    ) -> Entry | None:
        if self.settings.mode != "readwrite":
            return None
        if self._trust is not None and self._signer is None:
            warn(
                f"{self._trust.path} believes signed entries only, and XTARGET_SIGN names no key: "
                "what is compiled here is not kept"
            )
            return None
        entry = make_entry(place, files, facts, self._signer)
        self.own.write(place, entry)
        return entry


def _facts(
    parts: Sequence[tuple[str, str]], a: Artifact, seconds: float
) -> tuple[dict[str, bytes], dict[str, object]]:
    """The files of an artifact's entry, and what it says of them."""
    files, fields = artifact_fields(a)
    return files, {
        "key_parts": [list(part) for part in parts],
        "artifact": fields,
        "compile_seconds": round(seconds, 3),
        "stage_seconds": {name: round(s, 4) for name, s in a.stage_seconds.items()},
    }


def _hit(entry: Entry) -> Artifact:
    seconds = entry.body.get("compile_seconds")
    if isinstance(seconds, int | float) and 0 <= seconds <= _LONGEST_COMPILE:
        count(compile_seconds_saved=seconds)
    return replace(entry.artifact(), stage_seconds=stage_times(entry.body.get("stage_seconds")))


def _keys(settings: CacheSettings) -> tuple[Trust | None, Signer | None]:
    if settings.trust is None and settings.sign is None:
        return None, None
    from .._artifacts.signatures import Signer, Trust

    trust = None if settings.trust is None else Trust(settings.trust)
    return trust, None if settings.sign is None else Signer(settings.sign)


@lru_cache(maxsize=8)
def _cache_of(settings: CacheSettings) -> Cache:
    return Cache(settings.folder, settings)


in_forked_child(_cache_of.cache_clear)  # its locks may be held for ever


def default_cache() -> Cache:
    """The cache that the environment describes.

    Raises:
        XTargetError: the environment does not describe one.
    """
    return _cache_of(environment.cache_settings())
