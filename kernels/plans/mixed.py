"""From call to launches: products with matrices of few bits, and with one for each part of rows."""

from __future__ import annotations

from xtarget import spec

from . import narrow, tuning
from .attention import starts
from .elementwise import compute_dtype
from .few_rows import Weights, few_rows
from .grouped import by_descriptors
from .layouts import collapse
from .options import one_of
from .sorting import lane_launch

__all__ = ["KINDS", "fp8_matmul", "grouped", "linear_int4", "linear_int8", "mx_dequantize",
           "mx_quantize"]  # fmt: skip

_FLOATS = ("float16", "bfloat16", "float32", "float64")
#: Formats of blocks: that of the elements, and the exponent of their largest power.
KINDS = {"mxfp8_e4m3": ("e4m3", 8), "mxfp8_e5m2": ("e5m2", 15), "mxfp4": ("e2m1", 2)}


def _rows(call: spec.Call, x: spec.ArrayType) -> tuple[int, int]:
    """The axes in front of the last one as one: how many rows, and the stride between them."""
    merged = collapse(x.shape[:-1], x.strides[:-1], keep_order=True)
    if len(merged.lengths) > 0 or len(merged.strides[0]) > 1:
        raise spec.ArgumentError(
            f"{call.kernel}: x of shape {x.shape} has no single stride from row to row. Give a "
            "contiguous array."
        )
    return merged.size, 1 if not merged.strides[0] else merged.strides[0][0]


def _launch(
    call: spec.Call,
    sizes: tuple[int, int, int],
    addresses: dict[str, spec.Argument],
    steps: dict[str, int],
    kinds: tuple[str, str],
    dtype: str,
    *,
    dot: str = "",
    group: int = 0,
    parts: int = 0,
    zero: int = 0,
) -> spec.Launch:
    """One launch of `mixed:matmul`.

    Args:
        sizes: M, N and K.
        steps: strides by parameter; those that are missing are 0.
        kinds: of the elements of a and b.
        dtype: of the sums.
        dot: what is multiplied by matrix units; empty: as the sums.
        group: elements along K that share a scale; 0: all.
    """
    m, n, k = sizes
    outer = tuning.outer_products(call.vendor)
    large = call.vendor == "nvidia" and m > 64 and n > 64 and dot in ("float16", "bfloat16")
    # no step has parts of two groups
    step = 8 if outer else 64 if large else 32
    while group and group % step:
        step //= 2
    # NVIDIA's units take no float64 that was converted from a smaller type (Triton 3.6 to 3.9)
    matrix = not outer and step >= 16 and not (dtype == "float64" and call.vendor == "nvidia")
    registers = call.arch.startswith("gfx1") and not dot  # which are all that there is
    rows = 1 if outer else 16 if m <= 16 or registers else 64
    tile = (rows, 16 if outer else 64, step) if matrix or outer else (4, 32, step)
    large = large and step >= 32
    if large:
        tile = (128, 64, step)
    blocks = (spec.cdiv(m, tile[0]) + parts) * spec.cdiv(n, tile[1])
    names = ("a", "b", "scales", "zeros", "a_scale", "b_scale", "starts")
    strides = {name: steps.get(name, 0) for name in _STEPS}
    return spec.Launch(
        "mixed:matmul",
        {
            **addresses,
            "out": spec.Output(),
            "M": m,
            "N": n,
            "K": k,
            "group": group or max(k, 1),
            "parts": parts,
            "zero": zero,
            **{name: own for name, own in strides.items() if own != 1},
        },
        {
            **{name: None for name in names if name not in addresses},
            **{name: 1 for name, own in strides.items() if own == 1},
            "KIND_A": kinds[0],
            "KIND": kinds[1],
            "MATRIX": matrix,
            "DOT": spec.dtype_constant(dot if dot and matrix else dtype),
            "T": spec.dtype_constant(dtype),
            "BLOCK_M": tile[0],
            "BLOCK_N": tile[1],
            "BLOCK_K": tile[2],
        },
        (blocks, 1, 1),
        num_warps=8 if large else 4 if matrix else 1 if outer else 2,
        num_stages=3 if large else 2 if matrix and dot in ("float16", "bfloat16") else 1,
        options=tuning.matmul_options(call.vendor) if matrix else {},
    )


_STEPS = ("am", "ak", "be", "bk", "bn", "sg", "sn", "zg", "zn", "ra", "rb", "om", "on")


def _half(call: spec.Call, dtype: str) -> str:
    """The half type that matrix units multiply; empty if there are none for it."""
    units = call.vendor in tuning.MATRIX_UNITS
    return dtype if units and dtype in ("float16", "bfloat16") else ""


def _weights(call: spec.Call, bits: int) -> spec.Plan:
    x, weight, scales = (call.array(index) for index in range(3))
    if x.dtype not in _FLOATS or not x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: x is {x.dtype} of shape {x.shape}; it has to be floating, of one "
            "dimension or more."
        )
    kinds = ("uint8",) if bits == 4 else ("int8", "uint8")
    k = x.shape[-1]
    wide = spec.cdiv(k, 2) if bits == 4 else k
    if weight.dtype not in kinds or weight.ndim != 2 or weight.shape[1] != wide:
        packed = ", two numbers a byte" if bits == 4 else ""
        raise spec.ArgumentError(
            f"{call.kernel}: q_weight is {weight.dtype} of shape {weight.shape}; for x of shape "
            f"{x.shape} it has to be {' or '.join(kinds)} of shape (columns, {wide}){packed}."
        )
    n = weight.shape[0]
    given = len(call.args) > 3 and call.args[3] is not spec.ABSENT
    zeros = call.array(3) if given else None
    form = scales.shape if scales.ndim == 2 else (*scales.shape, 1)
    if len(form) != 2 or form[0] != n or not form[1] or k % form[1]:
        raise spec.ArgumentError(
            f"{call.kernel}: scales have shape {scales.shape}; they need ({n},), or ({n}, groups) "
            f"with a number of groups that divides {k}."
        )
    if scales.dtype not in _FLOATS:
        raise spec.ArgumentError(f"{call.kernel}: scales are {scales.dtype}, not floating.")
    if zeros is not None and (zeros.shape != scales.shape or zeros.dtype == "bool"):
        raise spec.ArgumentError(
            f"{call.kernel}: zeros are {zeros.dtype} of shape {zeros.shape}; they have to be "
            f"numbers of the scales' shape {scales.shape}."
        )
    out = call.output((*x.shape[:-1], n), x.dtype)
    if not out.size or not k:
        return spec.Plan((out,), (), (), (0,))
    (m, am), (_, om) = _rows(call, x), _rows(call, out)
    steps = {"am": am, "ak": x.strides[-1], "bn": weight.strides[0], "bk": weight.strides[1],
             "om": om, "on": out.strides[-1]}  # fmt: skip
    addresses: dict[str, spec.Argument] = {
        "a": spec.Input(0), "b": spec.Input(1), "scales": spec.Input(2),
    }  # fmt: skip
    for letter, array, index in (("s", scales, 2), ("z", zeros, 3)):
        if array is not None:
            addresses["zeros" if index == 3 else "scales"] = spec.Input(index)
            steps[f"{letter}n"] = array.strides[0]
            steps[f"{letter}g"] = array.strides[1] if array.ndim == 2 else 0
    # differences from -255 to 255, which half types hold
    fits = ("int8", "uint8") if bits == 4 else (weight.dtype,)
    exact = zeros is None or zeros.dtype in fits
    zero = 8 if bits == 4 else 128 if weight.dtype == "uint8" else 0
    group = 0 if form[1] == 1 else k // form[1]
    if exact:
        scaling = {name: steps[name] for name in ("sn", "sg", "zn", "zg") if name in steps}
        few = Weights(x, weight, (m, am), group, bits, zero, zeros is not None, scaling)
        if (plan := few_rows(call, few, out, om)) is not None:
            return plan
    launch = _launch(
        call, (m, n, k), addresses, steps, ("", "int4" if bits == 4 else ""),
        compute_dtype(x.dtype), dot=_half(call, x.dtype) if exact else "",
        group=group, zero=zero,
    )  # fmt: skip
    return spec.Plan((out,), (launch,))


def linear_int8(call: spec.Call) -> spec.Plan:
    """The plan of x @ weight.T, where weights are 8-bit integers with scales."""
    return _weights(call, 8)


def linear_int4(call: spec.Call) -> spec.Plan:
    """The plan of x @ weight.T, where weights are 4-bit integers with scales, two a byte."""
    return _weights(call, 4)


def grouped(call: spec.Call) -> spec.Plan:
    """The plan of grouped_matmul: rows of x, part by part, times the part's own matrix."""
    x, weight = call.array(0), call.array(1)
    if x.ndim != 2 or weight.ndim != 3 or weight.shape[1] != x.shape[1]:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and weight {weight.shape}; they have to be "
            "(rows, k) and (parts, k, columns)."
        )
    for name, array in (("x", x), ("weight", weight)):
        if array.dtype not in _FLOATS:
            raise spec.ArgumentError(f"{call.kernel}: {name} is {array.dtype}, not floating.")
    parts = starts(call, 2, "starts")
    if parts != weight.shape[0]:
        raise spec.ArgumentError(
            f"{call.kernel}: starts are those of {parts} parts, and there are {weight.shape[0]} "
            "matrices."
        )
    (m, k), n = x.shape, weight.shape[2]
    dtype = call.rules.promote(x.dtype, weight.dtype)
    out = call.output((m, n), dtype)
    if not out.size or not k:
        return spec.Plan((out,), (), (), (0,))
    if (plan := by_descriptors(call, x, weight, out)) is not None:
        return plan
    steps = {"am": x.strides[0], "ak": x.strides[1], "be": weight.strides[0],
             "bk": weight.strides[1], "bn": weight.strides[2], "om": out.strides[0],
             "on": out.strides[1]}  # fmt: skip
    addresses: dict[str, spec.Argument] = {
        "a": spec.Input(0), "b": spec.Input(1), "starts": spec.Input(2),
    }  # fmt: skip
    launch = _launch(
        call, (m, n, k), addresses, steps, ("", ""), compute_dtype(dtype),
        dot=_half(call, dtype), parts=parts,
    )  # fmt: skip
    return spec.Plan((out,), (launch,), (), (0,))


def fp8_matmul(call: spec.Call) -> spec.Plan:
    """The plan of a @ b * a_scale * b_scale, of matrices of 8-bit floating numbers as bits."""
    a, b = call.array(0), call.array(1)
    for name, array in (("a", a), ("b", b)):
        if array.dtype != "uint8" or array.ndim != 2:
            raise spec.ArgumentError(
                f"{call.kernel}: {name} is {array.dtype} of shape {array.shape}; it has to be a "
                "matrix of uint8, the bits of the numbers (x.view(uint8))."
            )
    if a.shape[1] != b.shape[0]:
        raise spec.ArgumentError(
            f"{call.kernel}: shapes {a.shape} and {b.shape} do not fit: {a.shape[1]} columns and "
            f"{b.shape[0]} rows."
        )
    kinds = [one_of(call, name, ("e4m3", "e5m2")) for name in ("format_a", "format_b")]
    dtype = one_of(call, "dtype", _FLOATS[:3])
    (m, k), n = a.shape, b.shape[1]
    steps = {"am": a.strides[0], "ak": a.strides[1], "bk": b.strides[0], "bn": b.strides[1]}
    for index, name, length in ((2, "a_scale", m), (3, "b_scale", n)):
        scale = call.array(index)
        if (scale.size != 1 and scale.shape != (length,)) or scale.dtype not in _FLOATS:
            raise spec.ArgumentError(
                f"{call.kernel}: {name} is {scale.dtype} of shape {scale.shape}; it has to be "
                f"floating, one number or ({length},)."
            )
        steps["ra" if index == 2 else "rb"] = 0 if scale.size == 1 else scale.strides[0]
    out = call.output((m, n), str(dtype))
    if not out.size or not k:
        return spec.Plan((out,), (), (), (0,))
    steps |= {"om": out.strides[0], "on": out.strides[1]}
    addresses: dict[str, spec.Argument] = {
        "a": spec.Input(0), "b": spec.Input(1), "a_scale": spec.Input(2), "b_scale": spec.Input(3),
    }  # fmt: skip
    product = narrow.Product(
        call,
        narrow.Operand(spec.Input(0), kinds[0], m, *a.strides),
        narrow.Operand(spec.Input(1), kinds[1], n, *b.strides[::-1]),
        k,
        out,
        narrow.Scales(spec.Input(2), spec.Input(3), steps["ra"], steps["rb"]),
    )
    launches = narrow.floats(product)
    if launches is not None:
        return spec.Plan((out,), tuple(launches), tuple(product.temporaries))
    launch = _launch(
        call, (m, n, k), addresses, steps, (kinds[0], kinds[1]), "float32",
        dot=_half(call, "float16"),
    )  # fmt: skip
    return spec.Plan((out,), (launch,))


def _format(call: spec.Call) -> tuple[str, int]:
    name = call.options["format"]
    if name not in KINDS:
        raise spec.ArgumentError(
            f"{call.kernel}: format is {name!r}; it has to be {', '.join(map(repr, KINDS))}."
        )
    return KINDS[name]


def mx_quantize(call: spec.Call) -> spec.Plan:
    """The plan of mx_quantize: bits of the elements along the last axis, and of their scales."""
    x = call.array(0)
    kind, most = _format(call)
    if call.out is not None:
        raise spec.ArgumentError(f"{call.kernel} gives two arrays. Leave out= out.")
    if not x.ndim or x.shape[-1] % 32:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; the length of its last axis has to be a "
            "multiple of 32, the elements of a block. Pad it with zeros."
        )
    *front, width = x.shape
    shapes = ((*front, width // 2 if kind == "e2m1" else width), (*front, width // 32))
    outs = tuple(spec.ArrayType("uint8", shape, spec.contiguous_strides(shape)) for shape in shapes)
    if not x.size:
        return spec.Plan(outs, ())
    rows = collapse(front, x.strides[:-1], keep_order=True)
    tile = 4 if tuning.outer_products(call.vendor) else 32
    launch = spec.Launch(
        "mixed:mx_quantize",
        {
            "x": spec.Input(0),
            "out": spec.Output(0),
            "scale": spec.Output(1),
            "n": outs[1].size,
            "blocks": width // 32,
            "width": width,
            **rows.named("sx"),
            **({} if x.strides[-1] == 1 else {"cx": x.strides[-1]}),
        },
        {**({"cx": 1} if x.strides[-1] == 1 else {}), "KIND": kind, "MOST": most, "BLOCK_M": tile},
        (spec.cdiv(outs[1].size, tile), 1, 1),
        num_warps=1 if tile == 4 else 4,
    )
    return spec.Plan(outs, (launch,))


def mx_dequantize(call: spec.Call) -> spec.Plan:
    """The plan of mx_dequantize: the numbers of bits and scales."""
    x, scale = call.array(0), call.array(1)
    kind, _ = _format(call)
    dtype = one_of(call, "dtype", _FLOATS)
    width = x.shape[-1] * (2 if kind == "e2m1" else 1) if x.ndim else 0
    shape = (*x.shape[:-1], width)
    if x.dtype != "uint8" or scale.dtype != "uint8" or not x.ndim or (
        width % 32 or scale.shape != (*x.shape[:-1], width // 32)
    ):  # fmt: skip
        raise spec.ArgumentError(
            f"{call.kernel}: x is {x.dtype} of shape {x.shape} and scale {scale.dtype} of shape "
            f"{scale.shape}; both have to be uint8, and scale has one for each 32 numbers of x."
        )
    out = call.output(shape, str(dtype))
    if not out.size:
        return spec.Plan((out,), ())
    rows = collapse(
        shape[:-1], out.strides[:-1], x.strides[:-1], scale.strides[:-1], keep_order=True
    )
    steps = {"cx": x.strides[-1], "cs": scale.strides[-1], "co": out.strides[-1]}
    launch = lane_launch(
        call,
        "mixed:mx_dequantize",
        out.size,
        {
            "x": spec.Input(0),
            "scale": spec.Input(1),
            "out": spec.Output(),
            "n": out.size,
            "columns": width,
            **rows.named("so", "sx", "ss"),
            **steps,
        },
        {"KIND": kind, "T": spec.dtype_constant(compute_dtype(out.dtype))},
    )
    return spec.Plan((out,), (launch,))
