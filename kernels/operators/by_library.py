"""Operators under a name of one library whose defaults, or whose order of arguments, differ from
the row's: that library's are meant. `onnx::X`, `tf.X`, `np.X`, `torch.X` are its names, and `X`
alone where no other library has it (`xtarget._kernels.names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xtarget.spec import ArrayType, Call, KernelSpec, Plan

from ..plans.norms import batch_norm_in_order
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
    slices,
)
from .row import BY_LIBRARY

__all__ = ["ROWS"]

_FAMILIES = (
    activations, angles, arithmetic, constants, entropy, gathers, images, movement, normalizations,
    pooling, products, randoms, reductions, resampling, scans, searching, slices,
)  # fmt: skip
_ROWS: Mapping[str, KernelSpec] = {
    row.name: row for family in _FAMILIES for row in reversed(family.ROWS)
}
_FLOAT64 = {"dtype": "float64"}
_KEPT = {"keepdims": True}
_NUMPYS = "zeros ones eye linspace logspace rand randn uniform exponential"
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
#: The library, the row, its names there, and the defaults that differ.
_DEFAULTS: Sequence[tuple[str, str, str, Mapping[str, Any]]] = (
    ("onnx", "hardsigmoid", "onnx::HardSigmoid HardSigmoid", {"alpha": 0.2}),
    ("onnx", "argmax", "onnx::ArgMax ArgMax", {"axis": 0, **_KEPT}),
    ("onnx", "argmin", "onnx::ArgMin ArgMin", {"axis": 0, **_KEPT}),
    ("onnx", "rms_norm", "onnx::RMSNormalization RMSNormalization", {"eps": 1e-5}),
    ("onnx", "max_pool", "onnx::MaxPool MaxPool", {"stride": 1}),
    ("onnx", "lp_pool", "onnx::LpPool LpPool", {"stride": 1}),
    ("onnx", "avg_pool", "onnx::AveragePool AveragePool",
     {"stride": 1, "count_include_pad": False}),
    *(("onnx", row, names, _KEPT) for row, names in _REDUCED.items()),
    ("tf", "leaky_relu", "tf.leaky_relu tf.LeakyRelu", {"negative_slope": 0.2}),
    ("tf", "argmax", "tf.argmax", {"axis": 0}),
    ("tf", "argmin", "tf.argmin", {"axis": 0}),
    ("tf", "cumsum", "tf.cumsum", {"axis": 0}),
    ("tf", "cumprod", "tf.cumprod", {"axis": 0}),
    ("tf", "logcumsumexp", "tf.cumulative_logsumexp", {"axis": 0}),
    ("tf", "trace", "tf.trace np.linalg.trace numpy.linalg.trace matrix_trace",
     {"axis1": -2, "axis2": -1}),
    ("tf", "arange", "tf.range", {"dtype": "int32"}),
    ("tf", "bucketize", "tf.bucketize tf.Bucketize", {"right": True}),
    ("tf", "depth_to_space", "tf.depth_to_space tf.DepthToSpace", {"channels_last": True}),
    ("tf", "space_to_depth", "tf.space_to_depth tf.SpaceToDepth", {"channels_last": True}),
    ("tf", "resize_bilinear", "tf.resize image_resize", {"channels_last": True}),
    ("tf", "resize_nearest", "tf.resize_nearest_neighbor tf.ResizeNearestNeighbor",
     {"channels_last": True}),
    *(("np", row, f"np.{row}", _FLOAT64) for row in _NUMPYS.split()),
    ("np", "randn", "np.normal", _FLOAT64),
    ("np", "cumsum", "np.cumsum", {"axis": None}),
    ("np", "cumprod", "np.cumprod", {"axis": None}),
    ("np", "take_along_axis", "np.take_along_axis", {"axis": -1}),
    ("tf", "diagonal", "tf.diag_part diag_part matrix_diag_part np.linalg.diagonal "
     "numpy.linalg.diagonal torch.linalg.diagonal", {"axis1": -2, "axis2": -1}),
    ("nd4j", "cross_entropy", "softmax_cross_entropy_loss_with_logits "
     "sparse_softmax_cross_entropy_loss_with_logits", {"reduction": "none"}),
    ("torch", "var", "torch.var", {"ddof": 1}),
    ("torch", "std", "torch.std", {"ddof": 1}),
    ("torch", "var_mean", "torch.var_mean", {"ddof": 1}),
    ("torch", "normalize", "torch.normalize", {"axis": 1}),
    ("torch", "rms_norm", "torch.rms_norm", {"eps": 2.0**-23}),  # finfo(float32).eps
)  # fmt: skip
#: Names of the arguments behind x where scale and bias come first.
_SCALE_FIRST = ("scale", "bias", "mean", "variance")


def _with_defaults(library: str, of: str, names: str, defaults: Mapping[str, Any]) -> KernelSpec:
    """A row with other defaults; it is called after the first of the names."""
    row = _ROWS[of]
    first = names.split()[0]
    word = first.rpartition(":")[2].rpartition(".")[2]
    said = ", ".join(f"{name}={value!r}" for name, value in defaults.items())
    return replace(
        row,
        name=f"{library}_{word}",
        summary=f"{of} with {first}'s defaults: {said}",
        options={**row.options, **defaults},
        category=BY_LIBRARY,
        aliases=tuple(names.split()),
        ahead=None,
        c=None,
    )


def _onnx_div() -> KernelSpec:
    """ONNX divides integers towards 0, where NumPy and torch give floats."""
    floats, integers = _ROWS["div"], _ROWS["trunc_divide"]

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

    return replace(
        floats, name="onnx_Div", plan=plan, reference=reference, weak=None, exact=True,
        summary="div; of integers trunc_divide", aliases=("onnx::Div",), category=BY_LIBRARY,
        tolerance=integers.tolerance, ahead=None, c=None,
    )  # fmt: skip


def _batch_norm() -> KernelSpec:
    """ONNX and ATen give the scale and the bias before the mean and the variance."""
    row = _ROWS["batch_norm"]

    def reference(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, eps: float) -> Any:
        assert row.reference is not None
        return row.reference(x, mean, variance, scale, bias, eps=eps)

    return replace(
        row, name="onnx_BatchNormalization", inputs=("x", *_SCALE_FIRST), reference=reference,
        plan=batch_norm_in_order(_SCALE_FIRST), category=BY_LIBRARY, ahead=None, c=None,
        summary="batch_norm whose scale and bias stand before the mean and the variance",
        aliases=("onnx::BatchNormalization", "BatchNormalization", "torch.batch_norm",
                 "aten::batch_norm", "native_batch_norm", "native_batch_norm_legit_no_training"),
    )  # fmt: skip


ROWS: tuple[KernelSpec, ...] = (
    *(_with_defaults(*one) for one in _DEFAULTS),
    _onnx_div(),
    _batch_norm(),
)
