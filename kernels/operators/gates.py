"""Gated linear units, and rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget.spec import ArgumentError, Call, KernelSpec

from ..plans.gates import glu_backward, halves, rope
from .references import by_torch
from .row import elementwise, row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]
_GELU: Mapping[Any, str] = {"none": "gelu_mul", "tanh": "gelu_tanh_mul"}


def _twice(shape: _Shape) -> Sequence[_Shape]:
    """An array whose last axis has two halves."""
    return [(*shape[:-1], 2 * shape[-1])]


def _fixed(function: str) -> Callable[[Call], str]:
    return lambda _: f"functions.gates:{function}"


def _gelu(call: Call) -> str:
    value = call.options["approximate"]
    if value not in _GELU:
        raise ArgumentError(
            f"{call.kernel}: approximate is {value!r}; it has to be 'none' or 'tanh'."
        )
    return f"functions.gates:{_GELU[value]}"


def _halves(function: str, gate: int = 0) -> Callable[..., Any]:
    def reference(torch: Any, x: Any, axis: int = -1, **options: Any) -> Any:
        first, second = x.chunk(2, axis)
        one, other = (first, second) if gate == 0 else (second, first)
        return getattr(torch.nn.functional, function)(one, **options) * other

    return by_torch(reference)


def _gated(function: str) -> Callable[..., Any]:
    return by_torch(
        lambda torch, gate, x, **options: (
            getattr(torch.nn.functional, function)(gate, **options) * x
        )
    )


def _glu_backward(torch: Any, d: Any, x: Any, axis: int = -1) -> Any:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(torch.nn.functional.glu(x, axis), x, d.to(x.dtype))[0]


def _rope(torch: Any, x: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    if interleaved:
        one, other = x[..., ::2], x[..., 1::2]
        return torch.stack([one * cos - other * sin, other * cos + one * sin], -1).flatten(-2)
    one, other = x.chunk(2, -1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)


def _rope_backward(torch: Any, x: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    return _rope(torch, x, cos, -sin, interleaved)


def _with_angles(shape: _Shape) -> Sequence[_Shape]:
    """Vectors of pairs, and angles for all but a first axis."""
    angles = shape[1:] if len(shape) > 2 else shape
    return [*_twice(shape), angles, angles]


_ALL: Any = {"category": "gate", "dtypes": FLOATS, "tolerance": (32, 4)}
_AXIS: Mapping[str, Any] = {"axis": -1}
_SHAPES: Any = {"category": "gate", "dtypes": FLOATS, "tolerance": (32, 4), "file": "gates"}

ROWS: tuple[KernelSpec, ...] = (
    row("silu_and_mul", "x", halves(_fixed("silu_mul")), "silu(first half) * second half along "
        "axis", _halves("silu"), _twice, options=_AXIS, **_ALL),
    row("gelu_and_mul", "x", halves(_gelu), "gelu(first half) * second half along axis",
        _halves("gelu"), _twice, options={**_AXIS, "approximate": "none"}, **_ALL),
    row("glu", "x", halves(_fixed("sigmoid_mul"), gate=1), "first half * sigmoid(second half) "
        "along axis", _halves("sigmoid", 1), _twice, options=_AXIS, **_ALL),
    row("glu_backward", "grad x", glu_backward, "gradient of glu", by_torch(_glu_backward),
        lambda shape: [shape or (1,), (*shape[:-1], 2 * (shape or (1,))[-1])],
        options={"axis": -1}, tolerance=(32, 8), category="gate", dtypes=FLOATS),
    elementwise("geglu", "gate x", "gelu(gate) * x", _gated("gelu"), chosen=("approximate", _GELU),
                flags={"tanh": "1 for the form with tanh, 0 for that with erf"},
                **_SHAPES),
    elementwise("reglu", "gate x", "relu(gate) * x", _gated("relu"), function="relu_mul",
                **_SHAPES),
    row("rope", "x cos sin", rope(False), "pairs of the last axis turned by angles, given as "
        "cosines and sines; pairs are of both halves, or neighbours (interleaved)",
        by_torch(_rope), _with_angles, "fused_rope rotary_embedding RotaryEmbedding",
        options={"interleaved": False}, category="position", dtypes=FLOATS, tolerance=(4, 4)),
    row("rope_backward", "grad cos sin", rope(True), "gradient of rope: pairs turned back",
        by_torch(_rope_backward), _with_angles, "rope_bp fused_rope_bp",
        options={"interleaved": False}, category="position", dtypes=FLOATS, tolerance=(4, 4)),
)  # fmt: skip
