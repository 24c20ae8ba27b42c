"""Every catalog kernel gives NumPy's results on every emulated arch, through `xtarget.run`."""

from __future__ import annotations

from typing import Any

import operators
import oracle
import pytest
from harness import ARCHS
from operators import own, stands_for_others, takes

#: Arguments where the table's example is too small to be worth much: shapes, and options.
_CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{name: (((37, 130),), {"axis": 1}) for name in ("sum", "max")},
    "softmax": (((5, 130),), {}),
    "layer_norm": (((5, 130), (130,), (130,)), {}),
    "rms_norm": (((5, 130), (130,)), {}),
    "matmul": (((33, 40), (40, 36)), {}),
}
OWN = own()
#: For each arch, what makes the short tier: other units are at work for each of these.
_SHORT = {("add", "float32"), ("softmax", "float32"), ("sum", "float16"), ("div", "float64"),
          ("matmul", "float16"), ("matmul", "float32"), ("gelu", "bfloat16")}  # fmt: skip


def _pairs() -> list[Any]:
    pairs = []
    for name, spec in sorted(OWN.items()):
        for dtype in spec.dtypes:
            others = dtype not in ("float32", "float64", spec.dtypes[0])
            if takes(spec, dtype) and (stands_for_others(name) or not others):
                marks = () if (name, dtype) in _SHORT else (pytest.mark.long,)
                pairs.append(pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}"))
    return pairs


@pytest.mark.sample(3, each=("name", "arch"))
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "dtype"), _pairs())
def test_a_catalog_kernel_gives_numpys_result(
    name: str, dtype: str, arch: str, mark_ran_on: Any
) -> None:
    mark_ran_on("emu", "emulator", f"gfx: {arch}")
    shapes, options = _CALLS.get(name, ((), {}))
    arguments = [operators.sample(dtype, *shape, seed=i) for i, shape in enumerate(shapes)]
    arrays = arguments or operators.arrays(OWN[name], dtype, (3, 70))
    oracle.check(name, *arrays, device=f"emu:{arch}", **options)
