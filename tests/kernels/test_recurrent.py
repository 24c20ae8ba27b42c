"""Recurrent cells and layers against their formulas in float64, and against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import check

import xtarget

GATES = {"lstm": 4, "gru": 3, "simple_rnn": 1}
CELLS = {"lstm": "lstm_cell", "gru": "gru_cell", "simple_rnn": "rnn_cell"}


def f(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return (sample("float32", *shape, seed=seed) / 2).astype(dtype)


def weights(kind: str, inputs: int, size: int, dtype: str = "float32") -> list[Any]:
    rows = GATES[kind] * size
    shapes = ((rows, inputs), (rows, size), (rows,), (rows,))
    return [f(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes, 3)]


@pytest.mark.sample(3, each=("kind", "dtype"))
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.large)])
@pytest.mark.parametrize("kind", GATES)
def test_layers_and_cells(device: str, kind: str, dtype: str) -> None:
    given = weights(kind, 5, 19, dtype)
    x = f(4, 3, 5, dtype=dtype)
    states = [f(3, 19, seed=8 + n, dtype=dtype) for n in range(2 if kind == "lstm" else 1)]
    check(kind, x, *given, *states, device=device)
    check(CELLS[kind], x[1], *states, *given, device=device)


@pytest.mark.large
@examples(8)
@given(
    kind=st.sampled_from(tuple(GATES)),
    sizes=st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 20), st.integers(1, 33)),
    first=st.booleans(),
    reverse=st.booleans(),
    biases=st.integers(0, 2),
)
def test_any_sizes(
    device: str, kind: str, sizes: Any, first: bool, reverse: bool, biases: int
) -> None:
    """Steps, batch and inputs may be none; weights of any strides."""
    steps, batch, inputs, size = sizes
    w, u, *more = weights(kind, inputs, size)
    x = f(batch, steps, inputs) if first else f(steps, batch, inputs)
    u = np.ascontiguousarray(u.T).T
    options = {"batch_first": first, "reverse": reverse}
    check(kind, x[..., ::-1], w, u, *more[:biases], device=device, **options)


@pytest.mark.large
@pytest.mark.parametrize("kind", GATES)
def test_layers_are_torchs(device: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    given = weights(kind, 5, 7)
    x = f(6, 3, 5)
    name = {"lstm": "LSTM", "gru": "GRU", "simple_rnn": "RNN"}[kind]
    layer = getattr(torch.nn, name)(5, 7)
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), given, strict=True):
            parameter.copy_(torch.as_tensor(value))
        right, last = layer(torch.as_tensor(x))
    found = xtarget.run(kind, x, *given, device=device)
    np.testing.assert_allclose(found[0], right.numpy(), atol=1e-5)
    np.testing.assert_allclose(
        found[1], (last[0] if kind == "lstm" else last).numpy().reshape(3, 7), atol=1e-5
    )


X, (W, U, B, V) = f(2, 3, 5), weights("gru", 5, 7)
WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("gru", [X[0], W, U], {}, r"it needs \(steps, batch, elements\)"),
    ("gru", [X, U, U], {}, r"w_ih has shape \(21, 7\); with 3 gates of 7 elements"),
    ("lstm", [X, W, U], {}, "with 4 gates of 7"),
    ("gru", [X, W, U, B[:3]], {}, r"b_ih has shape \(3,\)"),
    ("gru_cell", [X[0], X[0], W, U], {}, r"h has shape \(3, 5\)"),
    ("rnn_cell", [X[0], np.zeros((3, 21), np.float32), np.zeros((21, 5), np.float32),
     np.zeros((21, 21), np.float32)], {"activation": "sin"}, "activation is 'sin'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options", "said"), WRONG)
def test_what_does_not_fit_is_said(
    device: str, name: str, args: Any, options: Any, said: str
) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        xtarget.run(name, *args, device=device, **options)
