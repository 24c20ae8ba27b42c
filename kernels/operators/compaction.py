"""Results whose size the data say. The call waits for that size; a captured call cannot, and says
so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xtarget.spec import Call, KernelSpec, Plan

from ..plans import compaction as plans
from .row import alike, moving, row
from .rules import ALL

__all__ = ["ROWS"]


def _nonzero(x: Any) -> Any:
    import numpy as np

    return np.argwhere(x)


def _masked_select(x: Any, condition: Any) -> Any:
    import numpy as np

    x, condition = np.broadcast_arrays(x, condition)
    return x[condition]


def _masked_scatter(x: Any, condition: Any, source: Any) -> Any:
    import numpy as np

    made = np.array(x, order="C")
    places = np.flatnonzero(np.broadcast_to(condition, made.shape))[: np.size(source)]
    made.reshape(-1)[places] = np.reshape(source, -1)[: len(places)]
    return made


def _unique(inverse: bool = False, counts: bool = False) -> Callable[..., Any]:
    def reference(x: Any) -> Any:
        import numpy as np

        found = np.unique(x, return_inverse=True, return_counts=True)
        values, places, sizes = found[0], np.reshape(found[1], np.shape(x)), found[2]
        more = [value for value, wanted in ((places, inverse), (sizes, counts)) if wanted]
        return (values, *more) if more else values

    return reference


def _counted(
    name: str,
    inputs: str,
    plan: Callable[[Call], Plan],
    summary: str,
    reference: Callable[..., Any],
    aliases: str = "",
    *,
    counts: tuple[int | None, ...],
) -> KernelSpec:
    spec = row(name, inputs, plan, summary, reference, alike(len(inputs.split())), aliases,
               category="search", dtypes=ALL,
               apart=("condition",) if "condition" in inputs else ())  # fmt: skip
    return replace(spec, counts=counts)


_ROWS = (
    _counted("nonzero", "x", plans.nonzero, "the indices of the elements that are not 0, a row for "
             "each", _nonzero, "argwhere", counts=(1, None)),
    _counted("masked_select", "x condition", plans.masked_select, "the elements of x where the "
             "condition is true, in their order", _masked_select,
             counts=(1, None)),
    row("masked_scatter", "x condition source", plans.masked_scatter, "x with the elements of "
        "source, one after the other, where the condition is true; x stays where they are used up",
        _masked_scatter, alike(3), category="search", dtypes=ALL, apart=("condition",)),
    _counted("unique", "x", plans.unique(), "the elements in order, each once", _unique(),
             "unique_values unique2", counts=(1, None)),
    _counted("unique_inverse", "x", plans.unique(inverse=True), "the elements in order, each once; "
             "and the place of each element among them", _unique(inverse=True),
             counts=(2, None, None)),
    _counted("unique_counts", "x", plans.unique(counts=True), "the elements in order, each once; "
             "and how often each is there", _unique(counts=True),
             counts=(2, 2, None)),
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = moving(_ROWS, "nonzero", "unique", "unique_inverse", "unique_counts")
