"""Bundles of `--views`: arrays with strides, among the arguments and as outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_bundles import only_examples

from libxtarget import BAD_ARGUMENT, Device, Failed, Kernel, Library, needs_compiler_and_opencl
from xtarget import Target
from xtarget._bundle.builder.build import Order, build
from xtarget.spec import Example

pytestmark = needs_compiler_and_opencl


def test_outputs_and_arguments_with_strides(library: Library, tmp_path: Path) -> None:
    with only_examples({"relu": [Example(((64,),))]}, tmp_path / "cache"):
        order = Order(("relu",), ("float32",), (Target("cpu", "spirv64"),), views=True)
        assert not build(order, tmp_path / "views.xtb", workers=1, seconds=100).errors
    device, bundle = Device(library), library.open(tmp_path / "views.xtb")
    relu = Kernel(device, bundle, "relu", "float32")
    x, room = np.arange(-100, 100, dtype="float32"), np.full(200, 7, "float32")
    for source, out in ((x[:50], room[:100:2]), (x[::4], room[:50]), (x[::4], room[:150:3])):
        room[:] = 7
        relu.launch([source], [out])
        device.synchronize()
        np.testing.assert_array_equal(out, np.maximum(source, 0))
        assert (room == 7).sum() == 150
    for length in (49, 51):
        with pytest.raises(Failed, match=r"and the result is float32\(50\)") as caught:
            relu.launch([x[:50]], [room[: 2 * length : 2]])
        assert caught.value.status == BAD_ARGUMENT
    backward = x[49::-1]
    np.testing.assert_array_equal(relu(backward), np.maximum(backward, 0))
    relu.release()
    library.close(bundle)
    device.close()


def test_a_row_for_each_row_and_arrays_from_their_end(library: Library, tmp_path: Path) -> None:
    with only_examples({"sub": [Example(((64, 48), (64, 48)))]}, tmp_path / "cache"):
        order = Order(("sub",), ("float32",), (Target("cpu", "spirv64"),), views=True)
        assert not build(order, tmp_path / "views.xtb", workers=2, seconds=100).errors
    device, bundle = Device(library), library.open(tmp_path / "views.xtb")
    sub = Kernel(device, bundle, "sub", "float32")
    matrix = np.arange(30 * 20, dtype="float32").reshape(30, 20)
    row = -np.arange(20, dtype="float32")
    for one, other in (
        (matrix, row), (row, matrix), (matrix, row[None]), (matrix, np.broadcast_to(row, (30, 20))),
        (matrix[::-1], matrix), (matrix, matrix[:, ::-1]), (matrix[::-1, ::-1], matrix),
    ):  # fmt: skip
        np.testing.assert_array_equal(sub(one, other), one - other)
    for out in (np.empty((20, 30), "float32").T, np.empty((30, 20), "float32")[::-1, ::-1]):
        sub.launch([matrix, other := matrix[::-1].copy()], [out])
        device.synchronize()
        np.testing.assert_array_equal(out, matrix - other)
    for shape in ((1, 19), (29, 20), (19,)):
        with pytest.raises(Failed, match="has no call of sub"):
            sub(matrix, np.zeros(shape, "float32"))
    sub.release()
    library.close(bundle)
    device.close()
