"""`xtarget tune list`, `export`, `import` and `merge`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import xtarget

from .. import __version__
from .._kernels import libraries, tunings
from .._kernels.tuning_files import DEFAULT, Entry, FormatError, merged, read_file, text_of
from .._system.output import check_output, write_output
from .._values.errors import ArgumentError, XTargetError
from .._values.types import Target
from .base import echo
from .tables import print_table

__all__ = ["export_tunings", "import_tunings", "list_tunings", "merge_tunings"]


def _here(target: str | None, table: str | None = None) -> list[Entry]:
    """The entries that are stored here, of a target and a table.

    Raises:
        UnknownTargetError: there is no such target.
    """
    goal = None if target is None else str(Target.parse(target))
    return [
        entry
        for entry in tunings.stored_entries()
        if goal in (None, entry.target) and table in (None, entry.table)
    ]


def list_tunings(target: str | None, as_json: bool) -> None:
    """Print the entries, those that are shipped last."""
    libraries.catalog()
    local = _here(target)
    goals = [str(Target.parse(target))] if target else _shipped_targets()
    shipped = [entry for goal in goals for entry in tunings.shipped_entries(goal)]
    rows = [("here", entry) for entry in local] + [("shipped", entry) for entry in shipped]
    if as_json:
        told = [{"from": origin, **entry.json()} for origin, entry in rows]
        echo(json.dumps(told, indent=1))
        return
    if not rows:
        echo("nothing was measured here: `xtarget tune KERNEL --shape ...` does.")
        return
    columns = ("from", "table", "target", "device", "how", "for", "choice", "results")
    print_table(columns, [_line(origin, entry) for origin, entry in rows])


def _shipped_targets() -> list[str]:
    names = sorted({p.stem for p in tunings.shipped_folder().glob("*.json")})
    return [name.replace("-", ":", 1) for name in names]


def _line(origin: str, entry: Entry) -> tuple[str, ...]:
    words = [f"{n}={v}" for n, v in entry.words.items() if n != "kernel" or len(v) < 40]
    what = ", ".join([*words, *(f"{n}={size}" for n, size in entry.sizes.items())])
    results = str(len(entry.results)) if entry.results else ""
    device = entry.device
    return origin, entry.table, entry.target, device, entry.how, what, entry.best, results


def export_tunings(
    output: str, target: str | None, table: str | None, *, results: bool, as_json: bool
) -> None:
    """Write what is stored here.

    Raises:
        ArgumentError: there is nothing of that.
    """
    check_output(Path(output))
    found = _here(target, table)
    if not found:
        of = "".join([f" for {target}" if target else "", f" of {table}" if table else ""])
        raise ArgumentError(f"nothing was measured here{of}. `xtarget tune KERNEL` does.")
    write_output(Path(output), text_of(found, results=results).encode())
    _say({"written": output, "entries": len(found)}, f"{output}: {_count(found)}", as_json)


def import_tunings(files: Sequence[str], *, anyway: bool, as_json: bool) -> None:
    """Store what is of this machine's devices, this version, and kernels that are here.

    Args:
        anyway: of all devices.
    """
    kept: list[Entry] = []
    ignored: list[str] = []
    for file in files:
        try:
            entries = _read(file)
        except FormatError as error:  # what others hold is taken
            ignored.append(f"ignored: {error}")
            continue
        reasons: dict[str, int] = {}
        for entry in entries:
            reason = _unfit(entry, anyway=anyway)
            if reason:
                reasons[reason] = reasons.get(reason, 0) + 1
            else:
                kept.append(entry)
        ignored += [f"{file}: {n} of {len(entries)} ignored: {why}" for why, n in reasons.items()]
    if kept and not tunings.store(kept):
        raise XTargetError(
            "the measurements cannot be stored: XTARGET_CACHE is not readwrite, or the folder of "
            "the cache cannot be written. `xtarget info` shows both."
        )
    for line in ignored:
        echo(line, err=True)
    _say({"imported": len(kept), "ignored": ignored}, f"imported: {_count(kept)}", as_json)


def _read(file: str) -> list[Entry]:
    """The entries of a file.

    Raises:
        FormatError: it is of another version.
        ArgumentError: it cannot be read, or is none of ours.
    """
    try:
        return read_file(Path(file))
    except OSError as error:
        raise ArgumentError(f"{file} cannot be read: {error.strerror}.") from error


def _unfit(entry: Entry, *, anyway: bool) -> str:
    """Why an entry is not for this installation; nothing if it is."""
    made_by = entry.made.get("xtarget", "")
    if made_by.split(".")[:2] != __version__.split(".")[:2]:
        return f"measured with xtarget {made_by or '?'}, and this is {__version__}"
    if not anyway and (entry.target, entry.device) not in _devices():
        return (
            f"of {entry.device} ({entry.target}), which is not here; --anyway takes it for devices "
            "of that target"
        )
    if "key" in entry.words:
        if libraries.is_registered(entry.table):
            return ""
        return f"of the kernel {entry.table}, which is not here (XTARGET_KERNELS names libraries)"
    known = tunings.fields(entry.table)
    if known is None:
        table = f"of the table {entry.table}, which xtarget {__version__} has not"
        return "" if anyway else f"{table}; --anyway takes it for a library of your own"
    named = tuple(part.partition("=")[0] for part in entry.best.split(", "))
    if entry.best != DEFAULT and named != known:
        return f"a choice of {entry.table} has {', '.join(known)} here, not {', '.join(named)}"
    return ""


def _devices() -> set[tuple[str, str]]:
    return {(str(info.target), info.product) for info in xtarget.devices()}


def merge_tunings(files: Sequence[str], output: str, *, as_json: bool) -> None:
    """Write the entries of several files as one."""
    check_output(Path(output))
    found = merged(*map(_read, files))
    write_output(Path(output), text_of(found).encode())
    _say({"written": output, "entries": len(found)}, f"{output}: {_count(found)}", as_json)


def _count(entries: Sequence[Entry]) -> str:
    results = sum(len(entry.results) for entry in entries)
    return f"{len(entries)} choices, {results} results"


def _say(told: dict[str, object], line: str, as_json: bool) -> None:
    echo(json.dumps(told) if as_json else line)
