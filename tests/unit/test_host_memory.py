"""Memory of large results is used again, and never while an array still lies on it."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threads import in_threads

from xtarget import OutOfMemoryError, XTargetError
from xtarget._arrays.host import KIND
from xtarget.spec import ArrayType, contiguous_strides
from xtarget.targets._objects import host_memory
from xtarget.targets._objects.host_memory import SMALLEST, kept_bytes

Array = np.ndarray[Any, Any]


def result(*shape: int, dtype: str = "float32") -> Array:
    made = KIND.empty(ArrayType(dtype, shape, contiguous_strides(shape)), None, None)  # type: ignore[arg-type]
    assert isinstance(made, np.ndarray)
    return made


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    gc.collect()
    host_memory._kept.clear()
    yield
    host_memory._kept.clear()


LARGE = (2048, 1024)  # 8 MiB of float32


def test_the_next_result_of_a_size_gets_the_memory_of_a_dropped_one() -> None:
    first = result(*LARGE)
    place = address(first)
    del first
    assert kept_bytes() == 8 << 20
    again = result(1024, 2048)
    assert address(again) == place
    assert kept_bytes() == 0
    assert address(result(*LARGE)) != place


def test_a_much_larger_block_is_not_spent_on_a_small_result() -> None:
    del_me = result(8192, 1024)
    place = address(del_me)
    del del_me
    assert address(result(*LARGE)) != place


def test_small_results_are_not_kept() -> None:
    del_me = result(1000)
    del del_me
    assert kept_bytes() == 0


def test_results_are_aligned_writable_and_of_the_asked_layout() -> None:
    for shape, dtype in (((3, 5), "float32"), ((1 << 21, 3), "float16"), ((1 << 20,), "bfloat16")):
        made = result(*shape, dtype=dtype)
        assert made.shape == shape
        assert made.flags.c_contiguous
        assert made.flags.writeable
        assert made.flags.aligned
        assert address(made) % 64 == 0
        made[...] = 1
        assert (made == 1).all()


@pytest.mark.parametrize(
    "part",
    [
        lambda a: a[5:9, ::2],
        lambda a: a.reshape(-1)[-1:],
        lambda a: a.view(np.int32).T,
        lambda a: memoryview(a),
        lambda a: np.frombuffer(a, np.uint8),
        lambda a: iter(a),
    ],
    ids=["slice", "reshaped", "transposed", "memoryview", "frombuffer", "iterator"],
)
def test_what_is_left_of_a_result_keeps_its_memory(part: Any) -> None:
    made = result(*LARGE)
    made[...] = 7
    place, rest = address(made), part(made)
    del made
    gc.collect()
    assert kept_bytes() == 0
    other = result(*LARGE)
    assert address(other) != place
    other[...] = 8
    del rest
    assert address(result(*LARGE)) == place


def test_pickles_and_copies_have_memory_of_their_own() -> None:
    made = result(*LARGE)
    made[...] = np.arange(made.size, dtype=np.float32).reshape(LARGE)
    expected = made.tobytes()
    pickled, copy = pickle.dumps(made), made.copy()
    del made
    result(*LARGE)[...] = 0
    assert copy.tobytes() == expected
    assert pickle.loads(pickled).tobytes() == expected


def test_a_result_in_a_cycle_comes_back() -> None:
    made: list[Any] = [result(*LARGE)]
    made.append(made)
    del made
    gc.collect()
    assert kept_bytes() == 8 << 20


def test_no_more_is_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_HOST_MEMORY", "20M")
    many = [result(*LARGE) for _ in range(10)]
    places = [address(a) for a in many]
    while many:
        many.pop(0)
        assert kept_bytes() <= 20 << 20
    assert address(result(*LARGE)) == places[-1]  # of those kept, the one that was used last


def test_zero_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_HOST_MEMORY", "0")
    del_me = result(*LARGE)
    del del_me
    assert kept_bytes() == 0


def test_a_limit_that_is_no_size_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_HOST_MEMORY", "plenty")
    with pytest.raises(XTargetError, match="XTARGET_HOST_MEMORY=plenty is not a size"):
        result(*LARGE)


def test_a_result_that_does_not_fit_is_out_of_memory() -> None:
    for elements in (1 << 44, 1 << 61, 1 << 70):
        with pytest.raises(OutOfMemoryError, match="the host has no memory for a result of shape"):
            result(elements)


def test_kept_memory_is_given_up_before_a_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = result(*LARGE)
    del kept
    fresh, asked = host_memory._fresh, []

    def short_of_memory(size: int) -> Any:
        asked.append(kept_bytes())
        if kept_bytes():
            raise OSError(12, "Cannot allocate memory")
        return fresh(size)

    monkeypatch.setattr(host_memory, "_fresh", short_of_memory)
    assert result(4096, 4096).size == 4096 * 4096
    assert asked == [8 << 20, 0]


def test_threads_never_share_a_block() -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        for step in range(30):
            made = result(1 << 20)
            made[...] = number * 1000 + step
            view = made[:: 1 << 18]
            del made
            if not (view == number * 1000 + step).all():
                wrong.append(f"thread {number}, step {step}")

    in_threads(work, range(6))
    assert not wrong
    assert kept_bytes() <= 2 * 6 << 22  # each had two at a time


def test_a_forked_child_has_memory_of_its_own() -> None:
    made = result(1 << 20)
    made[...] = 1
    child = os.fork()
    if not child:
        made[...] = 2
        other = result(1 << 20)
        other[...] = 3
        del made, other
        os._exit(0 if kept_bytes() == 2 << 22 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (made == 1).all()


def test_results_alive_at_the_end_of_a_process_say_nothing() -> None:
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from tests_host_memory import result
kept = result(1 << 21)
cycle = [result(1 << 21)]
cycle.append(cycle)
sys.modules["somewhere"] = result(1 << 21)
del_me = result(1 << 21)
del del_me
"""
    script = script.replace("tests_host_memory", __name__)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_smallest_size_is_where_it_begins() -> None:
    del_me = result(SMALLEST // 4)
    del del_me
    assert kept_bytes() == SMALLEST
