"""The library's contents: one `KernelSpec` per kernel.

The rows stand in `operators`, a file for each family. `names.json` has the names of all rows
(`ci/operators_page.py` writes it), so that a look-up imports the file of one family only. A name
that other libraries have and this one cannot have is in `REFUSED`, with the reason.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .operators.refused import REFUSED

if TYPE_CHECKING:
    from xtarget.spec import KernelSpec

__all__ = ["FAMILIES", "KERNELS", "NAMES", "REFUSED", "family", "names", "written_names"]

#: Where two rows would get the same further spelling of a name, the first one has it.
FAMILIES = (
    "arithmetic",
    "powers",
    "angles",
    "special",
    "bessel",
    "activations",
    "activation_gradients",
    "comparisons",
    "bits",
    "casts",
    "selection",
    "reductions",
    "scans",
    "normalizations",
    "gradients",
    "entropy",
    "gates",
    "losses",
    "row_losses",
    "movement",
    "slices",
    "gathers",
    "indexed",
    "constants",
    "sorting",
    "searching",
    "compaction",
    "sampling",
    "randoms",
    "products",
    "distances",
    "attention",
    "caches",
    "mixed",
    "recurrent",
    "convolutions",
    "pooling",
    "pooling_gradients",
    "resampling",
    "images",
    "segments",
    "by_library",
)
NAMES = Path(__file__).with_name("names.json")

KERNELS: tuple[KernelSpec, ...]


def __getattr__(name: str) -> Any:
    if name == "KERNELS":  # all of them; whoever wants one asks `family`
        return tuple(spec for name, rows in _spelled().items() for spec in (*rows, *_others(name)))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def names() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """The kernels of each family, with their other names."""
    listed = json.loads(NAMES.read_text(encoding="utf-8"))
    return {
        family: {name: tuple(others.split()) for name, others in kernels.items()}
        for family, kernels in listed.items()
    }


def family(name: str) -> tuple[KernelSpec, ...]:
    """The rows of one family."""
    from dataclasses import replace

    from .operators.spellings import spellings  # both are of no use before there are rows

    listed = names()[name]
    return (
        *(
            replace(
                row,
                aliases=listed.get(row.name, row.aliases),
                words=row.words or spellings(row),
                by_name=True,
            )
            for row in _rows(name)
        ),
        *(replace(row, words=spellings(row), by_name=True) for row in _others(name)),
    )


def written_names() -> str:
    """The text that `names.json` has to contain."""
    parts = []
    for name, rows in _spelled().items():
        lines = [f"  {json.dumps(row.name)}: {json.dumps(' '.join(row.aliases))}" for row in rows]
        parts.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rows(family: str) -> tuple[KernelSpec, ...]:
    return tuple(importlib.import_module(f".operators.{family}", __package__).ROWS)


def _others(family: str) -> tuple[KernelSpec, ...]:
    """Other implementations of rows (`operators.row.implementation`)."""
    module = importlib.import_module(f".operators.{family}", __package__)
    return tuple(getattr(module, "IMPLEMENTATIONS", ()))


@cache
def _spelled() -> Mapping[str, tuple[KernelSpec, ...]]:
    """The rows of all families, with the further spellings of their names."""
    from .operators.row import spelled  # needs what all kinds of rows need

    by_family = {family: _rows(family) for family in FAMILIES}
    found = iter(spelled([row for rows in by_family.values() for row in rows]))
    return {family: tuple(next(found) for _ in rows) for family, rows in by_family.items()}
