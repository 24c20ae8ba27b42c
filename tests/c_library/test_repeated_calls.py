"""Calls like those before: whatever differs, the numbers are those of the arrays given."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from libxtarget import Device, Failed, Kernel, Library, needs_compiler_and_opencl, tensor

pytestmark = needs_compiler_and_opencl


@pytest.fixture
def device(library: Library) -> Iterator[Device]:
    made = Device(library)
    yield made
    made.close()


def at(offset: int, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """New numbers, so many elements behind a multiple of 64 bytes."""
    room = np.random.default_rng(offset).normal(size=32 + int(np.prod(shape))).astype("float32")
    begin = -room.ctypes.data // 4 % 16 + offset
    return room[begin : begin + int(np.prod(shape))].reshape(shape)


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_in_any_order(library: Library, device: Device, path: Path, seed: int) -> None:
    choose, bundle = random.Random(seed), library.open(path)
    relu, add = (Kernel(device, bundle, name, "float32") for name in ("relu", "add"))
    softmax = Kernel(device, bundle, "softmax", "float32")
    shapes = [
        (4096,),
        (4095,),
        (64, 48),
        (3, 1000),
        (0,),
        (1,),
        (2, 3, 4),
        *((n,) for n in range(9, 25)),
    ]
    for _ in range(150):
        shape = choose.choice(shapes)
        x, y = at(choose.randrange(5), *shape), at(choose.randrange(5), *shape)
        out = x if choose.random() < 0.2 else at(choose.randrange(5), *shape)
        which = choose.choice(["relu", "add", "number"])
        wanted = {"relu": np.maximum(x, 0), "add": x + y, "number": x + np.float32(0.5)}[which]
        {"relu": relu, "add": add, "number": add}[which].launch(
            (x,) if which == "relu" else (x, y if which == "add" else 0.5), (out,)
        )
        device.synchronize()
        np.testing.assert_array_equal(out, wanted)
    x = at(1, 64, 1000)
    for one in (x, x[:3], x[3:40], at(4, 64, 1000), x):
        raised = np.exp(one - one.max(1, keepdims=True))
        np.testing.assert_allclose(softmax(one), raised / raised.sum(1, keepdims=True), 1e-5, 1e-6)
    for one in (relu, add, softmax):
        one.release()
    library.close(bundle)


def test_more_calls_than_a_kernel_remembers(library: Library, device: Device, path: Path) -> None:
    bundle = library.open(path)
    relu = Kernel(device, bundle, "relu", "float32")
    x = at(0, 3000)
    for round_ in range(2):
        for length in (*range(1, 1500), *range(1499, 1400, -1), 7, 7):
            out = np.full(length + 1, 9, "float32")
            relu.launch((x[round_ : round_ + length],), (out[:length],))
            device.synchronize()
            assert out[length] == 9
            np.testing.assert_array_equal(out[:length], np.maximum(x[round_ : round_ + length], 0))
    relu.release()
    library.close(bundle)


def test_what_a_call_before_was_right_with_is_refused_where_it_is_wrong(
    library: Library, device: Device, path: Path
) -> None:
    bundle, room = library.open(path), np.zeros(8192 + 64, "float32")
    add = Kernel(device, bundle, "add", "float32")
    x, y, out = (at(0, 64, 48) for _ in range(3))
    part = room[: 64 * 48].reshape(64, 48)
    for _ in range(2):  # from the second on the call is known
        add.launch((x, y), (out,))
        add.launch((part, y), (part,))  # in place
        for over in (4, 1, 64 * 48 - 1):
            other = room[over : over + 64 * 48].reshape(64, 48)
            for args in ((part, y), (y, part)):
                with pytest.raises(Failed, match="may share memory with argument"):
                    add.launch(args, (other,))
        beside = room[64 * 48 : 2 * 64 * 48].reshape(64, 48)
        add.launch((part, y), (beside,))
        with pytest.raises(Failed, match="lies in memory of another kind"):
            add.launch((tensor(x, 2), y), (out,))
        with pytest.raises(Failed, match="has no call of add"):
            add.launch((x.astype("float64"), y), (out,))
        with pytest.raises(Failed, match=r"output 1 of add is float32\(64, 47\)"):
            add.launch((x, y), (at(0, 64, 47),))
    device.synchronize()
    np.testing.assert_array_equal(out, x + y)
    add.release()
    library.close(bundle)
