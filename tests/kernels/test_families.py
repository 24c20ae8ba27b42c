"""Every row of the table that is not elementwise, against its reference: dtypes, shapes, axes,
views, options, empty arrays.

The short tier takes one dtype of each row, float32 of every second one, and few layouts, on a CPU
half of them along the last axis only: a new specialization costs half a second there. An emulated
device takes a quarter of these. The long tier takes all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import operators
import pytest
from oracle import check, compare, expected
from refusals import refused

import xtarget
from xtarget._values.types import COMPUTED
from xtarget.spec import KernelSpec

#: Categories of which the shapes and options have test files of their own.
_APART = (
    "linear algebra",
    "convolution",
    "pooling",
    "image",
    "segment",
    "recurrent",
    "cache",
    "quantized",
)
#: What a random array must not be here: sums of what cancels, logarithms of what is negative,
#: products that overflow.
_POSITIVE = ("log_sum",)
_NEAR_ONE = ("prod", "cumprod")
_SMALL = ("square_sum", "mean_square")


def rows() -> dict[str, KernelSpec]:
    return {
        name: spec
        for name, spec in operators.own().items()
        if spec.inputs and not spec.elementwise and spec.category not in _APART
    }


def _sampled(name: str, dtype: str = "float32") -> list[Any]:
    """Marks of a test of the short tier, of which an emulated device takes a quarter."""
    own = dtype == "float32" and sum(map(ord, name)) % 4 == 0
    return [] if own else [pytest.mark.large]


def _short_on_a_cpu(device: str) -> bool:
    return device.startswith("cpu") and not os.environ.get("XTARGET_TEST_LONG")


def _cases() -> Iterator[Any]:
    for name, spec in rows().items():
        # floats of 8 bits: test_few_bits_moved.py
        dtypes = [d for d in spec.dtypes if d in COMPUTED and operators.takes(spec, d)]
        number = sum(map(ord, name))
        first = "float32" if "float32" in dtypes and number % 2 else dtypes[number % len(dtypes)]
        for dtype in dtypes:
            short = dtype == first
            marks = _sampled(name, dtype) if short else [pytest.mark.long]
            yield pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}")


def arguments(spec: KernelSpec, dtype: str, shape: tuple[int, ...]) -> list[Any]:
    given = operators.arrays(spec, dtype, shape)
    x = given[0]
    if x.dtype.kind in "biu":
        return [x // 8 if spec.name in _NEAR_ONE and x.dtype.kind != "b" else x, *given[1:]]
    if spec.name in _POSITIVE:
        given[0] = np.abs(x)
    elif spec.name in _NEAR_ONE:
        given[0] = (1 + x.astype(np.float64) / 100).astype(x.dtype)
    elif spec.name in _SMALL:
        given[0] = (x.astype(np.float64) / 4).astype(x.dtype)
    return given


def turned(x: Any) -> Any:
    """The same elements in another order of memory: columns side by side."""
    return np.asarray(x.T, order="C").T if x.ndim > 1 else x


@pytest.mark.parametrize(("name", "dtype"), list(_cases()))
def test_a_row_gives_what_its_reference_gives(device: str, name: str, dtype: str) -> None:
    spec = rows()[name]
    check(name, *arguments(spec, dtype, (8, 130)), device=device)
    if _short_on_a_cpu(device) and sum(map(ord, name)) % 4 < 3:
        return  # test_shapes_and_views has each axis of each row
    if "axis" in spec.options and name != "glu_backward":  # grad is half of x along one axis
        check(name, *map(turned, arguments(spec, dtype, (8, 130))), axis=0, device=device)


def _fits(spec: KernelSpec, shape: tuple[int, ...]) -> bool:
    """Not of one dimension with targets of one less, nor a gradient that cancels altogether."""
    return not ("target" in spec.inputs and len(shape) < 2) and not (
        spec.category == "gradient" and shape[-1] == 1
    )


#: What an axis of any length, or views of all arguments, are not calls of; they have own tests.
_NOT_EVERY_VIEW = ("attention_varlen", "index_add", "index_copy", "roll", "squeeze", "unstack")


def _dtype_of(spec: KernelSpec) -> str:
    return next(one for one in ("float32", *spec.dtypes) if operators.takes(spec, one))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in rows() if name not in _NOT_EVERY_VIEW])
def test_shapes_and_views(device: str, name: str) -> None:
    spec = rows()[name]
    dtype = _dtype_of(spec)
    for shape in ((1,), (33,), (1, 1), (5, 1), (2, 3, 65), (3, 1, 2, 17), (4, 4097)):
        if not _fits(spec, shape):
            continue
        given = arguments(spec, dtype, shape)
        check(name, *given, device=device)
        # every second of twice as many, backwards
        views = [np.repeat(a, 2, -1)[..., ::-2][..., ::-1] if np.ndim(a) else a for a in given]
        check(name, *views, device=device)
        for axis in range(len(shape)) if "axis" in spec.options and spec.category != "gate" else ():
            check(name, *given, axis=axis - len(shape), device=device)


@pytest.mark.long
@pytest.mark.large
@pytest.mark.parametrize("name", rows())
def test_many_elements(device: str, name: str) -> None:
    spec = rows()[name]
    dtype = _dtype_of(spec)
    if name in _NEAR_ONE:
        pytest.skip("a product of so many elements has no digit left to compare")
    check(name, *arguments(spec, dtype, (1, 2**20 + 1)), device=device)


def test_nan_is_the_largest_and_the_smallest_wherever_it_lies_in_a_row(device: str) -> None:
    """One in each row, at another place of the 131 that take two whole steps and a part."""
    x = np.tile(np.arange(131, dtype=np.float32), (131, 1))
    np.fill_diagonal(x, np.nan)
    for name in ("max", "min"):
        assert np.isnan(xtarget.run(name, x, axis=1, device=device)).all()


def test_many_short_rows_each_have_their_own_result(device: str) -> None:
    """More rows than blocks, and no multiple of the rows that a block takes."""
    x = np.arange(2051 * 5, dtype=np.float32).reshape(2051, 5)
    for name in ("sum", "mean", "max", "min"):
        check(name, x, axis=1, device=device)


@pytest.mark.parametrize("name", [n for n, s in rows().items() if s.category == "reduction"])
def test_a_reduction_of_nothing(device: str, name: str) -> None:
    """NumPy's results and refusals; no kernel runs where the result is empty."""
    empty = np.zeros((0, 3), np.float32)
    assert np.shape(_first(xtarget.run(name, empty, axis=1, device=device))) == (0,)
    try:
        right = expected(name, [empty], {"axis": 0})
    except ValueError:
        with pytest.raises(xtarget.ArgumentError, match="has no elements"):
            xtarget.run(name, empty, axis=0, device=device)
    else:
        if np.shape(_first(right)) and not name.startswith("nanm"):
            compare(name, xtarget.run(name, empty, axis=0, device=device), right)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


SPECIAL = np.array(
    [
        [1, np.nan, np.inf, 2, np.nan],
        [np.nan] * 5,
        [-np.inf, -np.inf, -np.inf, -np.inf, -np.inf],
        [np.inf, 1, np.inf, -np.inf, 0],
        [-0.0, 0.0, -1, 3, 3],
        [-np.inf, 2, 5, 5, 1],
    ],
    np.float32,
)


SPECIALLY = """max min argmax argmin any all count_nonzero nanmax nanmin nansum nanmean logsumexp
aminmax norm cummax cummin cumsum logcumsumexp softmax log_softmax"""


@pytest.mark.parametrize("name", [pytest.param(n, marks=_sampled(n)) for n in SPECIALLY.split()])
def test_nan_and_infinities(device: str, name: str) -> None:
    check(name, SPECIAL, axis=1, device=device)


@pytest.mark.parametrize(
    ("name", "x", "y", "right"),
    [
        ("reglu", [-np.inf, np.inf, np.nan, -1], [2, 2, 2, 2], [0, np.inf, np.nan, 0]),
        pytest.param("hinge_loss", [np.inf, -np.inf, np.nan], [1, 1, 1], [0, np.inf, np.nan],
                     marks=pytest.mark.large),
        pytest.param("hinge_embedding_loss", [np.inf, np.nan], [-1, -1], [0, np.nan],
                     marks=pytest.mark.large),
        pytest.param("soft_margin_loss", [np.inf, -np.inf, np.nan], [1, 1, 1], [0, np.inf, np.nan],
                     marks=pytest.mark.large),
    ],
)  # fmt: skip
def test_an_infinity_that_is_cut_off_is_0(
    device: str, name: str, x: Any, y: Any, right: Any
) -> None:
    options = {} if name == "reglu" else {"reduction": "none"}
    given = np.array(x, np.float32), np.array(y, np.float32)
    found = xtarget.run(name, *given, device=device, **options)
    np.testing.assert_array_equal(found, np.float32(right))


@pytest.mark.parametrize(
    "name", ["rms_norm_backward", pytest.param("layer_norm_backward", marks=pytest.mark.large)]
)
def test_the_gradient_of_rows_of_one_element(device: str, name: str) -> None:
    """It cancels: what is left is below a few roundings of the parts that it is the rest of."""
    grad, x = np.float32([[0.6], [-2], [30]]), np.float32([[1.03], [0.5], [-7]])
    found = np.asarray(xtarget.run(name, grad, x, device=device)[0], np.float64)
    wide = x.astype(np.float64)
    right = grad * 1e-6 / (wide**2 + 1e-6) ** 1.5 if name.startswith("rms") else 0 * wide
    root = np.abs(grad / wide) if name.startswith("rms") else np.abs(grad) / np.sqrt(1e-5)
    assert (np.abs(found - right) <= 4 * 2.0**-24 * root).all()


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equals(device: str, name: str) -> None:
    """Also where they are far apart, and in pieces that other blocks look at."""
    x = np.zeros(100_000, np.int32)
    x[[70, 9_000, 99_999]] = 5 if name == "argmax" else -5
    assert xtarget.run(name, x, device=device) == 70
    assert xtarget.run(name, x.reshape(10, -1), axis=1, device=device).tolist() == [
        70, *[0] * 8, 9_999
    ]  # fmt: skip
    view = np.asarray(x.reshape(100, 1000).T, order="C").T  # in the order of the axes, not memory's
    assert xtarget.run(name, view, device=device) == 70
    x[...] = np.iinfo(np.int32).min if name == "argmax" else np.iinfo(np.int32).max
    assert xtarget.run(name, x, device=device) == 0


@pytest.mark.sample(3, each=("name", "options"))
@pytest.mark.parametrize("options", [{"exclusive": True}, {"reverse": True},
                                     {"exclusive": True, "reverse": True}])  # fmt: skip
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans_that_leave_out_or_go_back(device: str, name: str, options: Any) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (5, 300))
    for axis in (1, 0):
        check(name, x, axis=axis, device=device, **options)
    xtarget.run(name, x, out=np.zeros((5, 300), np.int64)[:, ::-1], device=device)


@pytest.mark.large
def test_a_long_scan_is_exact_where_integers_are(device: str) -> None:
    x = np.random.default_rng(0).integers(-(2**62), 2**62, 300_001)
    check("cumsum", x, device=device)
    check("cumsum", x.reshape(1, -1), exclusive=True, device=device)
    found, index = xtarget.run("cummax", x, device=device)
    compare("cummax", (found, index), expected("cummax", [x], {}))


@pytest.mark.large
def test_a_long_scan_rounds_little(device: str) -> None:
    x = np.full(1_000_000, 0.1, np.float32)
    right = np.arange(1, x.size + 1) * np.float64(np.float32(0.1))
    found = xtarget.run("cumsum", x, device=device)
    assert np.max(np.abs(found - right) / right) < 1e-6


def test_results_of_scans_and_sums_are_the_same_each_time(device: str) -> None:
    x = operators.sample("float32", 100_003)
    for name in ("cumsum", "sum", "var", "logsumexp"):
        first = xtarget.run(name, x, device=device)
        for _ in range(3):
            assert np.array_equal(xtarget.run(name, x, device=device), first)


@pytest.mark.large
@pytest.mark.parametrize("p", [0.0, 1.0, 3.0, np.inf, -np.inf])
def test_norms(device: str, p: float) -> None:
    check("norm", operators.sample("float32", 9, 300), p=p, axis=1, device=device)


def test_the_count_that_a_variance_is_divided_by(device: str) -> None:
    x = operators.sample("float32", 9, 5)
    for how in ({"ddof": 1}, {"correction": 1}, {"correction": 5}, {"ddof": 9}):
        check("var", x, axis=1, device=device, **how)
    with pytest.raises(xtarget.ArgumentError, match=r"ddof .* is 0\.5; it has to be an integer"):
        xtarget.run("var", x, ddof=0.5, device=device)


def test_where_a_reduction_begins(device: str) -> None:
    x = operators.sample("int32", 5, 300)
    for name, initial in (("sum", -7), ("prod", 0), ("max", 1000), ("min", -1000)):
        check(name, x, axis=1, initial=initial, device=device)
    assert xtarget.run("max", np.zeros((0, 2), np.float32), axis=0, initial=3.5,
                       device=device).tolist() == [3.5, 3.5]  # fmt: skip
    with pytest.raises(xtarget.ArgumentError, match=r"initial is 1\.5, which int64, the dtype of"):
        xtarget.run("sum", x, initial=1.5, device=device)


_SHAPES = ((9, 70), (3, 11, 5), (70,))
CROSS = [
    pytest.param(options, shapes, marks=marks)
    for options, shapes, marks in (
        ({"reduction": "none"}, _SHAPES[2:], ()),
        ({"reduction": "none"}, _SHAPES, pytest.mark.long),
        ({"reduction": "sum"}, _SHAPES, pytest.mark.long),
        ({"label_smoothing": 0.2}, _SHAPES, pytest.mark.long),
        ({"ignore_index": 3}, _SHAPES[1:2], ()),
        ({"ignore_index": 3}, _SHAPES, pytest.mark.long),
    )
]


@pytest.mark.large
@pytest.mark.parametrize(("options", "shapes"), CROSS)
def test_cross_entropy_and_its_gradient(device: str, options: Any, shapes: Any) -> None:
    for shape in shapes:
        x = operators.sample("float32", *shape)
        classes = shape[min(1, len(shape) - 1)]
        rows = shape[:1] + shape[2:] if len(shape) > 1 else ()
        target = operators.places(classes, *rows)
        if rows:
            target.reshape(-1)[1] = options.get("ignore_index", -100)
        weight = np.abs(operators.sample("float32", classes))
        grad = np.ones(rows if options.get("reduction") == "none" else (), np.float32)
        for more in ([], [weight]):
            check("cross_entropy", x, target, *more, device=device, **options)
            check("cross_entropy_backward", grad, x, target, *more, device=device, **options)
        plain = {n: v for n, v in options.items() if n != "label_smoothing"}
        check("nll_loss", x, target, weight, device=device, **plain)


def test_a_target_that_is_no_class_is_nan_and_reads_nothing(device: str) -> None:
    x = operators.sample("float32", 4, 9)
    target = np.array([3, 9, -1, 2**40])
    for name in ("cross_entropy", "nll_loss"):
        found = xtarget.run(name, x, target, reduction="none", device=device)
        assert np.isnan(found).tolist() == [False, True, True, True]


WRONG = [
    ("argmax", [np.zeros((3, 4))], {"axis": (0, 1)}, r"axis is \(0, 1\); it has to be one axis"),
    ("cumsum", [np.zeros((3, 4))], {"axis": 2}, "axis 2 is out of range"),
    ("cumsum", [np.float64(3)], {}, "argument 1 is a scalar"),
    ("mean", [np.zeros(3)], {"axis": "0"}, "axis is '0'; it has to be an integer"),
    ("norm", [np.zeros(3)], {"p": np.nan}, "p is nan; it has to be a number"),
    ("log_softmax", [np.zeros(3, int)], {}, "does not take int64"),
    ("cross_entropy", [np.zeros((3, 4)), np.zeros(4, int)], {}, r"target needs shape \(3,\)"),
    ("cross_entropy", [np.zeros((3, 4)), np.zeros(3)], {}, "classes are int64 or int32"),
    ("cross_entropy", [np.zeros((3, 4)), np.zeros(3, int)], {"reduction": "avg"}, "'avg'; it has"),
    ("cross_entropy", [np.zeros((3, 4)), np.zeros(3, int)], {"label_smoothing": 2.0}, "0 to 1"),
    ("softmax_backward", [np.zeros((3, 4)), np.zeros((3, 5))], {}, "they need the same"),
    ("layer_norm_backward", [np.zeros((3, 4))] * 2 + [np.zeros(3)], {}, r"it needs \(4,\)"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)


def test_a_middle_axis_of_as_many_rows_as_columns(device: str) -> None:
    """Results and elements are then found by one function, with tuples of other lengths: Triton
    3.6 took one of its specializations for the other."""
    x = np.arange(102, dtype=np.float32).reshape(3, 1, 2, 17) - 50
    for name in ("sum", "normalize", "norm"):
        check(name, x, axis=2, device=device)


@pytest.mark.parametrize("name", ["arctan2", "heaviside"])
def test_functions_of_two_small_integers_give_the_float_that_holds_both(
    device: str, name: str
) -> None:
    for one, other in (("uint8", "int8"), ("int16", "uint16"), ("bool", "int8"), ("int8", "int64")):
        a, b = np.array([1, 0, 1], one), np.array([1, 1, 0], other)
        found = xtarget.run(f"np.{name}", a, b, device=device)
        np.testing.assert_allclose(found, getattr(np, name)(a, b), 1e-3, strict=True)


@pytest.mark.long
def test_the_place_of_the_largest_of_more_elements_than_32_bits_count(device: str) -> None:
    column = np.zeros(2**16 + 1, np.int8)
    column[-2] = 5
    x = np.broadcast_to(column[:, None], (2**16 + 1, 2**15 + 7))
    assert int(xtarget.run("argmax", x, device=device)) == (2**16 - 1) * (2**15 + 7)
