"""Completion in shells for the values of options and arguments."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from .._values.errors import XTargetError

__all__ = ["KINDS", "Known"]

#: Of an option's or an argument's name: what its values are.
KINDS = {
    "--device": "device", "--target": "target", "--dtype": "dtype", "--kernel": "kernel",
    "--against": "library", "kernel": "kernel", "kernels": "kernel", "name": "kernel",
}  # fmt: skip


class Known(click.types.StringParamType):
    """Text of a kind that shells can complete; also the last of several with commas between."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        found = [before + comma + one for one in _all(self._kind) if one.startswith(last)]
        if not found and isinstance(param, click.Argument):  # `verify --merge` takes reports
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(one) for one in found]


def _all(kind: str) -> list[str]:
    if kind == "kernel":
        from .._kernels import libraries

        return sorted(libraries.catalog())
    if kind == "dtype":
        from .._values.types import DTYPES

        return list(DTYPES)
    if kind == "library":
        from .._bench.peers import NAMES

        return list(NAMES)
    if kind == "device":
        from .._devices import registry

        return [info.name for report in registry.probe_all() for info in report.devices]
    return _targets()


def _targets() -> list[str]:
    """Vendors with one arch, products, and each arch that is compiled for here."""
    from .._devices import registry
    from .._values import vendors

    found = []
    for vendor in vendors.vendors():
        traits = vendors.traits(vendor)
        found += [vendor] * bool(traits.default_arch) + list(traits.products)
        try:
            found += [f"{vendor}:{arch}" for arch in registry.compiler(vendor).archs()]
        except XTargetError:  # nothing compiles for it here
            continue
    return found
