"""ATen's elementwise operators, as calls of the catalog's kernels.

What differs from calling the kernels directly is torch's: its promotion of dtypes (a tensor of
integers and a function of floats give the default dtype, 0-dimensional tensors promote as numbers
do), and the order in memory of the result, which follows the inputs.

Source: torch's `native_functions.yaml` (the operators' arguments) and "Tensor Attributes" (the
promotion).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

from .schemas import torch_dtypes

__all__ = ["Declined", "Handler", "Run", "pointwise_table", "same_dtype", "taken_as"]

#: Of a kernel's name, arguments and options to its result.
Run = Callable[..., Any]
#: Of `run` and what ATen's operator was called with to the result.
Handler = Callable[..., Any]

_KNOWN = torch_dtypes()


class Declined(Exception):
    """The call stays torch's; the text says why."""


def _common(args: Sequence[Any]) -> torch.dtype:
    """The dtype that torch computes in.

    Raises:
        Declined: kernels have no such dtype, or the tensors lie on different devices.
    """
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    first = tensors[0]
    dtype = first.dtype
    if len(args) == 2:
        dtype = torch.result_type(*args)
    elif any(t.dtype is not dtype for t in tensors):
        raise Declined("tensors of different dtypes")
    if dtype not in _KNOWN or any(t.dtype not in _KNOWN for t in tensors):
        raise Declined(str(dtype))
    if any(t.device != first.device for t in tensors):
        raise Declined("tensors on different devices")
    return dtype


def taken_as(x: Tensor, dtype: torch.dtype | None = None, *, floats: bool = False) -> Tensor:
    """The input in the dtype that is asked for.

    Raises:
        Declined: no kernel has it.
    """
    if x.dtype not in _KNOWN or (dtype is not None and dtype not in _KNOWN):
        raise Declined(str(x.dtype))
    found = x if dtype is None else x.to(dtype)
    if floats and not found.is_floating_point():
        raise Declined(str(found.dtype))
    return found


def same_dtype(*tensors: Tensor | None) -> None:
    if len({t.dtype for t in tensors if t is not None}) > 1:
        raise Declined("tensors of different dtypes")


def _converted(args: Sequence[Any], dtype: torch.dtype) -> list[Any]:
    return [a.to(dtype) if isinstance(a, Tensor) and a.dtype is not dtype else a for a in args]


def _in_their_order(call: Callable[..., Tensor], args: Sequence[Any]) -> Tensor:
    """The call on the inputs' own order of dimensions in memory, which its result keeps."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    if all(t.is_contiguous() for t in tensors):
        return call(*args)
    ndim = max(t.ndim for t in tensors)
    if any(t.ndim not in (0, ndim) for t in tensors):
        return call(*args)  # some are broadcast: contiguous, as good as any
    whole = torch.broadcast_tensors(*(t for t in tensors if t.ndim == ndim))
    order = compute_elementwise_output_logical_to_physical_perm(*whole)[0]
    if list(order) == list(range(ndim)):
        return call(*args)
    back = [0] * ndim
    for place, dimension in enumerate(order):
        back[dimension] = place
    moved = [a.permute(order) if isinstance(a, Tensor) and a.ndim else a for a in args]
    return call(*moved).permute(back)


def _pointwise(
    kernel: str, kind: str, run: Run, *args: Any, options: dict[str, Any] | None = None
) -> Tensor:
    """One call.

    Args:
        kind: of the result's dtype: `same` as the inputs', `float` (of integers the default dtype),
            `bool`, `numbers` (as `same`, and bool is not taken), `floats` (integers are not taken).
    """
    dtype = _common(args)
    if kind == "float" and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    elif (kind == "numbers" and dtype is torch.bool) or (
        kind == "floats" and not dtype.is_floating_point
    ):
        raise Declined(str(dtype))
    call = functools.partial(run, kernel, **(options or {}))
    result = _in_their_order(call, _converted(args, dtype))
    wanted = torch.bool if kind == "bool" else dtype
    return result if result.dtype is wanted else result.to(wanted)


def _plain(kernel: str, kind: str, *options: str) -> Handler:
    """An operator whose further arguments are options of the kernel, in this order."""

    def handler(run: Run, *args: Any, **named: Any) -> Tensor:
        if not options:
            if named:
                raise Declined(", ".join(named))
            return _pointwise(kernel, kind, run, *args)
        inputs, rest = args[:1], args[1:]
        given = dict(zip(options, rest, strict=False))
        given.update({_OPTION_NAMES.get(name, name): value for name, value in named.items()})
        return _pointwise(kernel, kind, run, *inputs, options=given)

    return handler


#: What ATen calls an option that the kernel calls otherwise.
_OPTION_NAMES = {"threshold": "limit"}


def _scaled(kernel: str) -> Handler:
    """add, sub: the second is scaled by `alpha`."""

    def handler(run: Run, a: Any, b: Any, alpha: Any = 1) -> Tensor:
        if alpha == 1:
            return _pointwise(kernel, "same" if kernel == "add" else "numbers", run, a, b)
        dtype = _common((a, b))
        if not dtype.is_floating_point and isinstance(alpha, float):
            raise Declined("alpha is not an integer")
        sign = 1 if kernel == "add" else -1
        first, second = _converted((a, b), dtype)
        if not isinstance(second, Tensor):
            return _pointwise("add", "numbers", run, first, sign * alpha * second)
        if dtype is torch.bool:
            raise Declined("bool")
        fused = lambda x, y: run("fma", y, sign * alpha, x)  # noqa: E731
        return _in_their_order(fused, (first, second))

    return handler


def _rsub(run: Run, a: Any, b: Any, alpha: Any = 1) -> Tensor:
    return _scaled("sub")(run, b, a, alpha)


def _div_mode(run: Run, a: Any, b: Any, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        return _pointwise("div", "float", run, a, b)
    kernel = {"floor": "floor_divide", "trunc": "trunc_divide"}[rounding_mode]
    return _divided(kernel)(run, a, b)


def _divided(kernel: str) -> Handler:
    """Whole quotients: torch refuses integers divided by 0, kernels give a value."""

    def handler(run: Run, a: Any, b: Any) -> Tensor:
        if not _common((a, b)).is_floating_point:
            zero = (b == 0).any() if isinstance(b, Tensor) else b == 0
            if b is not None and bool(zero):
                raise Declined("an integer divided by zero")
        return _pointwise(kernel, "numbers", run, a, b)

    return handler


def _where(run: Run, condition: Tensor, a: Any, b: Any) -> Tensor:
    if condition.dtype is not torch.bool or condition.device != a.device:
        raise Declined("the condition is not bool, or on another device")
    a, b = _converted((a, b), _common((a, b)))
    return _in_their_order(functools.partial(run, "where"), (condition, a, b))


def _clip(run: Run, x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    if min is None and max is None:
        raise Declined("no limit")
    if min is None or max is None:
        kernel, limit = ("maximum", min) if max is None else ("minimum", max)
        return _pointwise(kernel, "numbers", run, x, limit)
    dtype = torch.result_type(x, min)
    if torch.result_type(x, max) is not dtype:
        raise Declined("limits of different dtypes")
    first, low, high = _converted((x, min, max), dtype)
    return _pointwise("clip", "numbers", run, first, low, high)


def _one_limit(kernel: str) -> Handler:
    return lambda run, x, limit: _pointwise(kernel, "numbers", run, x, limit)


def _elu(run: Run, x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    if input_scale != 1 and not (scale == 1 and input_scale * alpha == 1):
        raise Declined("input_scale")
    if input_scale != 1:
        return _pointwise("celu", "floats", run, x, options={"alpha": alpha})
    if scale == 1:
        return _pointwise("elu", "floats", run, x, options={"alpha": alpha})
    if abs(alpha - 1.6732632423543772) < 1e-12 and abs(scale - 1.0507009873554805) < 1e-12:
        return _pointwise("selu", "floats", run, x)
    raise Declined("scale")


def _added(kernel: str) -> Handler:
    """addcmul, addcdiv."""

    def handler(run: Run, a: Tensor, b: Tensor, c: Tensor, *, value: Any = 1) -> Tensor:
        return _pointwise(kernel, "floats", run, a, b, c, options={"value": float(value)})

    return handler


def _lerp(run: Run, a: Tensor, b: Tensor, weight: Any) -> Tensor:
    return _pointwise("lerp", "floats", run, a, b, weight)


def _log_sigmoid(run: Run, x: Tensor) -> tuple[Tensor, Tensor]:
    """The buffer is for the gradient: e**-|x| on CPUs, nothing on GPUs."""
    result = _pointwise("log_sigmoid", "floats", run, x)
    if x.device.type != "cpu":
        return result, x.new_empty(0)
    if not torch.is_grad_enabled():
        return result, torch.empty_like(x)
    return result, torch.exp(-x.abs())


def _logit(run: Run, x: Tensor, eps: float | None = None) -> Tensor:
    return _pointwise("logit", "float", run, x, options={} if eps is None else {"eps": eps})


def _nan_to_num(
    run: Run, x: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Tensor:
    if not x.is_floating_point():
        raise Declined(str(x.dtype))
    options = {"nan": nan or 0.0, "posinf": posinf, "neginf": neginf}
    given = {name: value for name, value in options.items() if value is not None}
    return _pointwise("nan_to_num", "floats", run, x, options=given)


def _gelu(run: Run, x: Tensor, *, approximate: str = "none") -> Tensor:
    return _pointwise("gelu", "floats", run, x, options={"approximate": approximate})


#: By the dtype of their results: ATen's names, and ours where they differ.
_ONE = {
    "float": (
        "acos acosh asin asinh atan atanh cos cosh deg2rad=radians digamma erf erfc erfinv exp "
        "exp2 expm1 lgamma log log10 log1p log2 rad2deg=degrees reciprocal rsqrt sigmoid sin sinc "
        "sinh sqrt tan tanh special_entr=entr special_erfcx=erfcx i0 special_i1=i1 "
        "special_bessel_j0=j0 special_bessel_j1=j1 special_bessel_y0=y0 special_bessel_y1=y1 "
        "special_log_ndtr=log_ndtr"
    ),
    "floats": "frac hardswish mish silu",
    "numbers": "neg relu",
    "same": "abs bitwise_not ceil floor round sgn=sign sign trunc",
    "bool": "isinf isnan isneginf isposinf logical_not signbit",
}
_TWO = {
    "float": "atan2 copysign.Tensor copysign.Scalar div.Tensor div.Scalar special_xlog1py=xlog1py "
    "xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self",
    "floats": "fmod.Tensor fmod.Scalar hypot logaddexp logaddexp2 nextafter",
    "numbers": "gcd lcm pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar",
    "same": "bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar "
    "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_left_shift.Tensor=left_shift "
    "bitwise_left_shift.Tensor_Scalar=left_shift bitwise_right_shift.Tensor=right_shift "
    "bitwise_right_shift.Tensor_Scalar=right_shift fmax fmin heaviside maximum minimum "
    "mul.Tensor mul.Scalar",
    "bool": " ".join(
        [f"{n}.{o}" for n in ("eq", "ne", "lt", "le", "gt", "ge") for o in ("Tensor", "Scalar")]
        + ["logical_and", "logical_or", "logical_xor"]
    ),
}


def pointwise_table() -> dict[str, tuple[str, Handler]]:
    """Of ATen's overload to the kernel that it is replaced by, and the way."""
    table: dict[str, tuple[str, Handler]] = {}
    for kinds in (_ONE, _TWO):
        for kind, names in kinds.items():
            for text in names.split():
                aten, _, ours = text.partition("=")
                kernel = ours or aten.partition(".")[0]
                table[aten] = kernel, _plain(kernel, kind)
    for aten, kernel, options in (
        ("hardshrink", "hardshrink", ("lambd",)),
        ("hardtanh", "hardtanh", ("min_val", "max_val")),
        ("leaky_relu", "leaky_relu", ("negative_slope",)),
        ("softplus", "softplus", ("beta", "threshold")),
        ("softshrink", "softshrink", ("lambd",)),
        ("threshold", "threshold", ("limit", "value")),
        ("hardsigmoid", "hardsigmoid", ()),
    ):
        table[aten] = kernel, _floats(kernel, options)
    for kernel in ("add", "sub"):
        for overload in ("Tensor", "Scalar"):
            table[f"{kernel}.{overload}"] = kernel, _scaled(kernel)
            table[f"rsub.{overload}"] = "sub", _rsub
    for overload in ("Tensor_mode", "Scalar_mode"):
        table[f"div.{overload}"] = "div", _div_mode
    table["floor_divide"] = "floor_divide", _divided("floor_divide")
    table["floor_divide.Scalar"] = "floor_divide", _divided("floor_divide")
    for overload in ("Tensor", "Scalar", "Scalar_Tensor"):
        table[f"remainder.{overload}"] = "remainder", _divided("remainder")
    for overload in ("", ".Tensor"):
        table[f"clamp{overload}"] = "clip", _clip
        table[f"clamp_min{overload}"] = "maximum", _one_limit("maximum")
        table[f"clamp_max{overload}"] = "minimum", _one_limit("minimum")
    table.update(
        {
            "_prelu_kernel": ("prelu", _plain("prelu", "floats")),
            "addcdiv": ("addcdiv", _added("addcdiv")),
            "addcmul": ("addcmul", _added("addcmul")),
            "elu": ("elu", _elu),
            "gelu": ("gelu", _gelu),
            "lerp.Scalar": ("lerp", _lerp),
            "lerp.Tensor": ("lerp", _lerp),
            "log_sigmoid_forward": ("log_sigmoid", _log_sigmoid),
            "logit": ("logit", _logit),
            "nan_to_num": ("nan_to_num", _nan_to_num),
            "where.self": ("where", _where),
        }
    )
    return table


def _floats(kernel: str, options: tuple[str, ...]) -> Handler:
    """An activation whose options are numbers, which kernels take as floats."""
    plain = _plain(kernel, "floats", *(options or ("",)))

    def handler(run: Run, x: Tensor, *args: Any, **named: Any) -> Tensor:
        given = {name: float(value) for name, value in named.items()}
        return plain(run, x, *(float(arg) for arg in args), **given)

    return handler
