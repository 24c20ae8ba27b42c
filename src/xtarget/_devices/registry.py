"""The vendors' drivers and compilers, and the devices they offer.

A vendor's code is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from .._system.importing import INTERRUPTED, check_imported
from .._system.life import in_forked_child
from .._system.locks import Lock
from .._system.signals import handler_kept
from .._values import environment
from .._values.errors import DriverError, NoDeviceError, shortened
from .._values.types import ProbeReport
from .._values.vendors import (
    BUILTIN,
    canonical,
    is_vendor,
    named_only,
    package_of,
    vendors,
)
from ..targets.base import Compiler, Device, Driver
from ..targets.optional import (
    HasRoutes,
    KnowsAbsence,
    Locator,
    NamesDevices,
    Reopenable,
    Replaceable,
    Route,
)

__all__ = [
    "compiler",
    "driver",
    "find_device",
    "named_only",
    "open_device",
    "opened",
    "probe",
    "probe_all",
    "routes",
    "vendors",
    "why_absent",
]

_lock = Lock()
_devices: dict[str, Device] = {}
#: Those that are being opened, within `_lock`.
_opening: set[str] = set()
#: This process is the child of a fork of one with open devices.
_forked = False
#: Called in the child of a fork, to drop what belongs to the parent's devices.
after_fork: list[Callable[[], None]] = []
#: Called with the name of a device that was lost and will be opened again when it is next named,
#: to drop what belongs to it.
on_lost: list[Callable[[str], None]] = []


@cache
def driver(vendor: str) -> Driver:
    """The vendor's run time.

    Raises:
        UnknownTargetError: no such vendor.
    """
    result: Driver = package_of(vendor).create_driver()
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
    result: Compiler = package_of(vendor).create_compiler()
    return result


@cache
def routes(vendor: str) -> tuple[Route, ...]:
    """The vendor's ways beside its compiler.

    Raises:
        UnknownTargetError: no such vendor.
    """
    package = package_of(vendor)
    return package.create_routes() if isinstance(package, HasRoutes) else ()


# ------------------------------------------------------------------------------------------ probing


def probe(vendor: str) -> ProbeReport:
    """Look for a vendor's devices in a child process.

    Whatever the vendor's library does there (block, crash, print), this process gets a report. The
    report is cached for the life of the process, unless it only says that no answer came in
    time."""
    return probe_all((canonical(vendor),))[0]


#: What vendors said; what one did not say in time is asked again by the next call.
_reports: dict[str, ProbeReport] = {}
#: Those that were late when they were last asked: they get one try, not two.
_late: set[str] = set()


def probe_all(wanted: tuple[str, ...] | None = None) -> list[ProbeReport]:
    """`probe` for several vendors (all of them when None) at the same time."""
    check_imported()
    from . import probe as _probe

    names = vendors() if wanted is None else wanted
    with _lock:
        found = dict(_reports)
        missing = []
        for name in [name for name in names if name not in _reports]:
            absent = why_absent(name)
            if absent is not None:
                found[name] = _reports[name] = ProbeReport(name, (), absent)
            else:
                missing.append(name)
        for tries in (2, 1):
            asked = [name for name in missing if (name in _late) == (tries == 1)]
            answers = _probe.ask_all(asked, environment.probe_seconds(), tries) if asked else {}
            for name, (report, late) in answers.items():
                found[name] = report
                if late:
                    _late.add(name)
                else:
                    _late.discard(name)
                    _reports[name] = report
        return [found[name] for name in names]


def why_absent(vendor: str) -> str | None:
    """A vendor's own quick answer that it cannot have a device (`KnowsAbsence`), or why its package
    cannot be used."""
    try:
        found = driver(vendor)
        return found.absent() if isinstance(found, KnowsAbsence) else None
    except Exception as error:  # a probe never raises, whatever a third party's package does
        return _unusable(error)


def _unusable(error: Exception) -> str:
    return f"its package cannot be used: {type(error).__name__}: {error}"


# ------------------------------------------------------------------------------------------ devices


def find_device(wanted: object) -> str:
    """The canonical name of a device: `nvidia` and `cuda` are `nvidia:0`, `cuda:1` is `nvidia:1`;
    a `Device`, a `DeviceInfo` and a `torch.device` name theirs.

    Raises:
        NoDeviceError: no such device; the message lists those there are.
    """
    if isinstance(wanted, list | tuple):
        raise NoDeviceError(
            f"{shortened(wanted)} is not a device. A call runs on one; xtarget.split(..., devices="
            "[...]) cuts it over several."
        )
    try:
        named = getattr(wanted, "info", wanted)
        name = str(getattr(named, "name", named))
    except Exception as error:  # an object that refuses even that
        raise NoDeviceError(f"{shortened(wanted)} is not a device. {_choices()}") from error
    vendor, _, ordinal = name.strip().lower().partition(":")
    vendor, ordinal = canonical(vendor), ordinal or "0"
    words = _words(vendor)
    if words is not None:
        if ordinal not in words:
            raise NoDeviceError(
                f"{shortened(name)} is not a device; {vendor} has "
                f"{', '.join(f'{vendor}:{word}' for word in words)}."
            )
        return f"{vendor}:{ordinal}"
    if not is_vendor(vendor) or not ordinal.isascii() or not ordinal.isdigit():
        raise NoDeviceError(f"{shortened(name)} is not a device. {_choices()}")
    return f"{vendor}:{int(ordinal)}"


def _words(vendor: str) -> tuple[str, ...] | None:
    """Return the device names of a vendor that names its devices by words; None for numbers."""
    if vendor in BUILTIN or not is_vendor(vendor):
        return None
    try:
        found = driver(vendor)
        return tuple(found.names()) if isinstance(found, NamesDevices) else None
    except Exception as error:  # whatever a third party's package does
        raise NoDeviceError(f"{vendor} has no devices: {_unusable(error)}") from error


def _choices() -> str:
    reports = probe_all()
    found = [info.name for report in reports for info in report.devices]
    if found:
        return f"Devices here: {', '.join(found)}."
    reasons = "".join(f"\n  {report.vendor}: {report.reason}" for report in reports)
    return f"There is no device on this machine:{reasons}"


def check_not_forked() -> None:
    """Raises DriverError in the child of a fork of a process that had opened a device."""
    if _forked:
        raise DriverError(
            "this process was forked from one that had opened a device, and no vendor's run time "
            'works on in such a child. Start processes with multiprocessing\'s "spawn" method, or '
            "use devices in the child only."
        )


def is_lost(device: Device) -> bool:
    """Return whether a device that was opened is closed or lost.

    Raises:
        DriverError: as `check_not_forked`.
    """
    if is_open(device):
        return False
    check_not_forked()
    return True


def open_device(name: str) -> Device:
    """The device of that name. It is opened once per process, and again after its `close`, or after
    a failed kernel has destroyed an emulated device.

    Raises:
        NoDeviceError: no such device; the message lists those there are, or the reason for none.
        DriverError: this thread is opening it, so that who asks was called from in there; or the
            process was forked from one that had opened a device.
    """
    device = _devices.get(name)
    if device is not None:
        return device
    check_not_forked()
    check_imported()
    name = find_device(name)
    with _lock:
        device = _devices.get(name)
        if device is None:
            if name in _opening:  # a second context, whose kernels do not run in the first
                raise DriverError(f"{name} is being opened: {INTERRUPTED}")
            vendor, _, ordinal = name.partition(":")
            try:
                _opening.add(name)
                words = _words(vendor)
                number = int(ordinal) if words is None else words.index(ordinal)
                with handler_kept():
                    device = driver(vendor).open(number)
            except NoDeviceError as error:
                raise NoDeviceError(
                    f"device {name!r} does not exist: {error} {_choices()}"
                ) from error
            finally:
                _opening.discard(name)
            _devices[name] = device
            if isinstance(device, Replaceable):
                device.when_lost(partial(_forget, name, device))
            if isinstance(device, Reopenable):
                device.when_closed(partial(_forget, name, device))
    return device


def opened() -> dict[str, Device]:
    """The devices that are open, by name."""
    return dict(_devices)


def is_open(device: Device) -> bool:
    """True if the device is the one that its name stands for: not closed, not lost, not of another
    process."""
    return _devices.get(device.info.name) is device


def _forget(name: str, device: Device) -> None:
    with _lock:
        if _devices.get(name) is not device:
            return  # it was opened again since
        del _devices[name]
    for drop in on_lost:
        drop(name)


def _in_forked_child() -> None:
    global _forked
    if not _lock.mine:
        _opening.clear()  # the thread that opened them is the parent's
    if _devices:
        _forked = True
        _kept.append(dict(_devices))  # closing them would call into the parent's run time
        _devices.clear()
        for drop in after_fork:
            drop()


_kept: list[dict[str, Device]] = []
in_forked_child(_in_forked_child)
