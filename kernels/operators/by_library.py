"""Operators under a name of one library whose defaults, or whose order of arguments, differ from
the row's: that library's are meant. `onnx::X`, `tf.X`, `np.X`, `torch.X` are its names, and `X`
alone where no other library has it (`xtarget._kernels.names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xtarget.spec import ArgumentError, ArrayType, Call, DtypeRules, KernelSpec, Plan

from ..plans.elementwise import DtypeRule, compute_dtype
from ..plans.movement import integers
from ..plans.norms import batch_norm_in_order
from ..plans.options import found
from ..plans.random import dropout_alone
from . import (
    activations,
    angles,
    arithmetic,
    constants,
    entropy,
    gathers,
    images,
    movement,
    normalizations,
    pooling,
    products,
    randoms,
    reductions,
    resampling,
    scans,
    searching,
    segments,
    slices,
    sorting,
    torch_forms,
)
from .references import written
from .row import BY_LIBRARY, elementwise
from .rules import FLOATING, FLOATS, NUMBERS, PROMOTED, QUOTIENT
from .spellings import spellings

__all__ = ["ROWS"]

_FAMILIES = (
    activations, angles, arithmetic, constants, entropy, gathers, images, movement, normalizations,
    pooling, products, randoms, reductions, resampling, scans, searching, segments, slices, sorting,
)  # fmt: skip
_ROWS: Mapping[str, KernelSpec] = {
    row.name: row for family in _FAMILIES for row in reversed(family.ROWS)
}
_FLOAT64 = {"dtype": "float64"}
_KEPT = {"keepdims": True}
_NUMPYS = "zeros ones eye linspace logspace rand randn uniform exponential"
_WINDOWS = (
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d "
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"
)
_ADAPTIVE = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d"
)
_REDUCED = {
    "sum": "onnx::ReduceSum",
    "prod": "onnx::ReduceProd",
    "mean": "onnx::ReduceMean",
    "max": "onnx::ReduceMax",
    "min": "onnx::ReduceMin",
    "logsumexp": "onnx::ReduceLogSumExp",
    "log_sum": "onnx::ReduceLogSum ReduceLogSum",
    "l1_norm": "onnx::ReduceL1 ReduceL1",
    "norm": "onnx::ReduceL2 ReduceL2",
    "square_sum": "onnx::ReduceSumSquare ReduceSumSquare",
}
#: The row, its names there, and the defaults that differ.
_DEFAULTS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("hardsigmoid", "onnx::HardSigmoid HardSigmoid", {"alpha": 0.2}),
    ("argmax", "onnx::ArgMax ArgMax", {"axis": 0, **_KEPT}),
    ("argmin", "onnx::ArgMin ArgMin", {"axis": 0, **_KEPT}),
    ("rms_norm", "onnx::RMSNormalization RMSNormalization", {"eps": 1e-5}),
    ("max_pool", "onnx::MaxPool MaxPool", {"stride": 1}),
    ("lp_pool", "onnx::LpPool LpPool", {"stride": 1}),
    ("avg_pool", "onnx::AveragePool AveragePool",
     {"stride": 1, "count_include_pad": False}),
    *((row, names, _KEPT) for row, names in _REDUCED.items()),
    ("leaky_relu", "tf.leaky_relu tf.LeakyRelu", {"negative_slope": 0.2}),
    ("argmax", "tf.argmax", {"axis": 0}),
    ("argmin", "tf.argmin", {"axis": 0}),
    ("cumsum", "tf.cumsum", {"axis": 0}),
    ("cumprod", "tf.cumprod", {"axis": 0}),
    ("logcumsumexp", "tf.cumulative_logsumexp", {"axis": 0}),
    ("trace", "tf.trace np.linalg.trace numpy.linalg.trace matrix_trace",
     {"axis1": -2, "axis2": -1}),
    ("arange", "tf.range", {"dtype": "int32"}),
    ("bucketize", "tf.bucketize tf.Bucketize", {"right": True}),
    ("depth_to_space", "tf.depth_to_space tf.DepthToSpace", {"channels_last": True}),
    ("space_to_depth", "tf.space_to_depth tf.SpaceToDepth", {"channels_last": True}),
    ("resize_bilinear", "tf.resize image_resize", {"channels_last": True}),
    ("resize_nearest", "tf.resize_nearest_neighbor tf.ResizeNearestNeighbor",
     {"channels_last": True}),
    *((row, f"np.{row}", _FLOAT64) for row in _NUMPYS.split()),
    ("randn", "np.normal", _FLOAT64),
    ("cumsum", "np.cumsum", {"axis": None}),
    ("cumprod", "np.cumprod", {"axis": None}),
    ("take_along_axis", "np.take_along_axis", {"axis": -1}),
    ("diagonal", "tf.diag_part diag_part matrix_diag_part np.linalg.diagonal "
     "numpy.linalg.diagonal torch.linalg.diagonal", {"axis1": -2, "axis2": -1}),
    ("cross_entropy", "softmax_cross_entropy_loss_with_logits "
     "sparse_softmax_cross_entropy_loss_with_logits", {"reduction": "none"}),
    ("var", "torch.var", {"ddof": 1}),
    ("std", "torch.std", {"ddof": 1}),
    ("var_mean", "torch.var_mean", {"ddof": 1}),
    ("normalize", "torch.normalize", {"axis": 1}),
    ("one_hot", "torch.one_hot", {"dtype": "int64"}),
    ("resize_bilinear", "torch.upsample_bilinear", {"align_corners": True}),
)  # fmt: skip
#: What these libraries have no default for, where the row has one: the row, the names, the option.
_REQUIRED: Sequence[tuple[str, str, str]] = (
    ("repeat", "np.repeat torch.repeat_interleave tf.repeat", "repeats"),
    ("tile", "np.tile torch.tile tf.tile onnx::Tile", "reps"),
    ("roll", "np.roll torch.roll tf.roll", "shift"),
    ("pad", "np.pad tf.pad onnx::Pad", "width"),
    ("split", "onnx::Split", "sections"),
    ("topk", "torch.topk onnx::TopK", "k"),
    ("kthvalue", "torch.kthvalue", "k"),
    ("full_like", "np.full_like torch.full_like", "value"),
    ("one_hot", "tf.one_hot", "classes"),
    ("einsum", "np.einsum numpy.einsum torch.einsum tf.einsum", "subscripts"),
    ("unsorted_segment_sum", "tf.unsorted_segment_sum", "segments"),
    ("randperm", "torch.randperm", "n"),
    *((row, f"torch.{row}", "kernel") for row in _WINDOWS.split()),
    *((row, f"torch.{row}", "size") for row in _ADAPTIVE.split()),
)
#: torch's words for the modes of pad.
_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
#: Where the device functions of rows are, and what their names are if they are not the rows'.
_FILES = {"abs": "arithmetic", "round": "arithmetic", "sinc": "angles"}
_FUNCTIONS = {"abs": "abs_", "round": "round_"}
#: Names of the arguments behind x where scale and bias come first.
_SCALE_FIRST = ("scale", "bias", "mean", "variance")


def _named(of: str, names: str, **changes: Any) -> KernelSpec:
    """A row with changes; it is called by the first of the names, which errors say."""
    return replace(
        _ROWS[of], name=names.split()[0], aliases=tuple(names.split()), category=BY_LIBRARY,
        words=spellings(_ROWS[of]), ahead=None, c=None, **changes,
    )  # fmt: skip


def _with_defaults(of: str, names: str, defaults: Mapping[str, Any]) -> KernelSpec:
    """A row with other defaults."""
    said = ", ".join(f"{name}={value!r}" for name, value in defaults.items())
    return _named(
        of,
        names,
        summary=f"{of} with {names.split()[0]}'s defaults: {said}",
        options={**_ROWS[of].options, **defaults},
    )


def _division(names: str, of_integers: str) -> KernelSpec:
    """ONNX divides integers towards 0 and TensorFlow's first division downwards, where NumPy and
    torch give floats.
    """
    floats, integers = _ROWS["div"], _ROWS[of_integers]

    def whole(dtypes: Sequence[str]) -> bool:
        return all("int" in dtype for dtype in dtypes)

    def plan(call: Call) -> Plan:
        arrays = [arg.dtype for arg in call.args if isinstance(arg, ArrayType)]
        return (integers if whole(arrays) else floats).plan(call)

    def reference(a: Any, b: Any) -> Any:
        import numpy as np

        chosen = integers if whole([np.asarray(one).dtype.name for one in (a, b)]) else floats
        assert chosen.reference is not None
        return chosen.reference(a, b)

    return _named(
        "div", names, plan=plan, reference=reference, weak=None, exact=True,
        summary=f"div; of integers {of_integers}", tolerance=integers.tolerance,
    )  # fmt: skip


def _torch_pad() -> KernelSpec:
    """torch's pad has the pairs of the last axes, the last one's first, and other words for
    modes.
    """
    row = _ROWS["pad"]

    def numpys(pad: Any, ndim: int, mode: Any) -> dict[str, Any]:
        pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
        width = [number for pair in [(0, 0)] * (ndim - len(pairs)) + pairs for number in pair]
        return {"width": tuple(width), "mode": _PAD_MODES[mode]}

    def plan(call: Call) -> Plan:
        pad, mode, ndim = call.options["pad"], call.options["mode"], call.array(0).ndim
        if (
            not isinstance(pad, tuple | list) or len(pad) % 2 or len(pad) > 2 * ndim
            or min(pad, default=0) < 0
        ):  # fmt: skip
            raise ArgumentError(
                f"{call.kernel}: pad is {pad!r} for an array of {ndim} dimensions; it has to be a "
                "pair, from 0 on, for each of the last axes, the last one's first: pad=(1, 2)."
            )
        if mode not in _PAD_MODES:
            modes = " or ".join(map(repr, _PAD_MODES))
            raise ArgumentError(f"{call.kernel}: mode is {mode!r}; it has to be {modes}.")
        options = {"value": call.options["value"] or 0, **numpys(pad, ndim, mode)}
        return row.plan(replace(call, options=options))

    def reference(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
        assert row.reference is not None
        return row.reference(x, **numpys(pad, x.ndim, mode), value=value or 0)

    return _named(
        "pad", "torch.pad torch.constant_pad_nd", plan=plan, reference=reference,
        options={"pad": None, "mode": "constant", "value": None},
        summary="pad of the last axes as torch says it: pad=(left, right, top, bottom), mode "
        "constant, reflect, replicate or circular",
    )  # fmt: skip


def _rms_norm() -> KernelSpec:
    """torch's eps is that of the dtype in which it computes."""
    row = _ROWS["rms_norm"]

    def reference(x: Any, weight: Any = 1, eps: float | None = None) -> Any:
        import numpy as np

        assert row.reference is not None
        wide = np.result_type(x, weight) == np.float64
        own = (2.0**-52 if wide else 2.0**-23) if eps is None else eps
        return row.reference(np.asarray(x, np.float64), weight, eps=own)

    return _named(
        "rms_norm", "torch.rms_norm", options={"eps": None}, reference=reference, exact=True,
        summary="rms_norm whose eps is that of float64, or of float32 for other dtypes",
    )  # fmt: skip


def _rrelu() -> KernelSpec:
    """torch's leaky relu of a random slope, as it is outside of training."""
    return elementwise(
        "torch.rrelu", "x", "x; x (lower + upper) / 2 below 0, as torch's outside of training",
        written("np.where(a > 0, a, a * ((lower + upper) / 2))"), "torch.rrelu rrelu RReLU",
        file="activations", rule=PROMOTED, dtypes=FLOATS, category=BY_LIBRARY, function="rrelu",
        numbers={"lower": 1 / 8, "upper": 1 / 3}, tolerance=(2, 0),
    )  # fmt: skip


def _onnx_pow() -> KernelSpec:
    """ONNX's has the dtype of the base."""

    def rule(
        rules: DtypeRules, given: Sequence[str], _: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        return given[:1], (compute_dtype(rules.promote(*given)),) * 2

    def reference(a: Any, b: Any) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):
            return np.power(a, b).astype(np.asarray(a).dtype)

    return elementwise(
        "onnx::Pow", "a b", "a ** b in the dtype of a", reference, "onnx::Pow", file="powers",
        function="pow_", rule=rule, dtypes=NUMBERS, category=BY_LIBRARY, exact=True,
        tolerance=(32, 0),
    )  # fmt: skip


def _without_mask() -> KernelSpec:
    """torch's dropout gives no mask."""
    row = _ROWS["dropout"]

    def reference(x: Any, **options: Any) -> Any:
        assert row.reference is not None
        return row.reference(x, **options)[0]

    return _named(
        "dropout", "torch.dropout", plan=dropout_alone, reference=reference,
        summary="dropout without the mask, which is dropout's second result",
    )  # fmt: skip


def _instance_norm() -> KernelSpec:
    """torch.nn.functional's has the running mean and variance before weight and bias."""
    return _named(
        "instance_norm", "torch.nn.functional.instance_norm", inputs=("x",),
        summary="instance_norm without weight and bias, which stand elsewhere there: give them to "
        "instance_norm",
    )  # fmt: skip


def _bincount(names: str, inputs: tuple[str, ...], summary: str) -> KernelSpec:
    """torch and NumPy count up to the largest integer, and at least up to another."""
    row = _ROWS["bincount"]

    def plan(call: Call) -> Plan:
        (least,) = integers(call, "minlength", count=1)
        length = max(found(call, "length"), least)
        return row.plan(replace(call, options={"length": length}))

    def reference(
        index: Any, weights: Any = None, length: int | None = None, minlength: int = 0
    ) -> Any:
        assert row.reference is not None
        whole = max(int(index.max()) + 1 if length is None else length, minlength)
        return row.reference(index, weights, length=whole)

    return _named(
        "bincount", names, plan=plan, reference=reference, inputs=inputs, summary=summary,
        options={"length": None, "minlength": 0},
    )  # fmt: skip


def _floats(name: str, of: str, rule: DtypeRule) -> KernelSpec:
    """NumPy's gives floats, of integers and bool too."""
    row = _ROWS[of]
    assert row.reference is not None
    return elementwise(
        f"np.{name}", "x", f"{of}; integers and bool are converted to floats", row.reference,
        f"np.{name} numpy.{name}", file=_FILES[of], function=_FUNCTIONS.get(of, of), rule=rule,
        category=BY_LIBRARY, tolerance=row.tolerance or (0, 0),
    )  # fmt: skip


def _batch_norm() -> KernelSpec:
    """ONNX and ATen give the scale and the bias before the mean and the variance."""
    row = _ROWS["batch_norm"]

    def reference(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, eps: float) -> Any:
        assert row.reference is not None
        return row.reference(x, mean, variance, scale, bias, eps=eps)

    return _named(
        "batch_norm",
        "onnx::BatchNormalization BatchNormalization torch.batch_norm aten::batch_norm "
        "native_batch_norm native_batch_norm_legit_no_training",
        inputs=("x", *_SCALE_FIRST), reference=reference, plan=batch_norm_in_order(_SCALE_FIRST),
        summary="batch_norm whose scale and bias stand before the mean and the variance",
    )  # fmt: skip


ROWS: tuple[KernelSpec, ...] = (
    *(_with_defaults(*one) for one in _DEFAULTS),
    *(
        replace(_with_defaults(of, names, {option: None}), found={})
        for of, names, option in _REQUIRED
    ),
    _division("onnx::Div", "trunc_divide"),
    _division("tf.Div", "trunc_divide"),
    _division("tf.div", "floor_divide"),
    _torch_pad(),
    _rms_norm(),
    _named(
        "sort_with_indices", "torch.sort", summary="elements in order along axis, and their indices"
    ),
    _rrelu(),
    _onnx_pow(),
    _without_mask(),
    _instance_norm(),
    _bincount(
        "torch.bincount", ("index", "weights?"), "bincount up to the largest, or up to minlength"
    ),
    _bincount(
        "np.bincount numpy.bincount",
        ("index",),
        "bincount up to the largest, or up to "
        "minlength, without weights, whose sums NumPy has in float64: give them to bincount",
    ),
    _floats("fabs", "abs", FLOATING),
    _floats("rint", "round", FLOATING),
    _floats("sinc", "sinc", QUOTIENT),
    _batch_norm(),
    *torch_forms.ROWS,
)
