"""Results of every kernel on every vendor's device that is there, against NumPy in float64.

A new specialization costs about half a second on a CPU (compile and JIT), so cases share them: the
same layouts at several sizes, many layouts for one kernel, one layout for every kernel and dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import DTYPES, FLOATS, INTEGERS, check, compare, expected, specials

import xtarget
from xtarget import ArgumentError

BINARY = ("add", "sub", "mul", "div", "maximum")
FLOAT_ONLY = ("gelu", "softmax", "layer_norm", "rms_norm")


def cases(*names: str) -> list[Any]:
    """(kernel, dtype) of all that the kernels take."""
    result = []
    for name in names:
        dtypes = FLOATS if name in FLOAT_ONLY else DTYPES
        for dtype in dtypes:
            if dtype == "bool" and name in ("sub", "relu"):
                continue
            wide = dtype in ("int16", "int32", "uint16", "uint32", "uint64")
            marks = [pytest.mark.long] if wide else []
            result.append(pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}"))
    return result


def inputs(name: str, dtype: str, *shape: int) -> list[Any]:
    """Arguments of one kernel, all of `shape` as far as it makes sense."""
    if name == "where":
        return [sample("bool", *shape), sample(dtype, *shape), sample(dtype, *shape, seed=1)]
    if name == "layer_norm":
        return [sample(dtype, *shape), sample(dtype, shape[-1], seed=1), sample(dtype, shape[-1])]
    if name == "rms_norm":
        return [sample(dtype, *shape), sample(dtype, shape[-1], seed=1)]
    count = 2 if name in BINARY else 1
    values = [sample(dtype, *shape, seed=seed) for seed in range(count)]
    if name == "exp" and dtype in INTEGERS:
        values[0] = values[0] // 10  # e**100 is infinite in float16
    return values


# ------------------------------------------------------------------------- every kernel and dtype


@pytest.mark.sample(3, each=("name", "dtype"))
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize(("name", "dtype"), cases(*BINARY, "where", "relu", "gelu", "exp"))
def test_elementwise(device: str, name: str, dtype: str) -> None:
    for size in (1, 1000, 1025):
        check(name, *inputs(name, dtype, size), device=device)


@pytest.mark.sample(2, each=("name", "dtype"))
@pytest.mark.parametrize(("name", "dtype"), cases("sum", "max"))
def test_reductions(device: str, name: str, dtype: str) -> None:
    check(name, sample(dtype, 33, 1025), axis=1, device=device)
    check(name, sample(dtype, 33, 1000), axis=1, keepdims=True, device=device)


@pytest.mark.sample(3, each=("name", "dtype"))
@pytest.mark.parametrize(("name", "dtype"), cases("softmax", "layer_norm", "rms_norm"))
def test_row_kernels(device: str, name: str, dtype: str) -> None:
    for shape in ((7, 77), (3, 5, 77), (77,)):
        check(name, *inputs(name, dtype, *shape), device=device)


@pytest.mark.parametrize(("name", "dtype"), cases("matmul"))
def test_matmul(device: str, name: str, dtype: str) -> None:
    check(name, sample(dtype, 13, 33), sample(dtype, 33, 9, seed=1), device=device)


LARGE = [pytest.param(d, marks=() if d == "float32" else pytest.mark.long) for d in FLOATS]


@pytest.mark.large
@pytest.mark.parametrize("dtype", LARGE)
def test_large_matmul(device: str, dtype: str) -> None:
    """Large enough for the largest tiles."""
    for k in (70, 64):
        check("matmul", sample(dtype, 530, k), sample(dtype, k, 540, seed=1), device=device)


@pytest.mark.large
def test_calls_in_turn_that_want_memory_of_their_own(device: str) -> None:
    """Memory that a call gave back goes to the next in other sizes, then to the first one again."""
    dtypes, n = ("float32", "float16"), 256
    operands = {d: (sample(d, n, n), sample(d, n, n, seed=1)) for d in dtypes}
    results = {d: np.empty((n, n), d) for d in dtypes}
    for _ in range(4):
        for dtype, pair in operands.items():
            xtarget.run("matmul", *pair, out=results[dtype], device=device)
    for dtype, pair in operands.items():
        compare("matmul", results[dtype], expected("matmul", pair, {}))


# ------------------------------------------------------------------------- sizes


@pytest.mark.large
@pytest.mark.parametrize("name", ["add", "exp"])
def test_large_odd_size(device: str, name: str) -> None:
    check(name, *inputs(name, "float32", 2**20 + 1), device=device)


@pytest.mark.parametrize("shape", [(1,), (8191,), (8192,), (20001,), (3, 8200), (1025, 20)])
def test_a_block_ends_where_its_array_ends(device: str, shape: tuple[int, ...]) -> None:
    """A block of a CPU walks up to 16,384 elements, and rows of 16 or more one by one."""
    x = np.random.default_rng(3).normal(size=shape).astype("float32")
    wide = np.full((*shape[:-1], shape[-1] + 40), 7, "float32")
    xtarget.run("relu", x, out=wide[..., : shape[-1]], device=device)
    np.testing.assert_array_equal(wide[..., : shape[-1]], np.maximum(x, 0))
    assert (wide[..., shape[-1] :] == 7).all()


@pytest.mark.parametrize("length", [15, 16, 63, 65, 4097])
def test_rows_of_every_kind(device: str, length: int) -> None:
    """Repeated rows and columns, gaps between rows, rows backwards, into a part of an array."""
    for shape in ((1, length), (70, length), (3, 5, length)):
        x = sample("float32", *shape)
        column, row = x[..., :1], x[(0,) * (x.ndim - 1)]
        operands = (row, column, x[..., ::-1], x[::-1], x[:1])
        for other in operands:
            np.testing.assert_array_equal(xtarget.run("add", x, other, device=device), x + other)
            np.testing.assert_array_equal(xtarget.run("sub", other, x, device=device), other - x)
        wide = np.full((*shape[:-1], length + 5), 7, np.float32)
        xtarget.run("mul", x, row, out=wide[..., 2:-3], device=device)
        np.testing.assert_array_equal(wide[..., 2:-3], x * row)
        assert (wide[..., :2] == 7).all()
        assert (wide[..., -3:] == 7).all()


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_results_that_the_caches_have_no_room_for(device: str, dtype: str) -> None:
    size = (16 << 20) // np.dtype(dtype).itemsize  # of results, `tuning.Flat.stream`
    for n in (size - 1, size, size + 77):
        x = sample(dtype, n)
        whole = xtarget.run("add", x, x[:1], device=device)
        np.testing.assert_array_equal(whole, x + x[:1])
        out = np.zeros(n + 3, dtype)
        xtarget.run("add", x, x, out=out[1 : n + 1], device=device)  # aligned to nothing
        np.testing.assert_array_equal(out[1 : n + 1], x + x)
        assert not out[0]
        assert not out[n + 1 :].any()


@pytest.mark.large
@pytest.mark.parametrize("name", ["sum", "max"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_reduction_of_everything(device: str, name: str, dtype: str) -> None:
    for size in (1, 1000, 1025, 2**20 + 1):
        check(name, sample(dtype, size), device=device)
    check(name, sample(dtype, 3, 100_003), axis=1, device=device)
    check(name, sample(dtype, 100_003, 3), axis=0, device=device)


@pytest.mark.large
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
def test_long_rows(device: str, name: str) -> None:
    """Longer than what one block takes in one piece on any vendor."""
    check(name, *inputs(name, "float32", 3, 20_011), device=device)
    check(name, sample("float64", 2, 9_001), device=device)


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_matmul_of_long_k(device: str, dtype: str) -> None:
    check("matmul", sample(dtype, 3, 10_001), sample(dtype, 10_001, 5, seed=1), device=device)
    check("matmul", sample(dtype, 10_001), sample(dtype, 10_001, seed=1), device=device)


def test_zero_dimensions(device: str) -> None:
    x = sample("float32")
    for name in ("add", "maximum"):
        check(name, x, sample("float32", seed=1), device=device)
    check("exp", x, device=device)
    check("sum", x, device=device)
    check("max", x, axis=(), device=device)
    check("add", sample("float32", 5), x, device=device)


def test_empty_arrays(device: str) -> None:
    check("add", sample("float32", 0, 3), sample("float32", 3), device=device)
    check("sum", sample("float32", 3, 0), axis=1, device=device)
    check("sum", sample("int8", 0), device=device)
    check("max", sample("float32", 3, 0), axis=0, device=device)
    check("softmax", sample("float32", 3, 0), device=device)
    check("matmul", sample("float32", 3, 0), sample("float32", 0, 4), device=device)
    check("matmul", sample("float32", 0, 3), sample("float32", 3, 4), device=device)
    with pytest.raises(ArgumentError, match="max of nothing"):
        xtarget.run("max", sample("float32", 0), device=device)


# ------------------------------------------------------------------------- layouts


def test_broadcasting(device: str) -> None:
    for left, right in (((7, 33, 20), (33, 1)), ((7, 1, 20), (33, 1)), ((5,), (4, 1, 5))):
        check("add", sample("float32", *left), sample("float32", *right), device=device)
    check("where", sample("bool", 4, 1), sample("int8", 5), sample("float32", 1, 5), device=device)


def test_strided_inputs(device: str) -> None:
    x = sample("float32", 9, 10, 12)
    for view in (
        x[:, ::-1],
        x.transpose(2, 0, 1),
        x[1:8:2, 3:, ::-3],
        np.broadcast_to(x[:, :1], (9, 10, 12)),
    ):
        check("mul", view, np.ascontiguousarray(view), device=device)


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (0, 1, -1), ()])
def test_reductions_of_strided_inputs(device: str, axis: Any) -> None:
    x = sample("float32", 9, 70, 12)
    check("sum", x, axis=axis, device=device)
    check("max", x.transpose(2, 0, 1)[::-1], axis=axis, keepdims=True, device=device)


@pytest.mark.parametrize("shape", [(9, 70, 12), (3, 700, 12)])
def test_softmax_of_any_axis(device: str, shape: tuple[int, ...]) -> None:
    for axis in range(3):
        check("softmax", sample("float32", *shape), axis=axis, device=device)


def test_norms_of_strided_inputs(device: str) -> None:
    x, weight = sample("float32", 77, 18), sample("float32", 154, seed=1)
    check("layer_norm", x.T[::-2], weight[::2], weight[::-2], device=device)
    check("rms_norm", x.T[::-2], weight[::2], eps=0.5, device=device)


def test_out_may_be_any_view(device: str) -> None:
    x = sample("float32", 6, 10)
    for name, args, options in (
        ("add", (x, x), {}),
        ("sum", (sample("float32", 6, 10, 40),), {"axis": 2}),
        ("softmax", (x,), {}),
        ("matmul", (sample("float32", 6, 8), sample("float32", 8, 10)), {}),
    ):
        whole = np.full((20, 12), 7, np.float32)
        check(name, *args, out=whole[::2, ::-2].T, device=device, **options)
        whole[::2, ::-2] = 7
        assert (whole == 7).all()  # nothing was written beside it


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((9,), (9,)),
        ((9,), (9, 5)),
        ((4, 9), (9,)),
        ((3, 4, 9), (9, 5)),
        ((2, 1, 4, 9), (3, 9, 5)),
        ((9,), (3, 9, 5)),
        ((1, 9), (9, 1)),
        ((3, 70), (70, 300)),  # few rows
        ((300, 70), (70, 3)),
    ],
)
def test_matmul_shapes(device: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check("matmul", sample("float32", *a), sample("float32", *b, seed=1), device=device)


def test_matmul_of_strided_inputs(device: str) -> None:
    x, y = sample("float32", 12, 14), sample("float32", 12, 14, seed=1)
    check("matmul", x.T, y, device=device)
    check("matmul", x, y.T, device=device)
    check("matmul", x[::2, ::-1], y.T[:, ::3], device=device)
    check("matmul", np.broadcast_to(x, (3, 12, 14)), y.T, device=device)


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def _any_layouts(device: str, data: Any, shape: tuple[int, ...]) -> None:
    views = []
    for seed in (0, 1):
        own = tuple(1 if data.draw(st.integers(0, 3)) == 0 else n for n in shape)
        order = data.draw(st.permutations(range(len(own))))
        x = sample("float32", *(own[i] for i in order), seed=seed).transpose(np.argsort(order))
        views.append(x[tuple(slice(None, None, data.draw(st.sampled_from((1, -1)))) for _ in own)])
    check("add", *views, device=device)


@examples(12)
@given(data=st.data(), shape=SHAPES)
def test_any_layouts(device: str, data: Any, shape: tuple[int, ...]) -> None:
    _any_layouts(device, data, shape)


@pytest.mark.long
@examples(200, same=False)
@given(data=st.data(), shape=SHAPES)
def test_any_layouts_many(device: str, data: Any, shape: tuple[int, ...]) -> None:
    _any_layouts(device, data, shape)


# ------------------------------------------------------------------------- scalars and mixed dtypes


@pytest.mark.parametrize(
    ("dtype", "scalar"),
    [("float32", 2.5), ("float32", 3), ("int8", 3), ("float16", 0.1), ("bfloat16", -1.5)],
)
def test_scalars(device: str, dtype: str, scalar: Any) -> None:
    x = sample(dtype, 33, 5)
    result = xtarget.run("mul", x, scalar, device=device)
    np.testing.assert_array_equal(result, x * x.dtype.type(scalar))
    assert result.dtype == x.dtype
    flipped = xtarget.run("sub", scalar, x.T, device=device)
    np.testing.assert_array_equal(flipped, x.dtype.type(scalar) - x.T)


@pytest.mark.parametrize(
    ("left", "right"), [("int8", "uint8"), ("int64", "float32"), ("float16", "float64")]
)
def test_mixed_dtypes(device: str, left: str, right: str) -> None:
    a, b = sample(left, 100), sample(right, 100, seed=1)
    assert check("add", a, b, device=device).dtype == np.result_type(a, b)


def test_sums_do_not_wrap(device: str) -> None:
    x = np.full(1000, 127, np.int8)
    assert xtarget.run("sum", x, device=device) == 127_000
    assert xtarget.run("sum", np.ones(1000, bool), device=device) == 1000


def test_float64_is_not_float32(device: str) -> None:
    x = sample("float64", 40) * 1e-12 + 1
    check("sub", x, np.ones(40), device=device)
    for options in ({"approximate": "none"}, {"approximate": "tanh"}):
        check("gelu", x, device=device, **options)
    check("layer_norm", sample("float64", 3, 50), eps=0.0, device=device)


# ------------------------------------------------------------------------- nan and infinity


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["add", "div", "maximum"])
def test_binary_specials(device: str, name: str, dtype: str) -> None:
    values = specials(dtype)
    check(name, np.repeat(values, len(values)), np.tile(values, len(values)), device=device)


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_specials(device: str, dtype: str) -> None:
    for name in ("exp", "relu"):
        check(name, specials(dtype), device=device)
    for approximate in ("none", "tanh"):
        check("gelu", specials(dtype), approximate=approximate, device=device)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_with_specials(device: str, dtype: str) -> None:
    x = sample(dtype, 6, 77)
    x[0, 3] = np.nan
    x[1] = -np.inf
    x[2, :70] = -np.inf
    x[3, 5] = np.inf
    x[4, 76] = np.nan
    check("softmax", x, device=device)
    for name in ("max", "sum"):
        check(name, x, axis=1, device=device)
        check(name, x, axis=0, device=device)


@pytest.mark.large
def test_long_rows_with_specials(device: str) -> None:
    x = sample("float32", 5, 20_011)
    x[0, 3] = np.nan
    x[1] = -np.inf
    x[2, :20_000] = -np.inf
    x[3, 5] = np.inf
    check("softmax", x, device=device)
    check("max", x, axis=1, device=device)
    check("max", x[1:4].copy(), device=device)


def test_large_arguments_of_exp(device: str) -> None:
    for dtype, low, high in (("float32", -87.0, 88.7), ("float64", -700.0, 709.0)):
        check("exp", np.linspace(low, high, 1001).astype(dtype), device=device)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_the_largest_of_negative_numbers_in_rows_shorter_than_a_block(
    device: str, dtype: str
) -> None:
    """What is loaded beyond a row is smaller than all numbers, each of its elements."""
    x = (-101 - np.arange(64 * 48) % 27).astype(dtype).reshape(64, 48)
    np.testing.assert_array_equal(xtarget.run("max", x, axis=1, device=device), x.max(1))
    np.testing.assert_array_equal(xtarget.run("argmax", x, axis=1, device=device), x.argmax(1))
