"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xtarget.spec import CInterface, DtypeRules, KernelSpec

from .. import ahead, c_interfaces
from ..plans.folds import arg, extremes, fold, nansum, total
from ..plans.selected import highest, lowest, mean_where, where
from ..plans.statistics import logsumexp, nanmean, norm, var
from .references import numpy as _ignoring_errors
from .row import along_axis
from .rules import quotient_of

__all__ = ["ROWS"]


# ------------------------------------------------------------------------- dtypes of results


def _accumulated(rules: DtypeRules, dtype: str) -> str:
    return rules.accumulated(dtype)


def _same(rules: DtypeRules, dtype: str) -> str:
    return dtype


def _mean(rules: DtypeRules, dtype: str) -> str:
    return quotient_of(dtype)


def _bool(rules: DtypeRules, dtype: str) -> str:
    return "bool"


def _int64(rules: DtypeRules, dtype: str) -> str:
    return "int64"


def _nothing(value: float) -> Callable[[str], float]:
    return lambda _: value


# ------------------------------------------------------------------------- references


def numpy(name: str) -> Callable[..., Any]:
    """The NumPy function of that name; options that are None are not given, nothing is said of
    empty or nan slices.
    """
    function = _ignoring_errors(name)

    def reference(x: Any, where: Any = None, **options: Any) -> Any:
        import warnings

        options["where"] = where
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return function(x, **{n: v for n, v in options.items() if v is not None})

    return reference


def _of(name: str, change: str) -> Callable[..., Any]:
    def reference(x: Any, **options: Any) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):
            x = np.asarray(x)
            wide = x.astype(np.add.reduce(np.zeros(0, x.dtype)).dtype)
            return numpy(name)(getattr(np, change)(wide), **options)

    return reference


def _var(name: str) -> Callable[..., Any]:
    def reference(
        x: Any, axis: Any = None, keepdims: bool = False, ddof: int = 0, correction: Any = None
    ) -> Any:
        ddof = ddof if correction is None else correction
        found = numpy("var" if name == "var_mean" else name)(
            x, axis=axis, keepdims=keepdims, ddof=ddof
        )
        if name == "var_mean":
            return found, numpy("mean")(x, axis=axis, keepdims=keepdims)
        return found

    return reference


def _aminmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return (
        numpy("min")(x, axis=axis, keepdims=keepdims),
        numpy("max")(x, axis=axis, keepdims=keepdims),
    )


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        x = np.asarray(x, float) if np.asarray(x).dtype.kind in "biu" else np.asarray(x)
        top = x.max(axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isinf(top), 0, top)
        total = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
        return total if keepdims else total.squeeze(axis if axis is not None else None)


def _norm(x: Any, p: float = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        x = np.asarray(x)
        x = np.abs(x if x.dtype.kind == "f" else x.astype(float))
        how = {"axis": axis, "keepdims": keepdims}
        if p == np.inf:
            return x.max(**how)
        if p == -np.inf:
            return x.min(**how)
        if p == 0:
            return (x != 0).sum(**how).astype(x.dtype)
        return (x**p).sum(**how) ** (1 / p)


def _logsum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.log(np.sum(x, axis=axis, keepdims=keepdims))


# ------------------------------------------------------------------------- the rows


def _reduction(
    *facts: Any,
    options: Mapping[str, Any] | None = None,
    c: CInterface | None = None,
    where: bool = False,
    built: bool = False,
    tolerance: tuple[float, float] = (0, 0),
) -> KernelSpec:
    """A row.

    Args:
        facts: as of `along_axis`.
        built: bundles hold it for arrays of all proportions, as they do what C can call.
    """
    return along_axis(
        *facts,
        inputs="x where?" if where else "x",
        category="reduction",
        options={"axis": None, "keepdims": False, **(options or {})},
        apart=("where",) if where else (),
        ahead=ahead.reduction if c or built else None,
        c=c,
        tolerance=tolerance,
    )


_INITIAL: Mapping[str, Any] = {"initial": None}
_LESS: Mapping[str, Any] = {"ddof": 0, "correction": None}
#: Up to 64 additions in turn (128 of columns), then without a loss.
_SUM = (16, 16)

ROWS: tuple[KernelSpec, ...] = (
    _reduction("sum", where(total(_accumulated), _nothing(0)), "sum over the axes, of the elements "
               "that where chooses; bool and small integers in 64 bits", numpy("sum"),
               "reduce_sum ReduceSum", tolerance=_SUM, options=_INITIAL, where=True,
               c=c_interfaces.reduction("sum", identity=True)),
    _reduction("max", where(fold("max", _same), lowest, initial=True), "largest element over the "
               "axes, of those that where chooses and initial", numpy("max"),
               "amax reduce_max ReduceMax", options=_INITIAL, where=True,
               c=c_interfaces.reduction("max", identity=False)),
    _reduction("min", where(fold("min", _same), highest, initial=True), "smallest element over the "
               "axes, of those that where chooses and initial", numpy("min"),
               "amin reduce_min ReduceMin", options=_INITIAL, where=True, built=True),
    _reduction("prod", where(fold("prod", _accumulated, identity=True), _nothing(1)), "product "
               "over the axes, of the elements that where chooses; bool and small integers in 64 "
               "bits, half types in float32 and rounded once (torch rounds each product of "
               "float16: its inf, 0 or nan may be a number here)",
               numpy("prod"), "reduce_prod ReduceProd", tolerance=(256, 0), options=_INITIAL,
               where=True),
    _reduction("mean", mean_where(total(_mean, FINISH="mean"), _mean), "sum / number of elements, "
               "of those that where chooses; integers in float64",
               numpy("mean"), "reduce_mean ReduceMean", tolerance=_SUM, where=True, built=True),
    _reduction("var", var(_mean, "mean"), "mean of (x - mean x)^2, of which ddof are not counted",
               _var("var"), "variance reduce_variance", tolerance=(64, 0), options=_LESS),
    _reduction("std", var(_mean, "deviation"), "sqrt(var)", _var("std"),
               "stdev standarddeviation reduce_stdev", tolerance=(64, 0), options=_LESS),
    _reduction("var_mean", var(_mean, "mean", with_mean=True), "the variance, and the mean",
               _var("var_mean"), tolerance=(64, 16), options=_LESS),
    _reduction("any", where(fold("max", _bool, "nonzero", identity=True, begin=0), _nothing(0)),
               "whether an element (that where chooses) is not 0", numpy("any"), "reduce_any",
               where=True),
    _reduction("all", where(fold("min", _bool, "nonzero", identity=True), _nothing(1)),
               "whether no element (that where chooses) is 0", numpy("all"), "reduce_all",
               where=True),
    _reduction("count_nonzero", total(_int64, "nonzero", given=True),
               "number of elements that are not 0", numpy("count_nonzero")),
    _reduction("argmax", arg(True), "index of the largest element along axis (None: in all): of "
               "the first one, or of the first nan", numpy("argmax"), "arg_max imax"),
    _reduction("argmin", arg(False), "index of the smallest element along axis (None: in all): of "
               "the first one, or of the first nan", numpy("argmin"), "arg_min imin"),
    _reduction("aminmax", extremes, "the smallest, and the largest element", _aminmax, "min_max"),
    _reduction("norm", norm(_mean), "(sum |x|^p)^(1/p); p = 0: how many are not 0, inf: largest "
               "|x|, -inf: smallest", _norm, "vector_norm linalg_vector_norm norm2 reduce_norm2 "
               "reduce_l2 frobenius_norm", tolerance=(32, 0), options={"p": 2.0}),
    _reduction("max_norm", fold("max", _mean, "abs"), "largest |x|", _of("max", "abs"),
               "normmax norm_max linf_norm"),
    _reduction("l1_norm", total(_accumulated, "abs"), "sum |x|", _of("sum", "abs"),
               "norm1 reduce_norm1 reduce_l1 asum", tolerance=_SUM),
    _reduction("square_sum", total(_accumulated, "square"), "sum x^2", _of("sum", "square"),
               "reduce_sum_square sum_of_squares", tolerance=_SUM),
    _reduction("mean_square", total(_mean, "square", "mean"), "mean of x^2", _of("mean", "square"),
               "reduce_mean_square", tolerance=_SUM),
    _reduction("log_sum", total(_mean, FINISH="log"), "log(sum x)", _logsum,
               "reduce_log_sum", tolerance=(32, 32)),
    _reduction("logsumexp", logsumexp(_mean), "log(sum(exp(x))), which does not overflow",
               _logsumexp, "log_sum_exp reduce_logsumexp reduce_log_sum_exp ReduceLogSumExp",
               tolerance=(32, 32)),
    _reduction("nansum", nansum(_accumulated), "sum of what is not nan", numpy("nansum"),
               tolerance=_SUM),
    _reduction("nanmean", nanmean(_mean), "mean of what is not nan", numpy("nanmean"),
               tolerance=_SUM),
    _reduction("nanmax", fold("fmax", _same), "largest of what is not nan; nan if nothing is",
               numpy("nanmax")),
    _reduction("nanmin", fold("fmin", _same), "smallest of what is not nan; nan if nothing is",
               numpy("nanmin")),
)  # fmt: skip
