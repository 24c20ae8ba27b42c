"""Sums of products of arrays whose axes have labels, as launches: what is behind `einsum`.

A label that two arrays share and the result lacks is summed over. Two arrays become one matrix
product: labels that belong to one of them and the result are its rows or columns, those of all
three its batch. Strides describe them, so nothing is transposed; an operand is copied only where
what is summed over has no single stride in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from xtarget import spec

from .elementwise import compute_dtype
from .folds import Sum
from .gates import walk
from .layouts import collapse, merge
from .matmul import Problem, multiply
from .movement import copy_launch
from .reduction import Work

__all__ = ["Contraction", "View", "between"]

#: Half types stay in float32 from one launch to the next.
_BETWEEN = {"float16": "float32", "bfloat16": "float32"}


def between(dtype: str) -> str:
    """The dtype that keeps a result of `dtype` until the plan's last launch."""
    return _BETWEEN.get(dtype, dtype)


class View(NamedTuple):
    """An array as its labelled axes: from label to length and stride. One without an axis of some
    label is the same all along it.
    """

    source: spec.Input | spec.Output | spec.Temporary
    dtype: str
    axes: dict[str, tuple[int, int]]

    def without_single(self) -> View:
        """The axes of more than one element."""
        return self._replace(axes={k: axis for k, axis in self.axes.items() if axis[0] != 1})

    def stride(self, label: str) -> int:
        return self.axes[label][1] if label in self.axes else 0


def _group(
    labels: Iterable[str], lengths: dict[str, int], *views: View
) -> list[tuple[int, tuple[int, ...]]]:
    """The fewest axes that `labels` are in all of the views: length and strides of each."""
    labels = list(labels)
    shape, strides = merge(
        [lengths[label] for label in labels],
        [[view.stride(label) for label in labels] for view in views],
    )
    return list(zip(shape, zip(*strides, strict=True), strict=True)) if shape else []


class Contraction:
    """The launches and temporaries of a plan of sums of products.

    Args:
        dtype: the result's, by promotion of the operands'.
    """

    def __init__(self, call: spec.Call, dtype: str) -> None:
        self.call, self.dtype = call, dtype
        self.launches: list[spec.Launch] = []
        self.temporaries: list[spec.ArrayType] = []

    def temporary(self, axes: dict[str, int], dtype: str) -> View:
        """A new array with these axes, in C order."""
        shape = tuple(axes.values())
        strides = spec.contiguous_strides(shape)
        self.temporaries.append(spec.ArrayType(dtype, shape, strides))
        source = spec.Temporary(len(self.temporaries) - 1)
        return View(source, dtype, dict(zip(axes, zip(shape, strides, strict=True), strict=True)))

    def run(self, views: Sequence[View], out: View) -> None:
        """`out` as the sum of the products of `views`, from the left to the right. No axis has the
        length 0.
        """
        views, out = [view.without_single() for view in views], out.without_single()
        left = views[0]
        if len(views) == 1:
            self._single(left, out)
        for number, right in enumerate(views[1:], 2):
            if number == len(views):
                self._pair(left, right, out)
                return
            later = out.axes.keys() | {k for view in views[number:] for k in view.axes}
            axes = {k: n for view in (left, right) for k, (n, _) in view.axes.items() if k in later}
            result = self.temporary(axes, between(self.dtype))
            self._pair(left, right, result)
            left = result

    def _single(self, view: View, out: View) -> None:
        """`view` with the axes of `out`, the others summed over."""
        kept = [label for label in view.axes if label in out.axes]
        gone = [label for label in view.axes if label not in out.axes]
        strides = [[v.stride(label) for label in kept] for v in (view, out)]
        shape = [view.axes[label][0] for label in kept]
        if not gone:
            self.launches += copy_launch(self.call, view.source, shape, *strides, out=_written(out))
            return
        lengths = [view.axes[label][0] for label in gone]
        reduced = collapse(lengths, [view.stride(label) for label in gone])
        # what goes to a temporary is numbered in the order of its axes
        in_order = isinstance(out.source, spec.Temporary)
        kept_space = collapse(shape, *strides, keep_order=in_order)
        work = Work(self.call, kept_space, reduced, _read(view))
        work.temporaries = self.temporaries
        # of bool: how many are true, in a type that holds it
        last = Sum("int64" if self.dtype == "bool" else compute_dtype(self.dtype)).step()
        work.reduce(_written(out), last, last, last)
        self.launches += work.launches

    def _summed(self, view: View, wanted: Collection[str]) -> View:
        """`view` without the labels that nothing else has."""
        axes = {label: n for label, (n, _) in view.axes.items() if label in wanted}
        if len(axes) == len(view.axes):
            return view
        result = self.temporary(axes, between(self.dtype))
        self._single(view, result)
        return result

    def _pair(self, a: View, b: View, out: View) -> None:
        a = self._summed(a, b.axes.keys() | out.axes.keys())
        b = self._summed(b, a.axes.keys() | out.axes.keys())
        inner = [label for label in a.axes if label in b.axes and label not in out.axes]
        if inner:
            a, b = self._inner_in_line(a, b, inner)
            self._matrices(a, b, out, inner)
        else:
            self._product(a, b, out)

    def _product(self, a: View, b: View, out: View) -> None:
        """Nothing to sum over."""
        labels = list(out.axes)
        strides = {
            name: [view.stride(label) for label in labels]
            for name, view in (("so", out), ("sa", a), ("sb", b))
        }
        computed = spec.dtype_constant(compute_dtype(self.dtype))
        launch = walk(
            self.call,
            "elementwise:binary(functions.arithmetic:mul)",
            {"a": a.source, "b": b.source, "out": out.source},
            {},
            [out.axes[label][0] for label in labels],
            strides,
            {"TA": computed, "TB": computed, "STREAM": False},
        )
        self.launches.append(launch)

    def _inner_in_line(self, a: View, b: View, inner: list[str]) -> tuple[View, View]:
        """The operands, of which one or both are copied unless one stride of each leads through
        all that is summed over.
        """
        lengths = {label: a.axes[label][0] for label in inner}
        if len(_group(inner, lengths, a, b)) == 1:
            return a, b
        for one, other in ((a, b), (b, a)):
            if len(_group(inner, lengths, one)) == 1:
                order = sorted(inner, key=lambda label: -abs(one.stride(label)))
                copied = self._copied(other, order)
                return (one, copied) if one is a else (copied, one)
        return self._copied(a, inner), self._copied(b, inner)

    def _copied(self, view: View, inner: Sequence[str]) -> View:
        """A copy in which `inner` are the innermost axes."""
        order = [label for label in view.axes if label not in inner] + list(inner)
        copied = self.temporary({label: view.axes[label][0] for label in order}, view.dtype)
        self._single(view, copied)
        return copied

    def _matrices(self, a: View, b: View, out: View, inner: list[str]) -> None:
        lengths = {k: n for view in (a, b) for k, (n, _) in view.axes.items()}
        ((k, (ak, bk)),) = _group(inner, lengths, a, b)
        rows = _group([label for label in out.axes if label not in b.axes], lengths, out, a)
        columns = _group([label for label in out.axes if label not in a.axes], lengths, out, b)
        (m, (om, am)), more_rows = _longest(rows)
        (n, (on, bn)), more_columns = _longest(columns)
        shared = [label for label in out.axes if label in a.axes and label in b.axes]
        batch = _group(shared, lengths, out, a, b)
        batch += [(length, (so, sa, 0)) for length, (so, sa) in more_rows]
        batch += [(length, (so, 0, sb)) for length, (so, sb) in more_columns]
        shape = tuple(length for length, _ in batch)
        over_out, over_a, over_b = (tuple(steps[i] for _, steps in batch) for i in range(3))
        problem = Problem(
            m,
            n,
            k,
            (am, ak),
            (bk, bn),
            (om, on),
            collapse(shape, over_out, over_a, over_b, keep_order=True),
            (_read(a), _read(b)),
            (a.dtype, b.dtype),
        )
        view = spec.ArrayType(out.dtype, (*shape, m, n), (*over_out, om, on))
        # a half type's product that is still in float32 is not rounded for the next one
        dtype = wide if (wide := between(self.dtype)) in problem.dtypes else self.dtype
        self.launches += multiply(self.call, dtype, problem, _written(out), view, self.temporaries)


def _longest(
    axes: list[tuple[int, tuple[int, ...]]],
) -> tuple[tuple[int, tuple[int, ...]], list[tuple[int, tuple[int, ...]]]]:
    """The longest axis, and the others; one of a single element where there is none."""
    if not axes:
        return (1, (0, 0)), []
    at = max(range(len(axes)), key=lambda i: axes[i][0])
    return axes[at], axes[:at] + axes[at + 1 :]


def _read(view: View) -> spec.Input | spec.Temporary:
    assert not isinstance(view.source, spec.Output)
    return view.source


def _written(view: View) -> spec.Output | spec.Temporary:
    assert not isinstance(view.source, spec.Input)
    return view.source
