"""Scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from xtarget.spec import DtypeRules, KernelSpec

from ..plans import hopper_scans
from ..plans.scans import scan, scan_arg
from .row import along_axis, implementation
from .rules import FLOATS

__all__ = ["IMPLEMENTATIONS", "ROWS"]


def _accumulated(rules: DtypeRules, dtype: str) -> str:
    return rules.accumulated(dtype)


def _same(rules: DtypeRules, dtype: str) -> str:
    return dtype


def _scanned(step: str, none: float) -> Callable[..., Any]:
    """The NumPy ufunc's `accumulate`, with the options of a scan."""

    def reference(
        x: Any, axis: int | None = -1, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        import numpy as np

        x = np.asarray(x)
        if axis is None:
            x, axis = x.reshape(-1), 0
        if step in ("add", "multiply"):
            x = x.astype(np.add.reduce(np.zeros(0, x.dtype)).dtype)
        x = np.flip(x, axis) if reverse else x
        with np.errstate(all="ignore"):
            found = getattr(np, step).accumulate(x, axis=axis)
        if exclusive:
            first = np.full_like(found.take([0], axis), none)
            rest = found.take(range(x.shape[axis] - 1), axis)
            found = np.concatenate([first, rest], axis)
        return np.flip(found, axis) if reverse else found

    return reference


def _extreme(name: str) -> Callable[..., Any]:
    """torch's cummax and cummin: the values, and the index of the last of equals."""

    def reference(x: Any, axis: int = -1) -> Any:
        import numpy as np

        x = np.asarray(x)
        value = getattr(np, name).accumulate(x, axis=axis)
        shape = [1] * x.ndim
        shape[axis] = -1
        at = np.arange(x.shape[axis]).reshape(shape)
        own = (x == value) | ((x != x) & (value != value))
        return value, np.maximum.accumulate(np.where(own, at, 0), axis=axis)

    return reference


_OPTIONS: Mapping[str, Any] = {"axis": -1, "exclusive": False, "reverse": False}
_scan = partial(along_axis, category="scan", options=_OPTIONS)

ROWS: tuple[KernelSpec, ...] = (
    _scan("cumsum", scan("sum", _accumulated), "sum of each element and all before it along axis "
          "(None: of all)",
          _scanned("add", 0), "cum_sum scan_sum", tolerance=(16, 16)),
    _scan("cumprod", scan("prod", _accumulated), "product of each element and all before it along "
          "axis (None: of all)",
          _scanned("multiply", 1), "cum_prod", tolerance=(256, 0)),
    _scan("logcumsumexp", scan("logsum", _same), "log(cumsum(exp(x))) that does not overflow",
          _scanned("logaddexp", float("-inf")), "cumulative_logsumexp", dtypes=FLOATS,
          tolerance=(64, 64)),
    _scan("cummax", scan_arg(True), "largest element so far along axis, and its index (of equals "
          "the last)", _extreme("maximum"), options={"axis": -1}),
    _scan("cummin", scan_arg(False), "smallest element so far along axis, and its index (of equals "
          "the last)", _extreme("minimum"), options={"axis": -1}),
)  # fmt: skip

IMPLEMENTATIONS: tuple[KernelSpec, ...] = (
    implementation("cumsum", ROWS, "hopper", hopper_scans.cumsum, "each element of a long row of "
        "float32 is read once; other calls are the row's", ("nvidia:sm_90",), preferred=True),
)  # fmt: skip
