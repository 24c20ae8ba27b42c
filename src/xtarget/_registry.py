"""Vendors by name, their drivers and compilers, and the devices they offer.

Vendors are known as text; their code is imported when first asked for. Further vendors enter by the
entry-point group `xtarget.targets`: name = vendor, value = a module with `create_driver()` and
`create_compiler()`.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from . import _env
from ._errors import DriverError, NoDeviceError, UnknownTargetError
from ._types import VENDOR_ALIASES, ProbeReport
from .targets.base import Compiler, Device, Driver, Locator, NamesDevices, Replaceable

__all__ = [
    "compiler",
    "default_device",
    "driver",
    "find_device",
    "named_only",
    "open_device",
    "probe",
    "probe_all",
    "vendors",
]

ENTRY_POINT_GROUP = "xtarget.targets"
#: In order of preference: what the default device is chosen by.
_BUILTIN = ("nvidia", "amd", "intel", "cpu")
#: Chosen only by name: vendor to its package below `targets`.
_NAMED_ONLY = {"emu": "amd.emulator"}

_lock = threading.RLock()
_devices: dict[str, Device] = {}
#: This process is the child of a fork of one with open devices.
_forked = False
#: Called in the child of a fork, to drop what belongs to the parent's devices.
after_fork: list[Callable[[], None]] = []
#: Called with the name of a device that was lost and will be opened again when it is next named,
#: to drop what belongs to it.
on_lost: list[Callable[[str], None]] = []


@cache
def _entry_points() -> dict[str, Any]:
    import importlib.metadata  # 15 ms that a call on a built-in vendor does not need

    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: point for point in points if point.name not in _own()}


def _own() -> tuple[str, ...]:
    return (*_BUILTIN, *_NAMED_ONLY)


def vendors() -> tuple[str, ...]:
    """All vendors: the built-in ones in order of preference, then those of other packages. Not the
    ones that have to be named (`named_only`)."""
    return (*_BUILTIN, *sorted(_entry_points()))


def named_only() -> tuple[str, ...]:
    """Vendors that nobody gets without naming them: the emulator."""
    return tuple(_NAMED_ONLY)


def _package(vendor: str) -> Any:
    vendor = VENDOR_ALIASES.get(vendor, vendor)
    if vendor in _own():
        return importlib.import_module(f"xtarget.targets.{_NAMED_ONLY.get(vendor, vendor)}")
    point = _entry_points().get(vendor)
    if point is None:
        raise UnknownTargetError(
            f"{vendor!r} is no vendor that this installation knows; it knows {', '.join(vendors())}"
            f" (and the names {', '.join(VENDOR_ALIASES)})."
        )
    return point.load()


@cache
def driver(vendor: str) -> Driver:
    """The vendor's run time.

    Raises:
        UnknownTargetError: no such vendor.
    """
    result: Driver = _package(vendor).create_driver()
    return result


def locate(vendor: str, memory: Any) -> str:
    """The name of the vendor's device that foreign memory lies on (`Locator.locate`)."""
    found = driver(vendor)
    assert isinstance(found, Locator), f"the driver of {vendor} has no locate()"
    return found.locate(memory)


@cache
def compiler(vendor: str) -> Compiler:
    """The vendor's compiler.

    Raises:
        UnknownTargetError: no such vendor.
    """
    result: Compiler = _package(vendor).create_compiler()
    return result


# ------------------------------------------------------------------------------------------ probing


def probe(vendor: str) -> ProbeReport:
    """Look for a vendor's devices in a child process: whatever the vendor's library does there
    (block, crash, print), this process sees a report. Cached for the life of the process."""
    return probe_all((VENDOR_ALIASES.get(vendor, vendor),))[0]


_reports: dict[str, ProbeReport] = {}


def probe_all(wanted: tuple[str, ...] | None = None) -> list[ProbeReport]:
    """`probe` for several vendors (all of them when None) at the same time."""
    from . import _probe

    names = vendors() if wanted is None else wanted
    with _lock:
        missing = [name for name in names if name not in _reports]
        jobs = {}
        for name in missing:
            absent = _absent(name)
            if absent is not None:
                _reports[name] = ProbeReport(name, (), absent)
            else:
                jobs[name] = _probe.start(name)
        for name, job in jobs.items():
            _reports[name] = _probe.finish(name, job, _env.probe_seconds())
        return [_reports[name] for name in names]


def _absent(vendor: str) -> str | None:
    """A vendor's own quick answer that it cannot have a device, found without loading its library
    (an optional method of the driver); or why its package cannot be used."""
    try:
        quick: Callable[[], str | None] | None = getattr(driver(vendor), "absent", None)
        return quick() if quick is not None else None
    except Exception as error:  # a probe never raises, whatever a third party's package does
        return f"its package cannot be used: {type(error).__name__}: {error}"


def _probe_here(vendor: str) -> ProbeReport:
    """Probe in this process, which will use the device at once. A library that blocks is left
    behind in its thread."""
    reason = _absent(vendor)
    if reason is not None:
        return ProbeReport(vendor, (), reason)
    answer: list[ProbeReport] = []
    thread = threading.Thread(target=lambda: answer.append(driver(vendor).probe()), daemon=True)
    thread.start()
    # the last resort gets more: on a machine under load its library may only be slow to load
    seconds = _env.probe_seconds() * (6 if vendor == _BUILTIN[-1] else 1)
    thread.join(seconds)
    if answer:
        return answer[0]
    from . import _probe

    return _probe.timed_out(vendor, seconds)


# ------------------------------------------------------------------------------------------ devices


def default_device() -> str:
    """Name of the device for data that lies on none: `XTARGET_DEVICE`, else the first GPU found,
    else the CPU.

    Raises:
        NoDeviceError: there is no device at all; the message has every vendor's reason.
    """
    chosen = _env.default_device()
    return find_device(chosen) if chosen else _first_device()


@cache
def _first_device() -> str:
    reports = []
    for vendor in _BUILTIN:
        report = _probe_here(vendor)
        if report.devices:
            return report.devices[0].name
        reports.append(report)
    reasons = "".join(f"\n  {report.vendor}: {report.reason}" for report in reports)
    raise NoDeviceError(f"no device was found on this machine:{reasons}")


def find_device(wanted: object) -> str:
    """The canonical name of a device: `nvidia` and `cuda` are `nvidia:0`, `cuda:1` is `nvidia:1`;
    a `Device`, a `DeviceInfo` and a `torch.device` name theirs.

    Raises:
        NoDeviceError: no such device; the message lists those there are.
    """
    named = getattr(wanted, "info", wanted)
    name = str(getattr(named, "name", named))
    vendor, _, ordinal = name.strip().lower().partition(":")
    vendor, ordinal = VENDOR_ALIASES.get(vendor, vendor), ordinal or "0"
    known = vendor in _own() or vendor in _entry_points()
    if vendor in _NAMED_ONLY:
        words = _words(vendor)
        if ordinal not in words:
            raise NoDeviceError(
                f"{name!r} is not a device; {vendor} has "
                f"{', '.join(f'{vendor}:{word}' for word in words)}."
            )
        return f"{vendor}:{ordinal}"
    if not known or not ordinal.isascii() or not ordinal.isdigit():
        raise NoDeviceError(f"{name!r} is not a device. {_choices()}")
    return f"{vendor}:{int(ordinal)}"


def _words(vendor: str) -> tuple[str, ...]:
    """What a vendor that names its devices by words calls them."""
    found = driver(vendor)
    assert isinstance(found, NamesDevices), f"the driver of {vendor} has no names()"
    return tuple(found.names())


def _choices() -> str:
    reports = probe_all()
    found = [info.name for report in reports for info in report.devices]
    if found:
        return f"Devices here: {', '.join(found)}."
    reasons = "".join(f"\n  {report.vendor}: {report.reason}" for report in reports)
    return f"There is no device on this machine:{reasons}"


def open_device(name: str) -> Device:
    """The device of that name, opened once per process; an emulated one again after a kernel that
    failed, which loses all that was on it.

    Raises:
        NoDeviceError: no such device; the message lists those there are, or the reason for none.
    """
    device = _devices.get(name)
    if device is not None:
        return device
    if _forked:
        raise DriverError(
            "this process was forked from one that had opened a device, and no vendor's run time "
            'works on in such a child. Start processes with multiprocessing\'s "spawn" method, or '
            "use devices in the child only."
        )
    name = find_device(name)
    with _lock:
        device = _devices.get(name)
        if device is None:
            vendor, _, ordinal = name.partition(":")
            try:
                number = _words(vendor).index(ordinal) if vendor in _NAMED_ONLY else int(ordinal)
                device = driver(vendor).open(number)
            except NoDeviceError as error:
                raise NoDeviceError(
                    f"device {name!r} does not exist: {error} {_choices()}"
                ) from error
            _devices[name] = device
            if isinstance(device, Replaceable):
                device.when_lost(partial(_forget, name))
    return device


def _forget(name: str) -> None:
    with _lock:
        _devices.pop(name, None)
    for drop in on_lost:
        drop(name)


def _in_forked_child() -> None:
    global _forked, _lock
    _lock = threading.RLock()  # another thread of the parent may have held it
    if _devices:
        _forked = True
        _kept.append(dict(_devices))  # closing them would call into the parent's run time
        _devices.clear()
        for drop in after_fork:
            drop()


_kept: list[dict[str, Device]] = []
os.register_at_fork(after_in_child=_in_forked_child)
