"""The steps of kernels over rows, read from their plans for a call that stands for all.

A plan that is one fold after another (`reduction`), a softmax or a normalisation over the last axis
has an expansion. Within it nothing is rounded to the operator's dtype, as within its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from .. import spec
from .._arrays.dtypes import NumpyRules
from .._kernels.steps import Fold, Operand, Step
from .._values.types import DtypeConstant
from .._values.value_classes import value_class
from .nodes import Node, Value

__all__ = ["Expansion", "expansion_of"]

#: The length of the axis in the call that stands for all: no device cuts it into pieces.
_LENGTH = 4096
_RULES = NumpyRules()
_ADD, _SUB = "functions.arithmetic:add", "functions.arithmetic:sub"
_MUL, _DIV = "functions.arithmetic:mul", "functions.arithmetic:div"
#: An operand: many float32 are divided by one as in `over` of `kernels/arithmetic.py`.
_ONE = f"={(1.0).hex()}"
_EXP, _LOG, _SQRT = "functions.powers:exp", "functions.powers:log", "functions.powers:sqrt"


@value_class(frozen=True, slots=True)
class Expansion:
    """The computation of a node from rows.

    Attributes:
        steps: an operand `@0` is the node's operand 0; a number is the index of an earlier one.
        gives: `wide`, `kept` or `dropped`: a row, or a number in an axis of length 1 or without it.
    """

    steps: tuple[Step | Fold, ...]
    gives: str

    @property
    def result(self) -> Operand:
        """The expressions that stand for the node."""
        return str(len(self.steps) - 1), ()


@lru_cache(maxsize=256)
def expansion_of(node: Node) -> Expansion | None:
    """The expansion of a node; None: it has none."""
    first = node.operands[0] if node.operands else None
    if not node.own or len(node.plan.outputs) != 1 or not isinstance(first, Value):
        return None
    ndim = first.type.ndim
    if not ndim or not node.plan.launches or not _is_last(node, ndim):
        return None
    source = node.plan.launches[0].source
    made = next((own for prefix, own in _MADE.items() if source.startswith(prefix)), None)
    folds = source.startswith("reduction:") and len(node.operands) == 1
    if made is None and not folds:
        return None
    plan = _typical(node)
    if plan is None or not plan.launches or plan.init or plan.cleared:
        return None
    if made is None:
        steps = _folds(node, plan)
        gives = "kept" if node.options.get("keepdims", False) else "dropped"
        return None if steps is None else Expansion(steps, gives)
    return Expansion(made(plan.launches[0], plan.outputs[0].dtype), "wide")


def _is_last(node: Node, ndim: int) -> bool:
    """Whether it is about the last axis alone."""
    if "axis" not in node.spec.options:
        return True  # normalisations, or a kernel that is not one of rows
    axis = node.options.get("axis", node.spec.options["axis"])
    if axis is None:
        return ndim == 1
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    return axes in ((-1,), (ndim - 1,)) and type(axes[0]) is int


def _typical(node: Node) -> spec.Plan | None:
    types: list[spec.ArrayType | spec.ScalarType] = []
    for type_ in node.types:
        if isinstance(type_, spec.ArrayType) and type_.ndim:
            shape = (*(2,) * (type_.ndim - 1), _LENGTH)
            types.append(spec.ArrayType(type_.dtype, shape, spec.contiguous_strides(shape)))
        elif type_ is spec.ABSENT:
            types.append(type_)
        else:
            return None
    options = {**node.spec.options, **node.options}
    if not isinstance(options.get("keepdims", False), bool):
        return None
    return node.spec.plan(spec.Call(node.spec.name, tuple(types), options, None, "cpu", 1, _RULES))


def _dtype(launch: spec.Launch, name: str) -> str:
    value = launch.constants[name]
    assert isinstance(value, DtypeConstant)
    return value.name


def _folds(node: Node, plan: spec.Plan) -> tuple[Fold, ...] | None:
    """The folds of a plan that makes them of its first argument, one launch each; both of a
    variance are one launch."""
    found: list[Fold] = []
    left: dict[spec.Temporary, int] = {}
    for launch in plan.launches:
        of_variance = launch.source.endswith(":moments")
        folds = _moments(launch) if of_variance else _fold(launch, left)
        if folds is None:
            return None
        found += folds
        if isinstance(launch.args["out"], spec.Temporary):
            left[launch.args["out"]] = len(found) - 1
    if not isinstance(plan.launches[-1].args["out"], spec.Output):
        return None
    return (*found[:-1], _as(found[-1], node.plan.outputs[0].dtype))


def _as(fold: Fold, dtype: str) -> Fold:
    return Fold(
        fold.op, fold.map, fold.finish, fold.given, fold.computed, fold.less, fold.operands, dtype
    )


def _moments(launch: spec.Launch) -> list[Fold] | None:
    """The mean, and the squares of what differs from it."""
    count = launch.args.get("count")
    less = _LENGTH - count if isinstance(count, int) else -1
    if launch.args["x"] != spec.Input(0) or launch.grid[1] != 1 or not 0 <= less < _LENGTH:
        return None
    t = _dtype(launch, "T")
    x: Operand = ("@0", (t,))
    mean = Fold("sum", "", "mean", t, t, 0, (x,), t)
    finish = str(launch.constants["FINISH"])
    return [mean, Fold("sum", "deviation", finish, t, t, less, (x, ("0", ())), t)]


def _fold(launch: spec.Launch, left: Mapping[spec.Temporary, int]) -> list[Fold] | None:
    args, constants = launch.args, launch.constants
    kind = launch.source.partition(":")[2]
    given: Operand
    if args["x"] != spec.Input(0) or launch.grid[1] != 1:
        return None
    computed = _dtype(launch, "T")
    if kind in ("sum", "max"):
        op, mapped, finish, taken = kind, "", "", computed
    elif kind == "total":
        op, taken = "sum", _dtype(launch, "S")
        mapped, finish = str(constants["MAP"]), str(constants["FINISH"])
    elif kind == "fold":
        op, mapped, finish = str(constants["OP"]), str(constants["MAP"]), ""
        taken = _dtype(launch, "S")
    else:
        return None
    begins = args.get("initial")
    if isinstance(args.get("p"), spec.Scalar) or (
        isinstance(begins, spec.Scalar) and not _is_least(launch)
    ):
        return None
    count, aux = args.get("count"), args.get("aux")
    less = _LENGTH - count if isinstance(count, int) else 0
    if not 0 <= less < _LENGTH:
        return None
    given = ("@0", (taken,))
    operands: tuple[Operand, ...] = (given,)
    if isinstance(aux, spec.Temporary):
        operands = (given, (str(left[aux]), ()))
    return [Fold(op, mapped, finish, taken, computed, less, operands, computed)]


def _is_least(launch: spec.Launch) -> bool:
    """Whether what a fold begins with changes nothing: the 0 of `any`."""
    begins = launch.args["initial"]
    assert isinstance(begins, spec.Scalar)
    kind = launch.constants["OP"], launch.constants["MAP"]
    return begins.value == 0 and kind == ("max", "nonzero")


def _softmax(launch: spec.Launch, dtype: str) -> tuple[Step | Fold, ...]:
    """x - max, exp, and the quotient by its sum or less its logarithm (`softmaxes`)."""
    t = _dtype(launch, "T")
    steps: list[Step | Fold] = []

    def add(function: str, *operands: Operand, to: str = t) -> Operand:
        steps.append(Step(function, operands, to))
        return str(len(steps) - 1), ()

    def fold(op: str, value: Operand) -> Operand:
        steps.append(Fold(op, "", "", t, t, 0, (value,), t))
        return str(len(steps) - 1), ()

    x: Operand = ("@0", (t,))
    if launch.constants["NEGATE"]:
        x = add("functions.arithmetic:neg", x)
    apart = add(_SUB, x, fold("max", x))
    power = add(_EXP, apart)
    total = fold("sum", power)
    if launch.constants["LOG"]:
        add(_SUB, apart, add(_LOG, total), to=dtype)
    elif t == "float32":
        add(_MUL, power, add(_DIV, (_ONE, (t,)), total), to=dtype)
    else:
        add(_DIV, power, total, to=dtype)
    return tuple(steps)


def _normalization(launch: spec.Launch, dtype: str) -> tuple[Step | Fold, ...]:
    """(x - mean) / sqrt(variance + eps) * weight + bias; rms_norm: of 0 as the mean."""
    t = _dtype(launch, "T")
    eps = launch.args["eps"]
    assert isinstance(eps, spec.Scalar)
    steps: list[Step | Fold] = []
    x: Operand = ("@0", (t,))

    def add(step: Step | Fold) -> Operand:
        steps.append(step)
        return str(len(steps) - 1), ()

    if "layer_norm" in launch.source:
        mean = add(Fold("sum", "", "mean", t, t, 0, (x,), t))
        square = add(Fold("sum", "deviation", "mean", t, t, 0, (x, mean), t))
        y = add(Step(_SUB, (x, mean), t))
    else:
        square = add(Fold("sum", "square", "mean", t, t, 0, (x,), t))
        y = x
    number: Operand = (f"={float(eps.value).hex()}", (t,))
    root = add(Step(_SQRT, (add(Step(_ADD, (square, number), t)),), t))
    if t == "float32":
        y = add(Step(_MUL, (y, add(Step(_DIV, ((_ONE, (t,)), root), t))), t))
    else:
        y = add(Step(_DIV, (y, root), t))
    for name, function in (("weight", _MUL), ("bias", _ADD)):
        place = launch.args.get(name)
        if isinstance(place, spec.Input):
            y = add(Step(function, (y, (f"@{place.index}", (t,))), t))
    last = steps.pop()
    assert isinstance(last, Step)
    return (*steps, Step(last.function, last.operands, dtype))


#: By the source that begins so, kernels of one launch.
_MADE = {
    "softmaxes:softmax": _softmax,
    "normalization:layer_norm": _normalization,
    "normalization:rms_norm": _normalization,
}
