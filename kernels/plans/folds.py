"""From call to launches: the reductions that have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xtarget import spec

from .elementwise import compute_dtype, normal_axes
from .layouts import collapse, without_axes
from .reduction import Step, Work

__all__ = [
    "Reduced",
    "Sum",
    "arg",
    "extreme_and_place",
    "extremes",
    "fold",
    "fold_into",
    "in_steps",
    "is_floating",
    "nansum",
    "outputs",
    "total",
]

Result = Callable[[spec.DtypeRules, str], str]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
#: Vendors that have an instruction for the larger one of two float32 that keeps nan.
_KEEPS_NAN = frozenset({"nvidia"})


def is_floating(dtype: str) -> bool:
    return dtype in _FLOATS


class Reduced:
    """The shapes of a reduction of the first argument by the options `axis` and `keepdims`.

    Attributes:
        shape: of the result.
        empty: whether there is nothing to reduce.
        count: elements that go into one of the result.
    """

    def __init__(self, call: spec.Call, *, in_order: bool = False) -> None:
        """Look at a call.

        Args:
            in_order: reduced elements are numbered in the order of the axes.

        Raises:
            ArgumentError: an axis is none.
        """
        self.call, self.x = call, call.array(0)
        x = self.x
        self.axes = normal_axes(call, call.options["axis"], x.ndim)
        self.keepdims = bool(call.options["keepdims"])
        self._in_order = in_order
        self.kept_shape = without_axes(x.shape, self.axes)
        full = tuple(1 if axis in self.axes else n for axis, n in enumerate(x.shape))
        self.shape = full if self.keepdims else self.kept_shape
        self.lengths = tuple(x.shape[axis] for axis in self.axes)
        self.empty = 0 in self.lengths
        self.count = 1
        for length in self.lengths:
            self.count *= length

    def work(self, out: spec.ArrayType) -> Work:
        """The plan's work; results are laid out as `out`."""
        x, axes = self.x, self.axes
        strides = without_axes(out.strides, axes) if self.keepdims else out.strides
        kept = collapse(self.kept_shape, without_axes(x.strides, axes), strides)
        reduced = collapse(
            self.lengths, tuple(x.strides[axis] for axis in axes), keep_order=self._in_order
        )
        return Work(self.call, kept, reduced)

    def refuse_nothing(self) -> None:
        """Raises ArgumentError if there is nothing to reduce."""
        if self.empty:
            raise spec.ArgumentError(
                f"{self.call.kernel}: axis {self.call.options['axis']!r} of an array of shape "
                f"{self.x.shape} has no elements, and {self.call.kernel} of nothing is not "
                "defined."
            )


def outputs(call: spec.Call, shape: tuple[int, ...], *dtypes: str) -> tuple[spec.ArrayType, ...]:
    """Layouts of several results of one shape.

    Raises:
        ArgumentError: the caller gave an `out`.
    """
    if call.out is not None:
        raise spec.ArgumentError(
            f"{call.kernel} gives {len(dtypes)} arrays, for which one out is not enough. Leave it "
            "out."
        )
    return tuple(call.output(shape, dtype) for dtype in dtypes)


class Sum(NamedTuple):
    """A sum in `dtype` of what `MAP` makes of elements in the type `given`; see `maps`."""

    dtype: str
    MAP: str = ""
    FINISH: str = ""
    given: str = ""
    aux: spec.Temporary | None = None
    count: int | None = None
    p: spec.Scalar | None = None

    def step(self) -> Step:
        """The sum as one step of a reduction."""
        if not self.MAP and not self.FINISH:
            return Step("sum", self.dtype)
        taken = {"aux": self.aux, "count": self.count, "p": self.p}
        constants: dict[str, Any] = {
            "MAP": self.MAP,
            "FINISH": self.FINISH,
            "S": spec.dtype_constant(self.given or self.dtype),
            **{name: None for name, value in taken.items() if value is None},
        }
        numbers = {"count": self.count, "p": self.p}
        return Step(
            "total",
            self.dtype,
            {} if self.aux is None else {"aux": self.aux},
            {name: value for name, value in numbers.items() if value is not None},
            constants,
        )

    def into(self, work: Work, out: spec.Output | spec.Temporary) -> None:
        """The launches of the sum; pieces are finished once, at the end."""
        centred = self.MAP in ("deviation", "exp")
        late = self.FINISH in ("log_of_exp", "ratio")
        work.reduce(
            out,
            self.step(),
            self._replace(
                FINISH="",
                aux=self.aux if centred else None,
                count=None,
                p=self.p if self.MAP == "power" else None,
            ).step(),
            self._replace(
                MAP="",
                given="",
                aux=self.aux if late else None,
                p=self.p if self.FINISH in ("power", "plus") else None,
            ).step(),
        )


def initial_of(call: spec.Call, dtype: str) -> int | float | None:
    """The option `initial`.

    Raises:
        ArgumentError: it is not a number that `dtype` holds.
    """
    value = call.options["initial"]
    if value is None:
        return None
    if not isinstance(value, int | float) or (isinstance(value, float) and not is_floating(dtype)):
        raise spec.ArgumentError(
            f"{call.kernel}: initial is {value!r}, which {dtype}, the dtype of the result, does "
            "not hold. Give a number that it does, or convert the array first."
        )
    return int(bool(value)) if dtype == "bool" else value


def total(
    result: Result, MAP: str = "", FINISH: str = "", *, given: bool = False
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a sum.

    Args:
        result: from the input's dtype to the output's.
        MAP, FINISH: see `maps`.
        given: elements are mapped in their own type, and then taken to the sum's.
    """

    def plan(call: spec.Call) -> spec.Plan:
        shapes = Reduced(call)
        x = shapes.x
        dtype = result(call.rules, x.dtype)
        out = call.output(shapes.shape, dtype)
        computed = compute_dtype(dtype)
        finish, number = FINISH, None
        value = initial_of(call, dtype) if "initial" in call.options else None
        if value is not None:
            finish, number = "plus", spec.Scalar(value, computed)
        if not out.size:
            return spec.Plan((out,), ())
        work = shapes.work(out)
        whole = Sum(
            computed,
            MAP,
            finish,
            given=compute_dtype(x.dtype) if given else "",
            count=shapes.count if finish in ("mean", "deviation") else None,
            p=number,
        )
        whole.into(work, spec.Output())
        return work.plan(out)

    return plan


def fold(
    op: str, result: Result, MAP: str = "", *, identity: bool = False, begin: int | None = None
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a reduction by an operation of two elements.

    Args:
        op, MAP: see `maps`.
        result: from the input's dtype to the output's.
        identity: whether there is a result of no elements.
        begin: what it is, if that of the type is another one.
    """

    def plan(call: spec.Call) -> spec.Plan:
        shapes = Reduced(call)
        dtype = result(call.rules, shapes.x.dtype)
        out = call.output(shapes.shape, dtype)
        initial = initial_of(call, dtype) if "initial" in call.options else begin
        if not out.size:
            return spec.Plan((out,), ())
        if not identity and initial is None:
            shapes.refuse_nothing()
        work = shapes.work(out)
        fold_into(work, spec.Output(), op, compute_dtype(dtype), MAP, shapes.x.dtype, initial)
        return work.plan(out)

    return plan


def fold_into(
    work: Work,
    out: spec.Output | spec.Temporary,
    op: str,
    dtype: str,
    MAP: str,
    given: str,
    initial: int | float | None = None,
) -> None:
    given = compute_dtype(given) if MAP == "nonzero" else dtype
    largest = op == "max" and not MAP and initial is None
    if work.call.vendor in _KEEPS_NAN and dtype == "float32":
        op = {"max": "maximumf", "min": "minimumf"}.get(op, op)
    if largest:
        work.reduce(out, *[Step("max", dtype, constants={"OP": op})] * 3)
        return
    start = {} if initial is None else {"initial": spec.Scalar(initial, dtype)}
    plain: Mapping[str, Any] = {"OP": op, "MAP": "", "S": spec.dtype_constant(dtype)}
    mapped = {**plain, "MAP": MAP, "S": spec.dtype_constant(given)}
    none = {} if start else {"initial": None}
    work.reduce(
        out,
        Step("fold", dtype, {}, start, {**mapped, **none}),
        Step("fold", dtype, {}, {}, {**mapped, "initial": None}),
        Step("fold", dtype, {}, start, {**plain, **none}),
    )


def arg(largest: bool, *, values: bool = False) -> Callable[[spec.Call], spec.Plan]:
    """The plan of argmax (`largest`) and argmin, along one axis or over all.

    Args:
        values: what the indices are of stands before them.
    """

    def plan(call: spec.Call) -> spec.Plan:
        axis = call.options["axis"]
        if isinstance(axis, tuple | list):
            raise spec.ArgumentError(
                f"{call.kernel}: axis is {axis!r}; it has to be one axis, or None for all."
            )
        shapes = Reduced(call, in_order=True)
        if values:
            outs = outputs(call, shapes.shape, shapes.x.dtype, "int64")
        else:
            outs = (call.output(shapes.shape, "int64"),)
        if not outs[0].size:
            return spec.Plan(outs, ())
        shapes.refuse_nothing()
        work = shapes.work(outs[-1])
        dtype = compute_dtype(shapes.x.dtype)
        chosen: dict[str, Any] = {"LARGEST": largest}
        goal: dict[str, spec.Argument] = {"value": spec.Output(0)} if values else {}
        absent = {} if values else {"value": None}
        found = spec.Output(len(outs) - 1)
        whole = Step("arg", dtype, goal, {}, {**chosen, "at": None, **absent})
        parts = work.parts(whole)
        if parts == 1:
            work.launches.append(work.first(whole, found))
        else:
            value, index = work.temporary(dtype, parts), work.temporary("int64", parts)
            piece = Step("arg", dtype, {"value": value}, {}, {**chosen, "at": None})
            rest = Step("arg", dtype, {"at": index, **goal}, {}, {**chosen, **absent})
            work.launches.append(work.first(piece, index, parts))
            work.launches.append(work.rest(rest, value, found, parts))
        return work.plan(*outs)

    return plan


def extreme_and_place(largest: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of torch's max (`largest`) and min: the element over all, or along an axis the
    elements and their indices.
    """
    over_all = fold("max" if largest else "min", lambda rules, dtype: dtype)
    along = arg(largest, values=True)
    return lambda call: (over_all if call.options["axis"] is None else along)(call)


def in_steps(
    result: Result, steps: Callable[[Work, Reduced, str], None]
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a reduction to one array whose launches `steps` adds.

    Args:
        result: from the input's dtype to the output's.
        steps: gets the work, the shapes, and the dtype to compute in.
    """

    def plan(call: spec.Call) -> spec.Plan:
        shapes = Reduced(call)
        dtype = result(call.rules, shapes.x.dtype)
        out = call.output(shapes.shape, dtype)
        if not out.size:
            return spec.Plan((out,), ())
        work = shapes.work(out)
        steps(work, shapes, compute_dtype(dtype))
        return work.plan(out)

    return plan


def extremes(call: spec.Call) -> spec.Plan:
    """The plan of aminmax: the smallest and the largest."""
    shapes = Reduced(call)
    dtype = shapes.x.dtype
    outs = outputs(call, shapes.shape, dtype, dtype)
    if not outs[0].size:
        return spec.Plan(outs, ())
    shapes.refuse_nothing()
    work = shapes.work(outs[0])
    for number, op in enumerate(("min", "max")):
        fold_into(work, spec.Output(number), op, compute_dtype(dtype), "", dtype)
    return work.plan(*outs)


def nansum(result: Result) -> Callable[[spec.Call], spec.Plan]:
    """The plan of the sum of those elements that are not nan."""
    plain, numbers = total(result), total(result, "number")
    return lambda call: (numbers if is_floating(call.array(0).dtype) else plain)(call)
