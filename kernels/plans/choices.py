"""The choices that were the fastest on devices of an arch: `kernels/choices/VENDOR-ARCH.json` says
on which device they were measured, and has rows by kernel, of which the first that holds is taken.

`chosen` asks what `xtarget tune` has measured, here or for the tables of `kernels/choices/tuned`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from xtarget import spec

__all__ = ["FOLDER", "Row", "chosen", "known", "rows", "tuned_sizes", "varied"]

_Numbers = TypeVar("_Numbers", bound=tuple[Any, ...])

FOLDER = Path(__file__).parents[1] / "choices"

_Range = tuple[int, int | None]


class Row(NamedTuple):
    """One choice.

    Attributes:
        config: the numbers that are chosen.
        ranges: of sizes by name, both ends belong to them; no end is None.
        blocks: how many blocks there are for 100 multiprocessors, in the same way.
        text: words that have to be the call's, or that say more about the choice.
        cost: what the choice is estimated to take, as the file says; empty: it is taken where it
            holds.
    """

    config: tuple[int, ...]
    ranges: Mapping[str, _Range]
    blocks: _Range
    text: Mapping[str, str]
    cost: tuple[int, ...] = ()

    def holds(self, **sizes: int) -> bool:
        for name, (low, high) in self.ranges.items():
            if sizes[name] < low or (high is not None and sizes[name] > high):
                return False
        return True


def _row(entry: Mapping[str, Any]) -> Row:
    config, blocks = entry["config"], entry.get("blocks", (0, None))
    ranges = {name: (one[0], one[1]) for name, one in entry.get("sizes", {}).items()}
    text = {name: value for name, value in entry.items() if isinstance(value, str)}
    return Row(tuple(config), ranges, (blocks[0], blocks[1]), text, tuple(entry.get("cost", ())))


@cache
def known(vendor: str, arch: str) -> Mapping[str, Any]:
    """The contents of a file; empty without one."""
    file = FOLDER / f"{vendor}-{arch}.json"
    if not arch or not file.is_file():
        return {}
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@cache
def rows(vendor: str, arch: str, kernel: str) -> tuple[Row, ...]:
    return tuple(_row(entry) for entry in known(vendor, arch).get("choices", {}).get(kernel, ()))


def chosen(
    call: spec.Call,
    table: str,
    default: _Numbers,
    variants: Callable[[], Sequence[_Numbers]],
    words: Mapping[str, str],
    sizes: Mapping[str, int],
    *,
    origin: str = "default",
    source: str = "",
    estimate: Callable[[_Numbers], float] | None = None,
    holds: Callable[[_Numbers], bool] | None = None,
) -> _Numbers:
    """The values of a named tuple that were measured to be the fastest, else the default.

    Args:
        variants: those that are worth a trial.
        words, sizes, origin, source, estimate, holds: as of `spec.Question`. A CPU's vector
            instructions are a word of each: one target stands for all of them.
    """
    if call.vectors:
        words = {**words, "vectors": call.vectors}
    asked = spec.Question(
        table, lambda: words, sizes, default, variants, partial(_read, default), origin,
        source, _text, estimate, holds,
    )  # fmt: skip
    found: _Numbers = call.choose(asked)
    return found


@cache
def tuned_sizes(table: str) -> tuple[Mapping[str, int], ...]:
    """The sizes that choices of a table are shipped for, of all archs: bundles are built for them,
    too, so that what is chosen for the sizes between them is there. Not of CPUs: a bundle is for
    any processor, and those are of some."""
    found = [
        entry["sizes"]
        for file in sorted((FOLDER / "tuned").glob("*.json"))
        for entry in json.loads(file.read_text(encoding="utf-8"))["entries"]
        if entry["table"] == table and not entry["target"].startswith("cpu:")
    ]
    return tuple({str(sorted(sizes.items())): sizes for sizes in found}.values())


def _text(choice: Any) -> str:
    """`m=128, n=64`; of numbers that belong together `group=2048x4x8`."""
    return ", ".join(
        f"{name}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in choice._asdict().items()
    )


def _read(default: Any, text: str) -> Any:
    """The choice that `_text` wrote; None if the fields have changed since."""
    values = dict(part.partition("=")[::2] for part in text.split(", "))
    usual = default._asdict()
    if list(values) != list(usual):
        return None
    try:
        return type(default)(*(_value(usual[name], one) for name, one in values.items()))
    except (ValueError, TypeError):
        return None


def _value(usual: Any, text: str) -> Any:
    """Of a field, as text.

    Raises:
        ValueError, TypeError: there is no such value of it.
    """
    if isinstance(usual, str):
        return text
    if text == str(usual):  # as None
        return usual
    if isinstance(usual, tuple):
        return type(usual)(*map(int, text.split("x")))
    return text == "True" if text in ("True", "False") else int(text)


def varied(
    default: _Numbers, factors: Mapping[str, Sequence[float]], holds: Callable[[Any], bool]
) -> list[_Numbers]:
    """A named tuple's variants: one of its numbers is multiplied, or two of them.

    Args:
        factors: by field.
        holds: whether a variant is allowed.
    """
    found: Any = [default]
    for name, several in factors.items():
        for base in list(found):
            for factor in several:
                value = int(getattr(base, name) * factor)
                if value >= 1:
                    found.append(base._replace(**{name: value}))
    return [
        one
        for one in dict.fromkeys(found)
        if sum(a != b for a, b in zip(one, default, strict=True)) <= 2 and holds(one)
    ]
