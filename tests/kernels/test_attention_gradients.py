"""Gradients of attention against their formula in float64, and against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import check, expected

import xtarget


def arguments(
    query: tuple[int, ...], keys: tuple[int, ...], size: int, *, device: str,
    dtype: str = "float32", **options: Any,
) -> list[Any]:  # fmt: skip
    """The gradient of the result, query, key, value, what attention gives of these."""
    q, k = sample(dtype, *query, seed=1), sample(dtype, *keys, seed=2)
    v = sample(dtype, *keys[:-1], size, seed=3)
    out, lse = xtarget.run("attention", q, k, v, lse=True, device=device, **options)
    return [sample(dtype, *out.shape, seed=4), q, k, v, out, lse]


def run(device: str, query: Any, keys: Any, size: int, **options: Any) -> None:
    dtype = options.pop("dtype", "float32")
    given = arguments(query, keys, size, device=device, dtype=dtype, **options)
    check("attention_backward", *given, device=device, **options)


@pytest.mark.parametrize(
    ("query", "keys", "size", "options"),
    [
        ((2, 4, 9, 12), (2, 2, 11, 12), 8, {"causal": True}),
        *(
            pytest.param(*case, marks=pytest.mark.large)
            for case in (
                ((2, 4, 17, 12), (2, 1, 23, 12), 8, {"window": (5, 7), "softcap": 2.0}),
                ((1, 9, 2, 16), (1, 11, 1, 16), 16, {"offset": None, "layout": "bshd"}),
                ((1, 2, 9, 40), (1, 2, 5, 40), 70, {"causal": True, "offset": -4}),
                ((9, 4), (5, 4), 7, {}),
                ((1, 4, 33, 16), (1, 4, 40, 16), 16, {"causal": True, "dtype": "float16"}),
                ((1, 2, 0, 4), (1, 2, 5, 4), 4, {}),
                ((1, 2, 5, 4), (1, 2, 0, 4), 4, {}),
                ((2, 3, 2, 5, 4), (2, 3, 1, 7, 4), 4, {}),
            )
        ),
        # a CPU's run time builds it for 20 s; tests/interop/test_torch_attention.py has float64 too
        pytest.param(
            (1, 2, 9, 16), (1, 2, 50, 16), 16, {"window": (2, 0), "dtype": "float64"},
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_gradients(device: str, query: Any, keys: Any, size: int, options: Any) -> None:
    run(device, query, keys, size, **options)


@pytest.mark.large
@examples(6)
@given(
    lengths=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    heads=st.tuples(*[st.integers(1, 3)] * 3),
    window=st.tuples(st.integers(-1, 9), st.integers(-1, 9)),
    offset=st.one_of(st.none(), st.integers(-9, 20)),
)
def test_any_lengths_heads_and_windows(
    device: str, lengths: Any, heads: Any, window: Any, offset: Any
) -> None:
    batch, own, group = heads
    query, keys = (batch, own * group, lengths[0], 8), (batch, own, lengths[1], 8)
    options = {"window": window, "offset": offset}
    given = arguments(query, keys, 8, device=device, **options)
    found = xtarget.run("attention_backward", *given, device=device, **options)
    right = expected("attention_backward", given, options, floating=True)
    # where a row sees one key, its gradient is the rounding error of terms that cancel
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4)


@pytest.mark.large
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_torchs(device: str, causal: bool) -> None:
    torch = pytest.importorskip("torch")
    given = arguments((2, 3, 9, 16), (2, 3, 9, 16), 16, device=device, causal=causal)
    found = xtarget.run("attention_backward", *given, causal=causal, device=device)
    grad, *arrays = (torch.tensor(x, dtype=torch.float64) for x in given[:4])
    leaves = [x.requires_grad_() for x in arrays]
    out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
    for own, right in zip(found, torch.autograd.grad(out, leaves, grad), strict=True):
        np.testing.assert_allclose(own, right, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "target", ["nvidia:sm_80", pytest.param("amd:gfx942", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=pytest.mark.long)])
def test_tiles_stay_in_registers_and_shared_memory(target: str, dtype: str) -> None:
    rows, keys = np.zeros((1, 4, 64, 128), dtype), np.zeros((1, 2, 64, 128), dtype)
    sums = np.zeros((1, 4, 64), np.float32)
    given = [rows, rows, keys, keys, rows, sums]
    for artifact in xtarget.compile("attention_backward", *given, causal=True, target=target):
        assert not artifact.resources.spilled_registers
        assert artifact.resources.local_bytes <= 16
        assert artifact.shared_bytes <= (64 if target.startswith("amd") else 99) * 1024


def test_each_argument_may_be_given_by_name(device: str) -> None:
    given = arguments((2, 4, 5, 8), (2, 2, 6, 8), 8, device=device)
    names = ("grad", "query", "key", "value", "output", "lse")
    by_name = xtarget.run(
        "attention_backward", device=device, **dict(zip(names, given, strict=True))
    )
    for one, other in zip(
        by_name, xtarget.run("attention_backward", *given, device=device), strict=True
    ):
        np.testing.assert_array_equal(one, other)


Q, K = sample("float32", 1, 4, 9, 8), sample("float32", 1, 2, 9, 8)
SUMS = sample("float32", 1, 4, 9)


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        ([Q, Q, K, K, Q, SUMS[:, :2]], {}, r"lse has shape \(1, 2, 9\)"),
        ([K, Q, K, K, Q, SUMS], {}, r"grad has shape \(1, 2, 9, 8\)"),
        ([Q, Q, K, K[..., :4], Q, SUMS], {}, r"it needs \(1, 4, 9, 4\)"),
        ([Q, Q, K[0], K, Q, SUMS], {}, "query has 4 dimensions and key 3"),
        ([Q, Q, K[:, [0, 1, 1]], K[:, [0, 1, 1]], Q, SUMS], {}, "multiple of those"),
        ([Q, Q, K, K, Q, SUMS], {"layout": "x"}, "layout is 'x'"),
    ],
)
def test_what_does_not_fit_is_said(device: str, args: Any, options: Any, said: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        xtarget.run("attention_backward", *args, device=device, **options)
