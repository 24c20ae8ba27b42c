"""What the library holds: one `KernelSpec` per kernel, in `KERNELS`.

A new elementwise kernel is a function in `elementwise.py` and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget.spec import ArgumentError, Call, DtypeRules, KernelSpec, Plan

from . import ahead, c_interfaces
from .plans import elementwise
from .plans_matmul import matmul
from .plans_reduction import reduction
from .plans_rows import layer_norm, rms_norm, softmax

__all__ = ["KERNELS"]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = INTEGERS + FLOATS
ALL = ("bool", *NUMBERS)

_Shape = tuple[int, ...]


# ------------------------------------------------------------------------- dtypes of results


def _promoted(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    return rules.promote(*dtypes)


def _floating(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    return rules.floating(rules.promote(*dtypes))


def _quotient(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    """NumPy's `/`: integers and bool give float64."""
    return _quotient_of(rules.promote(*dtypes))


def _quotient_of(dtype: str) -> str:
    return dtype if dtype in FLOATS else "float64"


def _difference(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    dtype = rules.promote(*dtypes)
    if dtype == "bool":
        raise ArgumentError(
            "sub: both arguments are bool, of which NumPy knows no difference. Convert one to an "
            "integer."
        )
    return dtype


def _selected(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    return rules.promote(*dtypes[1:])


def _accumulated(rules: DtypeRules, dtype: str) -> str:
    return rules.accumulated(dtype)


def _same(rules: DtypeRules, dtype: str) -> str:
    return dtype


# ------------------------------------------------------------------------- references


def _numpy(name: str) -> Callable[..., Any]:
    """The NumPy function of that name."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):
            return getattr(np, name)(*arrays, **options)

    return reference


def _relu(x: Any) -> Any:
    import numpy as np

    return np.maximum(x, 0)


def _gelu(x: Any, approximate: str = "none") -> Any:
    import math

    import numpy as np

    with np.errstate(all="ignore"):
        if approximate == "tanh":
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        # erfc instead of 1 + erf: exact where the sum cancels
        erfc = np.vectorize(math.erfc, otypes=[np.float64])
        return 0.5 * x * erfc(-np.asarray(x) / math.sqrt(2))


def _softmax(x: Any, axis: int = -1) -> Any:
    import numpy as np

    x = np.asarray(x)
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        power = np.exp(x - x.max(axis=axis, keepdims=True))
        return power / power.sum(axis=axis, keepdims=True)


def _layer_norm(x: Any, weight: Any = 1, bias: Any = 0, eps: float = 1e-5) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + eps) * weight + bias


def _rms_norm(x: Any, weight: Any = 1, eps: float = 1e-6) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + eps) * weight


# ------------------------------------------------------------------------- options and examples


def _gelu_constants(call: Call) -> Mapping[str, Any]:
    approximate = call.options["approximate"]
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            f"gelu: approximate is {approximate!r}; it has to be 'none' (exact, with erf) or "
            "'tanh'."
        )
    return {"TANH": approximate == "tanh"}


def _alike(count: int) -> Callable[[_Shape], Sequence[_Shape]]:
    return lambda shape: [shape] * count


def _with_last_axis(count: int) -> Callable[[_Shape], Sequence[_Shape]]:
    """x, and `count` vectors as long as its last axis."""
    return lambda shape: [shape, *[shape[-1:]] * count]


def _matrices(shape: _Shape) -> Sequence[_Shape]:
    """(M, K) gives (M, K) @ (K, M); further axes in front are a batch."""
    if len(shape) < 2:
        return [shape, shape]
    return [shape, (*shape[:-2], shape[-1], shape[-2])]


# ------------------------------------------------------------------------- the specs


def _elementwise(
    name: str,
    inputs: str,
    summary: str,
    reference: Callable[..., Any],
    *,
    result: Callable[[DtypeRules, Sequence[str]], str] = _promoted,
    dtypes: tuple[str, ...] = ALL,
    options: Mapping[str, Any] | None = None,
    constants: Callable[[Call], Mapping[str, Any]] | None = None,
    apart: tuple[str, ...] = (),
    weak: Callable[[str], str] | None = None,
    built: Sequence[dict[str, Any]] = ({},),
    masks: tuple[str, ...] = (),
    flags: Mapping[str, str] | None = None,
) -> KernelSpec:
    names = tuple(inputs.split())
    return KernelSpec(
        name,
        names,
        elementwise(name, result, dtypes, constants=constants),
        category="elementwise",
        summary=summary,
        dtypes=dtypes,
        options=options or {},
        apart=apart,
        weak=weak,
        reference=reference,
        examples=_alike(len(names)),
        complete=True,
        ahead=ahead.elementwise(len(names), *built),
        c=c_interfaces.elementwise(name, len(names), masks, flags),
        elementwise=True,
    )


def _reduction(
    name: str, plan: Callable[[Call], Plan], summary: str, *, identity: bool
) -> KernelSpec:
    return KernelSpec(
        name,
        ("x",),
        plan,
        category="reduction",
        summary=summary,
        dtypes=ALL,
        options={"axis": None, "keepdims": False},
        reference=_numpy(name),
        examples=_alike(1),
        complete=True,
        ahead=ahead.reduction,
        c=c_interfaces.reduction(name, identity=identity),
    )


KERNELS: tuple[KernelSpec, ...] = (
    _elementwise("add", "a b", "a + b; for bool: a or b", _numpy("add")),
    _elementwise("sub", "a b", "a - b", _numpy("subtract"), result=_difference),
    _elementwise("mul", "a b", "a * b; for bool: a and b", _numpy("multiply")),
    _elementwise(
        "div",
        "a b",
        "a / b; integers give float64",
        _numpy("divide"),
        result=_quotient,
        weak=_quotient_of,  # 1000 divides uint8, as NumPy never computes in uint8 here
    ),
    _elementwise("maximum", "a b", "the larger of a and b; nan if one is nan", _numpy("maximum")),
    _elementwise("relu", "x", "max(x, 0)", _relu, dtypes=NUMBERS),
    _elementwise(
        "gelu",
        "x",
        "x * (1 + erf(x / sqrt 2)) / 2, or its form with tanh",
        _gelu,
        dtypes=FLOATS,
        options={"approximate": "none"},
        constants=_gelu_constants,
        built=({"approximate": "none"}, {"approximate": "tanh"}),
        flags={"TANH": "1 for the form with tanh, 0 for that with erf"},
    ),
    _elementwise("exp", "x", "e ** x", _numpy("exp"), result=_floating),
    _elementwise(
        "where",
        "condition a b",
        "a where condition, else b",
        _numpy("where"),
        result=_selected,
        apart=("condition",),
        masks=("a",),  # of the Triton function's parameters
    ),
    _reduction(
        "sum",
        reduction("sum", _accumulated, identity=True),
        "sum over the axes; bool and small integers in 64 bits",
        identity=True,
    ),
    _reduction(
        "max",
        reduction("max", _same, identity=False),
        "largest element over the axes",
        identity=False,
    ),
    KernelSpec(
        "softmax",
        ("x",),
        softmax,
        category="normalization",
        summary="exp(x - max x) / sum exp(x - max x) along axis",
        dtypes=FLOATS,
        options={"axis": -1},
        reference=_softmax,
        examples=_alike(1),
        complete=True,
        ahead=ahead.rows(0),
        c=c_interfaces.rows("softmax"),
    ),
    KernelSpec(
        "layer_norm",
        ("x", "weight?", "bias?"),
        layer_norm,
        category="normalization",
        summary="(x - mean x) / sqrt(var x + eps) * weight + bias over the last axis",
        dtypes=FLOATS,
        options={"eps": 1e-5},
        reference=_layer_norm,
        examples=_with_last_axis(2),
        complete=True,
        ahead=ahead.rows(2),
        c=c_interfaces.rows("layer_norm", ("weight", "bias"), ("eps",)),
    ),
    KernelSpec(
        "rms_norm",
        ("x", "weight?"),
        rms_norm,
        category="normalization",
        summary="x / sqrt(mean x^2 + eps) * weight over the last axis",
        dtypes=FLOATS,
        options={"eps": 1e-6},
        reference=_rms_norm,
        examples=_with_last_axis(1),
        complete=True,
        ahead=ahead.rows(1),
        c=c_interfaces.rows("rms_norm", ("weight",), ("eps",)),
    ),
    KernelSpec(
        "matmul",
        ("a", "b"),
        matmul,
        category="linear algebra",
        summary="a @ b: matrices, vectors, and stacks of matrices that broadcast",
        dtypes=ALL,
        reference=_numpy("matmul"),
        examples=_matrices,
        complete=True,
        ahead=ahead.matmul,
        c=c_interfaces.matmul(),
    ),
)
