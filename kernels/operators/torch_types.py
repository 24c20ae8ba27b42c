"""Operators under torch's names whose result has another dtype there than NumPy's: `torch.exp` of
int8 gives float32, and `torch.add` of int64 and float16 float16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xtarget.spec import ArrayType, DtypeRules, KernelSpec, ScalarType

from ..plans.elementwise import Elementwise
from ..plans.statistics import logsumexp
from ..plans.torch_types import by_torchs_types, dtypes_that_count
from . import (
    activations,
    angles,
    arithmetic,
    bessel,
    bits,
    comparisons,
    losses,
    movement,
    powers,
    products,
    reductions,
    scans,
    selection,
    special,
)
from .row import BY_LIBRARY
from .rules import (
    ALL,
    AS_IT_IS,
    FLOATING,
    FLOATING_AS_IT_IS,
    FLOATS,
    PROMOTED,
    QUOTIENT,
    SELECTED,
)
from .spellings import spellings

__all__ = ["ROWS", "of_torch"]

_FAMILIES = (
    activations, angles, arithmetic, bessel, bits, comparisons, losses, movement, powers, products,
    reductions, scans, selection, special,
)  # fmt: skip
_ROWS = {row.name: row for family in _FAMILIES for row in family.ROWS}
#: Rows, each with torch's further names.
_ELEMENTWISE = (
    "add sub:subtract mul:multiply div:divide:true_divide rsub maximum:clamp_min minimum:clamp_max "
    "fmax fmin floor_divide remainder fmod pow hypot logaddexp logaddexp2 atan2:arctan2 heaviside "
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin:arcsin acos:arccos "
    "atan:arctan sinh cosh tanh asinh:arcsinh acosh:arccosh atanh:arctanh sinc degrees:rad2deg "
    "radians:deg2rad angle xlogy xlog1py entr logit erf erfc erfcx erfinv lgamma:gammaln "
    "digamma:psi ndtr log_ndtr i0 i1 j0:bessel_j0 j1:bessel_j1 y0:bessel_y0 y1:bessel_y1 "
    "sigmoid:expit softsign tanhshrink copysign eq ne:not_equal lt:less le:less_equal gt:greater "
    "ge:greater_equal clip:clamp where"
)
_OTHERS = (
    "sum prod nansum cumsum cumprod logsumexp trace kron concat:cat:concatenate stack hstack "
    "vstack:row_stack dstack l1_loss mse_loss smooth_l1_loss"
)
_SUMMARY = "the operator of that name with torch's result dtype: integers give float32 where NumPy "
_SUMMARY += "gives other floats, and do not widen what stands beside them"
#: Of floating numbers in torch: rows that take these alone, and those with NumPy's wider floats.
_FLOATING = {PROMOTED: FLOATING, AS_IT_IS: FLOATING_AS_IT_IS, QUOTIENT: FLOATING}


def _behind_the_condition(args: Sequence[ArrayType | ScalarType]) -> list[str]:
    return [args[0].dtype, *dtypes_that_count(args[1:])]


def _of_floats(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The reference in float64, whatever the arguments are."""

    def wide(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        return reference(*(np.asarray(array, np.float64) for array in arrays), **options)

    return wide


def _elementwise(row: KernelSpec) -> KernelSpec:
    if row.name == "where":
        plan = Elementwise(
            lambda _: "functions.selection:where", SELECTED, ALL, seen=_behind_the_condition
        )
        return replace(row, plan=by_torchs_types(plan))
    assert isinstance(row.plan, Elementwise), row.name
    rule, reference, dtypes = row.plan.rule, row.reference, row.dtypes
    if row.name == "heaviside":
        rule = PROMOTED
    elif rule is QUOTIENT or dtypes == FLOATS:
        rule, dtypes = _FLOATING.get(rule, rule), ALL
    assert reference is not None
    plan = replace(row.plan, rule=rule, dtypes=dtypes, seen=dtypes_that_count)
    return replace(
        row, plan=by_torchs_types(plan), dtypes=dtypes,
        reference=_of_floats(reference) if rule in (FLOATING, FLOATING_AS_IT_IS) else reference,
    )  # fmt: skip


def _floating(rules: DtypeRules, dtype: str) -> str:
    return rules.floating(dtype)


def _other(row: KernelSpec) -> KernelSpec:
    plan = logsumexp(_floating) if row.name == "logsumexp" else row.plan
    return replace(row, plan=by_torchs_types(plan))


def of_torch(name: str) -> KernelSpec:
    """An elementwise row by torch's type rules."""
    return _elementwise(_ROWS[name])


def _rows(names: str, change: Callable[[KernelSpec], KernelSpec]) -> list[KernelSpec]:
    found = []
    for entry in names.split():
        of = _ROWS[entry.partition(":")[0]]
        written = tuple(f"torch.{name}" for name in entry.split(":"))
        found.append(
            replace(
                change(of),
                name=written[0],
                aliases=written,
                category=BY_LIBRARY,
                words=spellings(of),
                ahead=None,
                c=None,
                summary=_SUMMARY,
            )
        )
    return found


ROWS: tuple[KernelSpec, ...] = (
    *_rows(_ELEMENTWISE, _elementwise),
    *_rows(_OTHERS, _other),
)
