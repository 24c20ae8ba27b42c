"""The command `xtarget lock`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xtarget

from .._artifacts.lockfile import Locked, text_of, tools_of
from .._bundle import reader
from .._cache import default_cache, explain
from .._cache.explain import Chosen
from .._system.output import write_output
from .base import echo
from .cache import chosen_entries, none_chosen
from .tables import echo_wrapped

__all__ = ["write_lock"]


def write_lock(
    given: Mapping[str, Any], bundles: tuple[str, ...], output: str, as_json: bool
) -> None:
    """Write the lock of what the cache and the bundles have.

    Raises:
        XTargetError: they have nothing of what was chosen.
    """
    tools: dict[str, str] = {}
    chosen = chosen_entries(given)
    found = set(_of_cache(given, tools))
    for path in bundles:
        found.update(one for one in _of_bundle(Path(path)) if _is_chosen(one, chosen))
    if not found:
        raise none_chosen(given, "there is nothing to lock", ", or name a bundle with --bundle")
    write_output(Path(output), text_of(found, tools, xtarget.__version__))
    targets = sorted({one.target for one in found})
    if as_json:
        facts = {"path": output, "binaries": len(found), "targets": targets, "tools": sorted(tools)}
        echo(json.dumps(facts))
        return
    kernels = len({one.kernel for one in found})
    binaries = "1 binary" if len(found) == 1 else f"{len(found)} binaries"
    of = "1 kernel" if kernels == 1 else f"{kernels} kernels"
    echo_wrapped(f"{output}: {binaries} of {of} for {', '.join(targets)}")


def _is_chosen(one: Locked, chosen: Chosen) -> bool:
    """Of a bundle, which nobody knows when its binaries were used."""
    vendor = one.target.partition(":")[0]
    return chosen.target in (None, one.target, vendor) and chosen.kernel in (None, one.kernel)


def _of_cache(given: Mapping[str, Any], tools: dict[str, str]) -> Iterator[Locked]:
    for store in default_cache().stores:
        for body in explain.bodies(store, chosen_entries(given)):
            if body.get("kind") != "artifact":
                continue
            parts = {str(label): str(value) for label, value in body["key_parts"]}
            facts = body["artifact"]
            word = tools_of(parts["toolchain"])
            tools[word] = parts["toolchain"]
            file = body["files"][facts["format"]]
            yield Locked(
                kernel=str(body["kernel"]),
                target=str(body["target"]),
                route=str(facts.get("route", "triton")),
                sha256=str(file["sha256"]),
                nbytes=int(file["size"]),
                source=parts["source"],
                tools=word,
            )


def _of_bundle(path: Path) -> Iterator[Locked]:
    bundle = reader.Bundle(path.resolve())
    for target in bundle.targets:
        for record in bundle.file.records(target):
            for variant in record["variants"]:
                for portable in (False, True):
                    if ("portable" if portable else "binary") not in variant:
                        continue
                    made = bundle.artifact(target, variant, portable=portable)
                    yield Locked(
                        kernel=made.entry,
                        target=str(target),
                        route=made.route,
                        sha256=hashlib.sha256(made.binary).hexdigest(),
                        nbytes=len(made.binary),
                        source="",
                        tools=tools_of(""),
                    )
