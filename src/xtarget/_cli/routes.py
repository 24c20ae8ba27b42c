"""`xtarget kernels --routes`: by which routes kernels can be compiled, and why not by others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .._compile import routes
from .._devices import registry
from .._kernels import libraries
from .._launch import planning
from .._values.errors import ArgumentError
from .._values.types import Target
from .._values.vendors import example_targets
from .._verify.compiled import SHAPES, layouts
from .._verify.verify import NoAnswerError
from ..spec import KernelSpec
from .base import echo
from .tables import print_table

__all__ = ["Table", "list_routes", "table"]

#: The route that most kernels have no use of; its reasons would hide the others'.
_FEW = "template"
#: Characters of a reason in a table.
_LONG = 60


class Table(NamedTuple):
    """The routes of kernels.

    Attributes:
        rows: of each kernel its name, the dtype that was asked about, by which routes each target's
            is made, and why not by all.
        counts: how many can be compiled without Triton, by target.
    """

    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    counts: dict[str, int]


def _targets() -> list[Target]:
    """One of each vendor that has further routes."""
    found = [Target.parse(text) for text in example_targets()]
    return [target for target in found if registry.routes(target.vendor)]


def table(specs: Sequence[KernelSpec]) -> Table:
    """A row for each kernel, by its first kind of float or its first dtype."""
    return _table([{"kernel": spec.name, **_of(spec, _targets())} for spec in specs])


def _table(found: Sequence[dict[str, Any]]) -> Table:
    rows, counts = [], dict.fromkeys(map(str, _targets()), 0)
    for entry in found:
        cells, reasons = [], []
        for target in counts:
            served = [name for name, reason in entry[target].items() if not reason]
            counts[target] += len(served) > 1
            cells.append(", ".join(served))
            reasons += [r for name, r in entry[target].items() if r and name != _FEW]
        rows.append((entry["kernel"], entry["dtype"], *cells, _last(next(iter(reasons), ""))))
    return Table(("kernel", "dtype", *counts, "why not by all"), rows, counts)


def list_routes(specs: Sequence[KernelSpec], as_json: bool) -> None:
    """Print a row for each kernel."""
    found = [{"kernel": spec.name, **_of(spec, _targets())} for spec in specs]
    if as_json:
        echo(json.dumps(found, indent=1))
        return
    head, rows, counts = _table(found)
    print_table(head, rows)
    for target, count in counts.items():
        echo(f"{target}: {count} of {len(rows)} kernels can be compiled without Triton.")


def _last(why: str) -> str:
    """The words of a reason after its file and line."""
    text = why.rpartition(": ")[2] or why
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def _of(spec: KernelSpec, targets: Sequence[Target]) -> dict[str, Any]:
    """Of each target the routes, and why one cannot serve; empty if it can."""
    dtype = "float32" if "float32" in spec.dtypes else spec.dtypes[0]
    found: dict[str, Any] = {"dtype": dtype}
    for target in targets:
        reasons = {routes.TRITON: ""}
        for route in registry.routes(target.vendor):
            reasons[route.name] = next(filter(None, _refusals(spec, dtype, target, route)), "")
        found[str(target)] = reasons
    return found


def _refusals(spec: KernelSpec, dtype: str, target: Target, route: Any) -> Iterator[str]:
    """Of each launch of the first example that launches something."""
    for shape in SHAPES if spec.examples is not None else ():
        try:
            args = layouts(spec, dtype, shape)
            made = planning.compile_requests(libraries.find(spec.name), args, {}, target)
        except (ArgumentError, NoAnswerError):
            continue
        for request in made:
            yield route.refusal(request, target)
        if made:
            return
    yield "it has no example that launches something."
