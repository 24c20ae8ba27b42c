"""Convolution of images, channels first and last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

import xtarget

from .case import Case, randn

__all__ = ["cases"]


def _conv(last: bool) -> Case:
    """Strides say where the channels lie; the shapes are torch's."""
    n, c, side = 32, 128, 56
    form = torch.channels_last if last else torch.contiguous_format

    def inputs() -> tuple[Any, ...]:
        x = randn(n, c, side, side, dtype=torch.bfloat16).to(memory_format=form)
        return x, randn(c, c, 3, 3, dtype=torch.bfloat16).to(memory_format=form)

    def ours(x: Any, weight: Any, out: Any = None) -> Any:
        if not last:
            return xtarget.run("conv2d", x, weight, padding=1, out=out)
        made = None if out is None else out.permute(0, 2, 3, 1)
        rows = x.permute(0, 2, 3, 1)
        found = xtarget.run("conv2d", rows, weight, padding=1, channels_last=True, out=made)
        return found.permute(0, 3, 1, 2)

    return Case(
        f"conv2d bf16 32x128x56^2 3x3 {'NHWC' if last else 'NCHW'}", "conv2d", inputs,
        lambda x, w: F.conv2d(x, w, padding=1), 2 * n * side * side * c * c * 9, True, ours=ours,
        asked=0.85 if last else 1.3, reuses=not last,
    )  # fmt: skip


def cases() -> Iterator[Case]:
    for last in (True, False):
        yield _conv(last)
