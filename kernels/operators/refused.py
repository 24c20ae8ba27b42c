"""Names that other libraries have and no kernel here can serve, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REFUSED"]

_SHAPE = "an array's shape is known without running a kernel: read {} of the array"
_LAST = "TensorFlow has channels last, weights as (height, width, in, out) and padding as a word: "
_LABELS = "TensorFlow gives the labels first{}: run {}(x, labels)"
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
    "onnx::Sum onnx::Mean": "ONNX's adds any number of arrays: run add (and div by their number); "
    "sum and mean are ONNX's ReduceSum and ReduceMean",
    "onnx::Dropout": "ONNX's gives x itself unless training_mode is true: run dropout for training",
    "onnx::GRU onnx::LSTM onnx::RNN": "ONNX has an axis of directions, and other gates first: "
    "run gru, lstm or simple_rnn with weights in torch's order, i f g o and r z n",
    "Resize onnx::Resize": "ONNX's nearest takes half-pixel places and prefers the lower one: run "
    "interpolate, whose nearest is ONNX's asymmetric with floor, and whose linear is its linear",
    "eye_like EyeLike": "run eye with the rows and columns of the array",
    "NonZero": "run nonzero, whose rows are the columns of ONNX's",
    "BitShift": "run left_shift or right_shift",
    "Trilu": "run triu or tril",
    "SkipLayerNormalization SkipSimplifiedLayerNormalization": "its second result is a mean: run "
    "add_layer_norm or add_rms_norm with eps=1e-12, whose second result is the sum (its fourth)",
    "tf.conv1d tf.conv2d tf.conv3d tf.convolution tf.depthwise_conv2d tf.conv_transpose tf.Conv2D "
    "tf.Conv3D tf.conv2d_transpose": _LAST + "run conv2d (conv1d, conv3d, depthwise_conv2d, "
    "conv_transpose2d) with channels_last=True and weights as (out, in, height, width)",
    "Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative": _LAST + "run "
    "conv_transpose2d, conv_transpose3d or depthwise_conv2d with channels_last=True",
    "tf.max_pool tf.max_pool1d tf.max_pool2d tf.max_pool3d tf.MaxPool tf.avg_pool tf.avg_pool1d "
    "tf.avg_pool2d tf.avg_pool3d tf.AvgPool": "TensorFlow has channels last and padding as a word: "
    "run max_pool, or avg_pool with count_include_pad=False, with channels_last=True",
    "tf.resize_bilinear tf.resize_bicubic tf.ResizeBilinear tf.ResizeBicubic resize_images "
    "tf.resize_images": "TensorFlow's first resizers have places without half pixels: run "
    "resize_bilinear or resize_bicubic with channels_last=True for those of tf.image.resize",
    "tf.softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits "
    "tf.softmax_cross_entropy": _LABELS.format(" and a loss for each row", "cross_entropy")
    + " with reduction='none'",
    "tf.sparse_softmax_cross_entropy tf.sparse_softmax_cross_entropy_with_logits": _LABELS.format(
        "", "cross_entropy"
    ),
    "tf.sigmoid_cross_entropy tf.sigmoid_cross_entropy_with_logits": _LABELS.format(
        "", "bce_with_logits_loss"
    ),
    "log_poisson_loss tf.log_poisson_loss": "TensorFlow gives the targets first and a loss of each "
    "element: run poisson_nll_loss(x, targets) with reduction='none'",
    "tf.log_loss": _LABELS.format("", "log_loss"),
    "tf.hinge_loss": "TensorFlow gives labels of 0 and 1 first: run hinge_loss(x, 2 labels - 1)",
    "tf.in_top_k": "TensorFlow gives the targets first: run in_top_k(predictions, targets)",
    "tf.unique tf.unique_with_counts unique_with_counts": "TensorFlow's elements stand as they "
    "come first: run unique, unique_inverse or unique_counts for sorted ones",
    "boolean_mask tf.boolean_mask": "TensorFlow's mask may be of the first axes only: run "
    "masked_select with a mask that broadcasts to x, as torch's",
    "histogram_fixed_width tf.histogram_fixed_width": "TensorFlow counts what lies outside in the "
    "first and the last bin: run clip, then histc",
    "l2_normalize tf.l2_normalize tf.normalize": "TensorFlow's goes over all axes unless told, and "
    "its epsilon is that of the squares: run normalize with axis and the root of it as eps",
    "tf.diag": "TensorFlow's makes a matrix of each last axis: run diag_embed",
    "tf.bincount": "TensorFlow's counts are int32: run bincount",
    "tf.ctc_loss": "TensorFlow gives the labels first, and logits: run ctc_loss(x, labels, ...) of "
    "their log_softmax, with blank= and reduction='none'",
    "torch.resize": "torch's changes the shape and keeps the elements: run reshape; interpolate "
    "resamples",
    "torch.histc": "torch's goes from the smallest to the largest element unless told: run histc "
    "with min= and max=",
    "inverse": "a matrix is inverted by the library of the arrays; 1 / x is reciprocal",
    "torch.median torch.nanmedian torch.mode": "torch's gives the lower of two in the middle, and "
    "indices: run kthvalue, or median or mode for NumPy's and SciPy's",
    "gumbel_softmax": "it draws numbers: run exponential, then softmax of (x - log of these) / tau",
    "alpha_dropout feature_alpha_dropout": "no kernel here keeps the mean and the variance: run "
    "rand, then where and a sum, in a function of xtarget.fuse",
    "torch.split": "torch's number is the length of a part: run split with sections=, their "
    "number, or the length of each",
    "torch.range": "torch's has its end: run arange",
    "take_along_dim torch.take_along_dim": "torch's goes over all elements unless told: run "
    "take_along_axis with axis=",
    "np.full numpy.full torch.full": "its dtype is the value's unless told: run full with dtype=",
    "np.identity numpy.identity": "run eye; identity is x itself here",
    "np.nonzero numpy.nonzero": "NumPy gives an array for each axis: run argwhere, of which these "
    "are the columns",
    "np.select numpy.select": "NumPy's takes lists: run where for each condition",
    "torch.equal": "torch's is one bool for two arrays: run eq, then all",
    "np.logistic numpy.logistic": "NumPy's draws numbers: sigmoid is 1 / (1 + exp(-x))",
    "np.histogram numpy.histogram torch.histogram": "its second result are the edges, and bins "
    "may be a number: run histogram with the edges for the counts, or histc",
    "np.resize numpy.resize": "NumPy's repeats elements: run reshape, tile and strided_slice",
    "sconv2d": "no kernel here does both convolutions: run depthwise_conv2d, then conv2d with a "
    "kernel of 1x1",
}
REFUSED: Mapping[str, str] = {
    name: reason for names, reason in _REASONS.items() for name in names.split()
}
