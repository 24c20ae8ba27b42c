"""Words of NumPy, torch, ONNX and TensorFlow for arguments and options, beside the rows' own.

A word stands here only where it means exactly the same, so no word whose values are laid out in
another way (the `pad` of torch, the `pads` of ONNX).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xtarget.spec import KernelSpec

__all__ = ["spellings"]

#: Words for an argument or an option of this name, in every row that has it.
_EVERYWHERE: Mapping[str, str] = {
    "axis": "dim dims axes",
    "axes": "axis dim dims perm",
    "keepdims": "keepdim keep_dims",
    "kernel": "kernel_size kernel_shape ksize",
    "stride": "strides",
    "dilation": "dilations",
    "groups": "group num_groups feature_group_count",
    "eps": "epsilon",
    "causal": "is_causal",
    "mask": "attn_mask",
    "slopes": "alibi_slopes",
    "softcap": "soft_cap logits_soft_cap",
    "lse": "return_lse",
    "heads": "num_heads",
    "kv_heads": "num_kv_heads",
    "classes": "num_classes depth",
    "subscripts": "equation",
    "shift": "shifts",
    "block_size": "blocksize",
    "segments": "num_segments",
    "index": "indices",
    "condition": "cond",
    "source": "src updates",
    "reduce": "reduction",
    "negative_slope": "alpha",
    "dtype": "to",
    "x": "input arr",
    "a": "input x1",
    "b": "other x2",
    "y": "target",
    "grad": "grad_output",
}
#: And in single rows: their names, and the words.
_ROWS: Sequence[tuple[str, Mapping[str, str]]] = (
    (
        "attention multi_head_attention paged_attention",
        {"scale": "softmax_scale", "query": "q", "key": "k", "value": "v"},
    ),
    ("gemm", {"trans_a": "transA", "trans_b": "transB"}),
    ("tile", {"reps": "repeats multiples dims"}),
    ("split", {"sections": "num_outputs"}),
    ("trace diagonal", {"axis1": "dim1", "axis2": "dim2"}),
    ("full full_like", {"value": "fill_value"}),
    ("ones zeros full rand randn randint uniform broadcast_to", {"shape": "size"}),
    ("interpolate resize_nearest resize_bilinear resize_bicubic", {"scale": "scale_factor"}),
    ("adaptive_avg_pool adaptive_max_pool col2im", {"size": "output_size"}),
    ("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", {"size": "output_size"}),
    ("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d", {"size": "output_size"}),
    ("clip", {"low": "min a_min", "high": "max a_max"}),
    ("pad", {"width": "pad_width", "value": "constant_values"}),
    ("arange", {"stop": "end"}),
    ("embedding_backward", {"rows": "num_weights num_embeddings", "padding": "padding_idx"}),
    ("linspace", {"stop": "end", "count": "num steps"}),
    ("eye", {"rows": "n N", "columns": "m M"}),
    ("tril triu diag", {"k": "diagonal"}),
    ("addmm", {"c": "input", "a": "mat1", "b": "mat2"}),
    ("addmv", {"c": "input", "a": "mat", "b": "vec"}),
    ("addr", {"c": "input", "a": "vec1", "b": "vec2"}),
    ("addbmm baddbmm", {"c": "input", "a": "batch1", "b": "batch2"}),
    ("addcmul addcdiv", {"b": "tensor1", "c": "tensor2"}),
    ("matmul", {"b": "mat2 vec"}),
    ("outer", {"b": "vec2"}),
    ("dot", {"b": "tensor"}),
    ("lerp", {"b": "end"}),
    ("pow float_power", {"b": "exponent"}),
    ("heaviside", {"b": "values"}),
    ("ldexp", {"exponent": "other x2"}),
    ("where", {"a": "x input", "b": "y other"}),
    ("masked_fill masked_select masked_scatter dropout_backward", {"condition": "mask"}),
    ("isin", {"x": "elements element", "others": "test_elements"}),
    ("searchsorted", {"ordered": "sorted_sequence a", "values": "input v"}),
    ("bucketize", {"values": "input"}),
    ("cdist", {"x": "x1", "y": "x2"}),
    ("embedding embedding_bag", {"index": "input"}),
    ("bce_loss", {"probability": "input"}),
    ("kl_div", {"probability": "target"}),
    ("hinge_embedding_loss", {"sign": "target"}),
    ("threshold", {"limit": "threshold"}),
    ("flatten", {"start": "start_dim", "end": "end_dim"}),
    ("diag_embed", {"axis1": "dim1", "axis2": "dim2"}),
    ("swapaxes", {"axis1": "dim0", "axis2": "dim1"}),
    ("slice_scatter", {"stop": "end"}),
    ("logspace", {"stop": "end", "count": "num steps"}),
    ("quantile", {"method": "interpolation"}),
    ("exponential", {"rate": "lambd"}),
)


def spellings(row: KernelSpec) -> Mapping[str, str]:
    """Other words for the row's arguments and options, each with the row's own."""
    own = {name.rstrip("?") for name in row.inputs} | set(row.options)
    found: dict[str, str] = {}
    single = [words for names, words in _ROWS if row.name in names.split()]
    for words in (*single, _EVERYWHERE):
        for name, others in words.items():
            if name in own:
                for other in others.split():
                    if other not in own:
                        found.setdefault(other, name)
    return found
