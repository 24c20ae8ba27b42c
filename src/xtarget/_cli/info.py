"""`xtarget info`: versions and settings, as a bug report needs them."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any

from .. import __version__, _core
from .._system.package import FOLDER
from .._values import environment
from .._values.text import shown_url
from .._values.vendors import traits, vendors
from .base import echo

__all__ = ["facts", "print_info", "text_of"]

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


def facts() -> dict[str, Any]:
    """The facts for a bug report, by name: texts, lists of sentences, and tables of texts."""
    folder = environment.cache_dir()
    parent = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    found: dict[str, Any] = {
        "xtarget": __version__,
        "package": FOLDER,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "core": _core.told(),
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
        *(f"{name} is not a variable of xtarget." for name in environment.unknown_names()),
    ]
    if wrong:
        found["wrong in the environment"] = wrong
    return found


def text_of(found: dict[str, Any]) -> list[str]:
    """The lines that people read."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict):
            lines.append(f"{name}:" + ("" if value else " none"))
            lines += [f"  {key}: {text}" for key, text in value.items()]
        elif isinstance(value, list):
            lines += [f"{name}:", *(f"  {text}" for text in value)]
        else:
            lines.append(f"{name}: {value}")
    return lines


def print_info(as_json: bool) -> None:
    """Print the facts."""
    found = facts()
    for line in [json.dumps(found, indent=2)] if as_json else text_of(found):
        echo(line)
