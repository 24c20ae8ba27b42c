"""`xtarget cache export`, `import` and `check`: binaries for other machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xtarget

from .._artifacts.compatibility import fit
from .._artifacts.entry import DAMAGE, Entry, Place
from .._cache import default_cache, explain, oci
from .._cache.store import Store
from .._compile.loading import load
from .._devices import registry
from .._system import files
from .._values.errors import XTargetError
from .._values.types import Artifact, Target
from .base import echo
from .cache import chosen_entries, none_chosen
from .listing import format_bytes
from .tables import echo_wrapped, print_table

__all__ = ["check_entries", "export_entries", "import_entries"]

_MOST_BUNDLE = 4 << 30


def export_entries(
    given: Mapping[str, Any],
    bundles: tuple[str, ...],
    folder: str,
    tag: str,
    compression: str,
    as_json: bool,
) -> None:
    """Write an image layout of the cache's own entries and of bundles.

    Raises:
        XTargetError: nothing was chosen, the folder cannot be written, the tag is none, or the
            compression is not installed.
    """
    oci.check_tag(tag)
    members: dict[str, list[tuple[str, bytes]]] = {}
    for place, entry in _intact(default_cache().own, given):
        at = f"{oci.CACHE}/v1/{place.target.vendor}/{place.target.arch}/{place.stem}"
        members.setdefault(str(place.target), []).extend(
            (f"{at}.{suffix}", data)
            for suffix, data in ({**entry.files, "json": entry.mark}).items()
        )
    layers = [oci.layer_of(target, members[target], compression) for target in sorted(members)]
    for path in map(Path, bundles):
        xtarget.load_bundle(path)  # an error says what is wrong with it
        data = files.read_regular(path, _MOST_BUNDLE)
        inner = [(f"{oci.BUNDLES}/{path.name}", data)]
        layers.append(oci.layer_of(path.name, inner, compression))
    if not layers:
        raise none_chosen(
            given, "there is nothing to export", ", or name a bundle with --bundle", own=True
        )
    oci.write_layout(Path(folder), layers, tag, xtarget.__version__)
    sizes = [
        {
            "content": layer.content,
            "entries": sum(path.endswith(".json") for path, _ in members.get(layer.content, ())),
            "bytes": layer.plain_bytes,
            "packed": len(layer.packed),
        }
        for layer in layers
    ]
    if as_json:
        echo(json.dumps({"path": folder, "tag": tag, "layers": sizes}, indent=1))
        return
    rows = [
        (
            str(one["content"]),
            str(one["entries"] or ""),
            format_bytes(int(str(one["bytes"]))),
            format_bytes(int(str(one["packed"]))),
        )
        for one in sizes
    ]
    print_table(("layer", "entries", "size", "packed"), rows)
    echo_wrapped(
        f"Push it, for example: skopeo copy oci:{folder}:{tag} docker://registry/image:{tag}"
    )


def _intact(
    store: Store, given: Mapping[str, Any], damaged: list[str] | None = None
) -> Iterator[tuple[Place, Entry]]:
    """The whole compiled kernels of a cache; what a device made of them is its own.

    Args:
        damaged: is given the others, in words.
    """
    for body in explain.bodies(store, chosen_entries(given)):
        if body.get("kind") == "artifact":
            target = Target.parse(str(body["target"]))
            place = Place(target, str(body["kernel"]), str(body["key"]))
            try:
                entry = store.check(place)
            except DAMAGE as error:
                if damaged is not None:  # `cache verify` says it too
                    damaged.append(f"{place.kernel} for {target}, {place.stem}: {error}")
                continue
            if not isinstance(entry, str):
                yield place, entry


def import_entries(folder: str, as_json: bool) -> None:
    """Put the entries of an image layout into the cache.

    Raises:
        XTargetError: it is damaged, or nobody whom `XTARGET_TRUST` names signed it.
    """
    own = default_cache().own
    added = failed = 0
    for place, entry in list(oci.entries_in(Path(folder), own.trust)):
        if own.write(place, entry):
            added += 1
        else:
            failed += 1
    if as_json:
        echo(json.dumps({"added": added, "failed": failed}))
    else:
        echo_wrapped(f"{added} entries put into {own.root}" + (f", {failed} not" if failed else ""))
    if failed:
        raise XTargetError(f"{failed} entries could not be written to {own.root}.")


def check_entries(given: Mapping[str, Any], as_json: bool) -> bool:
    """True if each device here (of the chosen vendor) has entries, loads all that are for it, and
    none is damaged.

    Raises:
        XTargetError: nothing was chosen, or the cache cannot be read.
    """
    damaged: list[str] = []
    made = [
        (place.kernel, entry.artifact())
        for store in default_cache().stores
        for place, entry in _intact(store, given, damaged)
    ]
    if not made and any(given[name] is not None for name in ("target", "kernel", "older", "newer")):
        raise none_chosen(given, "there is nothing to check")
    for store in default_cache().stores:
        explain.check_readable(store)
    target = chosen_entries(given).target
    found = [
        _on_device(info.name, made)
        for report in registry.probe_all()
        for info in report.devices
        if target is None or info.target.vendor == target.partition(":")[0]
    ]
    others = sorted({str(a.target) for _, a in made} - {t for one in found for t in one["targets"]})
    if as_json:
        facts = {"devices": found, "without a device": others, "damaged": damaged}
        echo(json.dumps(facts, indent=1))
    for one in () if as_json else found:
        where = f"{one['device']} ({one['product']}, driver {one['driver']})"
        echo_wrapped(f"{where}: {one['loaded']} of {one['fitting']} load")
        for text in one["refused"]:
            echo_wrapped(f"  {text}")
        if not one["fitting"]:
            echo_wrapped(
                f"  no entry is for {one['target']}: run the program here once, or xtarget warmup, "
                "or bring entries by xtarget cache import"
            )
    if others and not as_json:
        echo_wrapped(f"No device here is for {', '.join(others)}.")
    for text in () if as_json else damaged:
        echo_wrapped(f"damaged: {text}")
    right = all(one["fitting"] and not one["refused"] for one in found)
    return bool(found) and right and not damaged


def _on_device(name: str, made: list[tuple[str, Artifact]]) -> dict[str, Any]:
    device = registry.open_device(name)
    info = device.info
    fitting = [(kernel, a) for kernel, a in made if fit(a.target, info.target, False)[0]]
    refused = []
    for kernel, artifact in fitting:
        try:
            load(device, artifact, kernel)
        except XTargetError as error:
            refused.append(f"{kernel}: {error}")
    return {
        "device": name,
        "target": str(info.target),
        "product": info.product,
        "driver": info.driver_version,
        "targets": sorted({str(artifact.target) for _, artifact in fitting}),
        "fitting": len(fitting),
        "loaded": len(fitting) - len(refused),
        "refused": refused,
    }
