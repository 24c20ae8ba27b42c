"""`xtarget devices`, `xtarget kernels`: what there is, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .._devices import choice, registry
from .._kernels import implementations, libraries
from .._kernels.interfaces import description, input_dtypes
from .._values import environment
from .._values.errors import ArgumentError, NoDeviceError, shortened
from .._values.types import COMPUTED, DTYPES, DeviceInfo, ProbeReport, Target
from ..spec import ArrayType, KernelSpec, contiguous_strides
from .base import echo
from .tables import echo_wrapped, print_table

__all__ = [
    "default_of",
    "format_bytes",
    "list_devices",
    "list_kernels",
    "short_dtypes",
]


#: A target of each vendor.
_SHOWN = ("nvidia:sm_90", "nvidia:sm_80", "amd:gfx942", "intel:spirv64", "cpu:spirv64")


def format_bytes(count: int) -> str:
    """`139.8 GiB`, `64 KiB`."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"


# ---------------------------------------------------------------------------------------- devices


def default_of(reports: Sequence[ProbeReport]) -> tuple[str | None, str | None]:
    """The default device's name, or None and why the wish in XTARGET_DEVICE cannot be met."""
    found = [info.name for report in reports for info in report.devices]
    wish = environment.default_device()
    if wish is None:
        best = choice.preferred(reports)
        return (best.name if best else None), None
    try:
        name = registry.find_device(wish)
    except NoDeviceError as error:
        return None, f"XTARGET_DEVICE: {error}"
    if name not in found and name.partition(":")[0] not in registry.named_only():
        there = f"There are {', '.join(found)}." if found else "There is none at all."
        return None, f"XTARGET_DEVICE names {wish!r}, which is not here. {there}"
    return name, None


def _describe(info: DeviceInfo, default: str | None) -> dict[str, Any]:
    return {
        **asdict(info),
        "target": str(info.target),
        "details": dict(info.details),
        "default": info.name == default,
    }


def list_devices(as_json: bool, everything: bool = False) -> bool:
    """Print devices and reasons; True if there is a device.

    Args:
        everything: also emulated devices, which are nobody's default.
    """
    reports = registry.probe_all()
    default, complaint = default_of(reports)
    if everything:
        reports = [*reports, *registry.probe_all(registry.named_only())]
    devices = [info for report in reports for info in report.devices]
    if complaint:
        echo(f"warning: {complaint}", err=True)
    if as_json:
        missing = [{"vendor": r.vendor, "reason": r.reason} for r in reports if not r.devices]
        described = [_describe(info, default) for info in devices]
        echo(json.dumps({"devices": described, "unavailable": missing}, indent=2))
        return bool(devices)
    if devices:
        columns = ("", "device", "target", "product", "memory", "units", "driver", "runs on")
        print_table(
            columns,
            [
                (
                    "*" if info.name == default else "",
                    info.name,
                    str(info.target),
                    info.product,
                    format_bytes(info.memory_bytes),
                    str(info.compute_units),
                    info.driver_version,
                    info.runs_on,
                )
                for info in devices
            ],
        )
    else:
        echo("No device was found.")
    for info in devices:
        if "unsuitable" in info.details:
            echo_wrapped(f"{info.name}: {info.details['unsuitable']}.")
    for report in reports:
        if not report.devices:
            echo_wrapped(f"{report.vendor}: {report.reason}")
    return bool(devices)


# ---------------------------------------------------------------------------------------- kernels


def list_kernels(
    as_json: bool, name: str | None = None, category: str | None = None, routes: bool = False
) -> None:
    """Print the catalog, or one kernel.

    Args:
        routes: print by which routes they can be compiled.

    Raises:
        UnknownKernelError: there is none of that name.
        ArgumentError: there is no such category.
    """
    import xtarget

    specs = sorted(xtarget.catalog().values(), key=lambda spec: (spec.category, spec.name))
    if name is not None:
        specs = [libraries.find(name).spec]
    categories = {spec.category for spec in specs}
    if category is not None and category not in categories:
        raise ArgumentError(
            f"there is no kernel of the category {shortened(category)}; there are "
            f"{', '.join(sorted(categories))}."
        )
    specs = [spec for spec in specs if category in (None, spec.category)]
    if routes:
        from .routes import list_routes

        list_routes(specs, as_json)
        return
    if as_json:
        ways = [] if name is None else [asdict(way) for way in implementations.listed(name)]
        entries = [_entry(spec) for spec in specs]
        if name is not None:
            entries[0] |= {"implementations": ways, "served_by": _serving_by_target(specs[0])}
        echo(json.dumps(entries, indent=2))
        return
    if name is not None:
        echo(description(specs[0]))
        _print_implementations(specs[0])
        return
    rows = []
    for spec in specs:
        call = [*spec.inputs, *(f"{name}={value!r}" for name, value in spec.options.items())]
        dtypes = short_dtypes(spec.dtypes)
        rows.append((spec.name, spec.category, ", ".join(call), dtypes, spec.summary))
    print_table(("kernel", "category", "arguments", "dtypes", "computes"), rows)


def _print_implementations(spec: KernelSpec) -> None:
    """The implementations of a kernel, and the targets that each one serves."""
    echo("\nImplementations (impl=):")
    print_table(
        ("impl", "from", "can serve", "what it is"),
        [
            (way.name or "-", way.origin, ", ".join(way.targets) or "all", way.why)
            for way in implementations.listed(spec.name)
        ],
    )
    echo("\nServed without impl=:")
    columns = ("target", "impl", "launches", "why")
    print_table(columns, [tuple(row.values()) for row in _serving_by_target(spec)])


def _serving_by_target(spec: KernelSpec) -> list[dict[str, str]]:
    """For a target of each vendor, and those that an implementation names, what serves it."""
    kernel = libraries.find(spec.name)
    named = [text for way in implementations.listed(spec.name) for text in way.targets]
    found = []
    for text in dict.fromkeys([*_SHOWN, *(one for one in named if ":" in one)]):
        target = Target.parse(text)
        impl, why = implementations.of_target(kernel, target.vendor, target.arch)
        sources = _launches(kernel, target)
        found.append({"target": str(target), "impl": impl, "launches": sources, "why": why})
    return found


def _launches(kernel: libraries.RegisteredKernel, target: Target) -> str:
    """The Triton functions that an example call launches there."""
    from .._launch.planning import plan_of_layouts  # of no use to the list of all kernels

    spec = kernel.spec
    if spec.examples is None:
        return "-"
    dtype = "float32" if "float32" in spec.dtypes else spec.dtypes[0]
    own = input_dtypes(spec)
    names = [name.rstrip("?") for name in spec.inputs]
    try:
        args = [
            None
            if shape is None
            else ArrayType(own.get(name, dtype), tuple(shape), contiguous_strides(tuple(shape)))
            for name, shape in zip(names, spec.examples((1024, 1024)), strict=False)
        ]
        plan, _, _ = plan_of_layouts(kernel, args, {}, target)
    except ArgumentError:
        return "-"  # the example is not for this dtype
    return ", ".join(dict.fromkeys(launch.source for launch in plan.launches)) or "none: a view"


def _entry(spec: KernelSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "category": spec.category,
        "inputs": list(spec.inputs),
        "required": spec.required,
        "options": {k: v if _plain(v) else repr(v) for k, v in spec.options.items()},
        "dtypes": list(spec.dtypes),
        "summary": spec.summary,
        "aliases": list(spec.aliases),
        "elementwise": spec.elementwise,
    }


def short_dtypes(dtypes: Sequence[str]) -> str:
    """One word where the dtypes are a whole family, the list of them where not."""
    families = {"all": "biuf", "numbers": "iuf", "integers": "iu", "floats": "f", "bits": "biu"}
    for word, kinds in families.items():
        if set(dtypes) == {name for name in COMPUTED if DTYPES[name].kind in kinds}:
            return word
    narrow = [name for name in dtypes if name not in COMPUTED]
    if narrow and len(narrow) < len(dtypes):
        return f"{short_dtypes([name for name in dtypes if name in COMPUTED])} {' '.join(narrow)}"
    return " ".join(dtypes)


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple)
