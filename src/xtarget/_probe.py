"""Probe a vendor in a child process: its library may block, crash or print, and none of it shows.

The parent starts `python -m xtarget._probe VENDOR`; the child writes one JSON object, the report,
to the pipe that was its standard output before the vendor's library could see it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from typing import IO, Any

from ._types import DeviceInfo, ProbeReport, Target

__all__ = ["finish", "start", "timed_out"]


class Job:
    """A running probe."""

    def __init__(self, vendor: str) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `finish`)
        # the parent's own search path, so that a checkout, an editable install and a wheel agree
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "xtarget._probe", vendor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
        )


def start(vendor: str) -> Job:
    """Begin to probe; several vendors may be under way at once."""
    return Job(vendor)


def finish(vendor: str, job: Job, seconds: float) -> ProbeReport:
    """Wait for the report until `seconds` after the start, then give the child up."""
    try:
        left = max(0.0, seconds - (time.monotonic() - job.started))
        output, _ = job.process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        job.process.kill()
        # one that is stuck inside the kernel driver cannot be reaped now
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.process.communicate(timeout=1.0)
        return timed_out(vendor, seconds)
    finally:
        job.errors.seek(0)
        errors = job.errors.read().decode(errors="replace").strip()
        job.errors.close()
    try:
        return _decode(json.loads(output))
    except ValueError:
        code = job.process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = errors.splitlines()[-1] if errors else "it printed nothing"
        return ProbeReport(
            vendor,
            (),
            f"the process that probed it {how} ({last}): the vendor's run time is damaged or does "
            "not fit this machine.",
        )


def timed_out(vendor: str, seconds: float) -> ProbeReport:
    """The report of a vendor whose library does not answer."""
    return ProbeReport(
        vendor,
        (),
        f"its library did not answer within {seconds:g} s and was left alone; the driver may hang. "
        "XTARGET_PROBE_SECONDS gives it more time.",
    )


def _decode(report: dict[str, Any]) -> ProbeReport:
    devices = tuple(
        DeviceInfo(**{**device, "target": Target(**device["target"])})
        for device in report["devices"]
    )
    return ProbeReport(report["vendor"], devices, report["reason"])


def _main(vendor: str) -> None:
    """The child: nothing but the report may reach the parent's pipe."""
    channel = os.dup(1)
    os.dup2(2, 1)
    from . import _registry

    report = _registry.driver(vendor).probe()
    with os.fdopen(channel, "wb") as pipe:
        pipe.write(json.dumps(asdict(report)).encode())
        pipe.flush()
    os._exit(0)  # a vendor's library that hangs in its destructors is of no interest


if __name__ == "__main__":
    _main(sys.argv[1])
