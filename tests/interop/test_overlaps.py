"""`out` beside the inputs: in place, interleaved, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError
from xtarget._launch.overlap import Overlaps
from xtarget.spec import ArrayType


def _torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed here")


LIBRARIES = {
    "NumPy": (lambda values: values.copy(), np.asarray),
    "xtarget": (xtarget.asarray, lambda array: array.numpy()),
    "torch": (lambda values: _torch().from_numpy(values.copy()), lambda tensor: tensor.numpy()),
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


@pytest.mark.parametrize("size", [1, 2, 31, 1000, 4097, 100_003])
def test_an_elementwise_kernel_works_in_place(device: str, library: Any, size: int) -> None:
    make, back = library
    values = np.arange(size, dtype=np.float32) - size // 2
    for _ in range(2):
        a = make(values)
        assert xtarget.run("add", a, a, out=a) is a
        np.testing.assert_array_equal(back(a), values * 2)
        assert xtarget.run("mul", a, 0.5, out=a) is a
        assert xtarget.run("relu", a, out=a) is a
        np.testing.assert_array_equal(back(a), np.maximum(values, 0))


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64"])
def test_in_place_in_views_and_dtypes(device: str, dtype: str) -> None:
    whole = (np.arange(60 * 70) % 2).astype(dtype).reshape(60, 70)
    for view in (whole.T, whole[::2, ::-1], whole[:, 3], whole[5:6]):
        expected = np.maximum(view, view[..., :1])
        xtarget.run("maximum", view, view[..., :1].copy(), out=view)
        np.testing.assert_array_equal(view, expected)


def test_interleaved_views_are_apart(device: str, library: Any) -> None:
    make, back = library
    values = np.arange(2000, dtype=np.float32)
    for _ in range(2):
        b = make(values)
        out = b[::2]
        xtarget.run("add", b[1::2], 1.0, out=out)
        np.testing.assert_array_equal(back(b)[::2], values[1::2] + 1)
        np.testing.assert_array_equal(back(b)[1::2], values[1::2])
        with pytest.raises(ArgumentError, match="overlaps argument 1"):
            xtarget.run("add", b[:1000], 1.0, out=b[::2])
    matrix = make(values.reshape(40, 50))
    xtarget.run("add", matrix[:, :25], matrix[:, :25], out=matrix[:, 25:])
    np.testing.assert_array_equal(back(matrix)[:, 25:], values.reshape(40, 50)[:, :25] * 2)


def test_what_is_not_elementwise_or_not_the_same_place_is_refused(device: str) -> None:
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    for call in (
        lambda: xtarget.run("softmax", a, out=a),
        lambda: xtarget.run("matmul", a, a, out=a),
        lambda: xtarget.run("add", a, a.T, out=a),
        lambda: xtarget.run("add", a, a[:1], out=a),
        lambda: xtarget.run("add", a, a[::-1], out=a),
        lambda: xtarget.run("add", a[:2], 1.0, out=a[1:3]),
        lambda: xtarget.run("add", a.view(np.int32), a.view(np.int32), out=a.view(np.int32)[::-1]),
    ):
        with pytest.raises(ArgumentError, match="overlaps"):
            call()
    np.testing.assert_array_equal(a, np.arange(16).reshape(4, 4))


@pytest.mark.parametrize("blocks", [4, 9])
def test_views_between_each_others_elements_are_updated(device: str, blocks: int) -> None:
    """Keys and values of a cache, whose halves alternate."""
    pytest.importorskip("triton")
    import overlap_kernels

    cache = np.zeros((blocks, 2, 8), np.float32)
    xtarget.run(overlap_kernels.NAME, cache[:, 0], cache[:, 1])
    assert (cache == np.array([1, 2]).reshape(1, 2, 1)).all()
    for other in (cache[:, 0], cache[:, 0, ::-1]):
        with pytest.raises(ArgumentError, match=r"argument 1 \(keys\), which it writes to, overl"):
            xtarget.run(overlap_kernels.NAME, cache[:, 0], other)
    with pytest.raises(ArgumentError, match=r"overlaps argument 2 \(values\) in memory"):
        xtarget.run(overlap_kernels.NAME, cache[:-1, 0], cache[1:, 0])


def test_a_kernel_of_whole_rows_works_in_place(device: str) -> None:
    pytest.importorskip("triton")
    import overlap_kernels

    x = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    right = x / x.sum(1, keepdims=True)
    assert xtarget.run(overlap_kernels.SHARES, x, out=x) is x
    np.testing.assert_allclose(x, right, rtol=1e-6)
    with pytest.raises(ArgumentError, match="out overlaps argument 1"):
        xtarget.run(overlap_kernels.SHARES, x[:2], out=x[1:])
    assert "`out` may be one of the arrays" in (xtarget.get(overlap_kernels.SHARES).__doc__ or "")


def test_random_views_agree_with_numpys_own_answer() -> None:
    made = np.random.default_rng(5)
    memory = np.zeros(4096, np.uint8)
    base = memory.__array_interface__["data"][0]
    shared = 0
    for _ in range(500):
        pair = []
        for _ in range(2):
            ndim = int(made.integers(1, 4))
            shape = tuple(int(n) for n in made.integers(1, 6, ndim))
            strides = tuple(int(n) for n in made.integers(-40, 40, ndim))
            offset = int(made.integers(1800, 2200))
            pair.append((ArrayType("float32", shape, strides), base + 4 * (offset // 4)))
        (a, at_a), (b, at_b) = pair

        def cells(type_: ArrayType, at: int) -> set[int]:
            places = np.zeros(type_.shape, np.int64)
            for axis, stride in enumerate(type_.strides):
                steps = np.arange(type_.shape[axis]) * stride
                places += steps.reshape([-1 if i == axis else 1 for i in range(type_.ndim)])
            return {at + 4 * int(place) for place in places.flat}

        expected = bool(cells(a, at_a) & cells(b, at_b))
        assert Overlaps(lambda pair=(a, b): pair).at(at_a - at_b) == expected
        shared += expected
    assert 50 < shared < 450
