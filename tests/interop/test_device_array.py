"""xtarget's own arrays, and DLPack with whoever speaks it."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError
from xtarget._arrays import capsules
from xtarget._values.types import DTYPES

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
        xtarget.run("add", a[1:], a[1:], out=a[:-1])


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
    array = xtarget.asarray(np.arange(10, dtype=np.float32))
    kept = weakref.ref(array)
    capsule = array.__dlpack__()
    del array
    gc.collect()
    assert kept() is not None
    del capsule  # never consumed
    gc.collect()
    assert kept() is None
    array = xtarget.asarray(np.arange(10, dtype=np.float32))
    if array.__dlpack_device__()[0] == 1:  # host memory, which NumPy can take
        view = np.from_dlpack(array)
        kept = weakref.ref(array)
        del array
        gc.collect()
        np.testing.assert_array_equal(view, np.arange(10))
        assert kept() is not None
        del view
        gc.collect()
        assert kept() is None


@pytest.mark.parametrize("dtype", DTYPE_NAMES, ids=str)
def test_a_capsule_reads_back_as_it_was_made(dtype: Any) -> None:
    from xtarget._arrays.host import array_type

    values = np.zeros((3, 4), dtype)[:, ::2]
    address = values.__array_interface__["data"][0]
    capsule = capsules.to_capsule(values, address, array_type(values), "cpu", 0)
    back = capsules.from_capsule(capsule)
    assert (back.address, back.type, back.place) == (address, array_type(values), None)


def test_a_numpy_array_of_a_dtype_kernels_do_not_take_is_refused_through_dlpack() -> None:
    with pytest.raises(ArgumentError, match="not supported"):
        capsules.from_capsule(np.zeros(3, np.complex64).__dlpack__())


def test_a_launch_on_a_stream_of_its_own_keeps_the_order(device: str) -> None:
    stream = xtarget.device(device).stream()
    a = xtarget.asarray(np.zeros(1 << 20, np.float32))
    for _ in range(20):  # now here, now there: each waits for the other
        a = xtarget.run("add", a, 1.0)
        a = xtarget.run("add", a, 1.0, stream=stream)
    np.testing.assert_array_equal(a.numpy(), np.full(1 << 20, 40, np.float32))
    stream.close()


def test_arrays_of_several_streams_are_waited_for_and_of_one_are_not(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = xtarget.device(device)
    other = opened.stream()
    monkeypatch.setenv("XTARGET_DEVICE", device)
    waits = []
    wait = type(other).wait
    monkeypatch.setattr(
        type(other), "wait", lambda self, event: (waits.append(self), wait(self, event))[1]
    )
    a, b, out = (xtarget.asarray(np.full(64, value, np.float32)) for value in (1, 2, 0))
    run_add(a, b, out)  # bound
    waits.clear()
    run_add(a, b, out)
    assert waits == []
    for array in (out, b, a):  # each in its turn belongs to the other stream
        array.stream = other
        waits.clear()
        run_add(a, b, out)
        assert waits, "nobody waited for the other stream"
        array.stream = opened.default_stream
    for array in (a, b, out):
        array.stream = other
    waits.clear()
    run_add(a, b, out)
    assert waits == []
    other.close()


def run_add(a: Any, b: Any, out: Any) -> None:
    assert xtarget.run("add", a, b, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.full(64, 3, np.float32))


def test_a_result_on_another_librarys_array_is_ordered_with_its_stream(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = xtarget.device(device)
    if not opened.info.host_memory:
        pytest.skip("NumPy's arrays are copied to this device and back")
    other = opened.stream()
    a, out = np.full(64, 1, np.float32), xtarget.asarray(np.zeros(64, np.float32))
    xtarget.run("add", a, a, out=out)
    out.stream = other
    waits = []
    wait = type(other).wait
    monkeypatch.setattr(
        type(other), "wait", lambda self, event: (waits.append(self), wait(self, event))[1]
    )
    xtarget.run("add", a, a, out=out)
    assert waits, "the launch did not wait for what is before it on the result's stream"
    np.testing.assert_array_equal(out.numpy(), a + a)
    other.close()


def test_an_index_is_no_bool_and_may_be_a_numpy_integer(device: str) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = xtarget.asarray(values)
    np.testing.assert_array_equal(array[np.int64(1)].numpy(), values[1])
    for index in (True, (0, True), (False, 1)):
        with pytest.raises(ArgumentError, match="integers, slices"):
            array[index]
    with pytest.raises(IndexError):
        array[3]


# ---------------------------------------------------------------------- what arrays are to Python


def test_only_one_element_has_a_truth_value(device: str) -> None:
    assert not xtarget.asarray([0.0])
    assert xtarget.asarray([[2]])
    assert not xtarget.asarray(False)
    assert float(xtarget.asarray([1.5])) == 1.5
    assert int(xtarget.asarray(7)) == 7
    assert xtarget.asarray(2.5).item() == 2.5
    for several in ([0.0, 0.0], []):
        array = xtarget.asarray(np.array(several, np.float32))
        for wrong in (bool, float, int, lambda a: a.item()):
            with pytest.raises(ArgumentError, match=r"not a single value.*numpy\(\)"):
                wrong(array)


def test_arrays_refuse_to_be_compared(device: str) -> None:
    a, b = xtarget.asarray(np.zeros(3)), xtarget.asarray(np.zeros(3))
    for wrong in (
        lambda: a == 0,
        lambda: a != 0,
        lambda: a == b,
        lambda: 0 == a,  # noqa: SIM300
        lambda: a in [b],
        lambda: 0 in a,
        lambda: a == None,  # noqa: E711
    ):
        with pytest.raises(ArgumentError, match=r"a\.numpy\(\) == b"):
            wrong()
    assert a in [a]
    assert {a: 1, b: 2}[b] == 2
    np.testing.assert_array_equal(np.zeros(3) == a, [True] * 3)  # NumPy copies it


def test_iteration_gives_the_rows(device: str) -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal([row.numpy() for row in xtarget.asarray(values)], values)
    with pytest.raises(TypeError, match="0-dimensional"):
        iter(xtarget.asarray(1.0))


@pytest.mark.parametrize("dtype", DTYPE_NAMES, ids=str)
def test_copies_have_memory_of_their_own(device: str, dtype: Any) -> None:
    values = (np.arange(24) % 2).astype(dtype).reshape(4, 6)
    array = xtarget.asarray(values)[::2, 1:]
    ways = (
        copy.copy,
        copy.deepcopy,
        lambda a: a.copy(),
        lambda a: pickle.loads(pickle.dumps(a)),
        lambda a: copy.deepcopy({"weights": [a, a]})["weights"][1],
    )
    for way in ways:
        other = way(array)
        assert (other.device, other.shape, other.dtype) == (device, (2, 5), values.dtype)
        assert other.address != array.address
        np.testing.assert_array_equal(other.numpy(), values[::2, 1:])


def test_weak_references_see_an_array_go(device: str) -> None:
    array = xtarget.asarray([1.0])
    weak = weakref.ref(array)
    assert weak() is array
    del array
    gc.collect()
    assert weak() is None


def test_numpys_import_of_bfloat16_fails_with_numpys_error(device: str) -> None:
    array = xtarget.asarray(np.ones(4, ml_dtypes.bfloat16))
    for _ in range(3):
        with pytest.raises((BufferError, RuntimeError)):  # NumPy's, and no SystemError
            np.from_dlpack(array)
    np.testing.assert_array_equal(array.numpy(), np.ones(4))


def test_a_closed_device_is_opened_again(device: str) -> None:
    opened = xtarget.device(device)
    values = np.arange(5, dtype=np.float32)
    lost = xtarget.asarray(values)
    np.testing.assert_array_equal(xtarget.run("relu", lost).numpy(), values)
    opened.close()
    opened.close()
    assert xtarget.device(device) is not opened
    np.testing.assert_array_equal(xtarget.run("relu", values), values)
    np.testing.assert_array_equal(xtarget.run("relu", xtarget.asarray(values)).numpy(), values)
    for known in (xtarget.run, xtarget.run):
        with pytest.raises(ArgumentError, match="closed"):
            known("relu", lost)
    opened.close()  # the old one: the new one stays
    np.testing.assert_array_equal(xtarget.run("relu", values), values)
