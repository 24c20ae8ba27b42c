"""From call to launches: the gradients of a convolution.

That by the input is a transposed convolution. That by the weights is a sum of products over samples
and windows: a product of matrices that are never made; or, of few channels and on CPUs, what each
tap of all windows reads is put side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xtarget import spec

from .contractions import Contraction, View
from .convolved import convolved
from .folds import is_floating
from .movement import copy_launch, integers
from .problems import Operands, Problem, of_windows, weight_strides
from .tapped import channels_inside, worth_parts
from .weight_gradients import by_weight
from .windows import Windows, fitting, ordered, rank_of, three, turned

__all__ = ["convolution_backward"]


def convolution_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradients of a convolution: by x, by the weights, by the bias."""
    grad, x, weight = (call.array(index) for index in range(3))
    if len({grad.dtype, x.dtype, weight.dtype}) > 1 or not is_floating(x.dtype):
        raise spec.ArgumentError(
            f"{call.kernel}: grad is {grad.dtype}, x {x.dtype} and weight {weight.dtype}; they "
            "need the same. Convert some."
        )
    if call.out is not None:
        raise spec.ArgumentError(f"{call.kernel} gives three arrays. Leave out= out.")
    grad, inner = ordered(call, grad), ordered(call, x)
    rank = rank_of(call, x.ndim, None)
    (groups,) = integers(call, "groups", count=1)
    channels = weight.shape[0]
    fits = weight.ndim == x.ndim and groups > 0 and 0 not in weight.shape
    fits = fits and not channels % groups and weight.shape[1] * groups == inner.shape[1]
    if not fits:
        raise spec.ArgumentError(
            f"{call.kernel}: weight has shape {weight.shape}, which does not fit x of shape "
            f"{x.shape} and {groups} groups."
        )
    windows = fitting(call, inner.shape[2:], weight.shape[2:])
    shape = (x.shape[0], channels, *windows.out)
    if grad.shape != shape:
        raise spec.ArgumentError(
            f"{call.kernel}: grad has shape {call.array(0).shape}; for these arguments it has to "
            f"be {turned(call, shape)}."
        )
    outs = tuple(
        spec.ArrayType(x.dtype, own, spec.contiguous_strides(own))
        for own in (x.shape, weight.shape, (channels,))
    )
    if not x.size or not grad.size:
        return spec.Plan(outs, (), (), (0, 0, 0))
    work = Contraction(call, x.dtype)
    problem = of_windows(inner, weight, grad, windows, groups)
    given: spec.Input | spec.Temporary = spec.Input(0)
    copies = 0
    if worth_parts(call, problem):
        given, problem = _by_weight_in_parts(work, problem, outs[1])
    else:
        padded = _padded(work, inner, windows)
        copies = len(work.launches)
        _by_weight(work, padded, grad, outs[1], windows, groups)
    out = ordered(call, outs[0])
    back = problem.turned()._replace(so=(*out.strides[:2], *three(out.strides[2:], 0)))
    arrays = Operands(given, spec.Input(2), None, spec.Output(), x.dtype, work.temporaries)
    work.launches += convolved(call, back, arrays)
    over = View(spec.Input(0), grad.dtype, _axes(_names("nc", rank, "o"), grad.shape, grad.strides))
    work.run([over], View(spec.Output(2), x.dtype, {"c": (channels, 1)}))
    cleared: tuple[int | None, ...] = (0 if copies else None,) if work.temporaries else ()
    return spec.Plan(
        outs,
        tuple(work.launches),
        tuple(work.temporaries),
        (),
        cleared + (None,) * (len(work.temporaries) - len(cleared)),
    )


def _by_weight_in_parts(
    work: Contraction, problem: Problem, out: spec.ArrayType
) -> tuple[spec.Input | spec.Temporary, Problem]:
    """Launch the gradient by the weights for matrix units.

    Returns:
        the first operand with its channels side by side, and the problem with the strides of both.
    """
    p, temporaries = problem, work.temporaries
    inside = partial(channels_inside, work.call, dtype=work.dtype, temporaries=temporaries)
    shapes = (
        (p.samples, p.groups * p.rows, *p.out_shape),
        (p.samples, p.groups * p.channels, *p.in_shape),
    )
    first, grad, so = inside(spec.Input(0), shape=shapes[0], strides=p.so)
    second, x, sx = inside(spec.Input(1), shape=shapes[1], strides=p.sx)
    problem = p._replace(sx=sx, so=so)
    found = problem._replace(sw=weight_strides(out, p.groups))
    work.launches += [
        *first, *second,
        *by_weight(work.call, found, work.dtype, x, grad, spec.Output(1), temporaries),
    ]  # fmt: skip
    return grad, problem


def _names(front: str, rank: int, letter: str) -> list[str]:
    return [*front, *(f"{letter}{axis}" for axis in range(rank))]


def _axes(
    labels: Sequence[str], shape: Sequence[int], strides: Sequence[int]
) -> dict[str, tuple[int, int]]:
    return dict(zip(labels, zip(shape, strides, strict=True), strict=True))


def _padded(work: Contraction, x: spec.ArrayType, windows: Windows) -> tuple[View, Sequence[int]]:
    """`x` with zeros around it, as a temporary that is cleared, and its strides."""
    labels = [str(axis) for axis in range(x.ndim)]
    if not any(windows.before) and not any(windows.after):
        return View(spec.Input(1), x.dtype, _axes(labels, x.shape, x.strides)), x.strides
    lengths = [
        n + b + a for n, b, a in zip(x.shape[2:], windows.before, windows.after, strict=True)
    ]
    view = work.temporary(dict(zip(labels, (*x.shape[:2], *lengths), strict=True)), x.dtype)
    strides = [view.stride(label) for label in labels]
    start = sum(b * s for b, s in zip(windows.before, strides[2:], strict=True))
    assert isinstance(view.source, spec.Temporary)
    work.launches += copy_launch(
        work.call, spec.Input(1), x.shape, x.strides, strides, out=view.source, from_out=start
    )
    return view, strides


def _by_weight(
    work: Contraction,
    padded: tuple[View, Sequence[int]],
    grad: spec.ArrayType,
    out: spec.ArrayType,
    windows: Windows,
    groups: int,
) -> None:
    whole, strides = padded
    rank = len(windows.out)
    rows, inner = out.shape[0] // groups, out.shape[1]
    taken = View(
        whole.source,
        whole.dtype,
        {
            "n": (grad.shape[0], strides[0]),
            "g": (groups, inner * strides[1]),
            "i": (inner, strides[1]),
            **_axes(
                _names("", rank, "k"),
                windows.kernel,
                [d * s for d, s in zip(windows.dilation, strides[2:], strict=True)],
            ),
            **_axes(
                _names("", rank, "o"),
                windows.out,
                [b * s for b, s in zip(windows.stride, strides[2:], strict=True)],
            ),
        },
    )
    given = View(
        spec.Input(0),
        grad.dtype,
        {
            "n": (grad.shape[0], grad.strides[0]),
            "g": (groups, rows * grad.strides[1]),
            "r": (rows, grad.strides[1]),
            **_axes(_names("", rank, "o"), windows.out, grad.strides[2:]),
        },
    )
    made = View(
        spec.Output(1),
        out.dtype,
        {
            "g": (groups, rows * out.strides[0]),
            "r": (rows, out.strides[0]),
            "i": (inner, out.strides[1]),
            **_axes(_names("", rank, "k"), windows.kernel, out.strides[2:]),
        },
    )
    work.run([given, taken], made)
