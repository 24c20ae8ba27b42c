"""From call to launches: normalisations by statistics of any axes, in launches of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget import spec

from .elementwise import compute_dtype, normal_axes
from .folds import Sum, outputs
from .gates import walk
from .layouts import collapse, without_axes
from .reduction import Work

__all__ = ["batch_norm", "batch_norm_in_order", "batch_norm_training",
           "batch_norm_training_inverse", "group_norm", "instance_norm", "normalize"]  # fmt: skip

_Ints = tuple[int, ...]


def _eps(call: spec.Call, dtype: str) -> spec.Scalar:
    return spec.Scalar(float(call.options["eps"]), dtype)


def _channels(call: spec.Call, least: int = 2) -> spec.ArrayType:
    """The first argument, whose axis 1 are the channels.

    Raises:
        ArgumentError: it has too few dimensions.
    """
    x = call.array(0)
    if x.ndim < least:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; it needs {least} dimensions or more, of which "
            "the second one are the channels."
        )
    return x


def _vector(call: spec.Call, index: int, name: str, channels: int) -> spec.ArrayType | None:
    """An argument with an element for each channel; None: it was left out.

    Raises:
        ArgumentError: it has another shape.
    """
    if index >= len(call.args) or call.args[index] is spec.ABSENT:
        return None
    array = call.array(index)
    if array.shape != (channels,):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} has shape {array.shape}; it needs ({channels},), one element "
            "for each channel."
        )
    return array


def _centred(
    call: spec.Call,
    shape: Sequence[int],
    sx: _Ints,
    so: _Ints,
    mean: tuple[spec.Argument, _Ints],
    variance: tuple[spec.Argument, _Ints],
    weight: tuple[spec.Argument, _Ints] | None,
    bias: tuple[spec.Argument, _Ints] | None,
    dtype: str,
    out: spec.Output,
) -> spec.Launch:
    """The launch of `normalized:centred`; each operand with its strides."""
    operands = {"mean": mean, "variance": variance, "weight": weight, "bias": bias}
    given = {name: one for name, one in operands.items() if one is not None}
    absent: dict[str, Any] = {}
    for name in operands.keys() - given.keys():
        absent |= {name: None, f"s{name[0]}": 0}
    return walk(
        call,
        "normalized:centred",
        {"x": spec.Input(0), **{name: one[0] for name, one in given.items()}, "out": out},
        {"eps": _eps(call, dtype)},
        shape,
        {"so": so, "sx": sx, **{f"s{name[0]}": one[1] for name, one in given.items()}},
        {"T": spec.dtype_constant(dtype), **absent},
    )


def _statistics(
    call: spec.Call, shape: _Ints, sx: _Ints, axes: _Ints, dtype: str
) -> tuple[Work, spec.Temporary, spec.Temporary, _Ints]:
    """Launches that find mean and variance over `axes` of an array; and their strides in it."""
    kept_shape = without_axes(shape, axes)
    numbered = spec.contiguous_strides(kept_shape)
    kept = collapse(kept_shape, without_axes(sx, axes), numbered, keep_order=True)
    reduced = collapse(tuple(shape[a] for a in axes), tuple(sx[a] for a in axes))
    work = Work(call, kept, reduced)
    count = 1
    for axis in axes:
        count *= shape[axis]
    mean, variance = work.temporary(dtype), work.temporary(dtype)
    Sum(dtype, FINISH="mean", count=count).into(work, mean)
    Sum(dtype, "deviation", "mean", aux=mean, count=count).into(work, variance)
    own = iter(numbered)
    strides = tuple(0 if a in axes else next(own) for a in range(len(shape)))
    return work, mean, variance, strides


def _spread(array: spec.ArrayType | None, index: int, places: dict[int, int], ndim: int) -> Any:
    """An argument with its strides in an index space, from axis to factor of its stride."""
    if array is None:
        return None
    step_ = array.strides[0]
    return spec.Input(index), tuple(places.get(axis, 0) * step_ for axis in range(ndim))


def group_norm(call: spec.Call, groups: int | None = None) -> spec.Plan:
    """The plan of group_norm: by mean and variance of each group of channels of each sample."""
    x = _channels(call)
    channels = x.shape[1]
    groups = call.options["groups"] if groups is None else groups
    if isinstance(groups, bool) or not hasattr(groups, "__index__"):
        raise spec.ArgumentError(f"{call.kernel}: groups is {groups!r}; it has to be an integer.")
    if groups < 1 or channels % groups:
        raise spec.ArgumentError(
            f"{call.kernel}: {channels} channels are not {groups} groups of equal size."
        )
    weight, bias = (_vector(call, 1, "weight", channels), _vector(call, 2, "bias", channels))
    dtype = call.rules.promote(*(arg.dtype for arg in call.args))
    out = call.output(x.shape, dtype)
    if not out.size:
        return spec.Plan((out,), ())
    computed, each = compute_dtype(dtype), channels // groups

    def grouped(strides: _Ints) -> _Ints:
        return (strides[0], strides[1] * each, *strides[1:])

    shape = (x.shape[0], groups, each, *x.shape[2:])
    sx = grouped(x.strides)
    axes = tuple(range(2, len(shape)))
    work, mean, variance, strides = _statistics(call, shape, sx, axes, computed)
    places = {1: each, 2: 1}
    launch = _centred(
        call,
        shape,
        sx,
        grouped(out.strides),
        (mean, strides),
        (variance, strides),
        _spread(weight, 1, places, len(shape)),
        _spread(bias, 2, places, len(shape)),
        computed,
        spec.Output(),
    )
    return spec.Plan((out,), (*work.launches, launch), tuple(work.temporaries))


def instance_norm(call: spec.Call) -> spec.Plan:
    """The plan of instance_norm: group_norm where each channel is a group."""
    return group_norm(call, max(_channels(call, 3).shape[1], 1))


def batch_norm(call: spec.Call) -> spec.Plan:
    """The plan of batch_norm by known means and variances of the channels."""
    return _by_moments(call, {"mean": 1, "variance": 2, "weight": 3, "bias": 4})


def batch_norm_in_order(names: Sequence[str]) -> Callable[[spec.Call], spec.Plan]:
    """The plan of batch_norm whose arguments behind x are mean, variance, scale and bias in another
    order."""
    places = {name: names.index(name) + 1 for name in ("mean", "variance", "scale", "bias")}
    return lambda call: _by_moments(call, places)


def _by_moments(call: spec.Call, places: Mapping[str, int]) -> spec.Plan:
    """The plan of batch_norm.

    Args:
        places: of the arguments, in the order in which the kernel takes them.
    """
    x = _channels(call)
    vectors = {index: _vector(call, index, name, x.shape[1]) for name, index in places.items()}
    dtype = call.rules.promote(*(arg.dtype for arg in call.args))
    out = call.output(x.shape, dtype)
    if not out.size:
        return spec.Plan((out,), ())
    spread = [_spread(array, index, {1: 1}, x.ndim) for index, array in vectors.items()]
    launch = _centred(
        call, x.shape, x.strides, out.strides, *spread, compute_dtype(dtype), spec.Output()
    )
    return spec.Plan((out,), (launch,))


def batch_norm_training(call: spec.Call) -> spec.Plan:
    """The plan of batch_norm by the batch's own means and variances, which are results too."""
    return _by_the_batch(call)


def batch_norm_training_inverse(call: spec.Call) -> spec.Plan:
    """The same, whose third result is what x was multiplied by: 1 / sqrt(variance + eps)."""
    return _by_the_batch(call, inverse=True)


def _by_the_batch(call: spec.Call, *, inverse: bool = False) -> spec.Plan:
    x = _channels(call)
    channels = x.shape[1]
    weight, bias = (_vector(call, 1, "weight", channels), _vector(call, 2, "bias", channels))
    dtype = call.rules.promote(*(arg.dtype for arg in call.args))
    (out,) = outputs(call, x.shape, dtype)
    vector = spec.ArrayType(dtype, (channels,), (1,))
    if not out.size:
        return spec.Plan((out, vector, vector), (), (), (0, float("nan"), float("nan")))
    computed = compute_dtype(dtype)
    axes = (0, *range(2, x.ndim))
    work, mean, variance, strides = _statistics(call, x.shape, x.strides, axes, computed)
    places = {1: 1}
    work.launches.append(
        _centred(
            call,
            x.shape,
            x.strides,
            out.strides,
            (mean, strides),
            (variance, strides),
            _spread(weight, 1, places, x.ndim),
            _spread(bias, 2, places, x.ndim),
            computed,
            spec.Output(),
        )
    )
    last = Sum(computed).step()
    if inverse:
        last = Sum(computed, FINISH="inverse_root", p=_eps(call, computed)).step()
    for number, found, how in ((1, mean, Sum(computed).step()), (2, variance, last)):
        work.launches.append(work.rest(how, found, spec.Output(number), 1))
    return work.plan(out, vector, vector)


def normalize(call: spec.Call) -> spec.Plan:
    """The plan of normalize: x divided by its Euclidean length along `axis`, or by `eps`."""
    x = call.array(0)
    axes = normal_axes(call, call.options["axis"], x.ndim)
    out = call.output(x.shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    computed = compute_dtype(x.dtype)
    kept_shape = without_axes(x.shape, axes)
    numbered = spec.contiguous_strides(kept_shape)
    kept = collapse(kept_shape, without_axes(x.strides, axes), numbered, keep_order=True)
    reduced = collapse(tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes))
    work = Work(call, kept, reduced)
    length = work.temporary(computed)
    Sum(computed, "square", "root").into(work, length)
    own = iter(numbered)
    strides = tuple(0 if a in axes else next(own) for a in range(x.ndim))
    launch = walk(
        call,
        "normalized:scaled",
        {"x": spec.Input(0), "length": length, "out": spec.Output()},
        {"eps": _eps(call, computed)},
        x.shape,
        {"so": out.strides, "sx": x.strides, "sl": strides},
        {"T": spec.dtype_constant(computed)},
    )
    return spec.Plan((out,), (*work.launches, launch), tuple(work.temporaries))
