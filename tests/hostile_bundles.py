"""A bundle as data, and its bytes: after a change of the data every digest is right again."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import zlib
from dataclasses import replace
from typing import Any

from artifacts import sample_artifact

from xtarget import Artifact, Target
from xtarget._bundle.builder.classes import Class
from xtarget._bundle.builder.sections import section_of
from xtarget._bundle.format import HEADER, MAGIC, ROW
from xtarget._compile.workers import Job
from xtarget._values.types import CompileRequest, KernelSource, Parameter, Resources, Scratch

__all__ = ["FACTS", "GFX", "REQUEST", "SM_90", "artifact", "good", "sealed"]

SM_90, GFX = Target("nvidia", "sm_90"), Target("amd", "gfx942")
REQUEST = CompileRequest(
    source=KernelSource("relu", "ab" * 32, "kernels/elementwise.py", lambda: None),
    signature=(("a", "*fp32"), ("out", "*fp32"), ("n", "i32"), ("BLOCK", "constexpr")),
    constants=(("BLOCK", 1024), ("STEPS", 1)),
    aligned=("a", "n"),
)


def artifact(target: Target, ptx: str | None) -> Artifact:
    named = [Parameter(name, type_) for name, type_ in REQUEST.signature if type_ != "constexpr"]
    return sample_artifact(
        f"{target}".encode() * 10,
        target=target,
        entry="relu",
        parameters=(*named, Parameter("global_scratch", "*i8", hidden="global_scratch")),
        global_scratch=Scratch(),
        resources=Resources(),
        texts={} if ptx is None else {"ptx": f".version 8.0\n.target {ptx}\n// text"},
    )


def good() -> list[dict[str, Any]]:
    """The sections of a bundle: target, kernels, and records whose marks are still bytes."""
    found = []
    for target, ptx in ((SM_90, "sm_80"), (GFX, None)):
        made = artifact(target, ptx)
        one = Class(
            "elementwise:unary(functions.activations:relu)",
            "/library",
            replace(REQUEST, aligned=()),
        )
        one.kernels.add(("relu", "float32"))
        packed = section_of(target, [(Job(target, "/library", one.source, REQUEST), one, made)])
        dictionary = packed.listed["dictionary"]
        words = packed.content[: dictionary["size"]]
        records = []
        for start in range(packed.listed["table"]["offset"], len(packed.content), ROW.size):
            _, at, size, _, _ = ROW.unpack_from(packed.content, start)
            text = zlib.decompressobj(zdict=words).decompress(packed.content[at : at + size])
            record = json.loads(text)
            for variant in record["variants"]:
                for name in ("binary", "portable"):
                    if name in variant:
                        mark = variant[name]
                        raw = packed.content[mark["offset"] : mark["offset"] + mark["size"]]
                        raw = zlib.decompressobj(zdict=words).decompress(raw)
                        variant[name] = {"bytes": raw.hex()}
            records.append(record)
        found.append({"target": str(target), "kernels": packed.listed["kernels"], "rows": records})
    return found


def mark(body: bytearray, stored: bytes, raw: int | None = None) -> dict[str, Any]:
    body += stored
    return {
        "offset": len(body) - len(stored),
        "size": len(stored),
        "raw": len(stored) if raw is None else raw,
        "sha256": hashlib.sha256(stored).hexdigest(),
    }


def _raw(value: Any) -> bytes | None:
    """A binary that is given as bytes, or in hex; None for what is neither."""
    if isinstance(value, str) and re.fullmatch("(?:[0-9a-f]{2})*", value):
        return bytes.fromhex(value)
    return value if isinstance(value, bytes) else None


def sealed(sections: Any, facts: Any, spoil: Any = lambda manifest: manifest) -> bytes:
    """A bundle with every digest right; what is not JSON's of a record is packed as bytes.

    Args:
        spoil: changes the manifest.
    """
    listed, content = [], b""
    for section in sections:
        body = bytearray()
        dictionary = mark(body, b"")
        rows = []
        for record in section["rows"]:
            if isinstance(record, dict):
                record = copy.deepcopy(record)
                variants = record.get("variants")
                for variant in variants if isinstance(variants, list) else ():
                    for name in ("binary", "portable") if isinstance(variant, dict) else ():
                        value = variant.get(name)
                        raw = _raw(value.get("bytes")) if isinstance(value, dict) else None
                        if raw is not None:
                            variant[name] = mark(body, zlib.compress(raw), len(raw))
            text = record if isinstance(record, bytes) else json.dumps(record).encode()
            key = record.get("key") if isinstance(record, dict) else None
            if not (isinstance(key, str) and re.fullmatch("[0-9a-f]{64}", key)):
                key = "00" * 32
            stored = zlib.compress(text)
            where = mark(body, stored, len(text))
            digest = bytes.fromhex(where["sha256"])
            rows.append(
                ROW.pack(bytes.fromhex(key), where["offset"], len(stored), len(text), digest)
            )
        table = mark(body, b"".join(rows))
        listed.append(
            {
                "target": section["target"],
                "count": len(rows),
                "dictionary": dictionary,
                "table": table,
                "kernels": section["kernels"],
                "offset": len(content),
                "size": len(body),
            }
        )
        content += bytes(body)
    manifest = json.dumps(spoil(copy.deepcopy({**facts, "targets": listed}))).encode()
    head = HEADER.pack(
        MAGIC,
        1,  # without an index
        HEADER.size,
        HEADER.size + len(manifest) + len(content),
        HEADER.size,
        len(manifest),
        hashlib.sha256(manifest).digest(),
        0,
        0,
    )
    return head + manifest + content


FACTS = {
    "format": "xtarget bundle",
    "made_by": "t",
    "inputs": "",
    "coverage": "some",
    "depth": "common",
    "dtypes": ["float32"],
}
