"""Losses over classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans.entropy import cross_entropy, cross_entropy_backward, nll_loss
from .references import by_torch
from .row import row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _cross_entropy(
    torch: Any, x: Any, target: Any, weight: Any = None, ignore_index: int = -100,
    label_smoothing: float = 0.0, reduction: str = "mean",
) -> Any:  # fmt: skip
    target = target if target.is_floating_point() else target.long()
    return torch.nn.functional.cross_entropy(
        x, target, weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _nll(
    torch: Any, x: Any, target: Any, weight: Any = None, ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    return torch.nn.functional.nll_loss(
        x, target.long(), weight, ignore_index=ignore_index, reduction=reduction
    )


def _back_of_cross_entropy(
    torch: Any, d: Any, x: Any, target: Any, weight: Any = None, **options: Any
) -> Any:
    leaf = x.clone().requires_grad_()
    made = _cross_entropy(torch, leaf, target, weight, **options)
    return torch.autograd.grad(made, [leaf], d.to(made.dtype))[0]


def _with_targets(shape: _Shape) -> Sequence[_Shape]:
    """Logits, whose axis 1 are the classes, and targets."""
    return [shape, shape[:1] + shape[2:]]


_CLASSES: Mapping[str, Any] = {"ignore_index": -100, "reduction": "mean"}
_SMOOTHED: Mapping[str, Any] = {**_CLASSES, "label_smoothing": 0.0}
_ALL: Any = {"category": "loss", "dtypes": (*FLOATS, "int32", "int64"), "apart": ("target",)}

ROWS: tuple[KernelSpec, ...] = (
    row("cross_entropy", "x target weight?", cross_entropy, "-log(softmax(x)) at each target; a "
        "target that is no class gives nan. A floating target of x's shape are probabilities",
        by_torch(_cross_entropy), _with_targets,
        "sparse_softmax_cross_entropy SoftmaxCrossEntropyLoss cross_entropy_loss",
        options=_SMOOTHED, tolerance=(64, 64), **_ALL),
    row("nll_loss", "x target weight?", nll_loss, "-x at each target; a target that is no class "
        "gives nan", by_torch(_nll), _with_targets,
        "NegativeLogLikelihoodLoss nll_loss_forward nll_loss2d nll_loss2d_forward",
        options=_CLASSES, tolerance=(32, 32), **_ALL),
    row("cross_entropy_backward", "grad x target weight?", cross_entropy_backward, "gradient of "
        "cross_entropy", by_torch(_back_of_cross_entropy),
        lambda shape: [(), *_with_targets(shape)], "cross_entropy_bp", options=_SMOOTHED,
        tolerance=(64, 32), **_ALL),
)  # fmt: skip
