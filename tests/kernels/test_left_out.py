"""None in the place of an argument that may be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import operators
import pytest
from operators import sample
from oracle import check

import xtarget

#: Inputs of any number: a list, in which None is no array.
_LISTS = ("concat", "stack", "hstack", "vstack", "dstack", "einsum")
#: Of the inputs that may be left out one has to be given.
_ONE_OF = ("clip", "index", "index_put")
OPTIONAL = {
    name: spec
    for name, spec in operators.own().items()
    if spec.required < len(spec.inputs) and name not in (*_LISTS, *_ONE_OF)
}
#: What one that is left out is, in rows that have several.
_STATE = np.zeros((2, 5), np.float32)
_NOTHING = {
    "weight": np.ones(4, np.float32), "bias": np.zeros(4, np.float32),
    "mask": np.ones((4, 4), bool), "slopes": np.zeros(2, np.float32), "h": _STATE, "c": _STATE,
}  # fmt: skip


def _same(one: Any, other: Any) -> None:
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def _sampled(name: str) -> Any:
    few = name in ("linear", "bincount", "layer_norm_backward", "embedding_bag", "cross_entropy")
    return pytest.param(name, marks=[] if few else [pytest.mark.long])


@pytest.mark.parametrize("name", [_sampled(name) for name in OPTIONAL])
def test_none_is_the_same_as_leaving_out(device: str, name: str) -> None:
    spec = OPTIONAL[name]
    given = operators.arrays(spec, "float32", (8, 16))
    for place in range(spec.required, len(spec.inputs)):
        args = [*given[:place], None, *given[place + 1 :]]
        words = {n.rstrip("?"): arg for n, arg in zip(spec.inputs, args, strict=False)}
        without = {n: arg for n, arg in words.items() if arg is not None}
        _same(xtarget.run(name, *args, device=device), xtarget.run(name, device=device, **without))
    none = [None] * (len(spec.inputs) - spec.required)
    required = given[: spec.required]
    _same(xtarget.run(name, *required, *none, device=device),
          xtarget.run(name, *required, device=device))  # fmt: skip


def _layer(gates: int) -> list[Any]:
    return [sample("float32", 3, 2, 4), sample("float32", gates * 5, 4),
            sample("float32", gates * 5, 5)]  # fmt: skip


X, ROW = sample("float32", 2, 4), sample("float32", 4)
PICTURE = sample("float32", 2, 4, 3)
QUERY = sample("float32", 1, 2, 4, 8)


@pytest.mark.parametrize(
    ("name", "required", "optional"),
    [
        ("layer_norm", [X], [ROW, ROW]),
        ("attention", [QUERY] * 3, [_NOTHING["mask"], np.float32([0.5, 0.25])]),
        ("gru", _layer(3), [sample("float32", 15), sample("float32", 15), sample("float32", 2, 5)]),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("add_layer_norm", [X, X], [ROW, ROW]),
                ("batch_norm", [PICTURE, ROW, abs(ROW)], [ROW, ROW]),
                ("batch_norm_training", [PICTURE], [ROW, ROW]),
                ("group_norm", [PICTURE], [ROW, ROW]),
                ("instance_norm", [PICTURE], [ROW, ROW]),
                ("lstm", _layer(4), [sample("float32", 20), sample("float32", 20),
                                     *[sample("float32", 2, 5)] * 2]),
                ("simple_rnn", _layer(1), [sample("float32", 5), sample("float32", 5),
                                           sample("float32", 2, 5)]),
                ("lstm_cell", [X, _STATE + 1, _STATE + 2, *_layer(4)[1:]],
                 [sample("float32", 20), sample("float32", 20)]),
            )
        ),
    ],
)  # fmt: skip
def test_none_in_the_middle_is_what_changes_nothing(
    device: str, name: str, required: Any, optional: Any
) -> None:
    labels = [n.rstrip("?") for n in xtarget.catalog()[name].inputs[len(required) :]]
    for place, label in enumerate(labels):
        nothing = _NOTHING.get(label, np.zeros_like(optional[place]))
        one, other = ([*optional[:place], x, *optional[place + 1 :]] for x in (None, nothing))
        _same(xtarget.run(name, *required, *one, device=device),
              xtarget.run(name, *required, *other, device=device))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", pytest.param("int8", marks=pytest.mark.long)])
def test_clip_with_one_limit(device: str, dtype: str) -> None:
    x, low = sample(dtype, 5, 7), sample(dtype, 7, seed=1)
    high = np.full((), 3, dtype)
    for limits in ((low,), (low, None), (None, high), (low, high), (None, low)):
        check("clip", x, *limits, device=device)
    by_word = xtarget.run("clip", x, max=3, device=device)
    np.testing.assert_array_equal(by_word, np.minimum(x, 3))
    with pytest.raises(xtarget.ArgumentError, match="clip: low and high are left out"):
        xtarget.run("clip", x, None, max=None, device=device)


def test_clip_with_one_limit_in_a_fused_function_and_of_nan(device: str) -> None:
    x = np.float32([np.nan, 1, -np.inf, np.inf])
    check("clip", x, None, np.float32([0, np.nan, 0, 0]), device=device)
    fused = xtarget.fuse(lambda x: xtarget.run("neg", xtarget.run("clip", x, min=0)))
    np.testing.assert_array_equal(fused(x, device=device), -np.maximum(x, 0))
