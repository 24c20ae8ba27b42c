"""Gradients of pooling and of convolutions: options, layouts and refusals, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import sample
from oracle import check
from refusals import refused

import xtarget

pytest.importorskip("torch", reason="the references are torch's")

POOLED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("avg_pool_backward", (2, 3, 5, 6), (2, 3, 9, 11),
     {"kernel": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    ("avg_pool_backward", (2, 3, 7), (2, 3, 20), {"kernel": 4, "stride": 3, "ceil_mode": True}),
    ("adaptive_avg_pool_backward", (2, 4, 14, 3), (2, 9, 11, 3), {"channels_last": True}),
    ("adaptive_avg_pool_backward", (1, 2, 3, 1, 5), (1, 2, 4, 5, 6), {}),
]  # fmt: skip
CONVOLVED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ((2, 4, 9, 8), (6, 2, 3, 3), {"stride": 2, "padding": 1, "groups": 2}, "float32"),
    ((2, 7, 6, 3), (3, 1, 3, 3),
     {"groups": 3, "padding": (1, 0, 2, 1), "channels_last": True}, "float16"),
    ((1, 2, 20), (3, 2, 5), {"dilation": 2}, "float64"),
    ((2, 9, 7, 16), (20, 16, 3, 2),
     {"padding": 1, "stride": (2, 1), "channels_last": True}, "float16"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "grad", "x", "options"), POOLED)
def test_means(device: str, name: str, grad: Any, x: Any, options: Any) -> None:
    check(name, sample("float32", *grad), sample("float32", *x), device=device, **options)


@pytest.mark.parametrize("overlapping", [False, True])
def test_largest_elements_of_windows(device: str, overlapping: bool) -> None:
    options: Any = {"kernel": 3, "stride": 1, "padding": 1} if overlapping else {"kernel": 2}
    x = np.round(sample("float32", 2, 3, 8, 9))  # has equal ones
    found, index = xtarget.run("max_pool2d_with_indices", x, device=device, **options)
    check("max_pool_backward", sample("float32", *found.shape), x, index, device=device, **options)
    wild = np.where(index % 3 == 0, -1, index + 1000)
    lost = xtarget.run("max_pool_backward", found, x, wild, device=device, **options)
    assert not lost.any()


@pytest.mark.sample(3, each=("dtype",))
@pytest.mark.parametrize(("x", "weight", "options", "dtype"), CONVOLVED)
def test_convolutions(device: str, x: Any, weight: Any, options: Any, dtype: str) -> None:
    arrays = sample(dtype, *x), sample(dtype, *weight, seed=1)
    made = xtarget.run("conv", *arrays, device=device, **options)
    grad = sample(dtype, *made.shape, seed=2)
    check("convolution_backward", grad, *arrays, device=device, **options)
    empty = (grad[:0], arrays[0][:0], arrays[1])
    check("convolution_backward", *empty, device=device, **options)


IMAGE, WEIGHT = sample("float32", 1, 2, 5, 5), sample("float32", 3, 2, 2, 2)

test_refusals = refused(
    [
        ("convolution_backward", (IMAGE, IMAGE, WEIGHT), {}, "it has to be .1, 3, 4, 4"),
        ("convolution_backward", (IMAGE, IMAGE, WEIGHT), {"groups": 2}, "does not fit x"),
        ("convolution_backward", (IMAGE, IMAGE.astype("f8"), WEIGHT), {}, "they need the same"),
        ("avg_pool_backward", (IMAGE, IMAGE), {}, "has to be .1, 2, 2, 2"),
        ("max_pool_backward", (IMAGE, IMAGE, IMAGE), {}, "have to be integers"),
    ]
)
