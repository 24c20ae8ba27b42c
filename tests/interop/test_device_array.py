"""xtarget's own arrays, and DLPack with whoever speaks it."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError, _dlpack
from xtarget._types import DTYPES

DTYPE_NAMES = [n for n in DTYPES if n != "bfloat16"] + [ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPE_NAMES, ids=str)
def test_data_comes_back_as_it_went(device: str, dtype: Any) -> None:
    values = (np.arange(24) % 7).astype(dtype).reshape(2, 3, 4)
    array = xtarget.asarray(values)
    assert array.device == device
    assert (array.shape, array.dtype, array.nbytes) == (values.shape, values.dtype, values.nbytes)
    np.testing.assert_array_equal(array.numpy(), values)
    np.testing.assert_array_equal(np.asarray(array), values)


@pytest.mark.parametrize(
    "index",
    [
        (),
        0,
        -1,
        slice(1, 3),
        slice(None, None, -2),
        (slice(None), 1),
        (..., slice(2, 0, -1)),
        (None, 2),
        (slice(5, 5),),
    ],
    ids=str,
)
def test_views_are_numpys_views(device: str, index: Any) -> None:
    values = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    array = xtarget.asarray(values)
    np.testing.assert_array_equal(array[index].numpy(), values[index])
    np.testing.assert_array_equal(array.T.numpy(), values.T)
    np.testing.assert_array_equal(xtarget.run("add", array[index], 1.0).numpy(), values[index] + 1)


def test_results_are_of_the_same_kind_on_the_same_device(device: str) -> None:
    values = np.arange(1000, dtype=np.float32)
    result = xtarget.run("add", xtarget.asarray(values), values)
    assert isinstance(result, xtarget.Array)
    assert result.device == device
    np.testing.assert_array_equal(result.numpy(), values * 2)


def test_out_is_used(device: str) -> None:
    a, out = xtarget.asarray(np.ones(10, np.float32)), xtarget.asarray(np.zeros(10, np.float32))
    assert xtarget.run("add", a, a, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.full(10, 2, np.float32))
    with pytest.raises(ArgumentError, match="overlaps"):
        xtarget.run("add", a, a, out=a)


def test_a_number_or_a_list_becomes_an_array(device: str) -> None:
    assert xtarget.asarray(3.5).numpy() == 3.5
    np.testing.assert_array_equal(xtarget.asarray([[1, 2], [3, 4]]).numpy(), [[1, 2], [3, 4]])


def test_an_array_is_itself(device: str) -> None:
    array = xtarget.asarray(np.ones(3))
    assert xtarget.asarray(array) is array


def test_what_it_cannot_do_is_said(device: str) -> None:
    array = xtarget.asarray(np.ones((2, 2)))
    with pytest.raises(ArgumentError, match=r"\.numpy\(\)"):
        array[np.array([0, 1])]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, copy=False)
    with pytest.raises(TypeError):
        len(xtarget.asarray(1.0))
    assert "device=" in repr(array)


class OnlyDlpack:
    """An array of a library that nobody knows, which offers nothing but DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return OnlyDlpack

    @staticmethod
    def from_dlpack(array: Any) -> OnlyDlpack:
        return OnlyDlpack(np.from_dlpack(array))


def test_arrays_with_nothing_but_dlpack_go_in_and_out(device: str) -> None:
    values = np.arange(100, dtype=np.float32)
    result = xtarget.run("add", OnlyDlpack(values), OnlyDlpack(values))
    assert isinstance(result, OnlyDlpack)
    np.testing.assert_array_equal(result.values, values * 2)
    np.testing.assert_array_equal(xtarget.asarray(OnlyDlpack(values)).numpy(), values)


def test_an_export_keeps_the_memory_until_the_consumer_is_done(device: str) -> None:
    before = len(_dlpack._exported)
    array = xtarget.asarray(np.arange(10, dtype=np.float32))
    capsule = array.__dlpack__()
    assert len(_dlpack._exported) == before + 1
    del capsule  # never consumed
    gc.collect()
    assert len(_dlpack._exported) == before
    if array.__dlpack_device__()[0] == 1:  # host memory, which NumPy can take
        view = np.from_dlpack(array)
        del array
        gc.collect()
        np.testing.assert_array_equal(view, np.arange(10))
        assert len(_dlpack._exported) == before + 1
        del view
        gc.collect()
        assert len(_dlpack._exported) == before


@pytest.mark.parametrize("dtype", DTYPE_NAMES, ids=str)
def test_a_capsule_reads_back_as_it_was_made(dtype: Any) -> None:
    from xtarget._arrays.host import array_type

    values = np.zeros((3, 4), dtype)[:, ::2]
    address = values.__array_interface__["data"][0]
    capsule = _dlpack.to_capsule(values, address, array_type(values), "cpu", 0)
    back = _dlpack.from_capsule(capsule)
    assert (back.address, back.type, back.place) == (address, array_type(values), None)


def test_a_numpy_array_of_a_dtype_kernels_do_not_take_is_refused_through_dlpack() -> None:
    with pytest.raises(ArgumentError, match="not supported"):
        _dlpack.from_capsule(np.zeros(3, np.complex64).__dlpack__())


def test_a_launch_on_a_stream_of_its_own_keeps_the_order(device: str) -> None:
    stream = xtarget.device(device).stream()
    a = xtarget.asarray(np.zeros(1 << 20, np.float32))
    for _ in range(20):  # now here, now there: each waits for the other
        a = xtarget.run("add", a, 1.0)
        a = xtarget.run("add", a, 1.0, stream=stream)
    np.testing.assert_array_equal(a.numpy(), np.full(1 << 20, 40, np.float32))
    stream.close()


def test_an_index_is_no_bool_and_may_be_a_numpy_integer(device: str) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = xtarget.asarray(values)
    np.testing.assert_array_equal(array[np.int64(1)].numpy(), values[1])
    for index in (True, (0, True), (False, 1)):
        with pytest.raises(ArgumentError, match="integers, slices"):
            array[index]
    with pytest.raises(IndexError):
        array[3]
