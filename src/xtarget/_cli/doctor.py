"""`xtarget doctor`: what this machine has, what works, and how to mend what does not."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from .. import __version__
from .._cache import default_cache, explain
from .._children.child import Child, ChildLostError, NoChildError
from .._children.frames import pack
from .._children.limits import deadline
from .._devices import registry
from .._system.output import check_output, write_output
from .._values import environment
from .._values.errors import XTargetError
from .._values.types import DeviceInfo, ProbeReport
from .._values.value_classes import value_class
from ..targets._host import opencl_icd
from ..targets._host.machine import find_library_file
from ..targets._spirv import versions
from . import info
from .base import echo
from .listing import default_of, format_bytes
from .tables import echo_wrapped, print_table

__all__ = ["Finding", "examine", "without_private_parts"]

#: Seconds that the kernel of a device may take: a first compilation, and a slow driver's start.
_SMOKE_SECONDS: Final = 60.0
#: What is left for a compilation to be written to the disk.
_LITTLE_SPACE: Final = 64 << 20
_SEE: Final = "The lines above name the devices that are here, and the reasons of the others."
_SECRET: Final = re.compile(r"(?i)token|secret|passw|credential|api_?key|private")


@value_class(frozen=True, slots=True)
class Finding:
    """One line of the page.

    Attributes:
        area: Python, a vendor, a device, the compiler, the cache, the environment.
        status: `ok`; `note`: something is not there, which may be what you want; `problem`.
        text: what was found.
        mend: what to do about it; empty if there is nothing to do.
    """

    area: str
    status: str
    text: str
    mend: str = ""


# ------------------------------------------------------------------------------------------ machine


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _container() -> str:
    """The kind of container that this process is in; empty outside of one."""
    for file, kind in (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")):
        if os.path.exists(file):
            return kind
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "Kubernetes"
    return _read("/run/systemd/container") or os.environ.get("container", "")  # noqa: SIM112, systemd


def _machine() -> Iterator[Finding]:
    apart = "virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    python = f"{platform.python_implementation()} {platform.python_version()}, {apart}"
    yield Finding("python", "ok", f"{python}, {sys.prefix}")
    container = _container()
    yield Finding("system", "ok", platform.platform() + (f", in {container}" if container else ""))
    allowed, there = len(os.sched_getaffinity(0)), os.cpu_count()
    text = f"{there} CPU threads" if allowed == there else f"{allowed} of {there} CPU threads"
    most = _read("/sys/fs/cgroup/memory.max")
    if most.isdigit():
        text += f", at most {format_bytes(int(most))} of memory"
    yield Finding("system", "ok", text)


def _environment() -> Iterator[Finding]:
    for problem in environment.problems():
        yield Finding("environment", "problem", problem, "Change or unset the variable.")
    for name, near in environment.unknown_names().items():
        hint = f"Did you mean {near}?" if near else "Unset it."
        yield Finding("environment", "problem", f"{name} is not a variable of xtarget.", hint)


# ---------------------------------------------------------------------------------------- compiling


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _compiler() -> Iterator[Finding]:
    triton = _installed("triton")
    if not triton:
        yield Finding(
            "compiler",
            "note",
            "Triton is not installed: only kernels that the cache or a bundle has can run.",
            'pip install "xtarget[compile]"',
        )
        return
    try:
        versions.check(triton)
        yield Finding(
            "compiler",
            "ok",
            f"Triton {triton} with llvmlite {versions.llvmlite_version()}, a tested pair",
        )
    except XTargetError as error:
        yield Finding("compiler", "problem", str(error))


# -------------------------------------------------------------------------------------------- cache


def _can_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _cache() -> Iterator[Finding]:
    cache = default_cache()
    facts = explain.totals(cache)
    what = f"{facts['path']}: {facts['entries']} entries, {format_bytes(facts['bytes'])}"
    if facts["fault"]:
        yield Finding(
            "cache",
            "problem",
            f"{facts['fault']}; kernels are compiled again in every process",
            "Set XTARGET_CACHE_DIR to a folder that is yours alone.",
        )
        return
    parent = next((p for p in (cache.root, *cache.root.parents) if p.exists()), cache.root)
    if not _can_write(parent):
        status = "note" if facts["mode"] == "read" else "problem"
        mend = "Set XTARGET_CACHE_DIR to a folder that can be written."
        yield Finding("cache", status, f"{what}; it cannot be written", mend)
        return
    free = shutil.disk_usage(parent).free
    if free < _LITTLE_SPACE:
        mend = "Make room, or set XTARGET_CACHE_DIR to another disk."
        yield Finding("cache", "problem", f"{what}; its disk has {format_bytes(free)} left", mend)
    else:
        yield Finding("cache", "ok", what)
    aside = facts["quarantine"]["files"]
    if aside:
        yield Finding(
            "cache",
            "note",
            f"{aside} damaged files were set aside, and their kernels compiled again",
            "xtarget cache verify reads all that is left. If damage returns, check the disk.",
        )


# ------------------------------------------------------------------------------------------ devices


def _opencl() -> Iterator[Finding]:
    runtime = opencl_icd.intel_runtime()
    if runtime.problem:
        yield Finding("opencl", "problem", runtime.problem)
    if runtime.icd:
        yield Finding("opencl", "ok", f"CPU run time of the package: {runtime.icd}")
    for file in sorted(opencl_icd.SYSTEM_VENDORS.glob("*.icd")):
        library = _read(str(file))
        found = library if "/" in library else find_library_file(library)
        if found and os.path.exists(found):
            yield Finding("opencl", "ok", f"{file}: {found}")
        else:
            mend = f"Install the package that {file} belongs to again, or remove the file."
            yield Finding("opencl", "note", f"{file} names {library}, which is not there", mend)


def _vendor(report: ProbeReport) -> Iterator[Finding]:
    for device in report.devices:
        text = (
            f"{device.name}: {device.product}, {device.target}, "
            f"{format_bytes(device.memory_bytes)}, driver {device.driver_version}, {device.runs_on}"
        )
        unsuitable = device.details.get("unsuitable")
        yield Finding(
            report.vendor,
            "note" if unsuitable else "ok",
            f"{text}. {unsuitable}" if unsuitable else text,
        )
    if not report.devices:
        yield Finding(report.vendor, "note", report.reason or "no device")


def _smoke(device: DeviceInfo) -> Finding:
    """Run a kernel on the device, in a process of its own."""
    child = Child("xtarget._cli.doctor_child")
    area = device.name
    try:
        answer, _ = child.ask(pack({"device": device.name}), deadline(_SMOKE_SECONDS))
    except ChildLostError as lost:
        last = lost.log.splitlines()[-1] if lost.log else "it printed nothing"
        how = f"did not end in {_SMOKE_SECONDS:g} s" if lost.late else f"{lost} ({last})"
        mend = f"xtarget --debug run add --device {device.name} --check"
        return Finding(area, "problem", f"the process that ran add there {how}", mend)
    except NoChildError as error:
        return Finding(area, "problem", f"no process could be started to run add there: {error}")
    finally:
        child.end(kill=True)
    if "error" in answer:
        status = "problem" if _installed("triton") else "note"
        return Finding(area, status, f"add does not run there: {answer['error']}")
    return Finding(area, "ok", f"add is right there; the first run took {answer['seconds']:.2f} s")


def _default(reports: Sequence[ProbeReport]) -> Iterator[Finding]:
    name, complaint = default_of(reports)
    if complaint:
        yield Finding("devices", "problem", complaint, _SEE)
    elif name is None:
        mend = "Name one: XTARGET_DEVICE=NAME"
        yield Finding("devices", "note", "no device is used unless you name it", mend)


def _devices(wanted: str | None) -> Iterator[Finding]:
    reports = registry.probe_all()
    for report in reports:
        yield from _vendor(report)
    found = [device for report in reports for device in report.devices]
    if wanted is not None:
        name = registry.find_device(wanted)
        vendor = name.partition(":")[0]
        named = registry.probe_all((vendor,))[0] if vendor in registry.named_only() else None
        found = [one for one in (named.devices if named else found) if one.name == name]
        if not found:
            yield Finding(name, "problem", "this device is not here", _SEE)
    elif not found:
        mend = 'Any CPU can run kernels: pip install "xtarget[cpu]"'
        yield Finding("devices", "problem", "there is no device", mend)
    else:
        yield from _default(reports)
    for device in found:
        yield _smoke(device)


# --------------------------------------------------------------------------------------------- page


def without_private_parts(text: str) -> str:
    """A text that can be shown to others: without the home folder, the user's and the host's name.

    What looks like a secret in a line `NAME: value` goes as well.
    """
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(home, "~")
    text = re.sub(r"/(home|Users)/[^/\s]+", "~", text)
    for name, shown in ((socket.gethostname(), "HOST"), (os.environ.get("USER", ""), "USER")):
        if len(name) > 2 and name != "root":
            text = re.sub(rf"\b{re.escape(name)}\b", shown, text)
    lines = text.splitlines()
    return "\n".join(
        f"{line.partition(':')[0]}: (not shown)" if _SECRET.search(line.partition(":")[0]) else line
        for line in lines
    )


def _page(findings: Sequence[Finding]) -> str:
    lines = [
        f"# xtarget {__version__}: doctor",
        "",
        "| area | status | found |",
        "| --- | --- | --- |",
    ]
    for one in findings:
        text = " ".join(f"{one.text} {one.mend}".split()).replace("|", "\\|")
        lines.append(f"| {one.area} | {one.status} | {text} |")
    lines += ["", "```", *info.text_of(info.facts()), "```"]
    return without_private_parts("\n".join(lines)) + "\n"


def _findings(device: str | None) -> Iterable[Finding]:
    yield from _machine()
    yield from _environment()
    yield from _compiler()
    yield from _cache()
    yield from _opencl()
    yield from _devices(device)


def examine(device: str | None, report: str | None, as_json: bool) -> bool:
    """Print the page; True if there is no problem.

    Args:
        device: run a kernel there only; None: on every device that is not emulated.
        report: file for the page, without private parts, as an issue needs it.
    """
    if report is not None:
        check_output(Path(report))
    findings = list(_findings(device))
    problems = [one for one in findings if one.status == "problem"]
    if report is not None:
        write_output(Path(report), _page(findings).encode())
    if as_json:
        found: dict[str, Any] = {
            "ok": not problems,
            "findings": [asdict(one) for one in findings],
            "info": info.facts(),
        }
        echo(json.dumps(found, indent=2))
        return not problems
    marks = {"ok": "ok", "note": "-", "problem": "PROBLEM"}
    print_table(
        ("area", "status", "found"), [(one.area, marks[one.status], one.text) for one in findings]
    )
    for one in findings:
        if one.mend:
            echo_wrapped(f"{one.area}: {one.mend}")
    count = len(problems)
    echo("No problem was found." if not count else f"{count} problem{'s' * (count > 1)} found.")
    if report is not None:
        echo(f"{report} is written. Read it before you send it.")
    return not problems
