"""From a target's artifacts to its part of a bundle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..._artifacts.entry import describe
from ..._compile.workers import Job, plain
from ..._values.types import Artifact, Target
from ..._values.vendors import traits
from .. import reader
from ..calls import CallRecord
from ..writer import Entry, Packed, pack_section
from .classes import Class

__all__ = ["differing", "section_of"]


def differing(
    made: Iterable[tuple[Job, Class, Artifact]],
) -> Iterator[tuple[Job, Class, Artifact]]:
    """The binaries whose code differs from one that assumes less: equal code serves more calls
    under the record that assumes less."""
    known: dict[tuple[bytes, bytes], list[frozenset[str]]] = {}
    for job, one, artifact in sorted(made, key=lambda m: len(m[0].request.aligned)):
        facts = json.dumps(describe(artifact), sort_keys=True).encode()
        code = hashlib.sha256(facts + artifact.binary).digest()
        assumed = frozenset(job.request.aligned)
        less = known.setdefault((reader.class_key(job.request), code), [])
        if not any(others <= assumed for others in less):
            less.append(assumed)
            yield job, one, artifact


def section_of(
    target: Target,
    made: Iterable[tuple[Job, Class, Artifact]],
    calls: Sequence[CallRecord] = (),
    compression: str = "zlib",
) -> Packed:
    """A target's part of the bundle.

    Args:
        calls: its call records.
        compression: `zlib` or `zstd`.
    """
    entries: dict[bytes, Entry] = {}
    kernels: dict[str, Any] = {}
    for job, one, artifact in differing(made):
        request = job.request
        variant: dict[str, Any] = {
            "aligned": list(request.aligned),
            "artifact": describe(artifact),
        }
        binaries = {"binary": artifact.binary}
        rules = traits(artifact.target.vendor).arch_rules
        portable = None if rules is None else rules.portable(artifact.texts)
        if portable is not None:
            variant["arch_specific"] = portable.oldest is None
            if portable.oldest is not None:
                variant["portable_arch"] = portable.oldest
                variant["portable_format"] = portable.format
                binaries["portable"] = portable.text.encode()
        key = reader.class_key(request)
        entry = entries.get(key)
        if entry is None:
            record = {
                "parts": [list(part) for part in reader.class_parts(request)],
                "kernels": [list(pair) for pair in sorted(one.kernels)],
                "source": one.source,
                "constants": {name: plain(value) for name, value in request.constants},
                "valid_for": list(one.valid_for),
                "variants": [],
            }
            entry = entries[key] = Entry(key, record, [])
        entry.record["variants"].append(variant)
        assert isinstance(entry.binaries, list)
        entry.binaries.append(binaries)
        listed = kernels.setdefault(
            request.source.name, {"sources": [], "dtypes": [], "variants": 0, "bytes": 0}
        )
        listed["variants"] += 1
        listed["bytes"] += len(artifact.binary)
        listed["sources"] = sorted({*listed["sources"], request.source.digest})
        listed["dtypes"] = sorted({*listed["dtypes"], *(dtype for _, dtype in one.kernels)})
    return pack_section(target, kernels, entries.values(), calls, compression)
