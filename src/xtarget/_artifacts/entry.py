"""The format of an entry: its commit mark (a JSON with a seal), and its files.

The mark's first line is the seal: sha256 of the body, and perhaps a signature of it. The body lists
size and sha256 of every file, so the seal covers all of the entry. The text is canonical: a mark
that is not byte for byte what `seal` would write is damaged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from .._values.types import Artifact, Parameter, Resources, Scratch, Target
from .._values.value_classes import value_class

if TYPE_CHECKING:
    from .._values.types import CompileRequest
    from .signatures import Signer, Trust

__all__ = [
    "DAMAGE",
    "KINDS",
    "MAX_BLOB_BYTES",
    "MAX_FILE_BYTES",
    "MAX_MARK_BYTES",
    "SCHEMA",
    "Entry",
    "Place",
    "artifact_fields",
    "artifact_of",
    "check_file",
    "check_mark",
    "describe",
    "file_name",
    "is_c_name",
    "is_key",
    "key_of",
    "make_entry",
    "pack",
    "read_mark",
    "request_parts",
    "stage_times",
    "unpack",
]

#: Layout of files and JSON; another layout gets another number and never reads this one's files.
SCHEMA: Final = "v1"
#: Bounds that are checked before anything of that size is read or allocated.
MAX_MARK_BYTES: Final = 4 << 20
MAX_FILE_BYTES: Final = 512 << 20
MAX_BLOB_BYTES: Final = 64 << 20  # of an entry in a far store
_MAX_FILES: Final = 16
_MOST_PARAMETERS: Final = 4096
_MOST_THREADS: Final = 1 << 20  # of a block
_MOST_STAGES: Final = 32
_MOST_SECONDS: Final = 86400.0  # of a stage
#: What entries are of: a compiled kernel, a device's own binary of one, a part of a bundle.
KINDS: Final = ("artifact", "native", "section")
_SHOWN: Final = 24  # characters of the key in file names: 96 bits
_MAGIC: Final = b"xtarget entry 2\n"
_MIDDLE, _END = b', "entry":\n', b"\n}\n"
#: Members of an artifact that the mark holds, and those of them that have members of their own.
_FACTS: Final = tuple(
    f.name
    for f in fields(Artifact)
    if f.name not in ("binary", "texts", "target", "stage_seconds")  # not a fact of the code
)
_NESTED: Final = ("global_scratch", "profile_scratch", "resources")

#: What reading a mark or a file of an entry raises when its content is wrong.
DAMAGE: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)


def key_of(parts: Sequence[tuple[str, str]]) -> str:
    """sha256 (hex) over labelled, length-prefixed parts in their order."""
    digest = hashlib.sha256()
    for label, value in parts:
        for text in (label.encode(), value.encode()):
            digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def request_parts(
    request: CompileRequest, options: Any, *, aligned: bool = False
) -> list[tuple[str, str]]:
    """The parts of a key that a request gives, with these options in the place of its own; with
    `aligned` also what it assumes to be multiples of 16."""
    return [
        ("kernel", request.source.name),
        ("source", request.source.digest),
        ("signature", repr(request.signature)),
        ("constants", repr(request.constants)),
        *([("aligned", repr(request.aligned))] if aligned else []),
        ("num_warps", str(request.num_warps)),
        ("num_stages", str(request.num_stages)),
        ("line_info", str(request.line_info)),
        ("options", repr(options)),
    ]


def is_key(text: object) -> bool:
    """Check whether a value has the form of a key made by `key_of`."""
    return isinstance(text, str) and len(text) == 64 and not set(text) - set("0123456789abcdef")


@value_class(frozen=True, slots=True)
class Place:
    """The identity of an entry. File names are made from it, never from a file's content."""

    target: Target
    kernel: str
    key: str
    kind: str = "artifact"

    @property
    def folders(self) -> tuple[str, str]:
        """Raises:
        ValueError: the target cannot be the name of a folder.
        """
        if not self.target.arch.strip("."):
            raise ValueError(f"{self.target} is not a target")
        return self.target.vendor, self.target.arch

    @property
    def stem(self) -> str:
        """Raises:
        ValueError: the key or the kind is not valid.
        """
        if not is_key(self.key) or self.kind not in KINDS:
            raise ValueError(f"{self.key[:80]!r} is not a key of an entry ({self.kind[:40]!r})")
        kind = "" if self.kind == "artifact" else f"{self.kind}-"
        return f"{self.prefix}{kind}{self.key[:_SHOWN]}"

    @property
    def prefix(self) -> str:
        """The prefix of the names of all entries of the kernel."""
        return f"{file_name(self.kernel)}-"


def file_name(kernel: str) -> str:
    """The kernel's name as part of a file name; a digest of it, if file systems do not take the
    name."""
    if kernel.isascii() and kernel.isidentifier() and len(kernel) <= 80:
        return kernel
    return "k" + hashlib.sha256(kernel.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@value_class(frozen=True, slots=True)
class Entry:
    """A complete entry: the text of its mark, the fields of the mark, and its files by suffix."""

    mark: bytes
    body: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def nbytes(self) -> int:
        return len(self.mark) + sum(map(len, self.files.values()))

    def artifact(self) -> Artifact:
        fields = self.body["artifact"]
        return artifact_of(
            fields,
            target=Target.parse(self.body["target"]),
            binary=self.files[fields["format"]],
            texts={s: data.decode() for s, data in self.files.items() if s != fields["format"]},
        )


def artifact_fields(a: Artifact) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Split an artifact into its files and the fields of the mark. Texts that are kept (PTX) get
    files of their own."""
    files = {a.format: a.binary, **{name: text.encode() for name, text in a.texts.items()}}
    return files, describe(a)


def describe(artifact: Artifact) -> dict[str, Any]:
    """An artifact without bytes, texts and target, in JSON's types."""
    facts = {name: getattr(artifact, name) for name in _FACTS}
    for name in _NESTED:
        facts[name] = _flat(facts[name])
    facts["parameters"] = [_flat(parameter) for parameter in artifact.parameters]
    return facts


def artifact_of(fields: Mapping[str, Any], **given: Any) -> Artifact:
    """Rebuild the artifact that `artifact_fields` took apart.

    Args:
        fields: its facts, from a file that nobody vouches for.
        given: what is not among them, or stands above them.

    Raises:
        KeyError, TypeError, AttributeError, ValueError: it has not all facts, or ones of types that
            no compiler gives: launching believes them.
    """
    facts = dict(fields)
    made = Artifact(
        parameters=tuple(Parameter(**p) for p in facts.pop("parameters")),
        global_scratch=Scratch(**facts.pop("global_scratch")),
        profile_scratch=Scratch(**facts.pop("profile_scratch")),
        resources=Resources(**facts.pop("resources")),
        **{**facts, **given},
    )
    _check_types(made)
    return made


def _check_types(made: Artifact) -> None:
    resources = [n for n in _flat(made.resources).values() if n is not None]
    scratch = [*_flat(made.global_scratch).values(), *_flat(made.profile_scratch).values()]
    numbers = [made.num_warps, made.warp_size, made.shared_bytes, made.cluster, *scratch]
    if any(type(n) is not int or not 0 <= n < 1 << 31 for n in numbers + resources):
        raise ValueError("one of its numbers is none")
    if not 0 < made.num_warps * made.warp_size <= _MOST_THREADS:
        raise ValueError("its block has no such number of threads")
    words = (made.cooperative, made.early)
    if any(type(word) is not bool for word in words) or len(made.parameters) > _MOST_PARAMETERS:
        raise ValueError("it has no word for yes or no, or too many parameters")
    # they become C text, names of files and arguments of tools
    if not is_c_name(made.entry):
        raise ValueError(f"its entry {made.entry!r:.80} is not a C identifier")
    if not is_c_name(made.format) or len(made.format) > 16:
        raise ValueError(f"its format {made.format!r:.80} is none")
    if not is_c_name(made.route) or len(made.route) > 16:
        raise ValueError(f"its route {made.route!r:.80} is none")
    if not all(is_c_name(name) and type(text) is str for name, text in made.texts.items()):
        raise ValueError("one of its texts is none")
    for parameter in made.parameters:
        if type(parameter.name) is not str or not all(
            part.isidentifier() or part.isdecimal() for part in parameter.name.split(".")
        ):
            raise ValueError(f"its parameter {parameter.name!r:.80} has no name")
        type_ = parameter.type
        if type(type_) is not str or not (type_.isascii() and type_.isprintable()):
            raise ValueError(f"its parameter {parameter.name[:80]} has no type")
        if parameter.hidden is not None and not is_c_name(parameter.hidden):
            raise ValueError(f"its parameter {parameter.name[:80]} is hidden for no reason")
        access, stored = parameter.access, parameter.stored
        if access is not None and (type(access) is not str or set(access) - set("rwapm")):
            raise ValueError(f"its parameter {parameter.name[:80]} is used in no known way")
        if stored is not None and (type(stored) is not str or not stored.isprintable()):
            raise ValueError(f"its parameter {parameter.name[:80]} is stored to in no line")


def is_c_name(value: object) -> bool:
    """Check whether a value is a C identifier, as Triton requires of a kernel's name."""
    return type(value) is str and len(value) <= 1024 and value.isascii() and value.isidentifier()


def _flat(value: Any) -> dict[str, Any]:
    """The same as `asdict`, for classes without dataclasses inside; `asdict` takes eight times as
    long."""
    return {name: getattr(value, name) for name in value.__slots__}


def stage_times(given: Any) -> dict[str, float]:
    """Seconds by stage of a compilation, from a file or a process that nobody vouches for; empty
    where they are anything else."""
    if not isinstance(given, dict) or len(given) > _MOST_STAGES:
        return {}
    fits = all(type(s) in (int, float) and 0 <= s <= _MOST_SECONDS for s in given.values())
    return given if fits else {}


def make_entry(
    place: Place,
    files: Mapping[str, bytes],
    facts: Mapping[str, Any],
    signer: Signer | None = None,
) -> Entry:
    """Seal files and facts into an entry."""
    marks = {
        suffix: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for suffix, data in files.items()
    }
    body = {
        **facts,
        "kind": place.kind,
        "target": str(place.target),
        "kernel": place.kernel,
        "key": place.key,
        "files": marks,
    }
    text = json.dumps(body, indent=1, sort_keys=True).encode()
    seal = {"sha256": hashlib.sha256(text).hexdigest()}
    if signer is not None:
        seal["signer"], seal["signature"] = signer.sign(text)
    return Entry(_seal(seal) + text + _END, body, dict(files))


def _seal(seal: Mapping[str, str]) -> bytes:
    return json.dumps(seal).encode()[:-1] + _MIDDLE


# ------------------------------------------------------------------------------------------ reading


def read_mark(text: bytes, trust: Trust | None = None) -> dict[str, Any]:
    """The body of a mark whose seal holds.

    Raises:
        UntrustedError: `trust` is given, and nobody in it signed this.
        one of DAMAGE: it is not what was written.
    """
    line, middle, rest = text.partition(_MIDDLE)
    if not middle or not rest.endswith(_END):
        raise ValueError("it is cut off or no mark at all")
    seal, body = json.loads(line + b"}"), rest[: -len(_END)]
    if _seal(seal) != line + middle or set(seal) - {"sha256", "signer", "signature"}:
        raise ValueError("its first line is not the seal that was written")
    if hashlib.sha256(body).hexdigest() != seal["sha256"]:
        raise ValueError("its text has another sha256 than when it was written")
    if trust is not None:
        trust.check(body, seal.get("signer"), seal.get("signature"))
    result = json.loads(body)
    if not isinstance(result, dict):
        raise ValueError("it holds no object")
    return result


def check_mark(body: Mapping[str, Any], place: Place) -> dict[str, tuple[int, str]]:
    """Size and sha256 of each file, once the mark is the one of `place` and its names are harmless.

    Raises:
        one of DAMAGE: it is not.
    """
    wanted = (place.kind, str(place.target), place.kernel, place.key)
    if (body["kind"], body["target"], body["kernel"], body["key"]) != wanted:
        raise ValueError("it belongs to another kernel, target or key")
    marks = body["files"]
    if not 0 < len(marks) <= _MAX_FILES:
        raise ValueError(f"it names {len(marks)} files")
    files = {}
    for suffix, mark in marks.items():
        harmless = suffix.isascii() and suffix.isalnum() and len(suffix) <= 16
        if not harmless or suffix == "json":
            raise ValueError(f"it names a file {suffix[:40]!r}")
        size, digest = mark["size"], mark["sha256"]
        if type(size) is not int or not 0 <= size <= MAX_FILE_BYTES:
            raise ValueError(f".{suffix} is said to have {size!r:.40} bytes")
        files[suffix] = (size, str(digest))
    if sum(size for size, _ in files.values()) > MAX_FILE_BYTES:
        raise ValueError(f"its files are said to have more than {MAX_FILE_BYTES} bytes")
    return files


def check_file(suffix: str, data: bytes, size: int, digest: str) -> None:
    """Raises:
    ValueError: these are not the bytes that were written.
    """
    if len(data) != size:
        raise ValueError(f".{suffix} has {len(data)} bytes, not {size}")
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f".{suffix} has another sha256 than when it was written")


# ------------------------------------------------------------------------- one blob, for far stores


def pack(entry: Entry) -> bytes:
    """An entry as one run of bytes: magic, length of the mark, mark, files in order of name."""
    files = [entry.files[suffix] for suffix in sorted(entry.files)]
    return b"".join([_MAGIC, len(entry.mark).to_bytes(4, "little"), entry.mark, *files])


def unpack(blob: bytes, place: Place, trust: Trust | None = None) -> Entry:
    """The entry of `place` in a blob.

    Raises:
        UntrustedError: as `read_mark`.
        one of DAMAGE: it is not that entry, or not as it was written.
    """
    start = len(_MAGIC) + 4
    if blob[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not begin as an entry does")
    length = int.from_bytes(blob[len(_MAGIC) : start], "little")
    if length > min(len(blob) - start, MAX_MARK_BYTES):
        raise ValueError("its mark is longer than it is")
    mark = blob[start : start + length]
    body = read_mark(mark, trust)
    at, marks, files = start + length, check_mark(body, place), {}
    for suffix in sorted(marks):
        size, digest = marks[suffix]
        files[suffix] = blob[at : at + size]
        check_file(suffix, files[suffix], size, digest)
        at += size
    if at != len(blob):
        raise ValueError(f"{len(blob) - at} bytes follow its last file")
    return Entry(mark, body, files)
