"""`with xtarget.profile() as p`: where the time of calls goes, by kernel and class of arguments."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .._system import spans
from .._system.locks import Lock
from .._system.spans import Span
from .._values.errors import XTargetError
from . import observe
from .device_times import settle_times
from .records import CallRecord, Record

__all__ = ["Profile", "ProfileRow", "profile"]


@dataclass(slots=True)
class ProfileRow:
    """The calls of a kernel with arguments of one class.

    Attributes:
        kernel: its name.
        layouts: dtypes and dimensions of the arguments, and the options.
        device: the device's name.
        calls: how many.
        host_us: host time of all calls, in microseconds; the first one of a class binds, and may
            compile.
        host_least_us: of the fastest call.
        launches: how many of their launches have a device time.
        device_us: device time of these, in microseconds; None: the device tells none.
        device_least_us: of the fastest launch.
    """

    kernel: str
    layouts: str
    device: str
    calls: int = 0
    host_us: float = 0.0
    host_least_us: float = 0.0
    launches: int = 0
    device_us: float | None = None
    device_least_us: float | None = None


class Profile:
    """A profile: all calls of the process, in all threads, while it is open.

    Attributes:
        steps: how often kernels were bound, compiled and loaded, and the seconds of it.
    """

    wants_times, wants_places, wants_launched = True, False, False

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], ProfileRow] = {}
        self._lock = Lock()
        self._open = False
        self.steps: dict[str, tuple[int, float]] = {}

    def __enter__(self) -> Profile:
        if self._open:
            raise XTargetError("this profile is open already. Make another one: xtarget.profile().")
        self._open = True
        observe.add(self)
        spans.listen(self._stepped)
        return self

    def __exit__(self, *_: object) -> None:
        observe.remove(self)
        spans.end(self._stepped)
        self._open = False
        settle_times()

    @property
    def rows(self) -> list[ProfileRow]:
        """By kernel and class, those that took most of the host's time first."""
        if self._open:
            settle_times()
        with self._lock:
            return sorted(self._rows.values(), key=lambda row: -row.host_us)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        steps = {name: {"count": n, "seconds": s} for name, (n, s) in self.steps.items()}
        return {"rows": [asdict(row) for row in self.rows], "steps": steps}

    def _row(self, of: CallRecord | Record) -> ProfileRow:
        key = of.kernel, of.layouts, of.device
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = ProfileRow(*key)
        return row

    def entered(self, launch: Record) -> None:
        pass

    def launched(self, launch: Record) -> None:
        pass

    def timed(self, launch: Record) -> None:
        if launch.device_seconds is None:
            return
        took = launch.device_seconds * 1e6
        with self._lock:
            row = self._row(launch)
            row.device_least_us = took if not row.launches else min(row.device_least_us or 0, took)
            row.device_us = (row.device_us or 0.0) + took
            row.launches += 1

    def called(self, call: CallRecord) -> None:
        took = call.seconds * 1e6
        with self._lock:
            row = self._row(call)
            row.host_least_us = min(row.host_least_us, took) if row.calls else took
            row.host_us += took
            row.calls += 1

    def _stepped(self, step: Span) -> None:
        if step.step.startswith("stage "):
            return  # a part of a compilation
        with self._lock:
            count, seconds = self.steps.get(step.step, (0, 0.0))
            self.steps[step.step] = count + 1, seconds + step.seconds

    def __str__(self) -> str:
        heads = ("kernel", "arguments", "device", "calls", "host µs", "least", "device µs", "least")
        lines = [heads]
        for row in self.rows:
            device: float | None = None
            if row.device_us is not None:
                device = row.device_us / row.launches
            lines.append(
                (
                    row.kernel,
                    row.layouts,
                    row.device,
                    str(row.calls),
                    _number(row.host_us / row.calls if row.calls else None),
                    _number(row.host_least_us),
                    _number(device),
                    _number(row.device_least_us),
                )
            )
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        text = [
            "  ".join(
                part.ljust(width) if index < 3 else part.rjust(width)
                for index, (part, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        steps = [f"{name} {n} x, {s * 1e3:.1f} ms" for name, (n, s) in sorted(self.steps.items())]
        return "\n".join([*text, *([f"steps: {'; '.join(steps)}"] if steps else [])])

    def __repr__(self) -> str:
        return f"<xtarget.Profile of {len(self._rows)} kernels and classes>"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def profile() -> Profile:
    """Profile what runs within a `with` statement, in all threads.

    `print(p)` gives a table by kernel and class of arguments: mean and least host time of a call,
    mean and least device time of a launch, in microseconds; `p.rows` has the numbers::

        with xtarget.profile() as p:
            xtarget.run("add", a, b)
        print(p)
    """
    return Profile()
