"""Plans: layouts, grids, tiles and errors, in NumPy instead of on a device."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operators import arrays, for_plans, layouts, takes
from plan_emulator import ELEMENTWISE, emulate, layout

from xtarget import ArgumentError
from xtarget.spec import ArrayType, Call, Input, Output, ScalarType, contiguous_strides

FIXTURES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def array(dtype: str, *shape: int) -> ArrayType:
    return ArrayType(dtype, shape, contiguous_strides(shape))


def call_of(
    spec: Any,
    rules: Any,
    *types: Any,
    vendor: str = "nvidia",
    units: int = 132,
    out: ArrayType | None = None,
    **options: Any,
) -> Call:
    return Call(spec.name, types, {**spec.planned_with, **options}, out, vendor, units, rules)


@st.composite
def views(draw: Any, shape: tuple[int, ...], *, broadcast: bool = True) -> np.ndarray:
    """A float64 array of `shape` (or one that broadcasts to it), laid out in any way a view can."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if broadcast:
        shape = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in shape)
        shape = shape[draw(st.integers(0, len(shape))) :]
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2))) for _ in shape]
    whole = rng.integers(-50, 50, [shape[i] * abs(steps[i]) + 1 for i in order]).astype(float)
    view = whole.transpose(np.argsort(order)) if order else whole
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        part = [slice(None)] * len(shape)
        part[axis] = slice(n * abs(step))
        view = view[tuple(part)]
        part[axis] = slice(None, None, step)
        view = view[tuple(part)]
    assert view.shape == shape
    return view


SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@FIXTURES
@given(data=st.data(), shape=SHAPES)
def test_elementwise_reads_and_writes_the_right_elements(
    catalog: Any, rules: Any, data: Any, shape: tuple[int, ...]
) -> None:
    name = data.draw(st.sampled_from(sorted(ELEMENTWISE)))
    count = len(catalog[name].inputs)
    operands = [data.draw(views(shape)) for _ in range(count)]
    if name == "where":
        operands[0] = np.array(operands[0] > 0, order="C")
    expected = ELEMENTWISE[name](*operands)
    out = data.draw(st.none() | views(expected.shape, broadcast=False))
    result, _ = emulate(catalog[name], operands, rules, out=out)
    np.testing.assert_array_equal(result, expected)


@FIXTURES
@given(data=st.data(), shape=SHAPES, keepdims=st.booleans(), units=st.sampled_from((1, 2, 132)))
def test_reductions_read_and_write_the_right_elements(
    catalog: Any, rules: Any, data: Any, shape: tuple[int, ...], keepdims: bool, units: int
) -> None:
    x = data.draw(views(shape, broadcast=False))
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    axis = data.draw(st.sampled_from((None, tuple(axes), tuple(a - len(shape) for a in axes))))
    for name in ("sum", "max"):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        out = data.draw(st.none() | views(expected.shape, broadcast=False))
        result, _ = emulate(
            catalog[name],
            [x],
            rules,
            out=out,
            compute_units=units,
            options={"axis": axis, "keepdims": keepdims},
        )
        np.testing.assert_array_equal(result, expected)


@FIXTURES
@given(data=st.data(), shape=SHAPES.filter(bool))
def test_row_kernels_read_and_write_the_right_elements(
    catalog: Any, rules: Any, data: Any, shape: tuple[int, ...]
) -> None:
    x = data.draw(views(shape, broadcast=False))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    out = data.draw(st.none() | views(shape, broadcast=False))
    result, _ = emulate(catalog["softmax"], [x], rules, out=out, options={"axis": axis})
    np.testing.assert_allclose(result, catalog["softmax"].reference(x, axis=axis), atol=1e-12)
    for name in ("layer_norm", "rms_norm"):
        vectors = [data.draw(views(shape[-1:], broadcast=False)) for _ in range(2)]
        given_ = vectors[: data.draw(st.integers(0, len(catalog[name].inputs) - 1))]
        result, _ = emulate(catalog[name], [x, *given_], rules)
        np.testing.assert_allclose(result, catalog[name].reference(x, *given_), atol=1e-12)


@FIXTURES
@given(
    data=st.data(),
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    m=st.integers(1, 5),
    n=st.integers(1, 5),
    k=st.integers(0, 5),
    vector=st.sampled_from(("", "", "a", "b", "ab")),
)
def test_matmul_reads_and_writes_the_right_elements(
    catalog: Any, rules: Any, data: Any, batch: Any, m: int, n: int, k: int, vector: str
) -> None:
    def operand(matrix: tuple[int, ...], is_vector: bool, length: int) -> np.ndarray:
        if is_vector:
            return data.draw(views((length,), broadcast=False))
        own = tuple(1 if data.draw(st.booleans()) else size for size in batch)
        return data.draw(
            views(own[data.draw(st.integers(0, len(own))) :] + matrix, broadcast=False)
        )

    a = operand((m, k), "a" in vector, k)
    b = operand((k, n), "b" in vector, k)
    expected = a @ b
    out = data.draw(st.none() | views(expected.shape, broadcast=False))
    result, _ = emulate(catalog["matmul"], [a, b], rules, out=out)
    np.testing.assert_array_equal(result, expected)


# ------------------------------------------------------------------------------------ fast paths


def test_contiguous_data_of_any_rank_takes_no_address_arithmetic(catalog: Any, rules: Any) -> None:
    for shape in ((), (1,), (7,), (3, 4, 5), (3, 1, 5)):
        types = [array("float32", *shape)] * 2
        (launch,) = catalog["add"].plan(call_of(catalog["add"], rules, *types)).launches
        assert [launch.args[n] for n in ("shape", "sa", "sb", "so")] == [()] * 4


def test_arrays_transposed_alike_are_as_good_as_contiguous(catalog: Any, rules: Any) -> None:
    x = layout(np.zeros((4, 5, 6)).transpose(2, 0, 1))
    (launch,) = catalog["add"].plan(call_of(catalog["add"], rules, x, x, out=x)).launches
    assert launch.args["sa"] == launch.args["so"] == ()


def test_scalars_go_by_value(catalog: Any, rules: Any) -> None:
    types = array("float32", 4, 5), ScalarType("float32")
    (launch,) = catalog["add"].plan(call_of(catalog["add"], rules, *types)).launches
    assert launch.args["b"] == Input(1)
    assert launch.args["sa"] == ()
    assert launch.constants["sb"].name == "float32"


def test_one_matrix_for_a_whole_batch_is_one_product(catalog: Any, rules: Any) -> None:
    types = array("float16", 8, 128, 64), array("float16", 64, 32)
    (launch,) = catalog["matmul"].plan(call_of(catalog["matmul"], rules, *types)).launches
    assert launch.args["M"] == 8 * 128
    assert launch.args["batch_shape"] == ()


def test_parameters_come_in_the_order_of_the_call(catalog: Any, rules: Any) -> None:
    """The launch path is shortest when the addresses of a call are its first parameters."""
    for name in ("add", "relu", "sum", "softmax", "rms_norm", "matmul"):
        spec = catalog[name]
        types = [array("float32", 8, 8)] * spec.required
        (launch,) = spec.plan(call_of(spec, rules, *types)).launches
        addresses = [v for v in launch.args.values() if isinstance(v, Input | Output)]
        assert addresses == [*map(Input, range(len(types))), Output()], name


# ------------------------------------------------------------------------------------ two launches


@pytest.mark.parametrize(("units", "parts"), [(1, 1), (2, 8), (132, 512)])
def test_a_long_sum_is_cut_so_that_every_multiprocessor_works(
    catalog: Any, rules: Any, units: int, parts: int
) -> None:
    plan = catalog["sum"].plan(call_of(catalog["sum"], rules, array("float32", 2**22), units=units))
    if units == 1:
        assert plan.launches[0].grid[1] <= 4
    else:
        assert plan.launches[0].grid[1] == parts
        assert plan.temporaries == (array("float32", parts, 1),)
        assert plan.launches[1].args["reduced"] == parts


def test_a_cut_sum_is_right(catalog: Any, rules: Any) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 50_000)).astype(float)
    for view, axis in ((x, 1), (x.T, 0), (x, None), (x[:, ::-2], 1)):
        result, plan = emulate(catalog["sum"], [view], rules, options={"axis": axis})
        assert len(plan.launches) == 2
        np.testing.assert_array_equal(result, view.sum(axis))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_large_matmul_on_a_cpu_goes_through_panels(catalog: Any, rules: Any, dtype: str) -> None:
    """Panels of b, and where the operands are multiplied in another type, a in that type."""
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 3, (2, 3, 40, 70)).astype(dtype)
    b = rng.integers(-3, 3, (3, 70, 50)).astype(dtype)
    few = 2 if dtype == "float64" else 3
    for left, right in ((a, b), (a[0, 0], b[0]), (a[:, :, ::-1], b[..., ::-1]), (a[1, 2], b[2:])):
        result, plan = emulate(catalog["matmul"], [left, right], rules, vendor="cpu")
        assert len(plan.launches) == few
        np.testing.assert_array_equal(result, left @ right)


def test_a_matmul_of_long_k_is_cut(catalog: Any, rules: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 3, (2, 3, 4, 3000)).astype(float)
    b = rng.integers(-3, 3, (3, 3000, 5)).astype(float)
    for left, right in ((a, b), (a.transpose(1, 0, 2, 3), b[:, None]), (a[0, 0, 0], b[0, :, 0])):
        out = np.zeros((left @ right).shape[::-1]).T
        for target in (None, out if out.ndim else None):
            result, plan = emulate(catalog["matmul"], [left, right], rules, out=target)
            assert len(plan.launches) == 2
            np.testing.assert_array_equal(result, left @ right)


# ------------------------------------------------------------------------------------ dtypes


@pytest.mark.parametrize(
    ("name", "dtypes", "expected"),
    [
        ("add", ("bool", "bool"), "bool"),
        ("add", ("int8", "uint8"), "int16"),
        ("mul", ("int64", "float32"), "float64"),
        ("div", ("int8", "int8"), "float64"),
        ("div", ("float16", "int8"), "float16"),
        ("exp", ("int8",), "float16"),
        ("exp", ("int16",), "float32"),
        ("exp", ("bool",), "float16"),
        ("sum", ("bool",), "int64"),
        ("sum", ("uint8",), "uint64"),
        ("sum", ("bfloat16",), "bfloat16"),
        ("max", ("int8",), "int8"),
        ("where", ("bool", "int8", "float32"), "float32"),
        ("matmul", ("float16", "float32"), "float32"),
    ],
)
def test_result_dtypes_are_numpys(
    catalog: Any, rules: Any, name: str, dtypes: Any, expected: str
) -> None:
    types = [array(dtype, 4, 4) for dtype in dtypes]
    plan = catalog[name].plan(call_of(catalog[name], rules, *types))
    assert plan.outputs[0].dtype == expected


def test_float64_is_computed_in_float64_and_small_floats_in_float32(
    catalog: Any, rules: Any
) -> None:
    for name, spec in catalog.items():
        for dtype, computed in (("float64", "float64"), ("float16", "float32")):
            if spec.category in ("user", "bits", "cast", "cache") or not takes(spec, dtype):
                continue
            plan = spec.plan(call_of(spec, rules, *for_plans(layouts(spec, dtype, (8, 8)))))
            if plan.outputs[0].dtype != dtype:  # it has a rule of its own
                continue
            for launch in plan.launches:
                last = "abcd"[min(spec.required, 4) - 1].upper()
                constants = launch.constants
                found = constants.get("T", constants.get(f"T{last}", constants.get("TA")))
                if found is not None and not found.name.startswith(("int", "bool")):  # it counts
                    exact = spec.elementwise and found.name == dtype  # chosen, not computed
                    assert found.name == computed or exact, name


# ------------------------------------------------------------------------------------ nothing to do


@pytest.mark.parametrize(
    ("name", "shapes", "shape"),
    [
        ("add", [(0, 3), (3,)], (0, 3)),
        ("sum", [(0, 3)], (0, 3)),
        ("softmax", [(0, 3)], (0, 3)),
        ("softmax", [(3, 0)], (3, 0)),
        ("layer_norm", [(3, 0)], (3, 0)),
        ("matmul", [(0, 3), (3, 4)], (0, 4)),
    ],
)
def test_an_empty_result_launches_nothing(
    catalog: Any, rules: Any, name: str, shapes: Any, shape: Any
) -> None:
    options = {"axis": ()} if name == "sum" else {}
    types = [array("float32", *s) for s in shapes]
    plan = catalog[name].plan(call_of(catalog[name], rules, *types, **options))
    assert plan.outputs[0].shape == shape
    assert plan.launches == ()


def test_sums_over_nothing_are_zero(catalog: Any, rules: Any) -> None:
    result, _ = emulate(catalog["sum"], [np.zeros((3, 0))], rules, options={"axis": 1})
    np.testing.assert_array_equal(result, np.zeros(3))
    out = np.full((3, 4), 7.0)
    result, _ = emulate(catalog["matmul"], [np.zeros((3, 0)), np.zeros((0, 4))], rules, out=out)
    np.testing.assert_array_equal(result, np.zeros((3, 4)))


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("name", "types", "options", "message"),
    [
        ("add", [array("float32", 3), array("float32", 4)], {}, r"add: shapes \(3,\), \(4,\)"),
        ("sub", [array("bool", 3)] * 2, {}, "both arguments are bool"),
        ("gelu", [ScalarType("int64")], {}, "gelu does not take int64; it takes float16"),
        ("gelu", [array("float32", 3)], {"approximate": "yes"}, "'none'.*'tanh'"),
        ("sum", [array("float32", 3)], {"axis": 1}, "axis 1 is out of range.*from -1 to 0"),
        ("sum", [array("float32")], {"axis": 0}, r"axis 0 is out of range.*\(\) or None"),
        ("sum", [array("float32", 3)], {"axis": (0, -1)}, "names an axis twice"),
        ("sum", [array("float32", 3)], {"axis": 0.5}, "has to be an integer"),
        ("max", [array("float32", 3, 0)], {"axis": 1}, "max of nothing is not defined"),
        ("max", [array("float32", 0)], {}, "max of nothing is not defined"),
        ("max", [ScalarType("float32")], {}, "argument 1 is a scalar"),
        ("softmax", [array("float32", 3, 4)], {"axis": (0, 1)}, "has to be one axis"),
        ("softmax", [array("float32", 3, 4)], {"axis": 2}, "axis 2 is out of range"),
        ("layer_norm", [array("float32")], {}, "at least one"),
        (
            "rms_norm",
            [array("float32", 3, 4), array("float32", 3)],
            {},
            r"weight has shape \(3,\).*needs shape \(4,\)",
        ),
        ("matmul", [array("float32", 3, 4), array("float32", 3, 4)], {}, "length 4.*axis.*3"),
        ("matmul", [array("float32", 4), array("float32", 3)], {}, "the only axis.*3"),
        ("matmul", [array("float32"), array("float32", 3)], {}, "argument 1 has no dimension"),
        (
            "matmul",
            [array("float32", 2, 3, 4), array("float32", 3, 4, 5)],
            {},
            "matmul: shapes .* do not broadcast",
        ),
    ],
)
def test_what_does_not_fit_is_said(
    catalog: Any, rules: Any, name: str, types: Any, options: Any, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        catalog[name].plan(call_of(catalog[name], rules, *types, **options))


@pytest.mark.parametrize("name", ["add", "sum", "softmax", "layer_norm", "matmul"])
def test_an_out_of_another_shape_or_dtype_is_refused(catalog: Any, rules: Any, name: str) -> None:
    spec = catalog[name]
    types = [array("float32", 4, 4)] * spec.required
    options = {"axis": 1} if name == "sum" else {}
    right = spec.plan(call_of(spec, rules, *types, **options)).outputs[0].shape
    for out, message in (
        (array("float32", 7), r"out has shape \(7,\)"),
        (array("float64", *right), "out has dtype float64"),
    ):
        with pytest.raises(ArgumentError, match=message):
            spec.plan(call_of(spec, rules, *types, out=out, **options))


# ------------------------------------------------------------------------------------ the library


def test_tiles_are_powers_of_two_and_fit_shared_memory(library: Any) -> None:
    tuning = library("plans.tuning_matmul")
    limits = {"nvidia": 99, "amd": 64, "intel": 32, "cpu": 32, "other": 32}
    sizes = {"half": 2, "single": 4, "double": 8, "integer": 0}
    for key, kinds in tuning._MATMUL.items():
        vendor = key.partition(" ")[0]
        assert set(kinds) == set(sizes)
        for kind, tiles in kinds.items():
            for tile in tiles:
                assert all(v & (v - 1) == 0 for v in (tile.m, tile.n, tile.k, tile.num_warps))
                buffers = tile.num_stages if vendor.startswith("nvidia") else 1
                used = (tile.m + tile.n) * tile.k * sizes[kind] * buffers
                assert used <= limits[vendor] * 1024, (vendor, kind, tile)


def test_sums_leave_a_cpu_of_few_registers_some_for_operands(library: Any) -> None:
    windows, matmul = library("plans.tuning_windows"), library("plans.tuning_matmul")
    sizes = {"half": 4, "single": 4, "double": 8, "integer": 8}
    for kind, size in sizes.items():
        for tile in matmul.known_tiles("cpu", kind, few_registers=True):
            assert tile.m * tile.n * size <= 256, (kind, tile)
            assert tile.n % 16 == 0  # a block's threads are one vector
    for dtype, size in (("float32", 4), ("float64", 8)):
        for rows in (1, 2, 3, 4, 64):
            for length in (7, 16, 56, 224):
                m, n = windows.shifted_tile(dtype, rows, length, few_registers=True)
                assert m * n * size <= (512 if rows == 1 else 256), (dtype, rows, length)
                assert n % 16 == 0, (dtype, rows, length)


def test_the_catalog_imports_nothing_heavy() -> None:
    code = (
        "import sys, xtarget\n"
        "assert xtarget.catalog()['matmul'].name == 'matmul'\n"
        "assert 'triton' not in sys.modules and 'llvmlite' not in sys.modules\n"
        "mine = [m for m in sys.modules if m.startswith('xtarget_kernels_')]\n"
        "own = {m.partition('.')[2] for m in mine}\n"
        "assert 'plans.matmul' in own\n"
        "assert not own & {'elementwise', 'linear', 'indexing', 'movement'}, own\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_every_spec_is_complete(catalog: Any, rules: Any) -> None:
    for name, spec in catalog.items():
        if spec.category == "user":
            continue
        assert spec.summary, name
        assert spec.examples is not None, name
        if spec.updates:  # written in place: no result that a reference could give
            continue
        assert spec.reference is not None, name
        shapes = spec.examples((32, 16))
        assert spec.required <= len(shapes) <= len(spec.inputs)
        dtype = next(d for d in ("float32", *spec.dtypes) if takes(spec, d))
        plan = spec.plan(call_of(spec, rules, *for_plans(layouts(spec, dtype, (32, 16)))))
        expected = spec.reference(*arrays(spec, dtype, (32, 16)), **spec.planned_with)
        several = expected if isinstance(expected, tuple) else (expected,)
        counts = spec.counts or (None,) * len(plan.outputs)
        outs = [  # where the data say how many there are, the plan has room for the most
            (out.shape, count is not None)
            for index, (out, count) in enumerate(zip(plan.outputs, counts, strict=True))
            if index not in counts
        ]
        assert len(several) == len(outs), name
        for one, (shape, most) in zip(several, outs, strict=True):
            assert np.shape(one) == shape or (most and np.shape(one)[0] <= shape[0]), name


@pytest.mark.parametrize("rows", [1, 5, 16, 17, 128, 1000])
@pytest.mark.parametrize("others", [1, 3, 64])
@pytest.mark.parametrize("units", [1, 2, 64])
def test_tiles_below_each_other_share_a_block_where_enough_blocks_are_left(
    library: Any, rows: int, others: int, units: int
) -> None:
    height = library("plans.tuning_matmul").height(rows, others, units)
    blocks = -(-rows // height) * others
    assert 1 <= height <= min(rows, 16)
    assert height == 1 or 2 * blocks >= 8 * units
