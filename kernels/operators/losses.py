"""Losses of what was predicted, `x`, and of what is right, `y`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xtarget.spec import ArgumentError, Call, KernelSpec

from ..plans.losses import loss
from .references import by_torch
from .row import alike, row
from .rules import FLOATS

__all__ = ["ROWS"]


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of each element with the option `reduction`."""

    def reference(torch: Any, x: Any, y: Any, reduction: str = "mean", **options: Any) -> Any:
        each = function(torch, x, y, **options)
        return each if reduction == "none" else getattr(each, reduction)()

    return by_torch(reference)


def _functional(name: str, **renamed: str) -> Callable[..., Any]:
    """The loss of torch.nn.functional, of each element."""

    def reference(torch: Any, x: Any, y: Any, **options: Any) -> Any:
        given = {renamed.get(option, option): value for option, value in options.items()}
        return getattr(torch.nn.functional, name)(x, y, reduction="none", **given)

    return _reduced(reference)


def _file(name: str) -> str:
    return f"functions.losses:{name}"


def _switch(option: str, on: str, off: str) -> Callable[[Call], str]:
    """The function that a bool option chooses."""

    def choice(call: Call) -> str:
        value = call.options[option]
        if not isinstance(value, bool):
            raise ArgumentError(f"{call.kernel}: {option} is {value!r}; it has to be a bool.")
        return _file(on if value else off)

    return choice


def _bounded(option: str, function: str, *, zero: bool = False) -> Callable[[Call], str]:
    """The function; the option has to be above 0 (`zero`: or 0)."""

    def choice(call: Call) -> str:
        value = call.options[option]
        if not (value > 0 or (zero and value == 0)):
            least = "from 0 on" if zero else "above 0"
            raise ArgumentError(f"{call.kernel}: {option} is {value!r}; it has to be {least}.")
        return _file(function)

    return choice


def _loss(
    name: str,
    function: str | Callable[[Call], str],
    summary: str,
    reference: Callable[..., Any],
    aliases: str = "",
    *,
    number: Mapping[str, float] | None = None,
    flags: Mapping[str, bool] | None = None,
    inputs: str = "x y",
    tolerance: tuple[float, float] = (32, 32),
) -> KernelSpec:
    chosen = function if callable(function) else lambda _: _file(function)
    options: dict[str, Any] = {"reduction": "mean", **(number or {}), **(flags or {})}
    return row(
        name,
        inputs,
        loss(chosen, next(iter(number or {}), "")),
        summary,
        reference,
        alike(2),
        aliases,
        category="loss",
        dtypes=FLOATS,
        options=options,
        tolerance=tolerance,
    )


ROWS: tuple[KernelSpec, ...] = (
    _loss("mse_loss", "mse", "(x - y)^2", _functional("mse_loss"),
          "mean_squared_error mean_sqerr_loss"),
    _loss("l1_loss", "l1", "|x - y|", _functional("l1_loss"), "absolute_difference"),
    _loss("huber_loss", _bounded("delta", "huber"), "(x - y)^2 / 2, farther out than delta linear",
          _functional("huber_loss"), number={"delta": 1.0}),
    _loss("smooth_l1_loss", _bounded("beta", "smooth_l1", zero=True), "huber_loss / beta",
          _functional("smooth_l1_loss"), number={"beta": 1.0}),
    _loss("bce_loss", "bce", "-y log(x) - (1 - y) log(1 - x); x has to be from 0 to 1",
          _reduced(lambda torch, x, y: -y * x.log().clamp(min=-100)
                   - (1 - y) * (-x).log1p().clamp(min=-100)),
          "binary_cross_entropy", inputs="probability y"),
    _loss("bce_with_logits_loss", "bce_with_logits", "bce_loss of sigmoid(x)",
          _functional("binary_cross_entropy_with_logits"),
          "binary_cross_entropy_with_logits sigmoid_cross_entropy sigm_cross_entropy_loss"),
    _loss("log_loss", "log_loss", "-y log(x + eps) - (1 - y) log(1 - x + eps)",
          _reduced(lambda torch, x, y, eps=1e-7:
                   -y * (x + eps).log() - (1 - y) * (1 - x + eps).log()),
          number={"eps": 1e-7}, inputs="probability y"),
    _loss("hinge_loss", "hinge", "max(0, 1 - x y)",
          _reduced(lambda torch, x, y: (1 - x * y).clamp(min=0))),
    _loss("squared_hinge_loss", "squared_hinge", "max(0, 1 - x y)^2",
          _reduced(lambda torch, x, y: (1 - x * y).clamp(min=0) ** 2)),
    _loss("hinge_embedding_loss", "hinge_embedding", "x where y is 1, max(0, margin - x) where y "
          "is -1", _functional("hinge_embedding_loss"), number={"margin": 1.0}, inputs="x sign"),
    _loss("soft_margin_loss", "soft_margin", "log(1 + exp(-x y))",
          _functional("soft_margin_loss")),
    _loss("kl_div", _switch("log_target", "kl_div_of_logs", "kl_div"), "y (log y - x)",
          _functional("kl_div"), "kl_div_loss", flags={"log_target": False},
          inputs="x probability"),
    _loss("poisson_nll_loss", _switch("log_input", "poisson_nll_of_log", "poisson_nll"),
          "exp(x) - y x; x - y log(x + eps) unless log_input", _functional("poisson_nll_loss"),
          number={"eps": 1e-8}, flags={"log_input": True}),
)  # fmt: skip
