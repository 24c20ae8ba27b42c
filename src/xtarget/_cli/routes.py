"""`xtarget kernels --routes`: by which routes kernels can be compiled, and why not by others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

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

__all__ = ["list_routes"]

#: Characters of a reason in a table.
_LONG = 60


def list_routes(specs: Sequence[KernelSpec], as_json: bool) -> None:
    """Print a row for each kernel, by its first kind of float or its first dtype."""
    targets = [Target.parse(text) for text in example_targets()]
    targets = [target for target in targets if registry.routes(target.vendor)]
    found = [{"kernel": spec.name, **_of(spec, targets)} for spec in specs]
    if as_json:
        echo(json.dumps(found, indent=1))
        return
    rows, counts = [], dict.fromkeys(map(str, targets), 0)
    for entry in found:
        cells, why = [], ""
        for target in counts:
            served = [name for name, reason in entry[target].items() if not reason]
            counts[target] += len(served) > 1
            cells.append(", ".join(served))
            why = why or next((reason for reason in entry[target].values() if reason), "")
        rows.append((entry["kernel"], entry["dtype"], *cells, _last(why)))
    print_table(("kernel", "dtype", *counts, "why not by all"), rows)
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
    for shape in SHAPES:
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
