"""Every catalog kernel gives NumPy's results on every emulated arch, through `xtarget.run`."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
from harness import ARCHS

import xtarget

#: Arguments of each kernel: shapes (`bool` marks a mask), and options.
_CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{name: (((3, 70), (3, 70)), {}) for name in ("add", "sub", "mul", "div", "maximum")},
    **{name: (((3, 70),), {}) for name in ("relu", "exp", "gelu")},
    **{name: (((37, 130),), {"axis": 1}) for name in ("sum", "max")},
    "where": (("bool", (3, 70), (3, 70)), {}),
    "softmax": (((5, 130),), {}),
    "layer_norm": (((5, 130), (130,), (130,)), {}),
    "rms_norm": (((5, 130), (130,)), {}),
    "matmul": (((33, 40), (40, 36)), {}),
}
#: The library's kernels; other tests of the same process register some of their own.
OWN = {name: spec for name, spec in xtarget.catalog().items() if spec.category != "user"}
#: For each arch, what makes the short tier: other units are at work for each of these.
_SHORT = {("add", "float32"), ("softmax", "float32"), ("sum", "float16"), ("div", "float64"),
          ("matmul", "float16"), ("matmul", "float32"), ("gelu", "bfloat16")}  # fmt: skip


def _pairs() -> list[Any]:
    pairs = []
    for name, spec in sorted(OWN.items()):
        for dtype in spec.dtypes:
            if (name, dtype) != ("sub", "bool"):
                marks = () if (name, dtype) in _SHORT else (pytest.mark.long,)
                pairs.append(pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}"))
    return pairs


def test_every_kernel_of_the_catalog_has_a_call_here() -> None:
    assert set(_CALLS) == set(OWN)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "dtype"), _pairs())
def test_a_catalog_kernel_gives_numpys_result(
    name: str, dtype: str, arch: str, mark_ran_on: Any
) -> None:
    mark_ran_on("emu", "emulator", f"gfx: {arch}")
    shapes, options = _CALLS[name]
    arrays = [
        oracle.sample("bool", 3, 70) if shape == "bool" else oracle.sample(dtype, *shape, seed=i)
        for i, shape in enumerate(shapes)
    ]
    oracle.check(name, *arrays, device=f"emu:{arch}", **options)
