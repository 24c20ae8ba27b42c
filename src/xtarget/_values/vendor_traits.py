"""Facts about a vendor that shared code needs before its driver or compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple, Protocol

from .value_classes import value_class

__all__ = ["ArchRules", "Portable", "VendorTraits", "products_by_arch"]


class Portable(NamedTuple):
    """A second form of a binary, which run times compile for later archs.

    Attributes:
        format: `ptx`.
        text: the form itself.
        oldest: the oldest arch that it can be compiled for; None if the binary and this form use
            features of one arch alone.
    """

    format: str
    text: str
    oldest: str | None


class ArchRules(Protocol):
    """On which archs other than its own a vendor's code runs."""

    def refusal(self, made: str, here: str, specific: bool) -> str | None:
        """Return why a binary for the arch `made` does not run on `here`; None if it runs.

        Args:
            specific: the binary uses features that only its own arch has.
        """
        ...

    def describe(self, arch: str, specific: bool, oldest: str | None) -> str:
        """Where a binary and its portable form run, for people."""
        ...

    def portable(self, texts: Mapping[str, str]) -> Portable | None:
        """The portable form among the texts of an artifact."""
        ...

    def portable_refusal(self, oldest: str, here: str) -> str | None:
        """Return why a portable form that starts at `oldest` does not work; None if it works."""
        ...


def products_by_arch(table: str) -> Mapping[str, str]:
    """`VendorTraits.products` from lines of an arch and the names of its products."""
    rows = (line.split() for line in table.strip().splitlines())
    return {name: arch for arch, *names in rows for name in names}


def _as_written(arch: str) -> str:
    return arch


@value_class(frozen=True, slots=True)
class VendorTraits:
    """The facts that a vendor's package gives with `vendor_traits()`. A vendor that gives none has
    the defaults.

    Attributes:
        aliases: other names of the vendor, which users may write in targets and devices.
        preference: place among the vendors when a default device is chosen, smallest first; None:
            its devices have to be named. Vendors of other packages come after the built-in ones.
        example_arch: an arch for messages.
        default_arch: the arch of a target that is named by the vendor alone; empty: there is none.
        products: names of products, lower case without spaces, dashes and underscores, to archs.
        parse_arch: turns an arch as users write it, in lower case, into its one spelling; empty
            if it cannot be one.
        dlpack_device_type: `DLDeviceType` of the memory that the driver allocates (dlpack.h); None:
            its arrays are not exchanged by DLPack. 1 is the host's memory: it has no device id and
            no stream.
        dlpack_stream: how DLPack writes the default stream; None: an export is asked for none.
        dlpack_located: memory that comes by DLPack is looked up with `Locator.locate` first, which
            refuses what the driver cannot use.
        arch_rules: on which other archs its code runs; None: on its own alone.
        array_interface: the attribute by which its arrays offer themselves to other libraries.
            Memory that other libraries offer by it is looked up with the `Locator` of the first
            vendor, by preference, that has the attribute.
        packages: distributions that its driver stands on, for `xtarget info`.
    """

    aliases: tuple[str, ...] = ()
    preference: int | None = None
    example_arch: str = ""
    default_arch: str = ""
    products: Mapping[str, str] = field(default_factory=dict)
    parse_arch: Callable[[str], str] = _as_written
    dlpack_device_type: int | None = None
    dlpack_stream: int | None = None
    dlpack_located: bool = False
    arch_rules: ArchRules | None = None
    array_interface: str = ""
    packages: tuple[str, ...] = ()
