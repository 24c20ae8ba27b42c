"""An element of a product comes of its row and its column, and of no others. These may be
unwritten, as are rows behind the last one in memory that is larger than its matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import ARCHS, SHORT_ARCHS, compiled, run

from xtarget import KernelFault

_FILE = Path(__file__).with_name("product_kernels.py")
_SIZE, _INNER, _ROWS, _COLUMNS = 64, 32, 37, 41
_KINDS = {
    "fp16": (np.float16, "fp32", np.float32),
    "bf16": (ml_dtypes.bfloat16, "fp32", np.float32),
    "half": (np.float16, "fp16", np.float16),
    "fp32": (np.float32, "fp32", np.float32),
    "i8": (np.int8, "i32", np.int32),
}
_ARCHS = [
    pytest.param(arch, marks=() if arch in SHORT_ARCHS else pytest.mark.long) for arch in ARCHS
]
_CASES = [
    pytest.param(kind, marks=() if kind in ("fp16", "half") else pytest.mark.long)
    for kind in _KINDS
]
#: What is stored, or how deep the matrices are written, that needs something unwritten.
_FAULTS = {
    "a row too many": (_ROWS + 1, _COLUMNS, _INNER),
    "a column too many": (_ROWS, _COLUMNS + 1, _INNER),
    "not deep enough": (_ROWS, _COLUMNS, _INNER - 1),
}


def _product(
    arch: str, kind: str, turned: bool, stored: tuple[int, int, int] = (_ROWS, _COLUMNS, _INNER)
) -> Any:
    dtype, out, kind_of_out = _KINDS[kind]
    text = "fp16" if kind == "half" else kind
    import triton.language as tl

    result = {"fp32": tl.float32, "fp16": tl.float16, "i32": tl.int32}[out]
    names = ("rows", "columns", "depth", "stored_rows", "stored_columns")
    code = compiled(
        "product",
        f"a:*{text} b:*{text} o:*{out} {' '.join(f'{name}:i32' for name in names)}",
        arch,
        constants=(("size", _SIZE), ("inner", _INNER), ("turned", turned), ("out", result)),
        path=_FILE,
    )
    a, b = np.zeros((_SIZE, _INNER), dtype), np.zeros((_INNER, _SIZE), dtype)
    o = np.zeros((_SIZE, _SIZE), kind_of_out)
    rows, columns, depth = stored
    numbers = (_ROWS, _COLUMNS, depth, rows, columns)
    return run(code, (1,), a, b, o, *numbers, blank=(0, 1, 2))[2]


@pytest.mark.sample(3, each=("kind", "turned", "arch"))
@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", _CASES)
def test_rows_and_columns_that_are_not_stored(kind: str, turned: bool, arch: str) -> None:
    found = _product(arch, kind, turned)[:_ROWS, :_COLUMNS]
    np.testing.assert_array_equal(found, np.full_like(found, _INNER + 1))


@pytest.mark.sample(3, each=("fault", "kind", "arch"))
@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("kind", _CASES)
@pytest.mark.parametrize("fault", list(_FAULTS))
def test_what_is_stored_of_something_unwritten(fault: str, kind: str, arch: str) -> None:
    with pytest.raises(KernelFault, match=r"holds no value that was ever written .*, to write it"):
        _product(arch, kind, False, _FAULTS[fault])


@pytest.mark.parametrize("fault", [None, *_FAULTS])
@pytest.mark.parametrize(("kind", "pack"), [("e4m3", 1), ("e2m1", 2)])
def test_scaled_products(kind: str, pack: int, fault: str | None) -> None:
    inner = 128
    names = ("rows", "columns", "depth", "stored_rows", "stored_columns")
    code = compiled(
        "scaled_product",
        f"a:*u8 b:*u8 o:*fp32 scales:*u8 {' '.join(f'{name}:i32' for name in names)}",
        "gfx950",
        constants=(("size", _SIZE), ("inner", inner), ("kind", kind), ("pack", pack)),
        path=_FILE,
    )
    a = np.zeros((_SIZE, inner // pack), np.uint8)
    b = np.zeros((inner // pack, _SIZE), np.uint8)
    scales = np.full((_SIZE, inner // 32), 127, np.uint8)
    rows, columns, depth = _FAULTS.get(fault or "", (_ROWS, _COLUMNS, _INNER))
    depth = inner - 2 * (_INNER - depth)
    arguments = (a, b, np.zeros((_SIZE, _SIZE), np.float32), scales)
    numbers = (_ROWS, _COLUMNS, depth, rows, columns)
    if fault is None:
        run(code, (1,), *arguments, *numbers, blank=(0, 1))
        return
    with pytest.raises(KernelFault, match=r"holds no value that was ever written .*, to write it"):
        run(code, (1,), *arguments, *numbers, blank=(0, 1))
