"""From call to launches: einsum and the products that are einsums of fixed subscripts."""

from __future__ import annotations

import string
from collections.abc import Sequence

from xtarget import spec

from .contractions import Contraction, View
from .elementwise import normal_axes

__all__ = [
    "contracted",
    "dot",
    "einsum",
    "inner",
    "kron",
    "labelled",
    "outer",
    "tensordot",
    "trace",
    "vdot",
]

_Labels = Sequence[str]


def labelled(call: spec.Call, index: int, labels: _Labels) -> View:
    """Argument `index` with a label for each axis; equal labels are a diagonal.

    Raises:
        ArgumentError: the diagonal's axes have different lengths.
    """
    array = call.array(index)
    axes: dict[str, tuple[int, int]] = {}
    for label, n, stride in zip(labels, array.shape, array.strides, strict=True):
        before, own = axes.get(label, (n, 0))
        if before != n:
            raise spec.ArgumentError(
                f"{call.kernel}: argument {index + 1} has shape {array.shape}, and its axes "
                f"{label!r} have the lengths {before} and {n}; they need the same."
            )
        axes[label] = (n, own + stride)
    return View(spec.Input(index), array.dtype, axes)


def contracted(
    call: spec.Call, views: Sequence[View], labels: _Labels, dtype: str = ""
) -> spec.Plan:
    """The plan of the sum of products that has these labels.

    Args:
        dtype: of the result; by promotion if empty.

    Raises:
        ArgumentError: axes of one label have different lengths.
    """
    lengths = _lengths(call, views)
    shape = tuple(lengths[label] for label in labels)
    out = call.output(shape, dtype or call.rules.promote(*(view.dtype for view in views)))
    axes = dict(zip(labels, zip(shape, out.strides, strict=True), strict=True))
    if out.size and 0 in lengths.values():
        return spec.Plan((out,), (), (), (0,))
    return _written(call, views, out, axes)


def _written(
    call: spec.Call, views: Sequence[View], out: spec.ArrayType, axes: dict[str, tuple[int, int]]
) -> spec.Plan:
    """The plan of a result that has these axes, several of which may be one of `out`."""
    if not out.size:
        return spec.Plan((out,), ())
    work = Contraction(call, out.dtype)
    work.run(views, View(spec.Output(), out.dtype, axes))
    return spec.Plan((out,), tuple(work.launches), tuple(work.temporaries))


def _lengths(call: spec.Call, views: Sequence[View]) -> dict[str, int]:
    found: dict[str, tuple[int, int]] = {}
    for number, view in enumerate(views, 1):
        for label, (n, _) in view.axes.items():
            before, where = found.get(label, (1, number))
            if before != 1 and n not in (1, before):
                raise spec.ArgumentError(
                    f"{call.kernel}: axis {label!r} has length {before} in argument {where} and "
                    f"{n} in argument {number}; they need the same."
                )
            if before == 1:
                found[label] = (n, number)
    return {label: n for label, (n, _) in found.items()}


# ------------------------------------------------------------------------------------- einsum


def einsum(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.einsum`."""
    given = call.options["subscripts"]
    terms, result = _parsed(call, given)
    arrays = [call.array(index) for index in range(len(call.args))]
    if len(terms) != len(arrays):
        raise spec.ArgumentError(
            f"{call.kernel}: subscripts {given!r} are of {len(terms)} arrays, and the call has "
            f"{len(arrays)}."
        )
    several = [
        _spread(call, number, term, array)
        for number, (term, array) in enumerate(zip(terms, arrays, strict=True), 1)
    ]
    dots = max((labels for labels in several), key=len)
    views = []
    for index, (term, own) in enumerate(zip(terms, several, strict=True)):
        names = dots[len(dots) - len(own) :]
        views.append(labelled(call, index, _named(term, names)))
    if result is None:
        letters = [letter for term in terms for letter in term if letter != "."]
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        labels = [*dots, *once]
    else:
        labels = _named(result, dots)
        if dots and "." not in result:
            raise spec.ArgumentError(
                f"{call.kernel}: subscripts {given!r} have '...' for {len(dots)} axes, and the "
                "result has none; write '...' in the result, or name the axes."
            )
    return contracted(call, views, labels)


def _parsed(call: spec.Call, given: object) -> tuple[list[str], str | None]:
    """The terms of subscripts, with '.' for an ellipsis; and the result's, if there is one."""
    if not isinstance(given, str):
        raise spec.ArgumentError(
            f"{call.kernel}: subscripts is {given!r}; it has to be a text like 'ij,jk->ik'."
        )
    text = given.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    for term in [*terms, result]:
        letters = term.replace("...", "", 1)
        wrong = [letter for letter in letters if letter not in string.ascii_letters]
        if wrong:
            raise spec.ArgumentError(
                f"{call.kernel}: subscripts {given!r} contain {wrong[0]!r}; they are letters, "
                "'...' once for each array, ',' between arrays and '->' before the result."
            )
    terms = [term.replace("...", ".") for term in terms]
    if not arrow:
        return terms, None
    result = result.replace("...", ".")
    known = {letter for term in terms for letter in term}
    for letter in result:
        if result.count(letter) > 1:
            raise spec.ArgumentError(
                f"{call.kernel}: subscripts {given!r} have {letter!r} twice in the result."
            )
        if letter not in known and letter != ".":
            raise spec.ArgumentError(
                f"{call.kernel}: subscripts {given!r} have {letter!r} in the result and in no "
                "array."
            )
    return terms, result


def _spread(call: spec.Call, number: int, term: str, array: spec.ArrayType) -> list[str]:
    """Labels of the axes that an ellipsis stands for."""
    named = len(term.replace(".", ""))
    missing = array.ndim - named
    if missing < 0 or (missing and "." not in term):
        raise spec.ArgumentError(
            f"{call.kernel}: argument {number} has {array.ndim} dimensions, and its subscripts "
            f"{term.replace('.', '...')!r} name {named}."
        )
    return [f"...{i - missing}" for i in range(missing)]


def _named(term: str, dots: Sequence[str]) -> list[str]:
    labels: list[str] = []
    for letter in term:
        labels += dots if letter == "." else [letter]
    return labels


# -------------------------------------------------------------------------- fixed subscripts


def _axes(prefix: str, ndim: int) -> list[str]:
    return [f"{prefix}{axis}" for axis in range(ndim)]


def dot(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.dot`: the last axis of a with the second last of b."""
    a, b = call.array(0), call.array(1)
    one, other = _axes("a", a.ndim), _axes("b", b.ndim)
    if one and other:
        one[-1] = other[max(b.ndim - 2, 0)] = "k"
    return _fitting(call, one, other)


def inner(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.inner`: the last axes of both."""
    a, b = call.array(0), call.array(1)
    one, other = _axes("a", a.ndim), _axes("b", b.ndim)
    if one and other:
        one[-1] = other[-1] = "k"
    return _fitting(call, one, other)


def tensordot(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.tensordot`: `axes` of both, or so many last ones of a and first of b."""
    a, b = call.array(0), call.array(1)
    one, other = _axes("a", a.ndim), _axes("b", b.ndim)
    for number, (left, right) in enumerate(_paired(call, a, b)):
        one[left] = other[right] = f"k{number}"
    return _fitting(call, one, other)


def _paired(call: spec.Call, a: spec.ArrayType, b: spec.ArrayType) -> list[tuple[int, int]]:
    """The axes that tensordot sums over."""
    axes = call.options["axes"]
    if isinstance(axes, int) and not isinstance(axes, bool):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise spec.ArgumentError(
                f"{call.kernel}: axes is {axes}, and the arrays have {a.ndim} and {b.ndim} "
                "dimensions; it may be from 0 to the smaller of these."
            )
        return [(a.ndim - axes + i, i) for i in range(axes)]
    if not isinstance(axes, tuple | list) or len(axes) != 2:
        raise spec.ArgumentError(
            f"{call.kernel}: axes is {axes!r}; it has to be a number of axes, or the axes of a and "
            "those of b."
        )
    pairs = []
    for own, array in zip(axes, (a, b), strict=True):
        given = own if isinstance(own, tuple | list) else (own,)
        normal_axes(call, tuple(given), array.ndim)
        pairs.append([axis % array.ndim for axis in given])
    if len(pairs[0]) != len(pairs[1]):
        raise spec.ArgumentError(
            f"{call.kernel}: axes {axes!r} are {len(pairs[0])} of a and {len(pairs[1])} of b; "
            "they need to be as many."
        )
    return list(zip(*pairs, strict=True))


def _fitting(call: spec.Call, one: list[str], other: list[str]) -> spec.Plan:
    """The contraction of two arrays over the labels that both have; an axis of one element is none
    that fits any other.
    """
    a, b = call.array(0), call.array(1)
    for axis, label in enumerate(one):
        if label in other and a.shape[axis] != b.shape[other.index(label)]:
            raise spec.ArgumentError(
                f"{call.kernel}: shapes {a.shape} and {b.shape} do not fit: axis {axis} of the "
                f"first has length {a.shape[axis]}, axis {other.index(label)} of the second "
                f"{b.shape[other.index(label)]}."
            )
    labels = [k for k in one if k not in other] + [k for k in other if k not in one]
    return contracted(call, [labelled(call, 0, one), labelled(call, 1, other)], labels)


def _flat(call: spec.Call, index: int, prefix: str) -> list[str]:
    return _axes(prefix, call.array(index).ndim)


def outer(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.outer`: every product of an element of a and one of b, as a matrix."""
    one, other = _flat(call, 0, "a"), _flat(call, 1, "b")
    a, b = call.array(0), call.array(1)
    if a.ndim == 1 and b.ndim == 1:
        return _fitting(call, one, other)
    out = call.output((a.size, b.size), call.rules.promote(a.dtype, b.dtype))
    axes: dict[str, tuple[int, int]] = {}
    for labels, array, stride in ((one, a, out.strides[0]), (other, b, out.strides[1])):
        for label, n in reversed(list(zip(labels, array.shape, strict=True))):
            axes[label] = (n, stride)
            stride *= n
    return _written(call, [labelled(call, 0, one), labelled(call, 1, other)], out, axes)


def vdot(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.vdot`: the sum of all products, elements in the order of the axes."""
    a, b = call.array(0), call.array(1)
    if a.shape != b.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: shapes {a.shape} and {b.shape} do not fit; they need to be the same."
        )
    labels = _axes("k", a.ndim)
    return contracted(call, [labelled(call, 0, labels), labelled(call, 1, labels)], ())


def kron(call: spec.Call) -> spec.Plan:
    """The plan of `numpy.kron`: a with each element replaced by its product with all of b."""
    a, b = call.array(0), call.array(1)
    ndim = max(a.ndim, b.ndim)
    one = [f"a{axis}" for axis in range(ndim - a.ndim, ndim)]
    other = [f"b{axis}" for axis in range(ndim - b.ndim, ndim)]
    shape_a = (1,) * (ndim - a.ndim) + a.shape
    shape_b = (1,) * (ndim - b.ndim) + b.shape
    dtype = call.rules.promote(a.dtype, b.dtype)
    out = call.output([m * n for m, n in zip(shape_a, shape_b, strict=True)], dtype)
    axes: dict[str, tuple[int, int]] = {}
    for axis, stride in enumerate(out.strides):
        axes[f"a{axis}"] = (shape_a[axis], stride * shape_b[axis])
        axes[f"b{axis}"] = (shape_b[axis], stride)
    return _written(call, [labelled(call, 0, one), labelled(call, 1, other)], out, axes)


def trace(call: spec.Call) -> spec.Plan:
    """The plan of the sum of the diagonal of two axes, as long as the shorter one."""
    x = call.array(0)
    if x.ndim < 2:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; it needs two dimensions or more."
        )
    axes = []
    for name in ("axis1", "axis2"):
        axes.append(normal_axes(call, (call.options[name],), x.ndim, several=False)[0])
    if axes[0] == axes[1]:
        raise spec.ArgumentError(
            f"{call.kernel}: axis1 and axis2 are both axis {axes[0]}; they need to differ."
        )
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    length = min(x.shape[axes[0]], x.shape[axes[1]])
    view = View(
        spec.Input(0),
        x.dtype,
        {str(axis): (x.shape[axis], x.strides[axis]) for axis in rest}
        | {"k": (length, x.strides[axes[0]] + x.strides[axes[1]])},
    )
    return contracted(call, [view], [str(axis) for axis in rest], call.rules.accumulated(x.dtype))
