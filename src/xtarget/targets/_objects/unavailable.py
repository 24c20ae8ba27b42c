"""Sentences that say why a device is unavailable; every vendor's probe and `open` share them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from ..._values.errors import NoDeviceError

__all__ = ["broken_binding", "missing_binding", "no_such_device"]


def _install(vendor: str) -> str:
    return f'pip install "xtarget[{vendor}]"'


def missing_binding(module: str, package: str, vendor: str) -> str | None:
    """That a vendor's Python binding is not installed, told without loading it; None: it is.

    Args:
        module: what is imported.
        package: what people call it.
        vendor: also the name of the extra that installs it.
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except ImportError:  # the package around it is missing
        found = False
    if found:
        return None
    return f"{package} is not installed (no module {module}). Install it with: {_install(vendor)}"


def broken_binding(error: ImportError, package: str, vendor: str) -> str:
    """That a binding is there and does not work."""
    return (
        f"{package} is installed but cannot be imported ({error}). Install it again with: "
        f"{_install(vendor)}"
    )


def no_such_device(vendor: str, ordinal: int, there: Sequence[str]) -> NoDeviceError:
    """For an ordinal that no device has; `there` are the names of those there are."""
    return NoDeviceError(f"{vendor} has no number {ordinal}, only {', '.join(there)}.")
