"""From call to launches: reductions of those elements that `where` chooses.

The others are replaced by what changes nothing, in a copy, which is then reduced as any array is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xtarget import spec

from .elementwise import Elementwise, compute_dtype
from .folds import Reduced, Result, Sum
from .layouts import broadcasts

__all__ = ["highest", "lowest", "mean_where", "where"]

_Plan = Callable[[spec.Call], spec.Plan]


def lowest(dtype: str) -> float:
    """The least value of a dtype."""
    if dtype.startswith("int"):
        return int(-(2 ** (int(dtype[3:]) - 1)))
    return float("-inf") if "float" in dtype else 0


def highest(dtype: str) -> float:
    """The greatest."""
    if "int" in dtype:
        bits = int(dtype.partition("int")[2])
        return int(2 ** (bits - (dtype[0] == "i")) - 1)
    return float("inf") if "float" in dtype else 1


def _given(call: spec.Call) -> bool:
    """Whether the call has the argument `where`.

    Raises:
        ArgumentError: it is not bool, as an axis that was given by its place.
    """
    if len(call.args) < 2 or call.args[1] is spec.ABSENT:
        return False
    if call.args[1].dtype != "bool":
        raise spec.ArgumentError(
            f"{call.kernel}: where is {call.args[1].dtype}; it has to be bool, true for the "
            "elements that count. Options are given by name: axis=0."
        )
    return True


def _copied(
    call: spec.Call, function: str, dtype: str, numbers: Mapping[str, float], place: int
) -> tuple[spec.ArrayType, spec.Launch]:
    """Temporary `place`, of x's shape, and the launch that fills it by a function of whether an
    element counts, the element, and the numbers.

    Raises:
        ArgumentError: `where` does not fit.
    """
    x, chosen = call.array(0), call.args[1]
    if not broadcasts(chosen.shape, x.shape):
        raise spec.ArgumentError(
            f"{call.kernel}: where has shape {chosen.shape}, which does not broadcast to that of "
            f"x, {x.shape}."
        )
    rule = (dtype,), ("bool", compute_dtype(x.dtype))
    each = Elementwise(lambda _: function, lambda *_: rule, (x.dtype, "bool"), tuple(numbers))
    plan = each(replace(call, args=(chosen, x), options=numbers, out=None, outs=()))
    (launch,) = plan.launches
    args = {**launch.args, "a": spec.Input(1), "b": spec.Input(0), "out": spec.Temporary(place)}
    return plan.outputs[0], replace(launch, args=args)


def where(plan: _Plan, nothing: Callable[[str], float], *, initial: bool = False) -> _Plan:
    """The plan of a reduction with the argument `where`.

    Args:
        plan: of the reduction without it.
        nothing: from x's dtype to what changes no result.
        initial: the option has to be given with it, as there is no result of no elements.
    """

    def whole(call: spec.Call) -> spec.Plan:
        if not _given(call):
            return plan(replace(call, args=call.args[:1]))
        if initial and call.options["initial"] is None:
            raise spec.ArgumentError(
                f"{call.kernel}: where is given, and {call.kernel} of no elements is not defined. "
                "Give initial= too, the result where no element counts."
            )
        x = call.array(0)
        inner = plan(replace(call, args=(replace(x, strides=spec.contiguous_strides(x.shape)),)))
        if not x.size:
            return inner
        place = len(inner.temporaries)
        layout, launch = _copied(
            call, "functions.selection:where", x.dtype, {"fill": nothing(x.dtype)}, place
        )
        own = tuple(
            replace(one, args={n: _moved(v, place) for n, v in one.args.items()})
            for one in inner.launches
        )
        return replace(inner, launches=(launch, *own), temporaries=(*inner.temporaries, layout))

    return whole


def _moved(value: spec.Argument, place: int) -> spec.Argument:
    return spec.Temporary(place) if isinstance(value, spec.Input) else value


def mean_where(plan: _Plan, result: Result) -> _Plan:
    """The plan of the mean of the elements that count; nan where none does.

    Args:
        plan: of the mean of all.
        result: from x's dtype to the result's.
    """

    def whole(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        if not _given(call) or not x.size:
            return plan(replace(call, args=call.args[:1]))
        layout, fill = _copied(call, "functions.selection:where", x.dtype, {"fill": 0}, 0)
        counted, mark = _copied(call, "functions.selection:first", "int8", {}, 1)
        shapes = Reduced(replace(call, args=(layout,)))
        dtype = result(call.rules, x.dtype)
        out = call.output(shapes.shape, dtype)
        work = shapes.work(out)
        work.temporaries += [layout, counted]
        work.launches += [fill, mark]
        count = work.temporary("int64")
        work.read(spec.Temporary(1), work.kept, work.reduced)
        Sum("int64").into(work, count)
        work.read(spec.Temporary(0), work.kept, work.reduced)
        Sum(compute_dtype(dtype), FINISH="ratio", aux=count).into(work, spec.Output())
        return work.plan(out)

    return whole
