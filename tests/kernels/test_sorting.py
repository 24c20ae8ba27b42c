"""Elements in order: ties, nan, zeros of both signs, any axis and layout, every dtype's limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import DTYPES, FLOATS

import xtarget
from xtarget._arrays.dtypes import numpy_dtype
from xtarget._launch import known


def _bits(x: Any) -> Any:
    """Bits that tell -0.0 from 0.0, and one nan from another."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _hard(dtype: str, *shape: int, seed: int = 0) -> Any:
    """Values with ties, limits of the dtype, nan, infinities, and zeros of both signs."""
    rng = np.random.default_rng([seed, *shape])
    kind = numpy_dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 5], dtype)
        return rng.choice(np.concatenate([ends, rng.integers(0, 99, 9).astype(dtype)]), shape)
    values = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-7, -1e-7]
    return rng.choice(np.array([*values, *rng.standard_normal(9)]).astype(kind), shape)


def _check(name: str, x: Any, device: str, **options: Any) -> None:
    """Every bit is the reference's, which sorts by NumPy."""
    spec = xtarget.catalog()[name]
    assert spec.reference is not None
    found = xtarget.run(name, x, device=device, **options)
    wide = x.astype(np.float32) if x.dtype.name == "bfloat16" else x
    right = spec.reference(wide, **{**spec.options, **options})
    found, right = (v if isinstance(v, tuple) else (v,) for v in (found, right))
    for one, other in zip(found, right, strict=True):
        assert one.shape == other.shape
        if one.dtype == x.dtype:
            other = other.astype(x.dtype)
        numbers = one == one
        np.testing.assert_array_equal(numbers, other == other)
        np.testing.assert_array_equal(_bits(one[numbers]), _bits(other[numbers]))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param("float32"),
        *(pytest.param(d, marks=pytest.mark.large) for d in ("uint64", "bool")),
        *(
            pytest.param(d, marks=pytest.mark.long)
            for d in DTYPES
            if d not in ("float32", "uint64", "bool")
        ),
    ],
)
def test_equals_stay_in_order(device: str, dtype: str) -> None:
    """In rows of one run, and in rows that are merged, in both directions."""
    for length in (37, 300):
        x = _hard(dtype, 2, length)
        for descending in (False, True):
            _check("sort_with_indices", x, device, descending=descending)


def test_a_long_row_in_pieces(device: str) -> None:
    """More elements than one block takes, forwards and backwards in memory."""
    x = _hard("float32", 20_001)
    for own in (x, x[::-2]):
        _check("argsort", own, device)
    _check("sort_with_indices", _hard("int8", 20_001), device, descending=True)


@st.composite
def _layouts(draw: Any, most: int) -> Any:
    """An array with axes in any order, some of them backwards or with gaps; and one of its axes."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = draw(st.integers(0, most))
    order = draw(st.permutations(range(len(shape))))
    steps = tuple(draw(st.sampled_from((1, 1, -1, 2, -2))) for _ in shape)
    stored = [shape[i] * abs(steps[i]) for i in order]
    dtype = draw(st.sampled_from(("float32", "int16")))
    x = _hard(dtype, *stored, seed=draw(st.integers(0, 3))).transpose(np.argsort(order))
    return x[tuple(slice(None, None, step) for step in steps)], axis


def _any_layout(device: str, case: Any, data: Any) -> None:
    x, axis = case
    name = data.draw(st.sampled_from(("sort", "argsort", "topk", "kthvalue")))
    options: dict[str, Any] = {"axis": axis}
    if name in ("sort", "argsort"):
        options["descending"] = data.draw(st.booleans())
    elif name == "topk":
        options |= {
            "k": data.draw(st.integers(0, x.shape[axis])),
            "largest": data.draw(st.booleans()),
        }
    elif not x.size:
        return
    else:
        options["k"] = data.draw(st.integers(1, x.shape[axis]))
    _check(name, x, device, **options)


@pytest.mark.large
@examples(12)
@given(case=_layouts(9), data=st.data())
def test_any_axis_of_any_layout(device: str, case: Any, data: Any) -> None:
    _any_layout(device, case, data)


@pytest.mark.long
@examples(200, same=False)
@given(case=_layouts(400), data=st.data())
def test_many_layouts_and_long_axes(device: str, case: Any, data: Any) -> None:
    _any_layout(device, case, data)


@pytest.mark.large
def test_all_of_an_array_and_its_first_axis(device: str) -> None:
    x = _hard("float32", 5, 60)
    for view in (x, x.T, x[:, ::-2]):
        _check("sort", view, device, axis=None)
        _check("argsort", view, device, axis=None, descending=True)
    _check("msort", x, device)


@pytest.mark.sample(3)
@pytest.mark.parametrize("k", [10, *(pytest.param(k, marks=pytest.mark.large) for k in (1, 200))])
def test_the_largest_of_long_rows(device: str, k: int) -> None:
    """Elements that cannot be among them are dropped while runs are merged."""
    x = _hard("float32", 3, 1000)
    _check("topk", x, device, k=k)
    _check("topk", x, device, k=k, largest=False)
    _check("kthvalue", x, device, k=k, keepdims=True)


@pytest.fixture
def small_tiles(library: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The ways of GPUs, on the CPU, with tiles of few elements."""
    tables = library("plans.tuning_order")
    few = {"digits": 100, "digits_elements": 0, "digits_tile": 256, "narrow": 64, "narrow_warps": 1}
    sizes = tables.Sorts(16, 16, 16, 1, 64, **few)
    monkeypatch.setattr(library("plans.digits"), "_SUMMED", 2)
    monkeypatch.setitem(tables._SORTS, "cpu", sizes)
    known.forget_calls()
    yield
    known.forget_calls()


@pytest.mark.sample(3, each=("dtype",))
@pytest.mark.parametrize(
    ("dtype", "k"),
    [
        *(("float32", k) for k in (1, 7, 16)),
        pytest.param("uint64", 7, marks=pytest.mark.large),
        *(pytest.param("uint64", k, marks=pytest.mark.long) for k in (1, 16)),
    ],
)
@pytest.mark.usefixtures("a_cpu")
def test_the_first_few_are_found_by_counting(dtype: str, k: int, small_tiles: None) -> None:
    """Tiles of many equals, of keys that all are one, and of the largest in one place."""
    x = _hard(dtype, 4, 700)
    x[2] = 1
    x[3].sort()
    _check("topk", x, "cpu", k=k)
    _check("topk", x[:, ::-2], "cpu", k=k, largest=False)
    _check("kthvalue", x, "cpu", k=9)


def _rows_of_pieces(dtype: str) -> Any:
    """Tiles of one digit too, whose count does not go into its field."""
    x = _hard(dtype, 2, 700)
    x[1, :300] = 1
    return x


@pytest.mark.sample(3, each=("dtype", "descending"))
@pytest.mark.parametrize("dtype", ["float32", "uint64", "bool"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.usefixtures("a_cpu")
def test_rows_are_ordered_by_digits_a_tile_a_block(
    dtype: str, descending: bool, small_tiles: None
) -> None:
    _check("sort_with_indices", _rows_of_pieces(dtype), "cpu", descending=descending)


def backwards(x: Any) -> None:
    _check("sort", x[:, ::-2], "cpu")


def along_the_first_axis(x: Any) -> None:
    _check("argsort", x.T, "cpu", axis=0)


def one_piece_and_a_tile_of_two_elements(x: Any) -> None:
    _check("sort", x[:, :130], "cpu", descending=True)


def groups_of_equals(x: Any) -> None:
    found, inverse, *_ = xtarget.run("unique_inverse", x[1, :200], device="cpu")
    np.testing.assert_array_equal(found[inverse], x[1, :200])


@pytest.mark.sample(3, each=("dtype", "case"))
@pytest.mark.parametrize(
    "case",
    [backwards, along_the_first_axis, one_piece_and_a_tile_of_two_elements, groups_of_equals],
    ids=lambda case: case.__name__,
)
@pytest.mark.parametrize(
    "dtype",
    ["float32", *(pytest.param(d, marks=pytest.mark.long) for d in ("uint64", "bool"))],
)
@pytest.mark.usefixtures("a_cpu")
def test_other_rows_are_ordered_by_digits(
    dtype: str, case: Callable[[Any], None], small_tiles: None
) -> None:
    case(_rows_of_pieces(dtype))


@pytest.mark.large
def test_a_long_row(device: str) -> None:
    x = sample("int32", 20_011)
    _check("sort_with_indices", x, device)
    _check("topk", x.reshape(1, -1), device, k=77)


def test_results_in_the_callers_memory(device: str) -> None:
    x = sample("float32", 6, 70)
    out = np.full((70, 12), np.float32(7)).T
    assert xtarget.run("sort", x, axis=1, out=out[::2], device=device) is not None
    np.testing.assert_array_equal(out[::2], np.sort(x, 1))
    assert (out[1::2] == 7).all()


def test_rows_without_elements(device: str) -> None:
    for shape in ((0,), (3, 0), (0, 3)):
        x = np.zeros(shape, np.float32)
        for name in ("sort", "argsort", "msort"):
            assert xtarget.run(name, x, device=device).shape == shape
    values, indices = xtarget.run("topk", np.zeros((2, 5)), k=0, device=device)
    assert values.shape == indices.shape == (2, 0)


@pytest.mark.parametrize(
    ("name", "x", "options", "said"),
    [
        ("sort", np.zeros((2, 3)), {"axis": 2}, "axis 2 is out of range"),
        ("sort", np.zeros((2, 3)), {"axis": (0, 1)}, "it has to be one axis"),
        ("sort", np.zeros(()), {}, "an array without dimensions has no axis -1"),
        ("msort", np.zeros(()), {}, "x has no dimensions"),
        ("topk", np.zeros(3), {"k": 4}, "k is 4; it has to be from 0 to 3"),
        ("topk", np.zeros(3), {"k": 1.5}, "k is 1.5; it has to be an integer"),
        ("kthvalue", np.zeros(3), {"k": 0}, "k is 0; it has to be from 1 to 3"),
        ("kthvalue", np.zeros(3), {"kth": 1}, "kthvalue has no option 'kth'"),
    ],
)
def test_bad_input_is_said_in_a_sentence(
    device: str, name: str, x: Any, options: Any, said: str
) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        xtarget.run(name, x, device=device, **options)


def test_the_dtypes_here_are_all() -> None:
    assert set(xtarget.catalog()["sort"].dtypes) == set(DTYPES) >= set(FLOATS)
