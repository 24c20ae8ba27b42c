"""Names that other libraries have and no kernel here can serve, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REFUSED"]

_SHAPE = "an array's shape is known without running a kernel: read {} of the array"
_REASONS: Mapping[str, str] = {
    "shape_of ShapeOf shape Shape": _SHAPE.format(".shape"),
    "size Size numel": _SHAPE.format(".size"),
    "size_at SizeAt": _SHAPE.format(".shape[axis]"),
    "rank Rank": _SHAPE.format(".ndim"),
    "min_max_datatype MinMaxDatatype": "a dtype's limits are known without a kernel: ask "
    "numpy.finfo or numpy.iinfo",
    "sym_size sym_stride sym_numel sym_storage_offset": _SHAPE.format(".shape or .strides"),
    "item local_scalar_dense": "one element is read by the library of the arrays, as x.item() does",
    "as_strided": "a view is made by the library of the arrays, as its own as_strided does",
    "empty empty_strided empty_like": "an array without values is made by the library of the "
    "arrays, as numpy.empty does",
    "fft fft_r2c fft_c2r fft_c2c": "there are no complex dtypes here: call the library of the "
    "arrays or the vendor's",
    "create Create": "an array without values is made by the library of the arrays, as "
    "numpy.empty does; run zeros or full for one with values",
    "set_scalar SetScalar": "one element is set by the library of the arrays, as x[i] = value "
    "does; run scatter_nd_update for many",
    "reshape_no_copy ReshapeNoCopy": "a view is made by the library of the arrays, as x.reshape "
    "does; run reshape for an array of its own",
    "fused_elementwise_chain FusedElementwiseChain": "a chain of operators is a function: "
    "decorate it with xtarget.fuse, which makes one kernel of it",
    "rms_norm_linear RmsNormLinear": "no kernel here does both: run rms_norm, then linear",
    "fused_rms_norm_swiglu FusedRmsNormSwiglu": "no kernel here does both: run rms_norm, then "
    "fused_gemm_swiglu",
    "fused_bias_dropout_residual FusedBiasDropoutResidual": "no kernel here does all: run add, "
    "dropout and add, in a function of xtarget.fuse",
    "apply_alibi ApplyAlibi": "attention adds the biases itself: give it slopes",
    "polar view_as_complex view_as_real": "there are no complex dtypes here: cos and sin of the "
    "angle, each times the length, are its two parts",
    "allclose": "one bool for two arrays: run isclose, then all",
    "weight_norm_interface weight_norm_interface_backward weight_norm": "no kernel here does both: "
    "run norm over the axes, then divide and multiply, in a function of xtarget.fuse",
    "narrow": "a slice is a view in the library of the arrays; run strided_slice "
    "for an array of its own",
    "fliplr flipud": "run flip: axis=1 is fliplr, axis=0 flipud",
    "chunk": "run split with the number of parts, or with the length of each where they differ",
    "meshgrid": "each of its results is one array repeated: run broadcast_to",
    "ptp": "no kernel here does both: run max and min over the axis, then sub",
    "percentile": "run quantile with a hundredth of the percentage",
    "vecdot": "no kernel here does both: run mul, then sum over the axis, in a function of "
    "xtarget.fuse",
    "cosine_similarity": "no kernel here does all: run mul, sum and norm over the axis, in a "
    "function of xtarget.fuse",
    "multinomial": "no kernel here does all: run cumsum of the weights, then searchsorted of rand "
    "times their sum",
    "partition argpartition": "no kernel here puts elements in order in part: run sort, argsort or "
    "topk",
    "sconv2d": "no kernel here does both convolutions: run depthwise_conv2d, then conv2d with a "
    "kernel of 1x1",
}
REFUSED: Mapping[str, str] = {
    name: reason for names, reason in _REASONS.items() for name in names.split()
}
