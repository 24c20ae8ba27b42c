"""NumPy arrays, numbers, and what `run` refuses of them."""

from __future__ import annotations

import enum
import math
import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget import ArgumentError


def arange(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape).astype(dtype)


def test_the_result_is_a_numpy_array_of_numpys_dtype_and_shape(device: str) -> None:
    result = xtarget.run("add", arange(3, 1), arange(4, dtype=np.int64))
    expected = arange(3, 1) + arange(4, dtype=np.int64)
    assert type(result) is np.ndarray
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_inputs_are_left_as_they_are(device: str) -> None:
    a, b = arange(1000), arange(1000)
    xtarget.run("mul", a, b)
    np.testing.assert_array_equal(a, arange(1000))
    np.testing.assert_array_equal(b, arange(1000))


VIEWS = {
    "transposed": lambda: arange(40, 30).T,
    "every other": lambda: arange(60, 80)[::2, ::2][:30, :40],
    "reversed": lambda: arange(30, 40)[::-1, ::-1],
    "broadcast": lambda: np.broadcast_to(arange(40), (30, 40)),
    "read-only": lambda: np.frombuffer(arange(30, 40).tobytes(), np.float32).reshape(30, 40),
    "offset": lambda: arange(1201)[1:].reshape(30, 40),
    "Fortran order": lambda: np.asfortranarray(arange(30, 40)),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_work_as_arguments(device: str, view: str) -> None:
    a = VIEWS[view]()
    np.testing.assert_array_equal(xtarget.run("add", a, 1.0), a + np.float32(1))
    np.testing.assert_array_equal(xtarget.run("max", a, axis=0), a.max(0))


def test_out_is_filled_and_returned(device: str) -> None:
    out = np.full(1000, np.nan, np.float32)
    assert xtarget.run("add", arange(1000), 1.0, out=out) is out
    np.testing.assert_array_equal(out, arange(1000) + 1)


def test_out_may_be_a_view(device: str) -> None:
    whole = np.full((60, 40), np.nan, np.float32)
    xtarget.run("add", arange(30, 40), 1.0, out=whole[::2])
    np.testing.assert_array_equal(whole[::2], arange(30, 40) + 1)
    assert np.isnan(whole[1::2]).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_small_shapes(device: str, shape: tuple[int, ...]) -> None:
    a = np.ones(shape, np.float32)
    result = xtarget.run("add", a, a)
    assert result.shape == shape
    np.testing.assert_array_equal(result, a + a)


def test_numbers_keep_changing_without_a_new_plan(device: str) -> None:
    a = arange(100)
    for factor in (1.5, -2.0, 0.0, float("inf"), 1e300):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(xtarget.run("mul", a, factor), a * factor)
    i = arange(100, dtype=np.int8)
    for number in (1, 100, -128, 127):
        np.testing.assert_array_equal(xtarget.run("add", i, number), i + np.int8(number))
    with pytest.raises(ArgumentError, match="128 does not fit int8"):
        xtarget.run("add", i, 128)


def test_numpy_scalars_have_a_dtype_of_their_own(device: str) -> None:
    a = arange(10)
    result = xtarget.run("add", a, np.float64(2))
    assert result.dtype == np.float64
    assert xtarget.run("add", a, 2.0).dtype == np.float32
    bf16 = a.astype(ml_dtypes.bfloat16)
    assert xtarget.run("add", bf16, 1.0).dtype == bf16.dtype


def test_only_numbers_give_a_numpy_array(device: str) -> None:
    result = xtarget.run("add", 2, 3.5)
    assert result.shape == ()
    assert result == 5.5


def test_many_threads_at_once(device: str) -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            a = rng.standard_normal(1000 + seed, dtype=np.float32)
            if not np.array_equal(xtarget.run("add", a, float(seed)), a + np.float32(seed)):
                wrong.append(f"thread {seed}")

    in_threads(work, range(8))
    assert not wrong


# --------------------------------------------------------------------------------------- bad input

A = arange(10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xtarget.run("add", A), r"add takes 2 arguments \(a, b\), not 1"),
        (lambda: xtarget.run("add", A, A, A), r"add takes 2 arguments"),
        (lambda: xtarget.run("add", A, arange(7)), r"\(10,\), \(7,\) do not broadcast"),
        (lambda: xtarget.run("add", A, [1, 2]), r"^list is not an array.*numpy\.asarray"),
        (lambda: xtarget.run("add", A, None), r"b is None\. Give an array"),
        (lambda: xtarget.run("add", A, "3"), r"str is not an array"),
        (lambda: xtarget.run("add", A.astype(complex), A), r"complex128.*is not supported"),
        (lambda: xtarget.run("add", A.astype(">f4"), A), r"native byte order"),
        (lambda: xtarget.run("add", A, A, axis=0), r"add has no option 'axis'"),
        (lambda: xtarget.run("sum", A, axs=0), r"no option 'axs'; its options: axis, keepdims"),
        (lambda: xtarget.run("sum", A, axis=3), r"sum: .*axis 3"),
        (lambda: xtarget.run("softmax", A.astype(int)), r"softmax does not take int64"),
        (lambda: xtarget.run("add", A, A, out=arange(9)), r"out has shape \(9,\)"),
        (lambda: xtarget.run("add", A, A, out=arange(10, dtype=np.float64)), r"out has dtype"),
        (lambda: xtarget.run("add", A, A[::-1], out=A), r"out overlaps argument 2"),
        (lambda: xtarget.run("add", A, arange(10)[:9], out=A), r"do not broadcast"),
    ],
)
def test_bad_arguments_are_one_clear_sentence(device: str, call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_an_out_that_overlaps_an_input_is_refused_every_time(device: str) -> None:
    memory = arange(100)
    good = np.empty(50, np.float32)
    for _ in range(2):  # the second time there is a plan already
        xtarget.run("add", memory[:50], 1.0, out=good)
        with pytest.raises(ArgumentError, match="overlaps"):
            xtarget.run("add", memory[:50], 1.0, out=memory[25:75])
    np.testing.assert_array_equal(memory, arange(100))


def test_an_out_that_is_read_only_is_refused_every_time(device: str) -> None:
    out = arange(10)
    xtarget.run("add", A, 1.0, out=out)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        xtarget.run("add", A, 2.0, out=out)
    np.testing.assert_array_equal(out, A + 1)


def test_an_out_whose_elements_share_memory_is_refused(device: str) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (10,), (0,))
    with pytest.raises(ArgumentError, match="broadcast view"):
        xtarget.run("add", A, A, out=out)


def test_an_unaligned_array_is_refused(device: str) -> None:
    raw = np.zeros(41, np.uint8)[1:].view(np.float32)
    with pytest.raises(ArgumentError, match="aligned"):
        xtarget.run("add", raw, raw)


@pytest.mark.parametrize("name", ["nvidia:99", "gpu", "cpu:x", "cpu:99", ""])
def test_a_device_that_is_not_there_lists_those_that_are(device: str, name: str) -> None:
    with pytest.raises(xtarget.NoDeviceError, match=device):
        xtarget.run("add", A, A, device=name or "nothing")


def test_the_variable_chooses_the_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(xtarget.run("add", A, A), A + A)
    monkeypatch.setenv("XTARGET_DEVICE", "amd:77")
    with pytest.raises(xtarget.NoDeviceError, match="amd:77"):
        xtarget.run("add", A, A)
    monkeypatch.setenv("XTARGET_DEVICE", "nothing")
    with pytest.raises(xtarget.NoDeviceError, match=r"XTARGET_DEVICE .*nothing. is not a device"):
        xtarget.run("add", A, A)
    monkeypatch.setenv("XTARGET_DEVICE", device.partition(":")[0])
    np.testing.assert_array_equal(xtarget.run("add", A, A), A + A)
    for change in (  # each way that the environment can change in, after calls that were seen
        lambda: os.environ.update(XTARGET_DEVICE="amd:77"),
        lambda: os.environ.__setitem__("XTARGET_DEVICE", "amd:78"),
        lambda: os.environb.__setitem__(b"XTARGET_DEVICE", b"amd:79"),
    ):
        change()
        with pytest.raises(xtarget.NoDeviceError, match="amd:7"):
            xtarget.run("add", A, A)
        del os.environ["XTARGET_DEVICE"]
        np.testing.assert_array_equal(xtarget.run("add", A, A, device=device), A + A)


class Level(enum.IntEnum):
    LOW = 3


class Metres(float):
    pass


def test_subclasses_of_numbers_are_numbers(device: str) -> None:
    a = arange(10)
    np.testing.assert_array_equal(xtarget.run("add", a, Level.LOW), a + 3)
    np.testing.assert_array_equal(xtarget.run("add", a, Metres(2.5)), a + np.float32(2.5))
    with pytest.raises(ArgumentError, match="300 does not fit int8"):
        xtarget.run("add", a.astype(np.int8), type("I", (int,), {})(300))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xtarget.run("add", A, 2**2000), "2001 bits is too large for float32"),
        (lambda: xtarget.run("layer_norm", A, eps=None), r"eps=None is not a number"),
        (lambda: xtarget.run("layer_norm", A, eps="small"), r"eps='small' is not a number"),
        (lambda: xtarget.run("layer_norm", A, eps=1j), r"eps=1j is not a number"),
        (lambda: xtarget.run("layer_norm", A, eps=10**400), r"layer_norm"),
        (lambda: xtarget.run("sum", A, keepdims="yes"), r"keepdims='yes' is not a bool"),
        (lambda: xtarget.run("sum", A, axis={0}), r"options are numbers"),
        (lambda: xtarget.run("sum", A, axis="last"), r"sum"),
        (lambda: xtarget.run("sum", A, axis=1.5), r"sum"),
        (lambda: xtarget.run("sum", np.ma.masked_array(A, A > 3)), r"masked array.*fill"),
        (
            lambda: xtarget.run(
                "add", A, 1.0, out=np.lib.stride_tricks.as_strided(arange(11), (5, 2), (4, 4))
            ),
            r"out",
        ),
    ],
)
def test_nasty_options_and_arguments(device: str, call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_an_out_whose_elements_may_share_memory_is_refused(device: str) -> None:
    memory = arange(11)
    out = np.lib.stride_tricks.as_strided(memory, (5, 2), (4, 4))
    with pytest.raises(ArgumentError, match="may share memory"):
        xtarget.run("add", arange(5, 2), 1.0, out=out)
    np.testing.assert_array_equal(memory, arange(11))
    # gaps and any order of axes are fine
    whole = np.zeros((4, 6, 3), np.float32)
    view = whole.transpose(2, 0, 1)[::2, ::-1, 1:4]
    xtarget.run("add", np.ones(view.shape, np.float32), 1.0, out=view)
    assert whole.sum() == 2 * view.size


def test_an_empty_out_is_taken(device: str) -> None:
    out = np.empty((3, 0), np.float32)
    assert xtarget.run("relu", np.zeros((3, 0), np.float32), out=out) is out


@pytest.mark.parametrize("condition", ["bool", "int8", "float32", "uint64"])
@pytest.mark.parametrize("choices", [(1, 2), (True, False), (2**60 + 1, 2), (1000, 2), (0.5, -1)])
def test_a_conditions_dtype_takes_no_part_in_the_result(
    device: str, condition: str, choices: tuple[Any, Any]
) -> None:
    where = np.array([1, 0, 1]).astype(condition)
    expected = np.where(where, *choices)
    result = xtarget.run("where", where, *choices)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("dtype", "number"), [("uint8", 1000), ("uint8", -1), ("uint32", -300), ("int8", 2.5)]
)
def test_integers_are_divided_by_any_number(device: str, dtype: str, number: Any) -> None:
    a = np.arange(3).astype(dtype)
    expected = a / number
    result = xtarget.run("div", a, number)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("other", ["int8", "int32", "uint64", "float16", "float32", "float64"])
def test_bfloat16_meets_other_dtypes_as_in_numpy(device: str, other: str) -> None:
    a, b = np.ones(3, ml_dtypes.bfloat16), np.ones(3, other)
    expected = a + b
    result = xtarget.run("add", a, b)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: xtarget.run("relu", np.float32(2), out=np.float32(3)),
            r"out is np.float32\(3.0\)",
        ),
        (lambda: xtarget.run("sum", A, out=1.0), r"out is 1\.0, which cannot be"),
        (lambda: xtarget.run("add", 2**63, 1), "does not fit int64"),
    ],
)
def test_numbers_in_the_wrong_place(device: str, call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_result_too_large_for_the_host_is_out_of_memory(device: str) -> None:
    with pytest.raises(xtarget.XTargetError):
        xtarget.run("add", np.broadcast_to(np.float32(1), (2**45,)), 1.0)


def test_a_device_may_be_given_as_an_object(device: str) -> None:
    for given in (xtarget.device(device), xtarget.default_device(), device.upper()):
        np.testing.assert_array_equal(xtarget.run("add", A, 1.0, device=given), A + 1)
    with pytest.raises(xtarget.NoDeviceError):
        xtarget.run("add", A, 1.0, device=0)


def test_equal_options_of_other_types_are_checked_too(device: str) -> None:
    square = arange(3, 3)
    np.testing.assert_array_equal(xtarget.run("sum", square, axis=1), square.sum(1))
    for axis in (True, 1.0):
        with pytest.raises(ArgumentError, match="axis"):
            xtarget.run("sum", square, axis=axis)


def test_gelu_keeps_its_digits_where_it_is_nearly_zero(device: str) -> None:
    x = np.array([-1.0, -4.5, -5.0, -5.2, -6.0, -9.0])
    exact = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x])
    np.testing.assert_allclose(xtarget.run("gelu", x), exact, rtol=1e-12)
    single = xtarget.run("gelu", x[:5].astype(np.float32))
    np.testing.assert_allclose(single, exact[:5], rtol=2e-5)
