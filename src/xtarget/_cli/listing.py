"""`xtarget devices`, `xtarget kernels`, `xtarget info`: what there is, as a table or as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .. import __version__
from .._devices import choice, registry
from .._system.package import FOLDER
from .._values import environment
from .._values.errors import NoDeviceError
from .._values.text import one_line, shown_url
from .._values.types import DTYPES, DeviceInfo, ProbeReport
from .._values.vendors import traits, vendors
from .base import echo

__all__ = ["format_bytes", "list_devices", "list_kernels", "print_info", "print_table"]

#: What a bug report should name; absent ones are left out of the table.
_PACKAGES = (
    "numpy",
    "ml-dtypes",
    "click",
    "rich",
    "filelock",
    "platformdirs",
    "cryptography",
    "fsspec",
    "redis",
    "triton",
    "llvmlite",
)
#: Array libraries, after the packages of the vendors.
_ARRAY_PACKAGES = ("torch", "cupy-cuda12x", "cupy-cuda13x")


def format_bytes(count: int) -> str:
    """`139.8 GiB`, `64 KiB`."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table as wide as the terminal; in a pipe one whole line for each row, so that grep and awk
    see them."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        lines = [columns, *rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            echo("  ".join(cells).rstrip())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


# ---------------------------------------------------------------------------------------- devices


def _default(reports: Sequence[ProbeReport]) -> tuple[str | None, str | None]:
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
    default, complaint = _default(reports)
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
            echo(f"{info.name}: {info.details['unsuitable']}.")
    for report in reports:
        if not report.devices:
            echo(f"{report.vendor}: {report.reason}")
    return bool(devices)


# ---------------------------------------------------------------------------------------- kernels


def list_kernels(as_json: bool) -> None:
    """Print the catalog."""
    import xtarget

    specs = sorted(xtarget.catalog().values(), key=lambda spec: (spec.category, spec.name))
    if as_json:
        entries = [
            {
                "name": spec.name,
                "category": spec.category,
                "inputs": list(spec.inputs),
                "required": spec.required,
                "options": {k: v if _plain(v) else repr(v) for k, v in spec.options.items()},
                "dtypes": list(spec.dtypes),
                "summary": spec.summary,
            }
            for spec in specs
        ]
        echo(json.dumps(entries, indent=2))
        return
    rows = []
    for spec in specs:
        call = [*spec.inputs, *(f"{name}={value!r}" for name, value in spec.options.items())]
        rows.append((spec.name, spec.category, ", ".join(call), _short(spec.dtypes), spec.summary))
    print_table(("kernel", "category", "arguments", "dtypes", "computes"), rows)


def _short(dtypes: Sequence[str]) -> str:
    """One word where the dtypes are a whole family, the list of them where not."""
    families = {"all": "biuf", "numbers": "iuf", "integers": "iu", "floats": "f"}
    for word, kinds in families.items():
        if set(dtypes) == {name for name, dtype in DTYPES.items() if dtype.kind in kinds}:
            return word
    return " ".join(dtypes)


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


# ------------------------------------------------------------------------------------------- info


def _versions() -> dict[str, str]:
    """Versions of what is installed, from the packages' metadata: nothing is imported."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    of_vendors = (package for name in vendors() for package in traits(name).packages)
    for package in (*_PACKAGES, *of_vendors, *_ARRAY_PACKAGES):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def print_info(as_json: bool) -> None:
    """Print what a bug report needs."""
    folder = environment.cache_dir()
    parent = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    facts: dict[str, Any] = {
        "xtarget": __version__,
        "package": FOLDER,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU threads",
        "cache": str(folder) + ("" if os.access(parent, os.W_OK) else " (cannot be written)"),
        "packages": _versions(),
        "environment": {
            name: shown_url(value)
            for name, value in sorted(os.environ.items())
            if name.startswith(("XTARGET_", "TRITON_", "OCL_ICD_", "CUDA_VISIBLE", "HIP_VISIBLE"))
        },
    }
    wrong = [
        *environment.problems(),
        *(f"{name} is no variable of xtarget." for name in environment.unknown_names()),
    ]
    if wrong:
        facts["wrong in the environment"] = wrong
    if as_json:
        echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            echo(f"{name}:" + ("" if value else " none"))
            for key, text in value.items():
                echo(f"  {key}: {text}")
        elif isinstance(value, list):
            echo(f"{name}:")
            for text in value:
                echo(f"  {text}")
        else:
            echo(f"{name}: {value}")
