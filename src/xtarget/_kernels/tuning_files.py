"""Measurements of choices, as data: entries, and the files that hold them.

A file has the same form wherever it is: beside the kernels, beside the cache of binaries, in a
bundle, and where `xtarget tune export` wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from .._system import files
from .._values.choosing import bounds_of, octave_of
from .._values.errors import ArgumentError, shortened
from .._values.value_classes import value_class

__all__ = [
    "DEFAULT",
    "FORMAT",
    "Entry",
    "FormatError",
    "Result",
    "entries_of",
    "merged",
    "read_file",
    "text_of",
]

FORMAT: Final = "xtarget tuning 1"
#: The choice of an entry in whose range the plan's own rule stands: of other sizes in it, too, for
#: which the rule may say something else.
DEFAULT: Final = "default"
_MOST_BYTES: Final = 64 << 20
_HOW: Final = ("measured", "derived")


class FormatError(ArgumentError):
    """A tuning file is of another version of xtarget."""


@value_class(frozen=True, slots=True)
class Result:
    """A configuration's own result.

    Attributes:
        seconds: the median of a call; None: it was dropped.
        lower, upper: quartiles of the samples, seconds.
        error: why it was dropped.
    """

    seconds: float | None = None
    lower: float = 0.0
    upper: float = 0.0
    error: str = ""


@value_class(frozen=True, slots=True)
class Entry:
    """All that is known of a question (`_values.choosing.Asked`) on a device.

    Attributes:
        target: `nvidia:sm_90`.
        device: the vendor's name of the device; text that says what a derived one is derived from.
        how: `measured`, or `derived` by a model.
        made: versions of what made it, and the date.
        best: the choice, as text; or `DEFAULT`.
        results: of each configuration, by its text. None are kept of what is shipped.
    """

    table: str
    target: str
    device: str
    how: str
    words: Mapping[str, str]
    sizes: Mapping[str, int]
    best: str
    results: Mapping[str, Result] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[Any, ...]:
        """The subject of the entry: another entry with the same one replaces it."""
        words, sizes = sorted(self.words.items()), sorted(self.sizes.items())
        return self.table, self.target, self.device, tuple(words), tuple(sizes)

    @property
    def octaves(self) -> Mapping[str, int]:
        return {name: octave_of(size) for name, size in self.sizes.items()}

    def range_text(self) -> str:
        """`m 2897..5792, n 2897..5792`."""
        bounds = {name: bounds_of(octave) for name, octave in self.octaves.items()}
        return ", ".join(f"{name} {low}..{high}" for name, (low, high) in bounds.items())

    def json(self, *, results: bool = True) -> dict[str, Any]:
        told: dict[str, Any] = {
            "table": self.table,
            "target": self.target,
            "device": self.device,
            "how": self.how,
            "words": dict(self.words),
            "sizes": dict(self.sizes),
            "best": self.best,
            "made": dict(self.made),
        }
        if results and self.results:
            told["results"] = {
                text: {"dropped": one.error}
                if one.seconds is None
                else {"seconds": one.seconds, "lower": one.lower, "upper": one.upper}
                for text, one in self.results.items()
            }
        return told


def text_of(entries: Iterable[Entry], *, results: bool = True) -> str:
    """The text of a file, an entry a line: two versions can be compared."""
    lines = [json.dumps(entry.json(results=results), sort_keys=True) for entry in entries]
    return f'{{"format": {json.dumps(FORMAT)}, "entries": [\n' + ",\n".join(lines) + "\n]}\n"


def read_file(path: Path) -> list[Entry]:
    """The entries of a file.

    Raises:
        FormatError: it is of another version.
        ArgumentError: it is none of ours, or damaged.
        OSError: it cannot be read.
    """
    try:
        found = json.loads(files.read_regular(path, _MOST_BYTES))
    except ValueError as error:
        raise ArgumentError(f"{path} is not a tuning file: it is not JSON ({error}).") from error
    return entries_of(found, str(path))


def entries_of(found: Any, where: str) -> list[Entry]:
    """The entries of what a file holds.

    Raises:
        FormatError: it is of another version.
        ArgumentError: it is none of ours, or damaged.
    """
    if not isinstance(found, dict) or not str(found.get("format", "")).startswith("xtarget tuning"):
        raise ArgumentError(
            f"{where} is not a tuning file. `xtarget tune export` writes one, of measurements here."
        )
    if found["format"] != FORMAT:
        raise FormatError(
            f"{where} has the format {shortened(found['format'])}, and this version of xtarget "
            f"reads {FORMAT!r}. Export it again with this version."
        )
    try:
        return [_entry(one) for one in found["entries"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(
            f"{where} is damaged: an entry lacks or has a wrong {error}. Export it again."
        ) from error


def _entry(one: Mapping[str, Any]) -> Entry:
    results = {
        text: Result(error=str(result["dropped"]))
        if "dropped" in result
        else Result(float(result["seconds"]), float(result["lower"]), float(result["upper"]))
        for text, result in one.get("results", {}).items()
    }
    if one["how"] not in _HOW:
        raise ValueError("how")
    sizes = {name: int(size) for name, size in one["sizes"].items()}
    words = {name: str(word) for name, word in one["words"].items()}
    made = {name: str(value) for name, value in one.get("made", {}).items()}
    return Entry(
        str(one["table"]), str(one["target"]), str(one["device"]), str(one["how"]), words, sizes,
        str(one["best"]), results, made,
    )  # fmt: skip


def merged(*several: Sequence[Entry]) -> list[Entry]:
    """Entries of one place as one, with the results of all; of two of one configuration the later.

    The fastest of all results is the choice; that of a later entry without results stands.
    """
    found: dict[tuple[Any, ...], Entry] = {}
    for entry in (one for entries in several for one in entries):
        before = found.get(entry.place)
        if before is not None and before.how == entry.how:
            results = {**before.results, **entry.results}
            measured = {t: r.seconds for t, r in results.items() if r.seconds is not None}
            best = entry.best
            if entry.results and measured:
                best = min(measured, key=lambda t: measured[t])
            entry = replace(entry, results=results, best=best)
        found[entry.place] = entry
    return list(found.values())
