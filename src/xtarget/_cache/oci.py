"""Cache entries and bundles as an OCI image layout, which the tools of container registries push
and pull: a layer for each target, and one for each bundle.

Unpacked, an image has `xtarget/cache`, a folder for `XTARGET_CACHE_PATH`, and `xtarget/bundles`.
Equal content gives equal bytes. Source: OCI image format specification 1.0, image-layout.md,
manifest.md, config.md.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._artifacts.entry import (
    DAMAGE,
    Entry,
    Place,
    check_file,
    check_mark,
    read_mark,
)
from .._artifacts.signatures import Trust
from .._system import files
from .._system.output import write_output
from .._values.errors import XTargetError, shortened
from .._values.types import Target
from .._values.value_classes import value_class
from .compression import pack, unpack

__all__ = ["BUNDLES", "CACHE", "Layer", "check_tag", "entries_in", "layer_of", "write_layout"]

#: Folders of an unpacked image.
CACHE, BUNDLES = "xtarget/cache", "xtarget/bundles"
#: What a layer is of, among its annotations.
CONTENT = "dev.xtarget.content"
#: The tag of an image, among its annotations in an index.
_TAGGED = "org.opencontainers.image.ref.name"
_MEDIA = "application/vnd.oci.image"
_MOST_JSON = 4 << 20
_MOST_LAYER = 1 << 30
#: Indexes may name indexes.
_MOST_DEEP = 8
#: How packed layers begin: gzip, zstd. Others are plain tar files.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
#: What registries take (OCI distribution specification 1.0, pulling manifests).
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}", re.ASCII)


@value_class(frozen=True, slots=True)
class Layer:
    """A layer of an image.

    Attributes:
        content: a target, or a bundle's name.
        packed: the bytes of its blob.
        plain_sha256, plain_bytes: of the tar file within.
        compression: `gzip` or `zstd`.
    """

    content: str
    packed: bytes
    plain_sha256: str
    plain_bytes: int
    compression: str

    @property
    def descriptor(self) -> dict[str, Any]:
        media = f"{_MEDIA}.layer.v1.tar+{self.compression}"
        return _descriptor(media, self.packed, {CONTENT: self.content})


def layer_of(content: str, members: Iterable[tuple[str, bytes]], compression: str) -> Layer:
    """A layer of files.

    Args:
        members: paths and contents.
        compression: of `compression.KINDS`.

    Raises:
        XTargetError: it is not installed.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, data in sorted(members):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    plain = buffer.getvalue()
    packed, digest = pack(plain, compression), hashlib.sha256(plain).hexdigest()
    return Layer(content, packed, digest, len(plain), compression)


def _descriptor(media: str, data: bytes, notes: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"mediaType": media, "digest": _digest(data), "size": len(data)}
    return {**found, "annotations": dict(notes)} if notes else found


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def check_tag(tag: str) -> None:
    """Raises:
    XTargetError: no registry would take it.
    """
    if _TAG.fullmatch(tag) is None:
        raise XTargetError(
            f"{shortened(tag)} is no tag of an image. Write up to 128 letters, digits, `_`, `.` "
            "and `-`, the first a letter, a digit or `_`: v1, for example."
        )


def write_layout(folder: Path, layers: Sequence[Layer], tag: str, version: str) -> None:
    """Write an image layout.

    Args:
        tag: the image's name in it. Images of other names stay.
        version: of xtarget.

    Raises:
        XTargetError: the folder has something else, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise XTargetError(f"{folder} is a file. Name the folder that the image is written into.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "oci-layout").is_file():
        raise XTargetError(
            f"{folder} is not empty and no OCI image layout. Name a new folder, or remove what is "
            "in it."
        )
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {"dev.xtarget.version": version}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{x.plain_sha256}" for x in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor(f"{_MEDIA}.config.v1+json", config, {}),
            "layers": [layer.descriptor for layer in layers],
            "annotations": {"dev.xtarget.version": version},
        }
    )
    named = {_TAGGED: tag}
    listed = _descriptor(f"{_MEDIA}.manifest.v1+json", manifest, named)
    images = [*_others(folder, tag), listed]
    index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}.index.v1+json", "manifests": images}
    for data in (config, manifest, *(layer.packed for layer in layers)):
        write_output(folder / "blobs" / "sha256" / _digest(data).partition(":")[2], data)
    write_output(folder / "oci-layout", b'{"imageLayoutVersion": "1.0.0"}\n')
    write_output(folder / "index.json", _json(index))  # last: it names the others


# ------------------------------------------------------------------------------------------ reading


def _blob(folder: Path, descriptor: Any, most: int) -> bytes:
    """The checked bytes of a descriptor.

    Raises:
        ValueError, KeyError, TypeError: they are not what it says.
        OSError: there are none.
    """
    kind, _, name = str(descriptor["digest"]).partition(":")
    if kind != "sha256" or len(name) != 64 or set(name) - set("0123456789abcdef"):
        raise ValueError(f"{descriptor['digest']!r:.80} is not a sha256")
    if type(descriptor["size"]) is not int or not 0 <= descriptor["size"] <= most:
        raise ValueError(f"a blob is said to have {descriptor['size']!r:.40} bytes")
    data = files.read_regular(folder / "blobs" / "sha256" / name, most)
    if len(data) != descriptor["size"] or hashlib.sha256(data).hexdigest() != name:
        raise ValueError(f"the blob {name[:16]}... has other bytes than its name says")
    return data


def _index(folder: Path) -> Any:
    return json.loads(files.read_regular(folder / "index.json", _MOST_JSON))


def _others(folder: Path, tag: str) -> list[Any]:
    """The entries that a layout lists beside the image of a tag.

    Raises:
        XTargetError: its index is damaged.
    """
    try:
        listed = _index(folder)["manifests"]
        return [one for one in listed if one.get("annotations", {}).get(_TAGGED) != tag]
    except FileNotFoundError:
        return []
    except (OSError, *DAMAGE) as error:
        raise XTargetError(
            f"the index of the OCI image layout {folder} is damaged ({error}). Name a new folder."
        ) from error


def entries_in(folder: Path, trust: Trust | None) -> Iterator[tuple[Place, Entry]]:
    """The cache entries of an image layout, each checked as one of a cache.

    Raises:
        XTargetError: it is not a layout, or damaged.
        UntrustedError: `trust` is given, and nobody in it signed an entry.
    """
    seen: set[str] = set()  # of a few bytes, indexes could name each other billions of times
    try:
        for manifest in _manifests(folder, _index(folder), _MOST_DEEP, seen):
            for layer in manifest["layers"]:
                # others are of signatures and the like
                if "tar" in str(layer["mediaType"]) and str(layer["digest"]) not in seen:
                    seen.add(str(layer["digest"]))
                    yield from _entries(_files_of(_blob(folder, layer, _MOST_LAYER)), trust)
    except (*DAMAGE, tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise XTargetError(
            f"the OCI image layout {folder} is damaged: {error}. Copy it once more."
        ) from error
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else error
        raise XTargetError(
            f"{folder} is not an OCI image layout that can be read ({why}). Name the folder that "
            "xtarget cache export or skopeo copy has written."
        ) from error


def _manifests(folder: Path, index: Any, deep: int, seen: set[str]) -> Iterator[Any]:
    """Those of the images that an index names, and the indexes in it, each once.

    Args:
        seen: digests of what was read.
    """
    if not deep:
        raise ValueError("an index is in too many others")
    for one in index["manifests"]:
        if str(one["digest"]) in seen:
            continue
        found = json.loads(_blob(folder, one, _MOST_JSON))
        seen.add(str(one["digest"]))
        if "manifests" in found:
            yield from _manifests(folder, found, deep - 1, seen)
        else:
            yield found


def _files_of(layer: bytes) -> dict[str, bytes]:
    """The regular files of a layer, below the cache's folder."""
    found: dict[str, bytes] = {}
    plain = unpack(layer, _MOST_LAYER) if layer.startswith(_PACKED) else layer
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for member in archive:
            if member.size < 0:  # older Pythons would read it again and again (CVE-2025-8194)
                raise ValueError(f"{member.name[:120]} is said to have {member.size} bytes")
            name = member.name.removeprefix("./")
            if member.isfile() and name.startswith(f"{CACHE}/"):
                if member.issparse():  # a few bytes of it are as many zeros as it says
                    raise ValueError(f"{name[:120]} is a sparse file")
                stream = archive.extractfile(member)
                found[name] = b"" if stream is None else stream.read()
    return found


def _entries(members: Mapping[str, bytes], trust: Trust | None) -> Iterator[tuple[Place, Entry]]:
    for path in sorted(members):
        stem, dot, suffix = path.rpartition(".")
        if suffix != "json":
            continue
        body = read_mark(members[path], trust)
        target = Target.parse(str(body["target"]))
        place = Place(target, str(body["kernel"]), str(body["key"]), str(body["kind"]))
        if Path(stem).name != place.stem:
            raise ValueError(f"{path[:120]} lies where another entry belongs")
        if place.kind != "artifact":
            raise ValueError(f"{path[:120]} is no compiled kernel")
        held = {}
        for own, (size, digest) in check_mark(body, place).items():
            data = members[f"{stem}{dot}{own}"]
            check_file(own, data, size, digest)
            held[own] = data
        entry = Entry(members[path], body, held)
        entry.artifact()  # raises where it says what no compiler does
        yield place, entry
