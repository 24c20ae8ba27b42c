"""Arguments that may be left out: a bundle has the calls without the last ones too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_bundles import only_examples

from libxtarget import NOT_IN_BUNDLE, Device, Failed, Kernel, Library, needs_compiler_and_opencl
from xtarget import Target
from xtarget._bundle.builder.build import Order, build
from xtarget.spec import Example

pytestmark = needs_compiler_and_opencl


def test_layer_norm_without_bias_and_weight(library: Library, tmp_path: Path) -> None:
    with only_examples({"layer_norm": [Example(((8, 40), (40,), (40,)))]}, tmp_path / "cache"):
        order = Order(("layer_norm",), ("float32",), (Target("cpu", "spirv64"),))
        assert not build(order, tmp_path / "a.xtb", workers=1, seconds=100).errors
    device, bundle = Device(library), library.open(tmp_path / "a.xtb")
    norm = Kernel(device, bundle, "layer_norm", "float32")
    x = np.random.default_rng(0).standard_normal((8, 40)).astype("float32")
    weight, bias = x[1] * 3, x[2] + 1
    right = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    for args, result in (
        ((x, weight, bias), right * weight + bias),
        ((x, weight, None), right * weight),
        ((x, weight), right * weight),
        ((x, None, None), right),
        ((x,), right),
    ):
        np.testing.assert_allclose(norm(*args), result, rtol=1e-4, atol=1e-5)
    with pytest.raises(Failed, match="nothing, float32") as caught:  # no example has it
        norm(x, None, bias)
    assert caught.value.status == NOT_IN_BUNDLE
    norm.release()
    library.close(bundle)
    device.close()
