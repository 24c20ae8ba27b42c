"""The device that a call takes when nothing names one.

Its vendors are probed in this process, which will use the device at once; `registry` probes in
child processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence

from .._system.importing import check_imported
from .._system.life import in_forked_child
from .._system.locks import Lock
from .._system.signals import handler_kept
from .._values import environment
from .._values.errors import NoDeviceError, shortened
from .._values.types import DeviceInfo, ProbeReport
from .._values.vendors import BUILTIN, later_by_preference
from . import registry

__all__ = ["default_device", "preferred"]


def default_device() -> str:
    """Name of the device for data that is on no device: `XTARGET_DEVICE`, else the first GPU found,
    else the CPU.

    Raises:
        NoDeviceError: there is no device at all; the message has every vendor's reason.
    """
    chosen = environment.default_device()
    if not chosen:
        return _first_device()
    try:
        return registry.find_device(chosen)
    except NoDeviceError as error:
        raise NoDeviceError(f"XTARGET_DEVICE is {shortened(chosen)}: {error}") from error


def _unsuitable(info: DeviceInfo) -> bool:
    return "unsuitable" in info.details


def preferred(reports: Sequence[ProbeReport]) -> DeviceInfo | None:
    """The device that is used if nothing names one: the first that its driver does not call
    unsuitable in its details, else the first."""
    found = [info for report in reports for info in report.devices]
    return next((info for info in found if not _unsuitable(info)), found[0] if found else None)


#: The default device; not set while a vendor before it has not answered.
_first: str | None = None
_first_lock = Lock()


def _first_device() -> str:
    if _first is not None:
        return _first
    check_imported()
    with _first_lock:
        return _first or _find_first()


def _by_preference() -> Iterator[str]:
    """The vendors that may have the default device. Those of other packages come last: looking for
    them costs more than a call on a built-in vendor may."""
    yield from BUILTIN
    yield from later_by_preference()


def _find_first() -> str:
    global _first
    for again in (False, True):  # who was late gets time again where nothing else is there
        reports, late = [], []
        for vendor in _by_preference():
            asked = vendor in _running
            report, is_late = _probe_in_process(vendor, again=again)
            if is_late:
                late.append(vendor)
                if not asked:
                    _warn_of_late(report)
            reports.append(report)
            info = preferred([report])
            if info is not None and not _unsuitable(info):
                if not late:
                    _first = info.name
                return info.name
        unloved = preferred(reports)
        if unloved is not None:
            if not late:
                _first = unloved.name
            return unloved.name
        if not late:
            break
    reasons = "".join(f"\n  {report.vendor}: {report.reason}" for report in reports)
    raise NoDeviceError(f"no device was found on this machine:{reasons}")


def _warn_of_late(report: ProbeReport) -> None:
    import logging

    logging.getLogger("xtarget").warning(
        "%s: %s It is not chosen as the default device until it answers; name a device to be sure.",
        report.vendor,
        report.reason,
    )


#: Probes of this process, by vendor.
_running: dict[str, _ProbeInProcess] = {}


class _ProbeInProcess:
    """A probe in this process, which will use the device at once. A library that blocks stays
    behind in its thread, and may still answer.
    """

    def __init__(self, vendor: str) -> None:
        self.vendor = vendor
        self.report: ProbeReport | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: the process ends, or is at its user's limit
            self._run()

    def _run(self) -> None:
        try:
            with handler_kept():
                self.report = registry.driver(self.vendor).probe()
        except Exception as error:  # a probe never raises, whatever a vendor's library does
            self.report = ProbeReport(self.vendor, (), f"{type(error).__name__}: {error}")

    def wait(self, seconds: float) -> ProbeReport:
        """Return the report; if there is none in time, a report that says so."""
        from .._children.limits import Patience

        thread = self._thread
        if self.report is not None:
            return self.report
        patience = Patience(seconds, os.getpid(), thread.native_id)
        while thread.is_alive() and not patience.over():
            thread.join(0.1)
        if self.report is not None:
            return self.report
        from . import probe as _probe

        return _probe.late_report(self.vendor, patience)


def _probe_in_process(vendor: str, *, again: bool) -> tuple[ProbeReport, bool]:
    """Probe in this process, as long as `probe_all` does with its two tries.

    Args:
        again: wait once more for a vendor that was late.

    Returns:
        the report, and whether the vendor is late.
    """
    reason = registry.why_absent(vendor)
    if reason is not None:
        return ProbeReport(vendor, (), reason), False
    here = _running.get(vendor)
    new = here is None
    if here is None:
        here = _running[vendor] = _ProbeInProcess(vendor)
    report = here.wait(2 * environment.probe_seconds() if new or again else 0.0)
    return report, here.report is None


def _in_forked_child() -> None:
    for vendor in [name for name, here in _running.items() if here.report is None]:
        del _running[vendor]  # its thread is the parent's


in_forked_child(_in_forked_child)
