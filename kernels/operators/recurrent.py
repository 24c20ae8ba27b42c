"""Recurrent cells and layers, with torch's order of gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans.recurrent import recurrent
from .row import row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _next(
    np: Any, kind: str, x: Any, state: Any, w: Any, u: Any, bw: Any, bu: Any, activation: str
) -> Any:
    own = x @ w.T + (0 if bw is None else bw)
    other = state[0] @ u.T + (0 if bu is None else bu)

    def sigmoid(value: Any) -> Any:
        return np.where(value < 0, np.exp(-np.abs(value)), 1) / (1 + np.exp(-np.abs(value)))

    a = np.split(own, _GATES[kind], -1)
    b = np.split(other, _GATES[kind], -1)
    if kind == "lstm":
        i, f, g, o = (one + two for one, two in zip(a, b, strict=True))
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if kind == "gru":
        keep = sigmoid(a[1] + b[1])
        return ((1 - keep) * np.tanh(a[2] + sigmoid(a[0] + b[0]) * b[2]) + keep * state[0],)
    return (np.tanh(own + other) if activation == "tanh" else np.maximum(own + other, 0),)


def _cell(kind: str) -> Callable[..., Any]:
    count = 2 if kind == "lstm" else 1

    def reference(x: Any, *others: Any, activation: str = "tanh") -> Any:
        import numpy as np

        weights = (*others[count:], None, None)[:4]
        found = _next(np, kind, x, others[:count], *weights, activation)
        return found if count > 1 else found[0]

    return reference


def _layer(kind: str) -> Callable[..., Any]:
    def reference(
        x: Any, w: Any, u: Any, bw: Any = None, bu: Any = None, h: Any = None, c: Any = None, *,
        batch_first: bool = False, reverse: bool = False, activation: str = "tanh",
    ) -> Any:  # fmt: skip
        import numpy as np

        x = np.swapaxes(x, 0, 1) if batch_first else x
        none = np.zeros((x.shape[1], u.shape[1]))
        state = tuple(none if one is None else one for one in (h, c))[: 2 if kind == "lstm" else 1]
        y = np.zeros((*x.shape[:2], u.shape[1]))
        for at in range(len(x))[:: -1 if reverse else 1]:
            state = _next(np, kind, x[at], state, w, u, bw, bu, activation)
            y[at] = state[0]
        return (np.swapaxes(y, 0, 1) if batch_first else y, *state)

    return reference


def _examples(kind: str, *, layer: bool) -> Callable[[_Shape], Sequence[_Shape]]:
    """Batches of at most 64 elements, and as long a state; layers of two steps."""
    gates, count = _GATES[kind], 2 if kind == "lstm" else 1

    def examples(shape: _Shape) -> Sequence[_Shape]:
        *_, batch, size = (1, 1, *shape)
        size = min(size, 64)
        weights = [(gates * size, size), (gates * size, size)]
        if layer:
            return [(2, batch, size), *weights]
        return [(batch, size), *[(batch, size)] * count, *weights]

    return examples


_ALL: Any = {"category": "recurrent", "dtypes": FLOATS, "tolerance": (512, 512)}
_OPTIONS = {"batch_first": False, "reverse": False}
_ACTIVATION = {"activation": "tanh"}

ROWS: tuple[KernelSpec, ...] = (
    row("lstm_cell", "x h c w_ih w_hh b_ih? b_hh?", recurrent("lstm", layer=False), "a step of an "
        "LSTM: the states h and c; weights have rows for the gates i f g o", _cell("lstm"),
        _examples("lstm", layer=False), "lstmCell LSTMCell", **_ALL),
    row("gru_cell", "x h w_ih w_hh b_ih? b_hh?", recurrent("gru", layer=False), "a step of a GRU: "
        "the state h; weights have rows for the gates r z n", _cell("gru"),
        _examples("gru", layer=False), "gruCell GRUCell", **_ALL),
    row("rnn_cell", "x h w_ih w_hh b_ih? b_hh?", recurrent("rnn", layer=False), "one step of a "
        "recurrence: activation(w_ih x + b_ih + w_hh h + b_hh)", _cell("rnn"),
        _examples("rnn", layer=False), "rnn_tanh_cell", options=_ACTIVATION, **_ALL),
    row("lstm", "x w_ih w_hh b_ih? b_hh? h? c?", recurrent("lstm", layer=True), "an LSTM over the "
        "steps of x (steps, batch, elements): h of all steps, and the last h and c",
        _layer("lstm"), _examples("lstm", layer=True), "lstmLayer lstm_layer LSTM",
        options=_OPTIONS, **_ALL),
    row("gru", "x w_ih w_hh b_ih? b_hh? h?", recurrent("gru", layer=True), "a GRU over steps of "
        "x: h of all steps, and the last one", _layer("gru"), _examples("gru", layer=True),
        "gru_layer GRU", options=_OPTIONS, **_ALL),
    row("simple_rnn", "x w_ih w_hh b_ih? b_hh? h?", recurrent("rnn", layer=True), "rnn_cell over "
        "the steps of x: h of all steps, and the last one", _layer("rnn"),
        _examples("rnn", layer=True), "rnn_layer RNN", options={**_OPTIONS, **_ACTIVATION},
        **_ALL),
)  # fmt: skip
