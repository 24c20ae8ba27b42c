"""The vendors by name, and where their packages are. Their code is imported when first asked for.

Vendors of other packages enter by two entry-point groups: name = vendor, value = a module like
`targets.base.VendorPackage`. Vendors of `xtarget.targets` are used like the built-in
ones. A vendor of `xtarget.targets.named` gives its devices only to a caller that names them: our
own emulator, `xtarget_emulator`, enters by this group.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from .errors import UnknownTargetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .vendor_traits import VendorTraits

__all__ = [
    "BUILTIN",
    "canonical",
    "example_targets",
    "is_vendor",
    "later_by_preference",
    "maker",
    "named_only",
    "of_array_interface",
    "of_dlpack_type",
    "package_of",
    "product",
    "products",
    "traits",
    "vendors",
]

ENTRY_POINT_GROUP = "xtarget.targets"
#: Vendors that are never chosen as a default, and not listed unless all are asked for.
NAMED_ENTRY_POINT_GROUP = "xtarget.targets.named"
#: The built-in vendors, in the order of their traits' `preference`.
BUILTIN: Final = ("nvidia", "amd", "intel", "cpu")
#: Vendors of `NAMED_ENTRY_POINT_GROUP` whose packages lie beside ours. They are found without
#: metadata too: a checkout on PYTHONPATH has none, an older editable installation has older.
_BESIDE = {"emu": "xtarget_emulator"}


@cache
def _entry_points() -> dict[str, Any]:
    """The vendors of `ENTRY_POINT_GROUP`. Asking costs 15 ms, which a call on a built-in vendor
    does not pay."""
    import importlib.metadata

    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    taken = {*BUILTIN, *_named_entry_points()}
    return {point.name: point for point in points if point.name not in taken}


@cache
def _named_entry_points() -> dict[str, Any]:
    """The vendors of `NAMED_ENTRY_POINT_GROUP`, and the packages beside ours."""
    import importlib.metadata

    group = NAMED_ENTRY_POINT_GROUP
    points = {point.name: point for point in importlib.metadata.entry_points(group=group)}
    for name, package in _BESIDE.items():
        if name not in points and importlib.util.find_spec(package) is not None:
            points[name] = importlib.metadata.EntryPoint(name, package, group)
    return {name: point for name, point in sorted(points.items()) if name not in BUILTIN}


def is_vendor(name: str) -> bool:
    """Return whether there is a vendor of that name, an alias not among them."""
    return name in BUILTIN or name in _named_entry_points() or name in _entry_points()


def vendors() -> tuple[str, ...]:
    """All vendors: the built-in ones in order of preference, then those of other packages. Not the
    ones that have to be named (`named_only`)."""
    return (*BUILTIN, *sorted(_entry_points()))


def named_only() -> tuple[str, ...]:
    """Vendors whose devices have to be named: the emulator, and those of other packages."""
    return tuple(_named_entry_points())


def package_of(vendor: str) -> Any:
    """Import the vendor's package.

    Raises:
        UnknownTargetError: no such vendor.
    """
    vendor = canonical(vendor)
    if vendor in BUILTIN:
        return importlib.import_module(f"xtarget.targets.{vendor}")
    point = _named_entry_points().get(vendor) or _entry_points().get(vendor)
    if point is None:
        raise UnknownTargetError(
            f"{vendor!r} is not a vendor that this installation knows; it knows "
            f"{', '.join(vendors())} (and the names {', '.join(_aliases(BUILTIN))})."
        )
    return point.load()


def maker(package: str, name: str) -> Callable[[], Any]:
    """A function that makes an object of the class `module.Class` of a package. It imports the
    module, so that a vendor's driver is loaded without its compiler, and the other way round."""
    module, _, of = name.rpartition(".")
    return lambda: getattr(importlib.import_module(f"{package}.{module}"), of)()


# ------------------------------------------------------------------------------------------- traits


def traits(vendor: str) -> VendorTraits:
    """The traits that the vendor's package gives; the defaults for a vendor that gives none, is not
    installed, or whose package cannot be used."""
    return _traits(vendor if is_vendor(vendor) else None)


@cache
def _traits(vendor: str | None) -> VendorTraits:
    from .vendor_traits import VendorTraits

    if vendor is None:
        return VendorTraits()
    if vendor in BUILTIN:
        found: VendorTraits = package_of(vendor).vendor_traits()
        return found
    try:
        given = getattr(package_of(vendor), "vendor_traits", VendorTraits)()
    except Exception:  # a third party's package; who uses the vendor is told
        return VendorTraits()
    return given if isinstance(given, VendorTraits) else VendorTraits()


@cache
def _aliases(of: tuple[str, ...]) -> dict[str, str]:
    return {alias: vendor for vendor in reversed(of) for alias in traits(vendor).aliases}


def canonical(name: str) -> str:
    """The vendor of that name or alias; the name itself where there is none."""
    if name in BUILTIN:
        return name
    found = _aliases(BUILTIN).get(name)
    if found is not None or is_vendor(name):
        return found or name
    return _aliases(vendors()).get(name, name)


@cache
def _products(of: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    return {
        name: (vendor, arch)
        for vendor in reversed(of)
        for name, arch in traits(vendor).products.items()
    }


def products() -> tuple[str, ...]:
    """The names of all products that a vendor knows."""
    return tuple(sorted(_products(vendors())))


def product(name: str) -> tuple[str, str] | None:
    """The vendor and arch of a product, written with or without spaces, dashes and underscores."""
    plain = name.replace(" ", "").replace("-", "").replace("_", "")
    found = _products(BUILTIN).get(plain)
    if found is not None or canonical(name) in BUILTIN:
        return found
    return _products(vendors()).get(plain)


def example_targets() -> list[str]:
    """A target of each built-in vendor, for messages."""
    archs = [traits(vendor).example_arch or traits(vendor).default_arch for vendor in BUILTIN]
    return [f"{vendor}:{arch}" for vendor, arch in zip(BUILTIN, archs, strict=True)]


@cache
def _dlpack_types(of: tuple[str, ...]) -> dict[int | None, str]:
    return {traits(vendor).dlpack_device_type: vendor for vendor in reversed(of)}


def of_dlpack_type(device_type: int) -> str | None:
    """The vendor whose memory a DLPack device type stands for."""
    found = _dlpack_types(BUILTIN).get(device_type)
    return found or _dlpack_types(vendors()).get(device_type)


@cache
def of_array_interface(attribute: str) -> str:
    """The vendor whose memory arrays with this attribute lie in: the first one, in order of
    preference, whose own arrays offer themselves by it."""
    return next(name for name in vendors() if traits(name).array_interface == attribute)


def later_by_preference() -> list[str]:
    """Vendors of other packages that may be chosen when no device is named, in order."""
    found = [(traits(vendor).preference, vendor) for vendor in vendors() if vendor not in BUILTIN]
    return [vendor for _, vendor in sorted((p, v) for p, v in found if p is not None)]
