"""Gradients of activation functions and of dropout: the gradient of the result comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from xtarget.spec import ArgumentError, DtypeRules, KernelSpec

from ..plans.elementwise import compute_dtype
from .references import written
from .row import elementwise
from .rules import FLOATS

__all__ = ["ROWS"]

_row = partial(elementwise, file="slopes", dtypes=FLOATS, category="gradient", tolerance=(32, 8))
_exact = partial(_row, tolerance=(4, 0))
_SIGMOID = "(1 / (1 + np.exp(-b)))"


def _gelu(grad: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return written("a * (0.5 * of_math('erfc')(-b / math.sqrt(2)) +"
                       " b * np.exp(-b * b / 2) / math.sqrt(2 * math.pi))")(grad, x)  # fmt: skip
    return written("a * (lambda t: 0.5 * (1 + t) + 0.5 * b * (1 - t) * (1 + t) *"
                   " math.sqrt(2 / math.pi) * (1 + 0.134145 * b * b))"
                   "(np.tanh(math.sqrt(2 / math.pi) * (b + 0.044715 * b**3)))"
                   .replace("lambda t:", "lambda t, b=b, math=math:"))(grad, x)  # fmt: skip


def _masked(
    rules: DtypeRules, given: Sequence[str], _: Mapping[str, Any]
) -> tuple[Sequence[str], Sequence[str]]:
    if given[0] not in FLOATS:
        raise ArgumentError(f"grad is {given[0]}; it has to be one of {', '.join(FLOATS)}.")
    return (given[0],), (
        compute_dtype(given[0]),
        "bool",
        compute_dtype(given[0]),  # of the number
    )


ROWS: tuple[KernelSpec, ...] = (
    _exact("sigmoid_backward", "grad output", "grad y (1 - y), from the result y of sigmoid",
           written("a * ((1 - b) * b)"), function="sigmoid"),
    _exact("tanh_backward", "grad output", "grad (1 - y**2), from the result y of tanh",
           written("a * ((1 - b) * (1 + b))"), function="tanh"),
    _row("silu_backward", "grad x", "gradient of silu",
         written(f"a * ({_SIGMOID} * (1 + b * (1 - {_SIGMOID})))"), "swish_backward",
         function="silu"),
    _row("gelu_backward", "grad x", "gradient of gelu, or of its form with tanh", _gelu,
         chosen=("approximate", {"none": "gelu", "tanh": "gelu_tanh"}),
         flags={"use_tanh": "1 for the form with tanh, 0 for that with erf"}),
    _row("elu_backward", "grad x", "grad; grad alpha e**x below 0",
         written("np.where(b > 0, a, a * alpha * np.exp(np.where(b > 0, 0, b)))"), function="elu",
         numbers={"alpha": 1.0}),
    _exact("leaky_relu_backward", "grad x", "grad; grad negative_slope below 0",
           written("np.where(b > 0, a, a * negative_slope)"), function="leaky_relu",
           numbers={"negative_slope": 0.01}),
    _exact("threshold_backward", "grad x", "grad; 0 where x <= limit",
           written("np.where(b <= limit, 0.0, a)"), "relu_backward", function="threshold",
           numbers={"limit": 0.0}),
    _exact("softshrink_backward", "grad x", "grad; 0 where |x| <= lambd",
           written("np.where((b >= -lambd) & (b <= lambd), 0.0, a)"), "hardshrink_backward",
           function="shrink", numbers={"lambd": 0.5}),
    _exact("hardtanh_backward", "grad x", "grad; 0 where x is not within min_val and max_val",
           written("np.where((b <= min_val) | (b >= max_val), 0.0, a)"), function="hardtanh",
           numbers={"min_val": -1.0, "max_val": 1.0}),
    _exact("hardsigmoid_backward", "grad x", "grad / 6 where |x| < 3, else 0",
           written("np.where((b > -3) & (b < 3), a / 6, 0.0)"), function="hardsigmoid"),
    _exact("hardswish_backward", "grad x", "grad (x / 3 + 1/2) where |x| <= 3; grad above, 0 below",
           written("np.where(b < -3, 0.0, np.where(b <= 3, a * (b / 3 + 0.5), a))"),
           function="hardswish", tolerance=(8, 8)),
    _row("softplus_backward", "grad x", "grad sigmoid(beta x); grad where beta x > threshold",
         written("np.where(b * beta > threshold, a, a / (1 + np.exp(-b * beta)))"),
         function="softplus", numbers={"beta": 1.0, "threshold": 20.0}),
    _row("log_sigmoid_backward", "grad x", "grad sigmoid(-x)", written("a / (1 + np.exp(b))"),
         function="log_sigmoid"),
    _exact("dropout_backward", "grad condition", "grad scale where the element was kept, else 0",
           written("np.where(b, a * scale, a * 0)"), "native_dropout_backward",
           function="dropout", numbers={"scale": 1.0}, rule=_masked,
           dtypes=("bool", *FLOATS), apart=("condition",), masks=("b",)),
)  # fmt: skip
