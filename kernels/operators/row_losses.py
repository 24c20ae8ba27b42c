"""Losses of rows, of samples, and of sequences of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans.row_losses import cosine_distance, ctc, pairwise
from .references import by_torch
from .row import alike, row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _reduced(each: Any, reduction: str) -> Any:
    return each if reduction == "none" else getattr(each, reduction)()


def _cosine(torch: Any, x: Any, y: Any, axis: int = -1, reduction: str = "mean") -> Any:
    return _reduced(1 - (x * y).sum(axis, keepdim=True), reduction)


def _pairwise(torch: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    apart = (x - y).reshape(x.shape[0], -1)
    if apart.shape[1] < 2:
        return _reduced((apart - apart).sum(1), reduction)
    return _reduced(2 * apart.var(1), reduction)


def _ctc(
    torch: Any, x: Any, targets: Any, input_lengths: Any, target_lengths: Any, **options: Any
) -> Any:
    return torch.nn.functional.ctc_loss(
        x, targets.long(), input_lengths.long(), target_lengths.long(), **options
    )


def _sequences(shape: _Shape) -> Sequence[_Shape]:
    """Log-probabilities of 8 steps, and up to 3 labels for each sample."""
    *_, samples, classes = (1, 1, *shape)
    return [(8, samples, classes), (samples, 3), (samples,), (samples,)]


def _counts(shapes: Sequence[_Shape], _: Any) -> dict[int, range]:
    """Labels are classes, and no sample has more steps or labels than there are."""
    x, targets = shapes[:2]
    return {1: range(x[-1]), 2: range(x[0] + 1), 3: range(targets[-1] + 1)}


_ALL: Any = {"category": "loss", "dtypes": FLOATS, "tolerance": (64, 64)}

ROWS: tuple[KernelSpec, ...] = (
    row("cosine_distance_loss", "x y", cosine_distance, "1 - sum(x y) along axis, of vectors of "
        "length 1; reduction='none' keeps the axis, with length 1", by_torch(_cosine), alike(2),
        "cosine_distance", options={"axis": -1, "reduction": "mean"}, **_ALL),
    row("mean_pairwssqerr_loss", "x y", pairwise, "of each sample (axis 0), the mean of (d_i - "
        "d_j)^2 over all pairs of its elements, where d is x - y", by_torch(_pairwise), alike(2),
        "mean_pairwise_squared_error", options={"reduction": "mean"}, **_ALL),
    row("ctc_loss", "log_probs targets input_lengths target_lengths", ctc, "-log of the "
        "probability of a sequence of labels, over all ways to spread it over the steps with "
        "blanks between (torch's)", by_torch(_ctc), _sequences, "CTCLoss",
        options={"blank": 0, "reduction": "mean", "zero_infinity": False},
        apart=("targets", "input_lengths", "target_lengths"), category="loss", bounds=_counts,
        dtypes=(*FLOATS, "int32", "int64"), tolerance=(256, 64)),
)  # fmt: skip
