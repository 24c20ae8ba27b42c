"""Floats of 8 bits where elements are only moved: bit by bit what their bytes give."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError
from xtarget._arrays.dtypes import numpy_dtype
from xtarget._kernels import libraries

ml_dtypes = pytest.importorskip("ml_dtypes")
NARROW = ("float8_e4m3fn", "float8_e5m2")
RANDOM = np.random.default_rng(5)


def codes(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


X, ROW, INDEX = codes(6, 9), codes(9), np.array([4, 0, 5, -1])
MASK = RANDOM.random((6, 9)) < 0.5
SAME = np.argsort(RANDOM.random((6, 9)), 0)

CALLS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("concat", [X, X[::2]], {"axis": 0}),
    ("stack", [X, X[::-1]], {"axis": -1}),
    ("split", [X], {"sections": 3, "axis": 1}),
    ("permute", [X], {}),
    ("reshape", [X.T], {"shape": (2, 27)}),
    ("flip", [X], {"axis": 1}),
    ("roll", [X], {"shift": 5}),
    ("tile", [ROW], {"reps": 3}),
    ("repeat", [X], {"repeats": 2, "axis": 0}),
    ("broadcast_to", [ROW], {"shape": (4, 9)}),
    ("strided_slice", [X], {"starts": (1, 8), "stops": (6, 0), "steps": (2, -3)}),
    ("pad", [X], {"width": 2}),
    ("pad", [X], {"width": 2, "mode": "reflect"}),
    ("tril", [X], {}),
    ("diag_embed", [ROW], {}),
    ("take", [X, INDEX], {"axis": 0}),
    ("embedding", [INDEX.clip(0), X], {}),
    ("gather", [X, SAME], {"axis": 0}),
    ("take_along_axis", [X, SAME], {"axis": 0}),
    ("gather_nd", [X, np.array([[1, 2], [5, 8]])], {}),
    ("index", [X, INDEX], {}),
    ("scatter", [X, SAME, X[::-1]], {"axis": 0}),
    ("index_copy", [X, INDEX[:2], X[:2]], {"axis": 0}),
    ("select_scatter", [X, ROW], {"axis": 0, "index": 2}),
    ("where", [MASK, X, ROW], {}),
    ("masked_select", [X, MASK], {}),
    ("index_put", [X, INDEX[:2], X[:2]], {}),
    ("index_put", [X, INDEX[:2], np.array([1, 8]), ROW[:2]], {}),
]


def narrow(args: list[Any], dtype: str) -> list[Any]:
    return [arg.view(numpy_dtype(dtype)) if arg.dtype == np.uint8 else arg for arg in args]


@pytest.mark.parametrize(("name", "args", "options"), CALLS)
def test_elements_are_moved_bit_by_bit(
    name: str, args: list[Any], options: dict[str, Any], device: str
) -> None:
    wanted = xtarget.run(name, *args, device=device, **options)
    for dtype in NARROW if name == "concat" else NARROW[:1]:
        found = xtarget.run(name, *narrow(args, dtype), device=device, **options)
        for one, other in zip(_each(found), _each(wanted), strict=True):
            assert one.dtype == numpy_dtype(dtype)
            np.testing.assert_array_equal(one.view(np.uint8), other)


def _each(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_what_only_moves_takes_them() -> None:
    """All that have them are listed here, `cast` apart."""
    takes = {
        name
        for name, spec in xtarget.catalog().items()
        if NARROW[0] in spec.dtypes and spec.category in ("movement", "ternary", "search")
    }
    assert {name for name, _, _ in CALLS} <= takes
    assert not takes & {"scatter_add", "diff", "one_hot", "unique", "index_add"}


def test_a_cache_of_keys_is_written(device: str) -> None:
    cache, keys = codes(1, 2, 8, 4), codes(1, 2, 3, 4)
    own = [one.view(numpy_dtype(NARROW[0])) for one in (keys, keys, cache.copy(), cache.copy())]
    xtarget.run("kv_cache_update", *own, np.array([[1, 5, 7]]), device=device)
    wanted = cache.copy()
    wanted[:, :, [1, 5, 7]] = keys
    np.testing.assert_array_equal(own[2].view(np.uint8), wanted)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_constant_around_them_is_rounded_as_a_cast_does(dtype: str, device: str) -> None:
    bits = inspect.getmodule(
        libraries.find("pad").spec.plan  # the function that stands in front of its plan
    )
    x = codes(3).view(numpy_dtype(dtype))
    hard = [0.0, -0.0, 1.0, -1.7, 0.3, 448.0, 464.0, 465.0, 1e9, -np.inf, np.nan, 2.0**-9, 2.0**-10]
    hard += [2.0**-17, 1.5 * 2.0**-17, 61439.0, 61440.0, 1.0625, 1.1875, 15.5, 0.0146484375]
    for value in hard:
        right = xtarget.run("cast", np.array([value], np.float32), dtype=dtype, device=device)
        made = np.array([bits.narrow_bits(value, dtype)], np.uint8).view(right.dtype)
        np.testing.assert_array_equal(made.astype("f4"), right.astype("f4"), str(value))
    found = xtarget.run("pad", x, width=1, value=1.7, device=device)
    assert found[0] == found[-1] == np.float32(1.7).astype(x.dtype)


CONSTANTS: list[tuple[str, dict[str, Any]]] = [
    ("full", {"shape": (2, 5), "value": 1.7}),
    ("full", {"shape": (3,), "value": 1e9}),
    ("full", {"shape": (3,), "value": float("nan")}),
    ("zeros", {"shape": (7,)}),
    ("ones", {"shape": (7,)}),
    ("scalar_tensor", {"value": -0.3}),
    ("eye", {"rows": 3, "columns": 5, "k": 1}),
    ("arange", {"start": -3, "stop": 40, "step": 0.75}),
    ("linspace", {"start": -500, "stop": 500, "count": 41}),
    ("logspace", {"start": -3, "stop": 1, "count": 9, "base": 2.0}),
]


@pytest.mark.sample(2, each=("dtype", "name"))
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("name", "options"), CONSTANTS)
def test_arrays_of_numbers_are_cast(
    name: str, options: dict[str, Any], dtype: str, device: str
) -> None:
    wide = xtarget.run(name, dtype="float32", device=device, **options)
    wanted = xtarget.run("cast", wide, dtype=dtype, device=device)
    found = xtarget.run(name, dtype=dtype, device=device, **options)
    assert found.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(found.astype("f4"), wanted.astype("f4"))
    reference = xtarget.catalog()[name].reference
    assert reference is not None
    right = xtarget.run("cast", np.asarray(reference(dtype=dtype, **options), "f4"), dtype=dtype)
    np.testing.assert_array_equal(found.astype("f4"), right.astype("f4"))


@pytest.mark.parametrize("dtype", NARROW)
def test_arrays_like_them_have_their_dtype(dtype: str, device: str) -> None:
    x = codes(4, 3).view(numpy_dtype(dtype)).T
    for name, value in (("zeros_like", 0), ("ones_like", 1), ("full_like", 1e9)):
        options = {"value": value} if name == "full_like" else {}
        found = xtarget.run(name, x, device=device, **options)
        right = xtarget.run("cast", np.float32([value]), dtype=dtype, device=device)
        assert found.dtype == x.dtype
        assert found.shape == x.shape
        assert (found.astype("f4") == right.astype("f4")).all()


def test_bad_input() -> None:
    x = codes(4).view(numpy_dtype(NARROW[0]))
    with pytest.raises(ArgumentError, match="float8_e4m3fn stands beside float16"):
        xtarget.run("concat", x, np.ones(3, np.float16))
    with pytest.raises(ArgumentError, match="float8_e4m3fn stands beside float8_e5m2"):
        xtarget.run("concat", x, x.view(numpy_dtype(NARROW[1])))
    with pytest.raises(ArgumentError, match="does not take float8_e4m3fn"):
        xtarget.run("index_add", x, np.array([0]), x[:1])
    with pytest.raises(ArgumentError, match="accumulate adds, and floats of 8 bits"):
        xtarget.run("index_put", x, np.array([0]), x[:1], accumulate=True)
    with pytest.raises(ArgumentError, match="float8_e4m3fn stands beside float32"):
        xtarget.run("index_put", x, np.array([0]), np.ones(1, np.float32))
