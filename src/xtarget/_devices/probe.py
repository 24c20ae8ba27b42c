"""Probe a vendor in a child process, because its library may block, crash or print.

A slow library may still have devices. So its limit counts seconds of processor time, it gets a
second try, and its answer is not kept (`Answer.late`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .._children.child import Child, ChildLostError, NoChildError
from .._children.frames import pack
from .._children.limits import Patience
from .._values.types import DeviceInfo, ProbeReport, Target

__all__ = ["Answer", "ask_all", "late_report"]


class Answer(NamedTuple):
    """A report. A late one only says that the library did not answer in time."""

    report: ProbeReport
    late: bool = False


def ask_all(vendors: Sequence[str], seconds: float, tries: int = 2) -> dict[str, Answer]:
    """Probe vendors in parallel, and late ones a second time."""
    answers: dict[str, Answer] = {}
    left = list(vendors)
    for _ in range(tries):
        jobs: dict[str, _Job] = {}
        try:
            for vendor in left:
                try:
                    jobs[vendor] = _Job(vendor, seconds)
                except NoChildError as error:
                    why = f"it is probed in a child process. {error}"
                    answers[vendor] = Answer(ProbeReport(vendor, (), why), late=True)
            for vendor, job in jobs.items():
                answers[vendor] = job.answer()
        finally:
            for job in jobs.values():
                job.end()
        left = [vendor for vendor in left if answers[vendor].late]
    return answers


class _Job:
    """A running probe.

    Raises:
        NoChildError: its process cannot be started.
    """

    def __init__(self, vendor: str, seconds: float) -> None:
        self.vendor = vendor
        self._child = Child("xtarget._devices.probe_child")
        self._patience = Patience(seconds, self._child.start())
        self._child.send(pack({"vendor": vendor}))

    def answer(self) -> Answer:
        """Wait for the report, as long as it may take."""
        try:
            report, _ = self._child.receive(self._patience.over)
            return Answer(_decode(report))
        except ChildLostError as lost:
            if lost.late:
                return Answer(late_report(self.vendor, self._patience), late=True)
            last = lost.log.splitlines()[-1] if lost.log else "it printed nothing"
            how = f"{lost} ({last})"
        except (ValueError, KeyError, TypeError):
            how = "gave an answer that is not a report"
        reason = (
            f"the process that probed it {how}: the vendor's run time is damaged or does not fit "
            "this machine."
        )
        return Answer(ProbeReport(self.vendor, (), reason))

    def end(self) -> None:
        """End the child, whatever it does."""
        self._child.end(kill=True)


def late_report(vendor: str, patience: Patience) -> ProbeReport:
    """The report of a vendor whose library does not answer."""
    return ProbeReport(
        vendor,
        (),
        f"its library did not answer in time ({patience.seconds:g} s; it used the processor for "
        f"{patience.busy:.1f} s), so it is not known whether it has a device. The driver may hang; "
        "XTARGET_PROBE_SECONDS gives it more time.",
    )


def _decode(report: dict[str, Any]) -> ProbeReport:
    devices = tuple(
        DeviceInfo(**{**device, "target": Target(**device["target"])})
        for device in report["devices"]
    )
    return ProbeReport(report["vendor"], devices, report["reason"])
