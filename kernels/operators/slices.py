"""Slices replaced, differences of neighbours, and torch's paddings of the last axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import slices as plans
from .row import alike, moving, row
from .rules import ALL

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _placed(x: Any, source: Any, axis: int, part: Any) -> Any:
    out = x.copy()
    out[(slice(None),) * (axis % x.ndim) + (part,)] = source
    return out


def _select(x: Any, source: Any, axis: int = 0, index: int = 0) -> Any:
    return _placed(x, source, axis, index)


def _slice(
    x: Any, source: Any, axis: int = 0, start: Any = None, stop: Any = None, step: Any = None
) -> Any:
    return _placed(x, source, axis, slice(start, stop, step))


def _difference(x: Any, n: int = 1, axis: int = -1) -> Any:
    import numpy as np

    return np.diff(x, n, axis)


def _padded(mode: str, rank: int) -> Callable[..., Any]:
    def reference(x: Any, padding: Any = 1) -> Any:
        import numpy as np

        several = tuple(padding) if isinstance(padding, tuple | list) else (padding,) * 2 * rank
        pairs = several * 2 * rank if len(several) == 1 else several
        width = list(zip(pairs[::2], pairs[1::2], strict=True))[::-1]
        return np.pad(x, [(0, 0)] * (x.ndim - rank) + width, mode)

    return reference


def _behind(rank: int) -> Callable[[_Shape], Sequence[_Shape]]:
    """Two elements to mirror on each axis."""

    def shapes(shape: _Shape) -> Sequence[_Shape]:
        tail = shape[-rank:]
        lengths = [max(n, 2) for n in (*(2,) * (rank - len(tail)), *tail)]
        return [(0 if 0 in shape else 2, *lengths)]

    return shapes


def _selected(shape: _Shape) -> Sequence[_Shape]:
    return [(2, *shape), shape]


_ALL: Any = {"category": "movement", "dtypes": ALL}

_ROWS = (
    row("select_scatter", "x source", plans.select_scatter, "x with the slice number index along "
        "axis replaced by source", _select, _selected, options={"axis": 0, "index": 0}, **_ALL),
    row("slice_scatter", "x source", plans.slice_scatter, "x with start:stop:step along axis "
        "replaced by source", _slice, lambda shape: [(2, *shape), (2, *shape)],
        options={"axis": 0, "start": None, "stop": None, "step": None}, **_ALL),
    row("diff", "x", plans.difference, "from each element to the next one along axis, n times; of "
        "bool: whether they differ", _difference, alike(1), "difference",
        options={"n": 1, "axis": -1}, tolerance=(16, 16), **_ALL),
    *(
        row(f"{name}{rank}d", "x", plans.pad_last(mode, rank), f"the last {rank} axes with the "
            f"elements at their ends {how}; padding: of the last axis first",
            _padded(mode, rank), _behind(rank), options={"padding": 1}, **_ALL)
        for name, mode, how in (
            ("reflection_pad", "reflect", "mirrored"),
            ("replication_pad", "edge", "repeated"),
        )
        for rank in (1, 2, 3)
    ),
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = moving(_ROWS, "diff")
