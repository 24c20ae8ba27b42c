"""Activation functions, as of `torch.nn.functional`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from xtarget.spec import ArgumentError, Call, KernelSpec, Plan, broadcast_shapes

from .references import written
from .row import elementwise
from .rules import AS_IT_IS, FLOATS, NUMBERS

__all__ = ["ROWS"]

_row = partial(elementwise, file="activations", dtypes=FLOATS, category="activation")
_exact = partial(_row, tolerance=(2, 0))
_row = partial(_row, tolerance=(16, 4))
_SIGMOID = "np.where(a < 0, np.exp(a), 1.0) / (1 + np.exp(-abs(a)))"


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return written("0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))")(x)
    # erfc instead of 1 + erf: exact where the sum cancels
    return written("0.5 * a * of_math('erfc')(-a / math.sqrt(2))")(x)


def _like_x(row: KernelSpec) -> KernelSpec:
    """The row, with a result of its first argument's shape."""

    def plan(call: Call) -> Plan:
        x, other = call.args
        try:
            fits = broadcast_shapes(x.shape, other.shape) == tuple(x.shape)
        except ArgumentError:
            fits = False
        if not fits:
            raise ArgumentError(
                f"{row.name}: {row.inputs[1]} of shape {other.shape} does not broadcast to "
                f"{row.inputs[0]}, of shape {x.shape}. Give one number (an array of shape "
                "()), or reshape it: of each channel to (n, 1, 1) for an array of 4 dimensions."
            )
        return row.plan(call)

    return replace(row, plan=plan)


ROWS: tuple[KernelSpec, ...] = (
    _exact("relu", "x", "max(x, 0)", written("np.maximum(a, 0)"), dtypes=NUMBERS, tolerance=(0, 0)),
    _exact("relu6", "x", "x within 0 and 6", written("np.clip(a, 0, 6)"), dtypes=NUMBERS),
    _exact("relu_squared", "x", "max(x, 0)**2", written("np.maximum(a, 0)**2")),
    # 1 + erf(x) cancels for x < 0, so its error is relative to x, not to the result
    _row("gelu", "x", "x * (1 + erf(x / sqrt 2)) / 2, or its form with tanh", _gelu,
         "fused_gelu FusedGelu", chosen=("approximate", {"none": "gelu", "tanh": "gelu_tanh"}),
         flags={"use_tanh": "1 for the form with tanh, 0 for that with erf"}, rule=AS_IT_IS),
    _row("quick_gelu", "x", "x sigmoid(1.702 x)", written("a / (1 + np.exp(-1.702 * a))")),
    _row("sigmoid", "x", "1 / (1 + e**-x)", written(_SIGMOID), "expit logistic"),
    _row("log_sigmoid", "x", "log(sigmoid(x))",
         written("np.minimum(a, 0) - np.log1p(np.exp(-abs(a)))")),
    _row("silu", "x", "x sigmoid(x)", written(f"a * ({_SIGMOID})"), "swish Swish SiLU",
         rule=AS_IT_IS),
    _row("silu_mul", "x y", "x sigmoid(x) y", written(
        f"np.where(np.isinf(b) & (a > -np.inf), a * b, a * ({_SIGMOID}) * b)"),
         "swish_mul swiglu", rule=AS_IT_IS),
    _row("softplus", "x", "log(1 + e**(beta x)) / beta; x where beta x > threshold", written(
        "np.where(a * beta > threshold, a, np.logaddexp(0, a * beta) / beta)"),
        numbers={"beta": 1.0, "threshold": 20.0}),
    _row("mish", "x", "x tanh(log(1 + e**x))", written("a * np.tanh(np.logaddexp(0, a))")),
    _exact("hardtanh", "x", "x within min_val and max_val",
           written("np.clip(a, min_val, max_val)"), "HardTanh",
           numbers={"min_val": -1.0, "max_val": 1.0}),
    _row("hardsigmoid", "x", "alpha x + beta within 0 and 1",
         written("np.clip(alpha * a + beta, 0, 1)"), "hard_sigmoid HardSigmoid2",
         numbers={"alpha": 1 / 6, "beta": 0.5}),
    _row("hardswish", "x", "x min(max(x + 3, 0), 6) / 6", written("a * (np.clip(a + 3, 0, 6) / 6)"),
         "hard_swish HardSwish"),
    _exact("softsign", "x", "x / (1 + |x|)", written("a / (1 + abs(a))")),
    _row("tanhshrink", "x", "x - tanh(x)", written("a - np.tanh(a)")),
    _exact("softshrink", "x", "x nearer to 0 by lambd, 0 where that passes it", written(
        "np.where(a > lambd, a - lambd, np.where(a < -lambd, a + lambd,"
        " np.where(a != a, a, 0.0)))"), numbers={"lambd": 0.5}),
    _exact("hardshrink", "x", "x; 0 where |x| <= lambd",
           written("np.where(abs(a) <= lambd, 0.0, a)"), numbers={"lambd": 0.5}),
    _exact("shrink", "x", "x + bias below -lambd, x - bias above lambd, else 0", written(
        "np.where(a < -lambd, a + bias, np.where(a > lambd, a - bias, 0.0))"),
        numbers={"lambd": 0.5, "bias": 0.0}),
    _exact("threshold", "x", "x; value where x <= limit",
           written("np.where(a <= limit, value, a)"), numbers={"limit": 0.0, "value": 0.0}),
    _exact("thresholded_relu", "x", "x; 0 where x <= alpha",
           written("np.where(a > alpha, a, 0.0)"), numbers={"alpha": 1.0}),
    _row("elu", "x", "x; alpha (e**x - 1) below 0",
         written("np.where(a > 0, a, alpha * np.expm1(a))"), numbers={"alpha": 1.0}),
    _row("selu", "x", "elu with alpha 1.6733, times 1.0507", written(
        "1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a))")),
    _row("celu", "x", "x; alpha (e**(x / alpha) - 1) below 0",
         written("np.where(a > 0, a, alpha * np.expm1(a / alpha))"), numbers={"alpha": 1.0}),
    _exact("leaky_relu", "x", "x; x negative_slope below 0",
           written("np.where(a > 0, a, a * negative_slope)"),
           numbers={"negative_slope": 0.01}),
    _like_x(_exact("prelu", "x weight", "x; x weight below 0. One weight, or what broadcasts to x "
                   "(of each channel, as torch has them: of shape (n, 1, 1) for an x of 4 "
                   "dimensions)", written("np.where(a > 0, a, a * b)"),
                   "PRelu", function="leaky_relu")),
)  # fmt: skip
