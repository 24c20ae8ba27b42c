"""The binary cache on disk: one folder per target, one pair of files per artifact.

    <cache dir>/v1/nvidia/sm_90/add-<key>.cubin   the binary, readable by the vendor's tools
    <cache dir>/v1/nvidia/sm_90/add-<key>.json    the artifact without it, all parts of the key, and
                                                  size and sha256 of every file of the entry

The JSON is written last and is the commit mark. A reader checks size and digest; whatever is wrong
is a miss: the entry is set aside, a warning names it, and the kernel is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from . import _env
from ._types import Artifact, Parameter, Resources, Scratch, Target

__all__ = ["SCHEMA", "Cache", "key_of"]

#: Layout of files and JSON; another layout gets another number and never reads this one's files.
SCHEMA: Final = "v1"
_QUARANTINE = "quarantine"
_SHOWN = 24  # characters of the key in file names: 96 bits


def key_of(parts: Sequence[tuple[str, str]]) -> str:
    """sha256 (hex) over labelled, length-prefixed parts in their order."""
    digest = hashlib.sha256()
    for label, value in parts:
        for text in (label.encode(), value.encode()):
            digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


class Cache:
    """Reads and writes entries below one folder. Every failure is a miss or a skipped write; none
    is an error to the caller."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------------ artifacts

    def get(self, target: Target, kernel: str, key: str) -> Artifact | None:
        """The artifact of that key, or None."""
        entry = self._read(self._folder(target), f"{kernel}-{key[:_SHOWN]}", key)
        return None if entry is None else _decode(*entry)

    def find(
        self, target: Target, kernel: str, parts: Sequence[tuple[str, str]], ignore: str
    ) -> Artifact | None:
        """An artifact whose key parts equal `parts` in all but the one labelled `ignore`."""
        wanted = [part for part in parts if part[0] != ignore]
        folder = self._folder(target)
        try:
            names = sorted(folder.glob(f"{kernel}-*.json"))
        except OSError:
            return None
        for path in names:
            meta = self._json(path)
            have = [] if meta is None else [tuple(p) for p in meta.get("key_parts", [])]
            if meta is not None and [p for p in have if p[0] != ignore] == wanted:
                artifact = self.get(target, kernel, str(meta.get("key")))
                if artifact is not None:
                    return artifact
        return None

    def put(self, kernel: str, key: str, parts: Sequence[tuple[str, str]], a: Artifact) -> None:
        """Store an artifact; texts that are kept with it (PTX) get files of their own."""
        files = {a.format: a.binary, **{name: text.encode() for name, text in a.texts.items()}}
        fields = {
            name: value
            for name, value in asdict(a).items()
            if name not in ("binary", "texts", "target")
        }
        meta = {"target": str(a.target), "key_parts": [list(p) for p in parts], "artifact": fields}
        self._write(self._folder(a.target), f"{kernel}-{key[:_SHOWN]}", key, files, meta)

    # ------------------------------------------------------------------- a device's own binaries

    def get_native(self, target: Target, kernel: str, key: str) -> bytes | None:
        """What a run time made of a portable binary, for one device."""
        entry = self._read(self._folder(target) / "native", f"{kernel}-{key[:_SHOWN]}", key)
        return None if entry is None else entry[1]["bin"]

    def put_native(self, target: Target, kernel: str, key: str, binary: bytes) -> None:
        folder = self._folder(target) / "native"
        self._write(folder, f"{kernel}-{key[:_SHOWN]}", key, {"bin": binary}, {})

    # ---------------------------------------------------------------------------------- files

    def _folder(self, target: Target) -> Path:
        return self.root / SCHEMA / target.vendor / target.arch

    def _json(self, path: Path) -> dict[str, Any] | None:
        try:
            meta = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return meta if isinstance(meta, dict) else None

    def _read(
        self, folder: Path, stem: str, key: str
    ) -> tuple[dict[str, Any], dict[str, bytes]] | None:
        path = folder / f"{stem}.json"
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):  # a write will tell of the latter
            return None
        except OSError as error:
            self._warn(f"the cache folder {self.root} cannot be read ({error.strerror})")
            return None
        try:
            meta = json.loads(text)
            if meta.pop("sha256", None) != _digest(meta):
                raise ValueError("its JSON was changed after it was written")
            if meta["key"] != key:
                raise ValueError("its key is another one")
            files = {}
            for suffix, mark in meta["files"].items():
                if not suffix.isalnum():
                    raise ValueError(f"it names a file {suffix!r}")
                data = (folder / f"{stem}.{suffix}").read_bytes()
                if len(data) != mark["size"]:
                    raise ValueError(f".{suffix} has {len(data)} bytes, not {mark['size']}")
                if hashlib.sha256(data).hexdigest() != mark["sha256"]:
                    raise ValueError(f".{suffix} has another sha256 than when it was written")
                files[suffix] = data
            _ = _decode(meta, files) if "artifact" in meta else files["bin"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._quarantine(folder, stem, error)
            return None
        return meta, files

    def _write(
        self, folder: Path, stem: str, key: str, files: Mapping[str, bytes], meta: Mapping[str, Any]
    ) -> None:
        marks = {
            suffix: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for suffix, data in files.items()
        }
        meta = {"key": key, **meta, "files": marks}
        text = json.dumps({**meta, "sha256": _digest(meta)}, indent=1, sort_keys=True)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, data in files.items():
                _replace(folder / f"{stem}.{suffix}", data)
            _replace(folder / f"{stem}.json", text.encode())
        except OSError as error:
            self._warn(
                f"the cache folder {self.root} cannot be written ({error.strerror or error}); "
                "kernels are compiled again in every process. Set XTARGET_CACHE_DIR to a folder "
                "that can be written"
            )

    def _quarantine(self, folder: Path, stem: str, why: Exception) -> None:
        aside = self.root / SCHEMA / _QUARANTINE
        _warning(
            "the cache entry %s is damaged (%s: %s); it was set aside in %s and the kernel is "
            "compiled again",
            folder / stem,
            type(why).__name__,
            why,
            aside,
        )
        try:
            aside.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"{stem}.*"):
                os.replace(path, aside / path.name)
        except OSError as error:
            self._warn(f"a damaged entry could not be set aside in {aside} ({error.strerror})")

    def _warn(self, message: str) -> None:
        """Once per message and process."""
        with self._lock:
            if message in self._warned:
                return
            self._warned.add(message)
        _warning("%s.", message)


def _warning(text: str, *values: object) -> None:
    import logging  # only a process with something to say pays for it

    logging.getLogger("xtarget.cache").warning(text, *values)


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing, also after a power loss."""
    import tempfile

    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(meta: Mapping[str, Any]) -> str:
    """sha256 of the JSON's content: it says how a binary is launched."""
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _decode(meta: Mapping[str, Any], files: Mapping[str, bytes]) -> Artifact:
    fields = dict(meta["artifact"])
    return Artifact(
        target=Target.parse(meta["target"]),
        binary=files[fields["format"]],
        texts={s: data.decode() for s, data in files.items() if s != fields["format"]},
        parameters=tuple(Parameter(**p) for p in fields.pop("parameters")),
        global_scratch=Scratch(**fields.pop("global_scratch")),
        profile_scratch=Scratch(**fields.pop("profile_scratch")),
        resources=Resources(**fields.pop("resources")),
        **fields,
    )


_cache: Cache | None = None


def default_cache() -> Cache:
    """The cache in `XTARGET_CACHE_DIR` or the platform's cache folder."""
    global _cache
    root = _env.cache_dir()
    if _cache is None or _cache.root != root:
        _cache = Cache(root)
    return _cache
