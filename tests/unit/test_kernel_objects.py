"""Kernel objects of the CPU's run time: few of them serve launches with many sets of arguments."""

from __future__ import annotations

import linecache
from functools import partial
from typing import Any

import numpy as np
import pytest
from threads import in_threads

pytest.importorskip("pyopencl", reason="pyopencl is not installed")

import xtarget
from xtarget._compile import functions
from xtarget._launch import run
from xtarget.targets.cpu import kernel_objects
from xtarget.targets.cpu.kernel_objects import Arguments, KernelObjects

MOST = kernel_objects._MOST


class _Made:
    """Numbers in the place of kernel objects, and what is set on them."""

    def __init__(self) -> None:
        self.count = 0
        self.set: list[tuple[int, Any]] = []

    def __call__(self) -> Arguments:
        self.count += 1
        setters = [partial(self._setting, index) for index in range(3)]
        lasting = [lambda value: True, lambda value: False, lambda value: not value]
        return Arguments(self.count, setters, lasting)  # type: ignore[arg-type]

    def _setting(self, index: int, value: Any) -> None:
        if value == "refused":
            raise ValueError(value)
        self.set.append((index, value))


def _launch(objects: KernelObjects) -> list[Arguments]:
    """A new prepared launch: where its object is between calls."""
    place = [objects.take()]
    objects.belongs(place)
    return place


def test_objects_of_old_launches_are_taken_over() -> None:
    made = _Made()
    objects = KernelObjects(made, "add")
    places = [_launch(objects) for _ in range(MOST)]
    assert made.count == len(objects) == MOST
    assert sorted(place[0].kernel for place in places) == list(range(1, MOST + 1))
    late = [_launch(objects) for _ in range(MOST + 5)]
    assert made.count == len(objects) == MOST
    held = [arguments.kernel for place in (*places, *late) for arguments in place]
    assert sorted(held) == list(range(1, MOST + 1)), "no object is in two places"
    assert [len(place) for place in (*places, *late[:5])] == [0] * (MOST + 5), "the oldest first"


def test_an_object_in_use_is_not_taken_over() -> None:
    made = _Made()
    objects = KernelObjects(made, "add")
    places = [_launch(objects) for _ in range(MOST)]
    used = [place.pop() for place in places]
    extra = _launch(objects)
    assert extra[0].kernel == MOST + 1
    for place, arguments in zip(places, used, strict=True):
        place.append(arguments)
    taken = {_launch(objects)[0].kernel for _ in range(MOST + 1)}
    assert taken == set(range(1, MOST + 2))
    assert made.count == MOST + 1


def test_only_what_another_launch_left_otherwise_is_set() -> None:
    made = _Made()
    arguments = made()

    def served(*args: Any) -> list[tuple[int, Any]]:
        made.set.clear()
        arguments.serve(args)
        return list(made.set)

    assert served(1, 2.0, 4096) == [(0, 1), (1, 2.0), (2, 4096)]
    assert served(1, 2.0, 4096) == [(1, 2.0), (2, 4096)], "what may be another thing by now"
    assert served(1, 2.0, 0) == [(1, 2.0), (2, 0)]
    assert served(3, 2.0, 0) == [(0, 3), (1, 2.0)]
    assert served(None, 2.0, 0) == [(1, 2.0)]
    arguments.dynamic[0](9)
    arguments.last = (9,)
    assert served(None, 2.0, 0) == [(1, 2.0)]
    assert arguments.last == (9,), "the same places: they are what they were"
    assert served(3, 2.0, None) == [(0, 3), (1, 2.0)], "a call has set it since"
    assert (arguments.last, len(arguments.dynamic)) == (None, 1)
    with pytest.raises(ValueError, match="refused"):
        arguments.serve(["refused", 2.0, None])
    assert served(3, 2.0, None) == [(0, 3), (1, 2.0)], "nobody knows what a failure left"


@pytest.fixture
def device() -> str:
    if not any(info.name == "cpu:0" for info in xtarget.devices()):
        pytest.skip("there is no OpenCL run time for the CPU")
    return "cpu:0"


def _sizes(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(size).astype(np.float32) for size in range(65, 65 + count)]


def test_more_shapes_than_objects(device: str) -> None:
    """Each call sets what another one has left behind: sizes, addresses, and other constants."""
    functions._functions.clear()
    run.forget_calls()
    arrays = _sizes(3 * MOST)
    for _ in range(3):
        for x in arrays:
            np.testing.assert_array_equal(xtarget.run("add", x, x, device=device), x + x)
            np.testing.assert_array_equal(
                xtarget.run("add", x, 0.5, device=device), x + x.dtype.type(0.5)
            )
    assert functions._functions
    for function in functions._functions.values():
        assert len(function._objects) <= MOST
    texts = [name for name in linecache.cache if "pyopencl invoker for" in name]
    kernels = {function.name for function in functions._functions.values()}
    assert not [text for text in texts if any(f"'{kernel}'" in text for kernel in kernels)]


def test_threads_that_take_over_from_each_other(device: str) -> None:
    arrays = _sizes(2 * MOST)
    wrong: list[int] = []

    def work(start: int) -> None:
        for turn in range(4):
            for x in arrays[start:] + arrays[:start]:
                found = xtarget.run("add", x, x, device=device)
                if not np.array_equal(found, x + x):
                    wrong.append(turn)

    in_threads(work, range(0, 4 * 17, 17))
    assert not wrong
